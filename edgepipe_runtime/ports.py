"""Inputs and outputs of a pipeline, and arrays over their memory."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgepipe_runtime.errors import PipelineError


@dataclass(frozen=True)
class Port:
    """An input or output; ``shape`` is logical, ``bytes`` its size in ``layout``.

    ``layout`` is "nchw" or "nhwc" for C order, or starts with "vta" for flat bytes in the
    accelerator's order.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    bytes: int

    @property
    def type_text(self) -> str:
        """Return dtype, shape and an unusual layout, as ``int8[1, 16, 8, 8] (vta)``."""
        layout = f" ({self.layout})" if self.layout.startswith("vta") else ""
        return f"{self.dtype}{list(self.shape)}{layout}"

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Return the shape of its array; a tensor in the VTA layout is flat bytes."""
        return (self.bytes,) if self.layout.startswith("vta") else self.shape


def array_over(address: int, port: Port) -> Any:
    """Return an array of the port's dtype and shape over memory that the pipeline owns."""
    memory: Any = (ctypes.c_uint8 * port.bytes).from_address(address)
    return np.frombuffer(memory, np.dtype(port.dtype)).reshape(port.array_shape)


def check_array(what: str, array: Any, port: Port) -> None:
    """Raise PipelineError if ``array`` does not have the port's dtype, rank and shape."""
    if not isinstance(array, (np.ndarray, np.generic)):
        raise PipelineError(
            f"{what}: found {type(array).__name__}, expected {port.type_text}",
            hint="give a NumPy array",
        )
    if str(array.dtype) != port.dtype or array.shape != port.array_shape:
        raise PipelineError(
            f"{what}: found {array.dtype}{list(array.shape)}, expected {port.type_text}",
            hint=_hint(array, port),
        )


def _hint(array: Any, port: Port) -> str | None:
    """Return how to change an array so that it has the port's type, if that is simple."""
    if array.shape == port.shape and port.layout == "nhwc":
        return "pass bytes from 0 to 255 as np.uint8; the pipeline normalises them itself"
    if (1, *array.shape) == port.shape:
        return "the first axis counts frames: pass array[None]"
    if port.layout == "nhwc":
        return "pipeline(picture) takes a file, or a BGR picture uint8[h, w, 3] of any size"
    return None
