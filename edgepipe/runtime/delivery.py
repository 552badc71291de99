"""Who gets which frame: results in order for any caller, and results that a future owns.

Three rules allow calls from any thread, and exceptions from signal handlers anywhere:

* A wait changes nothing and holds no lock, so a waiting thread never delays another one.
* A call that changes something never waits. It names the frame that it expects, so the C++ side
  gives the same answer if the call is repeated after an interrupt.
* The last step, which delivers a frame, contains no call of a Python function. CPython runs signal
* handlers and switches threads only at calls, at the start of functions and at backward jumps.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from itertools import repeat, starmap
from typing import Protocol

from edgepipe.errors import DeadlinePassed
from edgepipe.runtime.frames import NOTHING, Found, TakenFrame
from edgepipe.runtime.futures import FrameFuture
from edgepipe.runtime.library import StatusError
from edgepipe.runtime.named import Named
from edgepipe.runtime.own_decoder import OwnDecoder
from edgepipe.runtime.results import (
    ClassMap,
    ClassScore,
    Detection,
    FrameResult,
    Point,
    label_of,
)
from edgepipe.runtime.transport import Array, Taken, Transport

_DISPATCH_S = 0.1  # how long the dispatcher may overlook a new future
_ALL = 1 << 62


class Owner(Protocol):
    """Receives the results of its own frames; the results are dropped once nothing refers to it."""

    def receive(self, id: int, result: FrameResult) -> None:
        """Take the result of the frame sent with ``id``; may be called twice for one frame."""

    def lose(self) -> None:
        """Note that a restart dropped the frames in flight."""


class Delivery:
    """Sends a pipeline's frames and delivers their results; does not keep the pipeline alive."""

    def __init__(
        self,
        transport: Transport,
        output_names: tuple[str, ...],
        labels: tuple[str, ...],
        decoder: OwnDecoder | None = None,
    ) -> None:
        self._transport = transport
        self._decoder = decoder
        self._output_names = output_names
        self._labels = labels
        self._collecting = threading.Lock()
        self._received = 0  # frames 0..received-1 have been delivered
        self._batch: tuple[int, Sequence[Taken]] = (0, ())  # its first frame, and what was taken
        self._ready: deque[FrameResult] = deque()  # for anyone
        self._next_ready = starmap(self._ready.popleft, repeat(()))  # steps that run no Python code
        self._owners: dict[int, weakref.ref[Owner]] = {}  # by the id of their frame
        self._settled: deque[FrameFuture] = deque()  # whose callbacks are to be called
        self._generation = 0
        self._starting = threading.Lock()
        self._watched: queue.SimpleQueue[FrameFuture | None] | None = None

    # ---- frames in

    def send(
        self, packed: Sequence[object], timeout_s: float, future: FrameFuture | None = None
    ) -> int:
        """Send a frame and return its number; wait up to ``timeout_s`` for a slot."""
        id = self._transport.begin(packed, future is not None)
        if future is not None:  # known before its frame can be finished
            self._owners[id] = weakref.ref(future)
        deadline = None
        try:
            while True:
                for number in self._transport.send(id, packed):
                    if number >= 0:
                        if future is not None:
                            future.frame = number
                        return number
                if deadline is None:  # no slot was free at once, which is rare
                    deadline = time.monotonic() + timeout_s
                if not self.collect_owned():
                    self._transport.wait("await_slot", deadline)
        except BaseException as cause:
            self._owners.pop(id, None)
            if not isinstance(cause, StatusError):
                raise
            self._transport.functions.fail(cause)

    def begin(self, packed: Sequence[object], owner: weakref.ref[Owner]) -> int:
        """Return the id for a frame whose result ``owner`` receives."""
        id = self._transport.begin(packed, True)
        self._owners[id] = owner
        return id

    # ---- results out

    def poll(self) -> FrameResult | None:
        """Return the next result that is for anyone, or None. Never waits."""
        self._collect(None)
        if self._ready:
            try:
                for result in self._next_ready:
                    return result
            except IndexError:  # another thread was first
                pass
        return None

    def next(self, timeout_s: float) -> FrameResult:
        """Wait up to ``timeout_s`` for the next result that is for anyone."""
        deadline = None
        while True:
            if not self._ready:
                self._collect(None)
            if self._ready:
                try:
                    for result in self._next_ready:
                        return result
                except IndexError:  # another thread was first
                    continue
            if deadline is None:
                deadline = time.monotonic() + timeout_s
            self._transport.wait("await_frame", deadline, self._received)

    def settle(self, future: FrameFuture, deadline: float | None) -> None:
        """Wait until a future has its result; without a deadline only check. Raises like ``next``.

        ``deadline`` is in seconds of ``time.monotonic``.
        """
        while not future.is_settled:
            self._collect(future.frame)
            if future.is_settled or deadline is None:
                return
            self._transport.wait("await_frame", deadline, future.frame)

    def settle_frames(self, last: int, timeout_s: float) -> None:
        """Deliver frames up to number ``last`` to their owners; wait at most ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        generation = self._generation
        while self._received <= last and generation == self._generation:
            self._collect(last)
            if self._received <= last:
                self._transport.wait("await_frame", deadline, last)

    def cancel(self, future: FrameFuture) -> bool:
        """Mark a future as cancelled unless it has its result."""
        with self._collecting:
            if not future.is_settled:
                future._cancelled = True
                self._settled.append(future)
        self._call_back()
        return future._cancelled

    def collect(self, last: int) -> None:
        """Deliver finished frames up to number ``last``. Never waits."""
        self._collect(last)

    def collect_owned(self) -> bool:
        """Deliver finished frames to their futures, up to the first without a future. Never waits.

        Returns whether there were any; their slots are then free.
        """
        before = self._received
        self._collect(_ALL, owned_only=True)
        return self._received != before

    def _collect(self, until: int | None, *, owned_only: bool = False) -> None:
        """Take finished frames up to number ``until``, or to the first that is for anyone."""
        self._transport.functions.check_process()
        with self._collecting:
            while not self._ready if until is None else self._received <= until:
                first, batch = self._batch
                following = self._received
                if following - first == len(batch):
                    most = 1 if until is None else until - following + 1
                    batch = self._transport.take(following, most, owned_only)
                    if not batch:
                        break
                    self._batch = (following, batch)
                    first = following
                self._hand_over(*batch[following - first])
        if self._settled:
            self._call_back()

    def _hand_over(self, found: TakenFrame, arrays: Sequence[Array]) -> None:
        """Give a result to its owner. Needs ``_collecting``."""
        frame, latency_ns, id, results = found
        result = FrameResult(frame, latency_ns / 1e6, Named(self._output_names, arrays))
        if results is not NOTHING:
            self._add_results(result, results)
        elif self._decoder is not None:
            self._decoder.decode(result)
        if id & 1:
            reference = self._owners.get(id)
            owner = reference() if reference is not None else None
            if owner is not None:
                owner.receive(id, result)
            self._received = frame + 1
            self._owners.pop(id, None)
        else:
            # No call in between, so an interrupt cannot separate the two.
            self._ready += (result,)
            self._received = frame + 1

    def _add_results(self, result: FrameResult, found: Found) -> None:
        if found.boxes:
            points = tuple(starmap(Point, found.points))
            each = len(points) // len(found.boxes)
            result.detections = tuple(
                Detection(*box, self.label(box[-1]), points[each * k : each * (k + 1)])
                for k, box in enumerate(found.boxes)
            )
        else:
            result.points = tuple(
                Point(*point, self.label(index)) for index, point in enumerate(found.points)
            )
        result.classes = tuple(
            ClassScore(score, probability, index, self.label(index))
            for index, score, probability in found.classes
        )
        if found.class_map is not None:
            result.class_map = ClassMap(found.class_map, self._labels)
        result.text, result.text_score = found.text, found.text_score

    def label(self, label_index: int) -> str:
        """Return a class's name, or its number if the bundle has no name for it."""
        return label_of(self._labels, label_index)

    # ---- restart

    def restart(self, deadline: float) -> None:
        """Start the ended C++ pipeline again; may be repeated after an interrupt.

        ``deadline`` is in seconds of ``time.monotonic``.
        """
        generation = self._generation + 1
        while True:
            with self._collecting:
                try:
                    end = time.monotonic() + self._transport.slice_s
                    self._transport.wait("restart", end, generation)
                    break
                except DeadlinePassed:
                    if time.monotonic() >= deadline:
                        raise
        with self._collecting:
            for reference in list(self._owners.values()):
                owner = reference()
                if owner is not None:
                    owner.lose()
            self._owners.clear()
            self._ready.clear()
            self._transport.reset()
            self._batch = (0, ())
            self._received = 0
            if self._decoder is not None:
                self._decoder.failure = None
        self._call_back()
        self._generation = generation  # last: an interrupted restart is repeated as a whole

    @property
    def generation(self) -> int:
        """How often it has been restarted."""
        return self._generation

    # ---- callbacks

    def watch(self, future: FrameFuture) -> None:
        """Call a future's callbacks when its frame is finished, even if nothing waits for it."""
        with self._starting:
            if self._watched is None:
                self._watched = queue.SimpleQueue()
                threading.Thread(
                    target=_dispatch,
                    args=(self, self._watched),
                    name="edgepipe-futures",
                    daemon=True,
                ).start()
        self._watched.put(future)

    def end(self) -> None:
        """Let the thread that calls callbacks end."""
        if self._watched is not None:
            self._watched.put(None)

    def settled(self, future: FrameFuture) -> None:
        """Have a future's callbacks called soon."""
        self._settled.append(future)

    def _call_back(self) -> None:
        while self._settled:
            try:
                future = self._settled.popleft()
            except IndexError:
                return
            future._call_back()

    def serve(self, watched: list[FrameFuture]) -> None:
        """Wait briefly for the frames of futures; fail the futures if no frame will come."""
        try:
            self._collect(max(future.frame for future in watched))
            if not all(future.is_settled for future in watched):
                end = time.monotonic() + _DISPATCH_S
                self._transport.wait("await_frame", end, self._received)
        except DeadlinePassed:
            pass
        except Exception as cause:
            for future in watched:
                with self._collecting:
                    if not future.is_settled:
                        future._error = cause
                future._call_back()


def _dispatch(delivery: Delivery, queued: queue.SimpleQueue[FrameFuture | None]) -> None:
    """Serve the futures that have callbacks until None comes."""
    watched: list[FrameFuture] = []
    while True:
        while not watched or not queued.empty():
            future = queued.get()
            if future is None:
                return
            watched.append(future)
            del future
        delivery.serve(watched)
        watched = [future for future in watched if not future.is_settled]
