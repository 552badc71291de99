"""The layouts of an ``int8[1, channels, height, width]`` tensor in memory.

Outside a stage a tensor is NCHW, a camera frame (NHWC) or the accelerator's blocks. Inside a stage
every quantised tensor is :class:`Pixels`: all channels of a pixel together. Channels are then the
vector lanes, and a row of pixels can be staged for a convolution with a plain copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from edgepipe.bundle.manifest import FOLDS, vta_layout
from edgepipe.codegen.arm.tensor_ir import Expr, Loop, Schedule, Tensor, te, tirx
from vta_stages.accelerator import Accelerator

LANES = 8


class Layout(Protocol):
    """A bijection from (channel, row, column) to an index, plus padding lanes."""

    @property
    def kind(self) -> str:
        """The name of the layout, for texts and look-ups."""
        ...

    def shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        """Return the shape in memory, innermost dimension last."""
        ...

    def lanes(self, channels: int) -> int:
        """Return the channels including padding lanes."""
        ...

    def index(self, c: Expr, y: Expr, x: Expr) -> tuple[Expr, ...]:
        """Return the index of one element."""
        ...

    def element(self, index: tuple[Expr, ...]) -> tuple[Expr, Expr, Expr]:
        """Return (channel, row, column) of an index; the channel may be a padding lane."""
        ...

    def is_used(self, index: tuple[Expr, ...]) -> Expr | None:
        """Return whether an index is that of an element or of a padding lane; None: all are."""
        return None


@dataclass(frozen=True, slots=True)
class Nchw(Layout):
    """C order, no padding: what the host and generic operators see."""

    kind = "nchw"

    def shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        return (1, channels, height, width)

    def lanes(self, channels: int) -> int:
        return channels

    def index(self, c: Expr, y: Expr, x: Expr) -> tuple[Expr, ...]:
        return (0, c, y, x)

    def element(self, index: tuple[Expr, ...]) -> tuple[Expr, Expr, Expr]:
        return index[1], index[2], index[3]


@dataclass(frozen=True, slots=True)
class Nhwc(Layout):
    """A camera frame."""

    kind = "nhwc"

    def shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        return (1, height, width, channels)

    def lanes(self, channels: int) -> int:
        return channels

    def index(self, c: Expr, y: Expr, x: Expr) -> tuple[Expr, ...]:
        return (0, y, x, c)

    def element(self, index: tuple[Expr, ...]) -> tuple[Expr, Expr, Expr]:
        return index[3], index[1], index[2]


@dataclass(frozen=True, slots=True)
class Blocks(Layout):
    """The accelerator's layout ``[ceil(C/block)][H][W][batch][block]``; rows >= 1 of batch are 0.

    Padding lanes are zero in tensors that an ARM stage writes, and undefined in those of a program.
    """

    batch: int = 1
    block: int = 16
    kind = "vta"

    def shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        return (-(-channels // self.block), height, width, self.batch, self.block)

    def lanes(self, channels: int) -> int:
        return -(-channels // self.block) * self.block

    def index(self, c: Expr, y: Expr, x: Expr) -> tuple[Expr, ...]:
        if isinstance(c, int):
            return (c // self.block, y, x, 0, c % self.block)
        return (tirx.floordiv(c, self.block), y, x, 0, tirx.floormod(c, self.block))

    def element(self, index: tuple[Expr, ...]) -> tuple[Expr, Expr, Expr]:
        return index[0] * self.block + index[4], index[1], index[2]

    def is_used(self, index: tuple[Expr, ...]) -> Expr | None:
        return index[3] == 0 if self.batch > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedBlocks(Layout):
    """The accelerator's layout of a folded picture: ``factor`` x ``factor`` pixels are one.

    ``channels`` are the picture's; ``vta_stages.layers.folding.folded_spec`` has their order. What
    is left of the last block is zero, and no lane of a channel. Height and width are multiples of
    ``factor``, and batch is 1.
    """

    factor: int
    channels: int
    block: int = 16

    @property
    def kind(self) -> str:
        """The name of the layout."""
        return vta_layout(self.factor)

    @property
    def _lanes_of_pixel(self) -> int:
        return self.channels * self.factor**2

    def shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        blocks = -(-self._lanes_of_pixel // self.block)
        return (blocks, height // self.factor, width // self.factor, 1, self.block)

    def lanes(self, channels: int) -> int:
        return channels

    def index(self, c: Expr, y: Expr, x: Expr) -> tuple[Expr, ...]:
        factor = self.factor
        phase = tirx.floormod(y, factor) * factor + tirx.floormod(x, factor)
        lane = phase * self.channels + c
        row, column = tirx.floordiv(y, factor), tirx.floordiv(x, factor)
        return (tirx.floordiv(lane, self.block), row, column, 0, tirx.floormod(lane, self.block))

    def element(self, index: tuple[Expr, ...]) -> tuple[Expr, Expr, Expr]:
        block, row, column, _, lane = index
        # Unused lanes get some element, so that what is computed for them reads inside the picture.
        lane = tirx.floormod(block * self.block + lane, self._lanes_of_pixel)
        phase = tirx.floordiv(lane, self.channels)
        y = row * self.factor + tirx.floordiv(phase, self.factor)
        x = column * self.factor + tirx.floormod(phase, self.factor)
        return tirx.floormod(lane, self.channels), y, x

    def is_used(self, index: tuple[Expr, ...]) -> Expr | None:
        if self._lanes_of_pixel % self.block == 0:
            return None
        return index[0] * self.block + index[4] < self._lanes_of_pixel


@dataclass(frozen=True, slots=True)
class Pixels(Layout):
    """``[H][W][C]`` with C rounded up to 8 lanes; padding lanes are always zero."""

    kind = "pixels"

    def shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        return (height, width, self.lanes(channels))

    def lanes(self, channels: int) -> int:
        return -(-channels // LANES) * LANES

    def index(self, c: Expr, y: Expr, x: Expr) -> tuple[Expr, ...]:
        return (y, x, c)

    def element(self, index: tuple[Expr, ...]) -> tuple[Expr, Expr, Expr]:
        return index[2], index[0], index[1]


NCHW, NHWC, PIXELS = Nchw(), Nhwc(), Pixels()


def blocks_of(layout: str, shape: tuple[int, ...], accelerator: Accelerator) -> Layout:
    """Return a layout of the accelerator, by its name in a manifest, for a tensor of ``shape``."""
    factor = FOLDS[layout]
    if factor == 1:
        return Blocks(block=accelerator.block_in, batch=accelerator.batch)
    return FoldedBlocks(block=accelerator.block_in, factor=factor, channels=shape[1])


@dataclass(frozen=True, slots=True)
class View:
    """A picture of known size in a layout, as a kernel reads or writes it; it has no name."""

    layout: Layout
    channels: int
    height: int
    width: int
    dtype: str = "int8"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in memory, innermost dimension last."""
        return self.layout.shape(self.channels, self.height, self.width)

    @property
    def lanes(self) -> int:
        """The channels in memory, padding lanes included."""
        return self.layout.lanes(self.channels)

    @property
    def is_padded(self) -> bool:
        """Whether the memory holds padding lanes."""
        return self.lanes != self.channels

    @property
    def is_vectorisable(self) -> bool:
        """Whether a kernel writes this layout directly, whole vectors of channels at a time."""
        return isinstance(self.layout, Pixels) or (
            isinstance(self.layout, Blocks)
            and self.layout.batch == 1
            and self.layout.block % LANES == 0
        )

    @property
    def vector(self) -> int:
        """The number of channels that a kernel writes at once: 16 if the lanes allow it, else 8."""
        width = self.layout.block if isinstance(self.layout, Blocks) else self.lanes
        return 16 if width % 16 == 0 else LANES

    def placeholder(self, name: str) -> Tensor:
        """Return a kernel parameter called ``name`` with this shape and dtype."""
        return te.placeholder(self.shape, self.dtype, name)

    def read(self, tensor: Tensor, c: Expr, y: Expr, x: Expr, *, lanes: int) -> Expr:
        """Read one element for a kernel whose ``c`` runs over ``lanes``; padding reads as zero.

        The test for padding is omitted where memory is known to contain zero in these lanes.
        """
        value = tensor[self.layout.index(c, y, x)]
        is_zero = isinstance(self.layout, Pixels) and lanes <= self.lanes
        if lanes > self.channels and not is_zero:
            return tirx.if_then_else(c < self.channels, value, tirx.const(0, self.dtype))
        return value

    def compute(self, value: Callable[[Expr, Expr, Expr], Expr], name: str) -> Tensor:
        """Define this picture element by element: ``value(c, y, x)``, including padding lanes."""

        def element(*index: Expr) -> Expr:
            found, used = value(*self.layout.element(index)), self.layout.is_used(index)
            if used is None:
                return found
            return tirx.if_then_else(used, found, tirx.const(0, self.dtype))

        return te.compute(self.shape, element, name=name)

    def split_loops(self, sch: Schedule, block: str) -> tuple[list[Loop], Loop, Loop, Loop]:
        """Split the loops of a new ``block``: (outer channel loops, row, column, channel lanes)."""
        loops = sch.get_loops(sch.get_sblock(block))
        if isinstance(self.layout, Blocks):
            blocks, y, x, _, lanes = loops
            outer, inner = sch.split(lanes, [None, self.vector])
            return [blocks, outer], y, x, inner
        y, x, lanes = loops
        outer, inner = sch.split(lanes, [None, self.vector])
        return [outer], y, x, inner
