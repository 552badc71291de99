"""The functions of the C++ runtime: ``libedgepipe_runtime.so`` registers them with TVM-FFI.

``cpp_runtime/ffi/functions.cc`` lists them; ``edgepipe-rpcd`` serves the same ones over TVM RPC. A
call releases the interpreter lock. An array is passed as a tensor that shares its memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi
from numpy.typing import NDArray

from edgepipe.errors import RuntimeFailure

LIBRARY_NAME = "libedgepipe_runtime.so"
# The text of a failed status, here and through RPC: kStatusError of cpp_runtime/ffi/status_error.h.
_STATUS_ERROR = "edgepipe.Status"
_STATUS_TEXT = re.compile(r"^status (\d+): (.*?)(?:\nhint: (.*))?\Z", re.DOTALL | re.MULTILINE)

Function = Callable[..., Any]


class StatusError(Exception):
    """A failed status as it comes from C++; ``status_failure`` turns it into what users see."""


tvm_ffi.register_error(_STATUS_ERROR, StatusError)


def library_path() -> Path:
    """Return the library of the installed package, otherwise that in the source tree.

    Raises RuntimeFailure with both places if there is none.
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
def runtime_function(name: str) -> Function:
    """Return the function ``edgepipe.NAME``; the first call loads the library, which stays loaded.

    Raises RuntimeFailure if the library is missing or cannot be loaded.
    """
    path = library_path()
    try:
        tvm_ffi.load_module(path)
    except (OSError, RuntimeError) as error:
        raise RuntimeFailure(
            f"{path} cannot be loaded: {error}",
            hint="rebuild it for this machine: ninja -C build/host",
        ) from error
    found: Function = tvm_ffi.get_global_func(f"edgepipe.{name}")
    return found


def call(name: str, *arguments: object) -> Any:
    """Call a function; raise RuntimeFailure with text and hint if its status is an error."""
    try:
        return runtime_function(name)(*arguments)
    except StatusError as cause:
        raise status_failure(str(cause)) or cause from cause


def status_failure(
    text: str, kinds: Mapping[int, type[RuntimeFailure]] | None = None
) -> RuntimeFailure | None:
    """Return the failed status that an exception's text reports, or None.

    ``kinds`` maps the codes of ``edgepipe/status.h`` that have a separate class to it.
    """
    found = _STATUS_TEXT.search(text)
    if found is None:
        return None
    code = int(found[1])
    kind = (kinds or {}).get(code, RuntimeFailure)
    return kind(found[2], hint=found[3])


def as_tensor(array: NDArray[Any]) -> Any:
    """Return a tensor over an array's memory; the array is in C order and may be read-only.

    The tensor has the array's dtype and shape.
    """
    # The protocol's first version, which tvm_ffi would request, does not support read-only arrays.
    return tvm_ffi.from_dlpack(array.__dlpack__(max_version=(1, 0)))


def as_array(tensor: Any) -> NDArray[Any]:
    """Return an array over a tensor's memory, which it keeps.

    The array has the tensor's dtype and shape.
    """
    found: NDArray[Any] = np.from_dlpack(tensor)
    return found
