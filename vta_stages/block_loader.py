"""What a kernel needs on chip, loaded into slots: input patches, weight tiles and constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vta_stages.constant_tiles import constant_element, constant_tiles
from vta_stages.consts import ConstBuilder
from vta_stages.isa import MemoryType, Module
from vta_stages.kernel import Kernel
from vta_stages.layers import TensorSpec
from vta_stages.patch import Patch
from vta_stages.schedule import Group, Schedule
from vta_stages.slots import Slot, SlotRing
from vta_stages.tiling import ConstantSlots, Tiling

LONGEST_STRIDE = (1 << 16) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies: a region and the element in it at which block 0 starts.

    ``computed`` tells that the program itself writes the tensor.
    """

    region: int
    element: int
    computed: bool


@dataclass(frozen=True, slots=True)
class Transfer:
    """The extents of a LOAD or STORE, and where it starts relative to its block's first element."""

    sram: int
    dram: int
    y_size: int
    x_size: int
    x_stride: int


def transfers(
    *, blocks: int, rows: int, cols: int, pitch: int, plane: int, contiguous: bool
) -> list[Transfer]:
    """Return transfers of ``blocks`` x ``rows`` x ``cols`` elements with as few rows as can be.

    In DRAM rows are ``pitch`` and blocks ``plane`` elements apart; on chip all is dense.
    ``contiguous`` tells that the rows of a block follow each other in DRAM too.
    """
    pixels = rows * cols
    if contiguous and pixels == plane:
        return [Transfer(0, 0, 1, blocks * plane, 0)]
    if contiguous and blocks > 1 and plane <= LONGEST_STRIDE:
        return [Transfer(0, 0, blocks, pixels, plane)]
    shape = (1, pixels, 0) if contiguous or rows == 1 else (rows, cols, pitch)
    return [Transfer(block * pixels, block * plane, *shape) for block in range(blocks)]


class BlockLoader:
    """Loads for one kernel. Slots start out as used by whatever ran before."""

    def __init__(
        self,
        kernel: Kernel,
        tiling: Tiling,
        schedule: Schedule,
        consts: ConstBuilder,
        places: Mapping[str, Place],
    ) -> None:
        self._kernel, self._tiling = kernel, tiling
        self._schedule, self._buffer = schedule, schedule.buffer
        self._accelerator = schedule.buffer.accelerator
        self._consts, self._places = consts, places
        self._previous = schedule.last(Module.COMPUTE)
        self._inp = SlotRing(tiling.inp_slot, tiling.inp_slots, self._previous)
        self._wgt = SlotRing(tiling.wgt_slot, tiling.wgt_slots, self._previous)
        constants = ConstantSlots.of(kernel, tiling.co, channels_outer=tiling.channels_outer)
        size = len(kernel.constants) * constants.blocks
        self._constant_blocks = constants.blocks
        self._constants = SlotRing(
            size,
            constants.count,
            self._previous,
            base=self._accelerator.wgt_depth - constants.count * size,
        )
        self._vectors: tuple[int, int] | None = None

    @property
    def constant_inp(self) -> int:
        """The input element that holds the constant vector."""
        return self._accelerator.inp_depth - 1

    def load_constant_vector(self) -> Group | None:
        """Load the vector that tiles of constants are multiplied with; it stays for the kernel."""
        if not len(self._kernel.constants):
            return None
        element = constant_element(self._accelerator)
        with self._schedule.group(Module.LOAD, after=[self._previous]) as group:
            self._buffer.load(
                MemoryType.INP,
                sram_base=self.constant_inp,
                dram_base=self._consts.add(element.tobytes(), self._accelerator.inp_bytes),
                x_size=1,
                region=self._consts.region,
            )
        return group

    def load_constants(self, first: int) -> tuple[Slot, int]:
        """Return a slot with tiles of constants ``[constant][block]`` and its number of blocks.

        It holds those of the chunk that begins at ``first``, or all where all have room.
        """
        blocks = self._constant_blocks
        if blocks == self._kernel.co_blocks:
            first = 0
        slot, hit = self._constants.take(first)
        if not hit:
            accelerator = self._accelerator
            lanes = slice(first * accelerator.block_out, (first + blocks) * accelerator.block_out)
            tiles = constant_tiles(self._kernel.constants[:, lanes], accelerator.block_out)
            with self._schedule.group(Module.LOAD, after=[slot.used]) as slot.loaded:
                self._buffer.load(
                    MemoryType.WGT,
                    sram_base=slot.base,
                    dram_base=self._consts.add(tiles.tobytes(), accelerator.wgt_bytes),
                    x_size=tiles.size // accelerator.wgt_bytes,
                    region=self._consts.region,
                )
        return slot, min(blocks, self._kernel.co_blocks - first)

    def load_vectors(self, first: int, count: int) -> None:
        """Load the vectors of channel blocks into the accumulator, ``[vector][block]``.

        To be called in a compute group; does nothing if they are there.
        """
        if self._vectors == (first, count):
            return
        self._vectors = (first, count)
        kernel, accelerator = self._kernel, self._accelerator
        lanes = kernel.vectors.reshape(-1, kernel.co_blocks, 1, accelerator.block_out)
        chosen = np.repeat(lanes[:, first : first + count], accelerator.batch, axis=2)
        self._buffer.load(
            MemoryType.ACC,
            sram_base=0,
            dram_base=self._consts.add(chosen.astype("<i4").tobytes(), accelerator.acc_bytes),
            x_size=chosen.shape[0] * chosen.shape[1],
            region=self._consts.region,
        )

    def load_patch(
        self, tensor: TensorSpec, patch: Patch, first: int, count: int, computed: Group
    ) -> Slot:
        """Return a slot with channel blocks of a patch, ``[block][row][col]``.

        ``computed`` is the compute group behind which tensors of earlier layers are in DRAM.
        """
        slot, hit = self._inp.take((tensor.name, patch, first, count))
        if hit:
            return slot
        place = self._places[tensor.name]
        rows, cols = patch.rows, patch.cols
        plane = tensor.height * tensor.width
        start = place.element + first * plane + rows.first * tensor.width + cols.first
        after = [slot.used, computed if place.computed else None]
        with self._schedule.group(Module.LOAD, after=after) as slot.loaded:
            for part in transfers(
                blocks=count,
                rows=rows.count,
                cols=cols.count,
                pitch=rows.step * tensor.width,
                plane=plane,
                contiguous=cols.count == tensor.width and rows.step == 1,
            ):
                self._buffer.load(
                    MemoryType.INP,
                    sram_base=slot.base + part.sram,
                    dram_base=start + part.dram,
                    y_size=part.y_size,
                    x_size=part.x_size,
                    x_stride=part.x_stride,
                    region=place.region,
                )
        return slot

    def load_tiles(self, index: int, out: tuple[int, int], inp: tuple[int, int]) -> Slot:
        """Return a slot with weight tiles ``[co][ci][tile]`` of source ``index``.

        ``out`` and ``inp`` are (first, count) of output blocks and of the source's input blocks.
        """
        source = self._kernel.sources[index]
        slot, hit = self._wgt.take((index,) if source.shared else (index, out, inp))
        if hit:
            return slot
        tiles = source.tiles
        if not source.shared:
            tiles = tiles[out[0] : out[0] + out[1], inp[0] : inp[0] + inp[1]]
        with self._schedule.group(Module.LOAD, after=[slot.used]) as slot.loaded:
            self._buffer.load(
                MemoryType.WGT,
                sram_base=slot.base,
                dram_base=self._consts.add(tiles.tobytes(), self._accelerator.wgt_bytes),
                x_size=tiles.size // self._accelerator.wgt_bytes,
                region=self._consts.region,
            )
        return slot
