"""What a kernel needs on chip, loaded into slots: input patches, weight tiles and constants."""

from __future__ import annotations

import numpy as np

from vta_stages.emission.emission import Emission, Transfer
from vta_stages.emission.schedule import Extent
from vta_stages.emission.slots import Slot, SlotRing
from vta_stages.isa.instructions import MemoryType, Module
from vta_stages.layers.records import Int8Array, TensorSpec
from vta_stages.lowering.constant_tiles import constant_tiles
from vta_stages.lowering.kernel import Kernel
from vta_stages.tiling.patch import Patch
from vta_stages.tiling.tiling import SPARE_BASE, ConstantSlots, Tiling

LONGEST_STRIDE = (1 << 16) - 1


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
    """Loads for one kernel, into slots that may still hold what ran before."""

    def __init__(self, kernel: Kernel, tiling: Tiling, emission: Emission) -> None:
        self._kernel, self._tiling, self._emission = kernel, tiling, emission
        self._schedule, self._buffer = emission.schedule, emission.buffer
        self._accelerator, self._consts = emission.accelerator, emission.consts
        constants = ConstantSlots.of(kernel, tiling.co, channels_outer=tiling.channels_outer)
        size = len(kernel.constants) * constants.blocks
        self._constant_blocks = constants.blocks
        inp, wgt = MemoryType.INP, MemoryType.WGT
        end = self._accelerator.wgt_depth - constants.count * size
        self._inp = SlotRing(self._schedule, inp, 0, tiling.inp_slot, tiling.inp_slots)
        base = self._free_first(wgt, tiling.wgt_slot * tiling.wgt_slots, end)
        self._wgt = SlotRing(self._schedule, wgt, base, tiling.wgt_slot, tiling.wgt_slots)
        self._constants = SlotRing(self._schedule, wgt, end, size, constants.count)
        self._vectors: tuple[int, int] | None = None

    def _free_first(self, memory: MemoryType, count: int, end: int) -> int:
        """Return where ``count`` elements come free first: at the beginning or before ``end``."""
        return min(
            (0, end - count),
            key=lambda first: self._schedule.last_reader(Extent(memory, first, count)),
        )

    def _load_tiles(self, slot: Slot, tiles: Int8Array) -> None:
        with self._schedule.group(Module.LOAD, slot.filled):
            self._buffer.load(
                MemoryType.WGT,
                sram_base=slot.base,
                dram_base=self._consts.add(tiles.tobytes(), self._accelerator.wgt_bytes),
                x_size=slot.filled.count,
                region=self._consts.region,
            )

    def load_constants(self, first: int) -> tuple[Slot, int]:
        """Return a slot with tiles of constants ``[constant][block]`` and its number of blocks.

        It holds those of the chunk that begins at ``first``, or all where all have room.
        """
        blocks, kernel = self._constant_blocks, self._kernel
        if blocks == kernel.co_blocks:
            first = 0
        count = min(blocks, kernel.co_blocks - first)
        slot, hit = self._constants.take(first, len(kernel.constants) * count)
        if not hit:
            block = self._accelerator.block_out
            lanes = kernel.constants[:, first * block : (first + count) * block]
            self._load_tiles(slot, constant_tiles(lanes, block))
        return slot, count

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
            sram_base=SPARE_BASE + accelerator.acc_hazard_steps,
            dram_base=self._consts.add(chosen.astype("<i4").tobytes(), accelerator.acc_bytes),
            x_size=chosen.shape[0] * chosen.shape[1],
            region=self._consts.region,
        )

    def load_patch(self, tensor: TensorSpec, patch: Patch, first: int, count: int) -> Slot:
        """Return a slot with channel blocks of a patch, ``[block][row][col]``."""
        slot, hit = self._inp.take((tensor.name, patch, first, count), patch.pixels * count)
        if hit:
            return slot
        region, parts = self._patch_transfers(tensor, patch, first, count)
        stored = self._emission.await_stores(region, parts)
        with self._schedule.group(Module.LOAD, slot.filled, after=[stored]):
            for part in parts:
                self._buffer.load(
                    MemoryType.INP,
                    sram_base=slot.base + part.sram,
                    dram_base=part.dram,
                    y_size=part.y_size,
                    x_size=part.x_size,
                    x_stride=part.x_stride,
                    region=region,
                )
        return slot

    def await_patch(self, tensor: TensorSpec, patch: Patch, first: int, count: int) -> None:
        """Have compute wait for the stores of a patch that is to be loaded soon."""
        self._emission.await_stores(*self._patch_transfers(tensor, patch, first, count))

    def _patch_transfers(
        self, tensor: TensorSpec, patch: Patch, first: int, count: int
    ) -> tuple[int, list[Transfer]]:
        """Return a patch's region, and transfers relative to it and to the slot."""
        place = self._emission.places[tensor.name]
        rows, cols = patch.rows, patch.cols
        plane = tensor.height * tensor.width
        start = place.element + first * plane + rows.first * tensor.width + cols.first
        parts = transfers(
            blocks=count,
            rows=rows.count,
            cols=cols.count,
            pitch=rows.step * tensor.width,
            plane=plane,
            contiguous=cols.count == tensor.width and rows.step == 1,
        )
        return place.region, [part.shifted(0, start) for part in parts]

    def load_tiles(self, index: int, out: tuple[int, int], inp: tuple[int, int]) -> Slot:
        """Return a slot with weight tiles ``[co][ci][tile]`` of source ``index``.

        ``out`` and ``inp`` are (first, count) of output blocks and of the source's input blocks.
        """
        source = self._kernel.sources[index]
        tiles = source.tiles
        if not source.shared:
            tiles = tiles[out[0] : out[0] + out[1], inp[0] : inp[0] + inp[1]]
        elements = tiles.size // self._accelerator.wgt_bytes
        slot, hit = self._wgt.take((index,) if source.shared else (index, out, inp), elements)
        if not hit:
            self._load_tiles(slot, tiles)
        return slot
