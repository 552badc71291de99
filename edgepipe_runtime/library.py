"""The C++ runtime's library, and one open pipeline of it: ``cpp_runtime/c_interface/edgepipe_c.h``.

ctypes releases the interpreter lock during a call.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path
from typing import Any, Sequence

from edgepipe_runtime.errors import (
    BundleError,
    DeadlinePassed,
    EdgepipeError,
    PipelineEnded,
    RuntimeFailure,
)

LIBRARY_NAME = "libedgepipe_c.so"
SLICE_S = 0.02  # the longest time that a wait delays a signal handler
_CORRUPT, DEADLINE, _CANCELLED, _CLOSED = 3, 6, 7, 8  # codes of edgepipe/status.h
_KINDS: dict[int, type[EdgepipeError]] = {
    _CORRUPT: BundleError,
    DEADLINE: DeadlinePassed,
    _CANCELLED: PipelineEnded,
    _CLOSED: PipelineEnded,
}


class OwnBuffer(ctypes.Structure):
    """EpOwnBuffer."""

    _fields_ = (
        ("tensor", ctypes.c_char_p),
        ("slot", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
    )


class Picture(ctypes.Structure):
    """EpPicture."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("width", ctypes.c_int32),
        ("height", ctypes.c_int32),
        ("row_bytes", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
    )


class Placement(ctypes.Structure):
    """EpPlacement."""

    _fields_ = tuple(
        (name, ctypes.c_int32)
        for name in ("width", "height", "fitted_width", "fitted_height", "left", "top")
    )


class Taken(ctypes.Structure):
    """EpTaken."""

    _fields_ = (
        ("frame", ctypes.c_uint64),
        ("latency_ns", ctypes.c_uint64),
        ("results", ctypes.c_void_p),
        ("result_bytes", ctypes.c_uint64),
        ("placement", Placement),
    )


_HANDLE = ctypes.c_void_p
_POINTER = ctypes.POINTER(ctypes.c_void_p)
_FUNCTIONS = {  # the types of the result and the arguments
    "ep_message": (ctypes.c_char_p,),
    "ep_hint": (ctypes.c_char_p,),
    "ep_open": (
        *(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p),
        *(ctypes.POINTER(OwnBuffer), ctypes.c_uint64, _POINTER),
    ),
    "ep_close": (None, _HANDLE),
    "ep_describe": (ctypes.c_char_p, _HANDLE),
    "ep_acquire": (ctypes.c_int, _HANDLE, ctypes.c_double, _POINTER),
    "ep_fit": (ctypes.c_int, _HANDLE, ctypes.POINTER(Picture)),
    "ep_fit_file": (ctypes.c_int, _HANDLE, ctypes.c_char_p),
    "ep_abandon": (None, _HANDLE),
    "ep_submit": (ctypes.c_int, _HANDLE, ctypes.POINTER(ctypes.c_uint64)),
    "ep_take": (ctypes.c_int, _HANDLE, ctypes.POINTER(Taken), _POINTER),
    "ep_release": (None, _HANDLE),
    "ep_await_slot": (ctypes.c_int, _HANDLE, ctypes.c_int, ctypes.c_double),
    "ep_await_frame": (ctypes.c_int, _HANDLE, ctypes.c_uint64, ctypes.c_double),
    "ep_drain": (ctypes.c_int, _HANDLE, ctypes.c_uint64, ctypes.c_double),
    "ep_stop": (ctypes.c_int, _HANDLE, ctypes.c_double),
    "ep_await_end": (ctypes.c_int, _HANDLE, ctypes.c_double),
    "ep_cancel": (None, _HANDLE),
    "ep_restart": (ctypes.c_int, _HANDLE, ctypes.c_double),
    "ep_statistics": (ctypes.c_char_p, _HANDLE),
    "ep_write_trace": (ctypes.c_int, _HANDLE, ctypes.c_char_p),
}
_loading = threading.Lock()
_loaded: dict[Path, Any] = {}  # by path; a library stays loaded


def library_path() -> Path:
    """Return the library of the installed wheel, otherwise that of a build in the source tree.

    Raises RuntimeFailure with both places if there is none.
    """
    package = Path(__file__).resolve().parent
    places = (package / LIBRARY_NAME, package.parent / "build" / "host" / "lib" / LIBRARY_NAME)
    for place in places:
        if place.is_file():
            return place
    raise RuntimeFailure(
        f"{LIBRARY_NAME} was not found, looked for {' and '.join(map(str, places))}",
        hint="install the wheel edgepipe_runtime for this machine",
    )


def library(path: Path) -> Any:
    """Return a loaded library with its functions' types set; raise RuntimeFailure if it cannot."""
    with _loading:
        if path not in _loaded:
            try:
                found = ctypes.CDLL(str(path))
            except OSError as error:
                raise RuntimeFailure(
                    f"{path} cannot be loaded: {error}",
                    hint="install the wheel edgepipe_runtime for this machine",
                ) from error
            for name, (result, *arguments) in _FUNCTIONS.items():
                function = getattr(found, name)
                function.restype, function.argtypes = result, arguments
            _loaded[path] = found
        return _loaded[path]


def failure(functions: Any, code: int) -> EdgepipeError:
    """Return the error of the calling thread's last call, which returned ``code``."""
    message = functions.ep_message().decode("utf-8", "replace")
    hint = functions.ep_hint().decode("utf-8", "replace") or None
    return _KINDS.get(code, RuntimeFailure)(message, hint=hint)


class OpenPipeline:
    """A pipeline of the library. Any thread may call it; ``end`` waits for calls in progress."""

    def __init__(self, path: bytes, options: bytes, own: Sequence[OwnBuffer]) -> None:
        self.functions = library(library_path())
        self._process = os.getpid()
        self._guard = threading.Condition()
        self._users = 0
        self._is_closing = False
        handle = ctypes.c_void_p()
        array = (OwnBuffer * len(own))(*own)
        code = self.functions.ep_open(path, options, array, len(own), ctypes.byref(handle))
        if code:
            raise failure(self.functions, code)
        self._handle: ctypes.c_void_p | None = handle

    def attempt(self, name: str, *arguments: object) -> tuple[int, EdgepipeError | None]:
        """Call a function that returns a code; return it and its error, (0, None) on success."""
        self.check_process()
        with self._guard:
            self._check_open()
            self._users += 1
        try:
            code = getattr(self.functions, name)(self._handle, *arguments)
            return code, failure(self.functions, code) if code else None
        finally:
            with self._guard:
                self._users -= 1
                self._guard.notify_all()

    def call(self, name: str, *arguments: object) -> None:
        """Call a function; raise its error."""
        _, error = self.attempt(name, *arguments)
        if error is not None:
            raise error

    def text(self, name: str) -> bytes:
        """Call a function that returns a text."""
        self.check_process()
        with self._guard:
            self._check_open()
            found: bytes | None = getattr(self.functions, name)(self._handle)
        if found is None:
            raise failure(self.functions, -1)
        return found

    def cancel(self) -> None:
        """Drop every frame that has not been taken."""
        self.check_process()
        with self._guard:
            self._check_open()
            self.functions.ep_cancel(self._handle)

    def abandon(self) -> None:
        """Give up the acquired frame."""
        self.check_process()
        with self._guard:
            self._check_open()
            self.functions.ep_abandon(self._handle)

    def release(self) -> None:
        """End the lease on the frame that was taken."""
        with self._guard:
            if self._handle is not None:
                self.functions.ep_release(self._handle)

    def wait(self, name: str, deadline: float, *arguments: object) -> None:
        """Call a function that waits until it is done; raise DeadlinePassed at ``deadline``.

        ``deadline`` is in seconds of ``time.monotonic``. Returns to Python every ``SLICE_S``, so
        that signal handlers run.
        """
        while True:
            left = deadline - time.monotonic()
            part = max(0.0, min(left, SLICE_S))
            code, error = self.attempt(name, *arguments, ctypes.c_double(part))
            if error is None:
                return
            if code != DEADLINE or left <= SLICE_S:
                raise error

    @property
    def is_here(self) -> bool:
        """Whether this is the process that opened it."""
        return self._process == os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether ``end`` has not freed it."""
        return self._handle is not None

    def check_process(self) -> None:
        """Raise RuntimeFailure in a forked child. Before any lock, on which a child might hang."""
        if not self.is_here:
            raise RuntimeFailure(
                f"pipeline: belongs to process {self._process}, this is process {os.getpid()}",
                hint="open it in the process that uses it",
            )

    def end(self, timeout_s: float) -> EdgepipeError | None:
        """Cancel and free the pipeline; return why that is impossible within ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        if not self.is_here:
            return None
        with self._guard:
            if self._handle is None:
                return None
            self._is_closing = True
            self.functions.ep_cancel(self._handle)
            while self._users > 0:
                if not self._guard.wait(max(0.0, deadline - time.monotonic())):
                    return DeadlinePassed("another thread uses the pipeline")
            self.functions.ep_abandon(self._handle)
            self.functions.ep_release(self._handle)
            while True:
                code = self.functions.ep_await_end(self._handle, SLICE_S)
                if not code:
                    break
                if code != DEADLINE or time.monotonic() >= deadline:
                    return failure(self.functions, code)
            handle, self._handle = self._handle, None
        self.functions.ep_close(handle)
        return None

    def _check_open(self) -> None:
        if self._is_closing or self._handle is None:
            raise RuntimeFailure("pipeline: used after close()")
