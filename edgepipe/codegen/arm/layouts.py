"""The layouts of an ``int8[1, channels, height, width]`` tensor in memory.

Outside a stage a tensor is NCHW, a camera frame (NHWC) or the accelerator's blocks. Inside a stage
every quantised tensor is :class:`Pixels`: all channels of a pixel together. Channels are then the
vector lanes, and a row of pixels can be staged for a convolution with a plain copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from edgepipe.bundle.manifest import FOLDS
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedBlocks(Blocks):
    """The accelerator's layout of a folded picture: ``factor`` x ``factor`` pixels are one.

    ``channels`` are the picture's; ``vta_stages.layers.folding.folded_spec`` has their order.
    Height and width are multiples of ``factor``, and batch is 1.
    """

    factor: int
    channels: int

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The name of the layout."""
        return f"vta_{self.factor}x{self.factor}"

    def shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        return Blocks.shape(
            self, channels * self.factor**2, height // self.factor, width // self.factor
        )

    def lanes(self, channels: int) -> int:
        """Return one more than the channels: padding lanes are those of channel ``channels``."""
        return channels + 1

    def index(self, c: Expr, y: Expr, x: Expr) -> tuple[Expr, ...]:
        factor = self.factor
        phase = tirx.floormod(y, factor) * factor + tirx.floormod(x, factor)
        lane = phase * self.channels + c
        return Blocks.index(self, lane, tirx.floordiv(y, factor), tirx.floordiv(x, factor))

    def element(self, index: tuple[Expr, ...]) -> tuple[Expr, Expr, Expr]:
        factor, pixels = self.factor, self.factor**2
        lane, y, x = Blocks.element(self, index)
        phase = tirx.floormod(tirx.floordiv(lane, self.channels), pixels)
        c = tirx.Select(
            lane < pixels * self.channels,
            tirx.floormod(lane, self.channels),
            tirx.const(self.channels, "int32"),
        )
        row = y * factor + tirx.floordiv(phase, factor)
        return c, row, x * factor + tirx.floormod(phase, factor)


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


def blocks_of(layout: str, shape: tuple[int, ...], accelerator: Accelerator) -> Blocks:
    """Return a layout of the accelerator, by its name in a manifest, for a tensor of ``shape``."""
    block, batch = accelerator.block_in, accelerator.batch
    factor = FOLDS[layout]
    if factor == 1:
        return Blocks(block=block, batch=batch)
    return FoldedBlocks(block=block, batch=batch, factor=factor, channels=shape[1])


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
            and not isinstance(self.layout, FoldedBlocks)
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
            found = value(*self.layout.element(index))
            if isinstance(self.layout, Blocks) and self.layout.batch > 1:
                return tirx.if_then_else(index[3] == 0, found, tirx.const(0, self.dtype))
            return found

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
