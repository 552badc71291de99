"""Inputs and outputs of stages and pipelines, which connections and arrays must match."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import PipelineError
from edgepipe.integers import whole_number
from edgepipe.names import suggest

Array = NDArray[Any]
TensorType = tuple[str, Sequence[int]]  # dtype and shape

# Names that a pipeline's input cannot have, because run() and submit() take inputs as named
# arguments.
RESERVED_INPUT_NAMES = frozenset({"self", "timeout_s"})

_KINDS = "biufc"  # of NumPy's dtypes: plain numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One tensor of a stage; ``shape`` is logical, ``bytes`` its size in ``layout``.

    ``layout`` is "nchw" for C order (regardless of the axes' meaning), or starts with
    "vta" beside a VTA stage.
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
        """Return whether a tensor of ``other`` fits this port byte for byte."""
        dense = ("nchw", "nhwc")  # two names of C order
        same_layout = self.layout == other.layout or (
            self.layout in dense and other.layout in dense
        )
        same_type = (self.dtype, self.shape) == (other.dtype, other.shape)
        return same_type and same_layout


def dense_port(name: str, dtype: str, shape: Sequence[int]) -> Port:
    """Return a port in C order.

    Raises PipelineError for a name that is not text, a dtype that is not one of NumPy's numbers,
    and a shape that is not a sequence of whole numbers of at least 1.
    """
    if not isinstance(name, str) or not name:
        raise PipelineError(f"tensor {name!r}: expected a name, as text")
    what = f"tensor {name!r}"
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise PipelineError(f"{what}: found shape {shape!r}, expected a sequence of whole numbers")
    extents = tuple(
        whole_number(f"{what}: extent {axis} of shape {tuple(shape)}", extent, at_least=1)
        for axis, extent in enumerate(shape)
    )
    found = _number_type(dtype)
    if found is None:
        raise PipelineError(
            f"{what}: found dtype {dtype!r}, expected one of NumPy's numbers",
            hint='for example "int8" or "float32"',
        )
    return Port(
        name=name,
        dtype=str(found),
        shape=extents,
        layout="nchw",
        bytes=math.prod(extents) * found.itemsize,
    )


def dense_ports(tensors: Mapping[str, TensorType]) -> tuple[Port, ...]:
    """Return one port for each entry, in order; raise PipelineError for any other entry."""
    if not isinstance(tensors, Mapping):
        raise PipelineError(
            f"found {type(tensors).__name__}, expected a dictionary of tensors",
            hint='for example {"x": ("float32", (1, 8))}',
        )
    ports = []
    for name, entry in tensors.items():
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise PipelineError(
                f"tensor {name!r}: found {entry!r}, expected a pair of dtype and shape",
                hint='for example ("float32", (1, 8))',
            )
        ports.append(dense_port(name, *entry))
    return tuple(ports)


def check_array(what: str, array: Any, port: Port, *, otherwise: str | None = None) -> None:
    """Raise PipelineError if ``array`` does not have the port's dtype, rank and shape.

    ``otherwise`` is the hint if no simple change of the array helps.
    """
    if not isinstance(array, np.ndarray | np.generic):
        raise PipelineError(
            f"{what}: found {type(array).__name__}, expected {port.type_text}",
            hint=otherwise or "give a NumPy array",
        )
    if str(array.dtype) != port.dtype or array.shape != array_shape(port):
        raise PipelineError(
            f"{what}: found {array.dtype}{list(array.shape)}, expected {port.type_text}",
            hint=_array_hint(array, port) or otherwise,
        )


def check_parameters(what: str, parameters: Mapping[str, Array], ports: Mapping[str, Port]) -> None:
    """Raise PipelineError for an unknown parameter or one whose dtype or shape is wrong."""
    for key, array in parameters.items():
        if key not in ports:
            raise PipelineError(f"{what}: has no parameter {key!r}", hint=suggest(key, list(ports)))
        port = ports[key]
        if not isinstance(array, np.ndarray):
            raise PipelineError(
                f"{what}: parameter {key!r}: found {type(array).__name__}, "
                f"expected {port.type_text}"
            )
        if (str(array.dtype), array.shape) != (port.dtype, port.shape):
            raise PipelineError(
                f"{what}: parameter {key!r}: found {array.dtype}{list(array.shape)}, "
                f"expected {port.type_text}"
            )


def _array_hint(array: Array | np.generic, port: Port) -> str | None:
    """Return how to change an array so that it has the port's type, if that is simple."""
    if array.shape == port.shape and port.layout == "nhwc":
        return "pass bytes from 0 to 255 as np.uint8; the pipeline normalises them itself"
    if len(port.shape) != 4 or str(array.dtype) != port.dtype:
        return None
    for name, order in (("NCHW", (0, 2, 3, 1)), ("NHWC", (0, 3, 1, 2))):
        if _ordered(array, order) == port.shape:
            return f"the array is {name}: pass np.transpose(array, {order})"
    if (1, *array.shape) == port.shape:
        return "the first axis counts frames: pass array[None]"
    for name, axes in (("CHW", (1, 2, 0)), ("HWC", (2, 0, 1))):
        if (1, *_ordered(array, axes)) == port.shape:
            return f"the array is {name}: pass np.transpose(array, {axes})[None]"
    return None


def _ordered(array: Array | np.generic, order: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a transposed array; empty for one of another rank."""
    return tuple(array.shape[axis] for axis in order) if array.ndim == len(order) else ()


def array_shape(port: Port) -> tuple[int, ...]:
    """Return the shape of a port's array; a tensor in the VTA layout is flat bytes."""
    return (port.bytes,) if port.layout.startswith("vta") else port.shape


def as_port(memory: NDArray[np.uint8], port: Port) -> Array:
    """Return bytes as an array of the port's dtype and shape."""
    return memory.view(np.dtype(port.dtype)).reshape(array_shape(port))


def _number_type(dtype: object) -> np.dtype[np.generic] | None:
    if dtype is None:  # NumPy's default would be float64
        return None
    try:
        found: np.dtype[np.generic] = np.dtype(dtype)  # type: ignore[call-overload]
    except (TypeError, ValueError, SyntaxError):  # NumPy evaluates a text with brackets as Python
        return None
    return found if found.kind in _KINDS and found.isnative else None


def split_arrays(content: bytes | memoryview, ports: Iterable[Port]) -> tuple[Array, ...]:
    """Return one array for each port from their bytes, one after the other.

    Each array has the dtype and shape of its port.
    """
    found: list[Array] = []
    offset = 0
    for port in ports:
        memory = np.frombuffer(content, np.uint8, port.bytes, offset)
        found.append(as_port(memory, port).copy())
        offset += port.bytes
    return tuple(found)
