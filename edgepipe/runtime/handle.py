"""What stands for an object of the C++ side: its handle, freed once."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from edgepipe.closing import Closing
from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.library import check, runtime_library


class Handle(Closing):
    """Owns a handle of the C functions; ``free`` is the name of the one that destroys it.

    The object is freed by ``close``, or together with this one; ``keep`` lives as long.
    """

    def __init__(self, what: str, handle: ctypes.c_void_p, free: str, keep: Any = None) -> None:
        self._what = what
        self._library = runtime_library()
        self._handle = handle
        self._finalizer = weakref.finalize(self, _free, getattr(self._library, free), handle, keep)

    def close(self) -> None:
        """Free the object, whatever it is doing; any later call is an error."""
        self._finalizer()

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise RuntimeFailure(f"{self._what}: used after close()")

    def _call(self, function: str, *arguments: object) -> None:
        """Call a C function of the object; raise RuntimeFailure with its text when it fails."""
        self._check_open()
        self._require(getattr(self._library, function)(self._handle, *arguments))

    def _text(self, function: str) -> bytes:
        """Return what a C function writes, asking again with a larger buffer when it must."""
        length = ctypes.c_uint64(1 << 14)
        while True:
            self._check_open()
            text = ctypes.create_string_buffer(length.value + 256)
            code = getattr(self._library, function)(
                self._handle, text, ctypes.c_uint64(len(text)), ctypes.byref(length)
            )
            if code == 0 or length.value < len(text):
                self._require(code)
                return text.value

    def _require(self, code: int) -> None:
        """Raise what an error code stands for; 0 is none."""
        check(self._library, code)


def _free(function: Any, handle: ctypes.c_void_p, keep: Any) -> None:
    """Destroy the object; what it may still refer to until then is held by the call itself."""
    function.restype = None
    function(handle)
