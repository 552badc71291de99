"""A stage's inputs and outputs: what a connection must agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgepipe.errors import PipelineError

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
        layout = " (vta)" if self.layout == "vta" else ""
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
