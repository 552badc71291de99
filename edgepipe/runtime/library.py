"""Find and load libedgepipe_runtime.so, the shared library behind ``edgepipe.runtime``."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from edgepipe.errors import RuntimeFailure

LIBRARY_NAME = "libedgepipe_runtime.so"


def library_path() -> Path:
    """Return the library of the installed package, else that of the source tree's ``build/host``.

    Raises RuntimeFailure with both places when there is none.
    """
    package = Path(__file__).resolve().parents[1]
    places = (
        package / "_lib" / LIBRARY_NAME,
        package.parent / "build" / "host" / "lib" / LIBRARY_NAME,
    )
    for place in places:
        if place.is_file():
            return place
    raise RuntimeFailure(
        f"{LIBRARY_NAME} was not found, looked for {' and '.join(map(str, places))}",
        hint="build it: cmake -S . -B build/host -G Ninja && ninja -C build/host",
    )


@cache
def runtime_library() -> ctypes.CDLL:
    """Load the library once per process; its symbols are visible to the stages it loads."""
    path = library_path()
    try:
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise RuntimeFailure(
            f"{path} cannot be loaded: {error}",
            hint="rebuild it for this machine: ninja -C build/host",
        ) from error
    library.ep_last_error.argtypes = ()
    library.ep_last_error.restype = ctypes.c_char_p
    library.ep_remedy.argtypes = (ctypes.c_int,)
    library.ep_remedy.restype = ctypes.c_char_p
    return library


def check(
    library: ctypes.CDLL, code: int, errors: Mapping[int, type[RuntimeFailure]] | None = None
) -> None:
    """Raise the runtime's own text and remedy when a C function returned an error.

    Raises RuntimeFailure, or what ``errors`` has for the code.
    """
    if code != 0:
        text, hint = library.ep_last_error() or b"unknown error", library.ep_remedy(code)
        kind = (errors or {}).get(code, RuntimeFailure)
        raise kind(text.decode(errors="replace"), hint=hint.decode())
