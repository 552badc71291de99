"""The calls of one RPC session, one after another.

    exchange = Exchange(open_session(host, port, key))
    exchange.call(function, argument)  # a TVM function, or anything else that uses the session
    answer = exchange.start(function, argument)  # does not wait
    answer.result(timeout=1.0)

If a signal handler raises (as Ctrl-C does), TVM's client stops in the middle of a message, and
every later call would get the answer of the previous one. Only the main thread runs signal
handlers, so a thread of the exchange makes its calls. An interrupt ends the wait for such a call,
but the call itself continues to its end, and later calls follow it.

A call that fails without an answer leaves the session in an unknown state: the session is broken,
and every later call reports that. A forked child has no session: its calls are errors, and its end
leaves the parent's connection open.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from edgepipe import tvm_adapter
from edgepipe.errors import RpcError
from edgepipe.rpc.connecting import Opened, limit_answers
from edgepipe.rpc.failures import last_line

_END_S = 5.0  # for a pending call to end after its connection is closed
_STRAY_S = 0.1  # for a pending call to read its answer

_Item = tuple["Future[Any] | _Answer", Callable[[], Any]]
_open: weakref.WeakSet[Exchange]


class Exchange:
    """Owns a session. Any thread may use it; calls are made in the order of arrival."""

    def __init__(self, opened: Opened, name: str = "the RPC session") -> None:
        self.remote = opened.remote
        self._name = name
        self._socket = opened.socket
        self._descriptor = opened.descriptor
        self._process = os.getpid()
        self._broken = ""
        self._closed = False
        self._posting = threading.Lock()  # nothing is posted after the end
        self._following = threading.Lock()  # held by the thread whose turn is next
        self._turn = threading.Lock()
        self._holder = 0  # the thread that has the turn
        items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._items = items
        self._finalizer = weakref.finalize(self, items.put, None)
        threading.Thread(target=_work, args=(items,), name="rpc-calls", daemon=True).start()
        _open.add(self)

    def call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function that uses the session; return its result or raise its error.

        Raises ``RpcError`` if the session is closed or broken, or belongs to another process. If a
        signal handler raises meanwhile, the result is dropped when it arrives.
        """
        if threading.get_ident() != threading.main_thread().ident:
            return self._run(function, arguments)
        answer = _Answer()
        self._post(answer, function, arguments)
        return answer.wait()

    def start(
        self,
        function: Callable[..., Any],
        *arguments: object,
        answer: Future[Any] | None = None,
    ) -> Future[Any]:
        """Like ``call``, but return a future of the result at once. It cannot be cancelled.

        Pass ``answer`` to have the future even if a signal handler raises before this returns.
        """
        answer = Future() if answer is None else answer
        self.check()
        answer.set_running_or_notify_cancel()
        self._post(answer, function, arguments)
        return answer

    def _post(
        self,
        answer: Future[Any] | _Answer,
        function: Callable[..., Any],
        arguments: tuple[object, ...],
    ) -> None:
        self.check()  # first without the lock, which a forked child may never get
        with self._posting:
            self.check()
            self._items.put((answer, lambda: self._run(function, arguments)))

    @property
    def broken(self) -> str:
        """Why the session is broken; empty if it is not."""
        return self._broken

    def check(self) -> None:
        """Raise ``RpcError`` if the session is unusable: closed, broken, or of another process.

        Any thread. Does not ask the server.
        """
        if os.getpid() != self._process:
            raise RpcError(
                f"{self._name} belongs to process {self._process}, this is process {os.getpid()}",
                hint="connect in the process that uses the session",
            )
        if self._closed:
            raise RpcError(f"{self._name} is closed", hint="connect again")
        if self._broken:
            raise RpcError(
                f"{self._name} is broken: {self._broken}", hint="close it and connect again"
            )

    def allow(self, timeout_s: float) -> None:
        """Give the server ``timeout_s`` for each of the following answers, from any thread."""
        if self._socket is not None and os.getpid() == self._process:
            limit_answers(self._socket, timeout_s)

    def cut(self) -> None:
        """Close the connection while a call is waiting. Any thread."""
        if self._socket is not None and os.getpid() == self._process:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the session, within seconds even if a call is pending; may be called twice.

        In a forked child nothing is sent, because the session belongs to the parent.
        """
        if self._closed or os.getpid() != self._process:
            return
        with self._posting:
            self._closed = True
            self._finalizer()
        try:
            idle = self._turn.acquire(blocking=False)
            if not idle:
                self.cut()
                idle = self._turn.acquire(timeout=_END_S)
            if idle:
                with contextlib.suppress(*tvm_adapter.RPC_ERRORS):
                    tvm_adapter.close_rpc(self.remote)
        finally:
            if self._socket is not None:
                self._socket.close()

    def _run(self, function: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
        if self._holder == threading.get_ident():  # a call within another call
            return function(*arguments)
        self.check()  # as above
        with self._my_turn():
            if not self._broken and self._has_stray_answer():
                self._broken = "found an answer that no call waits for"
            self.check()
            try:
                return function(*arguments)
            except tvm_adapter.RPC_ERRORS as cause:
                if not tvm_adapter.is_rpc_answer(cause):
                    self._broken = last_line(cause)
                raise

    @contextlib.contextmanager
    def _my_turn(self) -> Iterator[None]:
        # With a single lock, a thread that releases it and takes it again at once would always be
        # first. With two, the thread that waits for the first one goes next.
        with self._following:
            self._turn.acquire()
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = 0
            self._turn.release()

    def _has_stray_answer(self) -> bool:
        """Whether unread bytes are pending, other than the server's farewell."""
        first = self._waiting_bytes()
        if not first or tvm_adapter.RPC_FAREWELL in first:
            return False
        time.sleep(_STRAY_S)  # for a thread that uses ``remote`` itself
        return self._waiting_bytes() == first

    def _waiting_bytes(self) -> bytes:
        if self._socket is None:
            return b""
        try:
            return self._socket.recv(4096, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:  # none, or the connection is lost, which the call will report
            return b""

    def _disown(self) -> None:
        """In a forked child, replace the parent's socket by a dead one.

        After the end of the session, another file may have the number of TVM's descriptor.
        """
        if self._socket is None or self._socket.fileno() < 0:
            return
        with contextlib.suppress(OSError), socket.socket() as dead:
            if os.path.sameopenfile(self._descriptor, self._socket.fileno()):
                os.dup2(dead.fileno(), self._descriptor)
        self._socket.close()


class _Answer:
    """What a call has returned or raised, for one waiting thread.

    An interrupt may end the wait at any line. A ``Future`` does not allow that: its ``Condition``
    may stay locked, or fail with "cannot release un-acquired lock".
    """

    def __init__(self) -> None:
        self._is_there = threading.Lock()
        self._is_there.acquire()
        self._result: Any = None
        self._cause: BaseException | None = None

    def set_result(self, result: Any) -> None:
        self._result = result
        self._is_there.release()

    def set_exception(self, cause: BaseException) -> None:
        self._cause = cause
        self._is_there.release()

    def wait(self) -> Any:
        self._is_there.acquire()
        cause, self._cause = self._cause, None
        if cause is None:
            return self._result
        try:
            raise cause
        finally:
            # The error's traceback has this frame and the caller's, which knows the answer. Neither
            # may keep the error alive, and with it the session, of which a process has at most 32.
            del cause


def _work(items: queue.SimpleQueue[_Item | None]) -> None:
    """Make the calls of an exchange until it ends, without keeping it alive."""
    while (item := items.get()) is not None:
        answer, run = item
        try:
            answer.set_result(run())
        except BaseException as cause:  # passed to the waiting thread
            answer.set_exception(cause)
        del item, answer, run  # so that their objects can be freed while the thread waits


def _disown_all() -> None:
    for exchange in list(_open):
        exchange._disown()


_open = weakref.WeakSet()
os.register_at_fork(after_in_child=_disown_all)
