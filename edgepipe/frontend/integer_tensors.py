"""What the integers of a quantised ONNX network stand for: scales, zero points and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from edgepipe.errors import FrontendError
from edgepipe.frontend.given_ranges import GivenRange
from edgepipe.frontend.integer_operators import AGAIN
from edgepipe.frontend.onnx_graph import array_of

Float = NDArray[np.float64]

INTEGERS: Mapping[int, tuple[int, int]] = {
    TensorProto.INT8: (-(1 << 7), (1 << 7) - 1),
    TensorProto.UINT8: (0, (1 << 8) - 1),
    TensorProto.INT16: (-(1 << 15), (1 << 15) - 1),
    TensorProto.UINT16: (0, (1 << 16) - 1),
}
"""The types of activations, with their lowest and highest integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integers:
    """What an integer tensor stands for: (integer - zero) * scale of the float tensor ``real``.

    ``scale`` and ``zero`` are float64[1], or one a channel; ``lowest`` and ``highest`` bound the
    integers.
    """

    real: str
    scale: Float
    zero: Float
    lowest: int
    highest: int

    @property
    def range(self) -> GivenRange:
        """The real values, over all channels."""
        low, high = self._bound(self.lowest), self._bound(self.highest)
        return GivenRange(
            low=float(low.min()), high=float(high.max()), step=float(self.scale.max())
        )

    @property
    def begins_at_zero(self) -> bool:
        """Whether no channel has negative values."""
        return not self._bound(self.lowest).any()

    @property
    def ends_at_zero(self) -> bool:
        """Whether no channel has positive values."""
        return not self._bound(self.highest).any()

    @property
    def are_their_own(self) -> bool:
        """Whether the integers stand for themselves."""
        return bool((self.scale == 1).all() and (self.zero == 0).all())

    def means_the_same(self, other: Integers) -> bool:
        """Whether equal integers of both stand for equal values."""
        return np.array_equal(self.scale, other.scale) and np.array_equal(self.zero, other.zero)

    def _bound(self, integer: int) -> Float:
        return (integer - self.zero) * self.scale


class MeaningReader:
    """Reads what a node's scale and zero point say; ``constants`` are the graph's."""

    def __init__(self, path: Path, constants: Mapping[str, TensorProto]) -> None:
        self._path = path
        self._constants = constants

    def scale_and_zero(self, node: onnx.NodeProto) -> tuple[Float, Float]:
        """Return a node's scale and zero point, float64[1] or [channels].

        Raises ``FrontendError`` for a scale that is not constant.
        """
        scale = self._constants.get(node.input[1])
        if scale is None:
            raise FrontendError(
                f"{self._path}: {node.op_type} {node.output[0]} computes its scale from the "
                "picture, expected a constant",
                hint=AGAIN,
            )
        scales = np.asarray(array_of(scale), np.float64).reshape(-1)
        zero = self._constants.get(node.input[2]) if len(node.input) > 2 else None
        if zero is None:
            return scales, np.zeros(1)
        zeros = np.asarray(array_of(zero), np.float64).reshape(-1)
        return scales, zeros if zeros.any() else np.zeros(1)

    def made_by(self, node: onnx.NodeProto) -> Integers:
        """Return what the integers that a QuantizeLinear makes stand for.

        Raises ``FrontendError`` for a type of more or fewer bits than 8 or 16.
        """
        zero = self._constants.get(node.input[2]) if len(node.input) > 2 else None
        asked = next((int(a.i) for a in node.attribute if a.name == "output_dtype"), 0)
        kind = int(zero.data_type) if zero is not None else asked or int(TensorProto.UINT8)
        if kind not in INTEGERS:
            raise FrontendError(
                f"{self._path}: {node.output[0]} is quantised to "
                f"{TensorProto.DataType.Name(kind).lower()}, expected int8, uint8, int16 or uint16",
                hint=AGAIN,
            )
        return self.of_type(node.input[0], kind, *self.scale_and_zero(node))

    def of_type(self, real: str, kind: int, scale: Float, zero: Float) -> Integers:
        """Return what integers of a type in ``INTEGERS`` stand for.

        ``scale`` and ``zero`` are float64[1] or [channels].
        """
        lowest, highest = INTEGERS[kind]
        return Integers(real=real, scale=scale, zero=zero, lowest=lowest, highest=highest)
