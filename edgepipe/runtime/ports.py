"""Inputs and outputs of stages and pipelines: what a connection and an array must agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import PipelineError
from edgepipe.names import suggest

Array = NDArray[Any]
TensorType = tuple[str, Sequence[int]]  # dtype and shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One tensor of a stage; ``shape`` is logical, ``bytes`` its size in ``layout``.

    ``layout`` is "nchw" for C order (whatever the axes mean), or "vta" between VTA stages.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    bytes: int

    @property
    def type_text(self) -> str:
        """Return dtype, shape and an unusual layout, as ``int8[1, 16, 8, 8] (vta)``."""
        layout = "" if self.layout == "nchw" else f" ({self.layout})"
        return f"{self.dtype}{list(self.shape)}{layout}"

    def accepts(self, other: Port) -> bool:
        """Tell whether a tensor of ``other`` is one of this port, byte for byte."""
        dense = ("nchw", "nhwc")  # two names of C order
        same_layout = self.layout == other.layout or (
            self.layout in dense and other.layout in dense
        )
        same_type = (self.dtype, self.shape) == (other.dtype, other.shape)
        return same_type and same_layout


def dense_port(name: str, dtype: str, shape: Sequence[int]) -> Port:
    """Return a port in C order; raise PipelineError for no dtype of numpy or an empty shape."""
    try:
        item_bytes = np.dtype(dtype).itemsize
    except TypeError as cause:
        raise PipelineError(f"tensor {name!r}: {dtype!r} is no dtype of numpy") from cause
    extents = tuple(int(extent) for extent in shape)
    if any(extent < 1 for extent in extents):
        raise PipelineError(
            f"tensor {name!r}: found shape {list(extents)}, expected extents of at least 1"
        )
    count = int(np.prod(extents, dtype=np.int64))
    return Port(
        name=name,
        dtype=str(np.dtype(dtype)),
        shape=extents,
        layout="nchw",
        bytes=count * item_bytes,
    )


def dense_ports(tensors: Mapping[str, TensorType]) -> tuple[Port, ...]:
    """Return one port for each entry, in order."""
    return tuple(dense_port(name, dtype, shape) for name, (dtype, shape) in tensors.items())


def check_array(what: str, array: Any, port: Port) -> None:
    """Raise PipelineError when ``array`` is not of the port's dtype, rank and shape."""
    if not isinstance(array, np.ndarray | np.generic):
        raise PipelineError(f"{what}: found {type(array).__name__}, expected {port.type_text}")
    if str(array.dtype) != port.dtype or array.shape != array_shape(port):
        raise PipelineError(
            f"{what}: found {array.dtype}{list(array.shape)}, expected {port.type_text}",
            hint=_axes_hint(array, port),
        )


def check_parameters(what: str, parameters: Mapping[str, Array], ports: Mapping[str, Port]) -> None:
    """Raise PipelineError for an unknown parameter or one whose dtype or shape is wrong."""
    for key, array in parameters.items():
        if key not in ports:
            raise PipelineError(f"{what}: has no parameter {key!r}", hint=suggest(key, list(ports)))
        port = ports[key]
        if (str(array.dtype), array.shape) != (port.dtype, port.shape):
            raise PipelineError(
                f"{what}: parameter {key!r}: found {array.dtype}{list(array.shape)}, "
                f"expected {port.type_text}"
            )


def _axes_hint(array: Array | np.generic, port: Port) -> str | None:
    """Tell how to reorder a picture's axes where that makes the port's shape."""
    if array.ndim != 4 or len(port.shape) != 4 or str(array.dtype) != port.dtype:
        return None
    for name, order in (("NCHW", (0, 2, 3, 1)), ("NHWC", (0, 3, 1, 2))):
        if tuple(array.shape[axis] for axis in order) == port.shape:
            return f"the array is {name}: pass np.transpose(array, {order})"
    return None


def array_shape(port: Port) -> tuple[int, ...]:
    """Return the shape of a port's array; a tensor in the VTA layout is flat bytes."""
    return (port.bytes,) if port.layout == "vta" else port.shape


def as_port(memory: NDArray[np.uint8], port: Port) -> Array:
    """Return bytes as an array of the port's dtype and shape."""
    return memory.view(np.dtype(port.dtype)).reshape(array_shape(port))
