"""The form that every layer is lowered to: products into an accumulator, and vector operations.

A :class:`Kernel` computes its output tile by tile. In the accumulator, a tile is
``[co blocks][rows][cols]``. The kernel's list of :data:`Step` says how to compute a tile. A
:class:`Source` says which input pixel and which weight block contribute to which output pixel,
separately for rows and columns:

    conv 3x1, stride 2, padding 1 on a height of 4     out  0 0 1 1 1   (out 0, tap 0 is padding)
                                                       src  0 1 1 2 3
                                                       tap  1 2 0 1 2

So padding costs nothing, and strides, dilation, transposed convolutions, resampling and clamped
pooling windows differ only in their maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vta_stages.isa.instructions import AluOp
from vta_stages.layers.records import Int8Array, Int32Array, TensorSpec

IndexArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AxisMap:
    """Products along one axis: output coordinate ``out[i]`` takes input ``src[i]`` with ``tap[i]``.

    int64[n] each. ``part`` says which of the sums of an output coordinate a product belongs to:
    poolings compare several sums, all other layers have one. ``rank`` numbers the products of a
    sum in the order in which they are accumulated. ``taps`` is the number of distinct taps.
    """

    out: IndexArray
    src: IndexArray
    tap: IndexArray
    part: IndexArray
    rank: IndexArray
    taps: int

    @staticmethod
    def of(
        out: IndexArray,
        src: IndexArray,
        tap: IndexArray,
        taps: int,
        part: IndexArray | None = None,
    ) -> AxisMap:
        """Return the map of these products, ordered by output, part and tap, with their ranks.

        All arrays are int64[n].
        """
        part = np.zeros_like(out) if part is None else part
        order = np.lexsort((src, tap, part, out))
        out, src, tap, part = out[order], src[order], tap[order], part[order]
        sums = out * (int(part.max(initial=0)) + 1) + part
        first = np.searchsorted(sums, sums)
        return AxisMap(out, src, tap, part, np.arange(len(out)) - first, taps)

    @property
    def most_products(self) -> int:
        """The largest number of products in one sum."""
        return int(self.rank.max(initial=-1)) + 1

    def window(self, low: int, high: int) -> AxisMap:
        """Return the products of outputs ``low <= out < high``."""
        return self._subset((self.out >= low) & (self.out < high))

    def only(self, part: int) -> AxisMap:
        """Return the products of one part."""
        return self._subset(self.part == part)

    def _subset(self, keep: NDArray[np.bool_]) -> AxisMap:
        return AxisMap(
            self.out[keep],
            self.src[keep],
            self.tap[keep],
            self.part[keep],
            self.rank[keep],
            self.taps,
        )


class Accumulator(IntEnum):
    """The accumulators of a tile: MAIN is stored, TEMP holds intermediate values.

    CHANNELS has one entry for each channel block, where TEMP begins: values of channels that are
    the same for all pixels.
    """

    MAIN = 0
    TEMP = 1
    CHANNELS = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """Products of one input tensor.

    ``weights`` is int8[co_blocks, ci_count, weight_blocks, block, block]. If ``diagonal`` is set,
    output block ``c`` reads input block ``c``, ci_count is 1, and co_blocks may be 1, for weights
    that all channels share. Otherwise output block ``c`` reads the input blocks
    ``ci_first[c] .. ci_first[c] + ci_count - 1``. Tap ``(ty, tx)`` uses weight block
    ``weight_of_tap[ty * cols.taps + tx]``.
    """

    tensor: TensorSpec
    rows: AxisMap
    cols: AxisMap
    weights: Int8Array
    weight_of_tap: IndexArray
    diagonal: bool
    ci_first: IndexArray

    @property
    def ci_count(self) -> int:
        """How many input blocks an output block reads."""
        return int(self.weights.shape[1])

    @property
    def weight_blocks(self) -> int:
        """The number of weight blocks for each pair of an input and an output block."""
        return int(self.weights.shape[2])

    @property
    def shared(self) -> bool:
        """Whether all channel blocks use the same weights."""
        return self.diagonal and self.weights.shape[0] == 1


@dataclass(frozen=True, slots=True)
class Reset:
    """Set an accumulator to zero."""

    target: Accumulator


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Add the products of ``sources[source]`` to an accumulator, for one (row, column) part.

    Into CHANNELS, these are the products of a tile's first pixel.
    """

    source: int
    target: Accumulator = Accumulator.MAIN
    part: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class FoldWindows:
    """Set MAIN to the maximum over a source's windows (:mod:`vta_stages.emission.window_fold`)."""

    source: int
    target: Accumulator = Accumulator.MAIN


@dataclass(frozen=True, slots=True)
class AddBias:
    """Add ``biases[bias]``, one value per channel, to an accumulator in one product."""

    target: Accumulator
    bias: int


@dataclass(frozen=True, slots=True)
class Immediate:
    """``target = op(target, imm)``, lane by lane."""

    op: AluOp
    target: Accumulator
    imm: int


@dataclass(frozen=True, slots=True)
class Vector:
    """``target = op(target, vectors[vector])`` with one operand per channel.

    ``imm`` is what a REQUANTISE, TABLE or LEAKY has beside them, 0 for other operations.
    """

    op: AluOp
    target: Accumulator
    vector: int
    imm: int = 0


@dataclass(frozen=True, slots=True)
class Combine:
    """``target = op(target, source)``, entry by entry; ``source`` is another accumulator."""

    op: AluOp
    target: Accumulator
    source: Accumulator


Step = Reset | Accumulate | FoldWindows | AddBias | Immediate | Vector | Combine


@dataclass(frozen=True, kw_only=True, eq=False)
class Kernel:
    """A lowered layer; ``output`` has ``co_blocks`` channel blocks.

    ``vectors`` are the operands of vector operations and ``biases`` the values to add, both
    int32[n, co_blocks * block] with one value per channel. ``table`` is what a LOAD of TABLE reads,
    if a step looks values up.
    """

    name: str
    output: TensorSpec
    co_blocks: int
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    vectors: Int32Array
    biases: Int32Array
    table: bytes = b""

    @cached_property
    def uses_temp(self) -> bool:
        """Whether a step uses :attr:`Accumulator.TEMP`."""
        return any(
            step.target is Accumulator.TEMP or isinstance(step, FoldWindows) for step in self.steps
        )

    @cached_property
    def uses_channels(self) -> bool:
        """Whether a step uses :attr:`Accumulator.CHANNELS`."""
        return any(step.target is Accumulator.CHANNELS for step in self.steps)

    @cached_property
    def of_channels(self) -> frozenset[int]:
        """The sources that :attr:`Accumulator.CHANNELS` gets products of."""
        return frozenset(
            step.source
            for step in self.steps
            if isinstance(step, Accumulate) and step.target is Accumulator.CHANNELS
        )
