"""Load what a kernel needs on chip into slots: input patches, weight blocks, biases, vectors."""

from __future__ import annotations

import numpy as np

from vta_stages.emission.buffer_slots import BufferSlot, SlotRing
from vta_stages.emission.program_builder import ProgramBuilder, Transfer
from vta_stages.emission.schedule import Extent
from vta_stages.isa.instructions import MemoryType, Module
from vta_stages.layers.records import Int8Array, TensorSpec
from vta_stages.lowering.bias_weights import bias_weights
from vta_stages.lowering.kernel import Kernel
from vta_stages.tiling.patch import Patch
from vta_stages.tiling.tiling import SPARE_BASE, BiasSlots, Tiling

LONGEST_STRIDE = (1 << 16) - 1
"""The largest ``x_stride`` of a LOAD or STORE, in elements."""


def transfers(
    *, blocks: int, rows: int, cols: int, pitch: int, plane: int, contiguous: bool, parts: int = 1
) -> list[Transfer]:
    """Return transfers of ``blocks`` x ``rows`` x ``cols`` elements in as few rows as possible.

    In DRAM, rows are ``pitch`` and blocks ``plane`` elements apart; on chip they are dense.
    ``contiguous`` says that the rows of a block are dense in DRAM too. An element is ``parts``
    elements of the hardware.
    """
    pixels = rows * cols
    if contiguous and pixels == plane:
        return [Transfer(0, 0, 1, blocks * plane, 0)]
    if contiguous and blocks > 1 and plane * parts <= LONGEST_STRIDE:
        return [Transfer(0, 0, blocks, pixels, plane)]
    shape = (1, pixels, 0) if contiguous or rows == 1 else (rows, cols, pitch)
    return [Transfer(block * pixels, block * plane, *shape) for block in range(blocks)]


class BlockLoader:
    """Appends the loads of one kernel. Its slots may still hold what earlier kernels loaded."""

    def __init__(self, kernel: Kernel, tiling: Tiling, builder: ProgramBuilder) -> None:
        self._kernel, self._tiling, self._builder = kernel, tiling, builder
        self._schedule, self._buffer = builder.schedule, builder.buffer
        self._accelerator, self._constants = builder.accelerator, builder.constants
        biases = BiasSlots.of(kernel, tiling.co, channels_outer=tiling.channels_outer)
        size = len(kernel.biases) * biases.blocks
        self._bias_blocks = biases.blocks
        inp, wgt = MemoryType.INP, MemoryType.WGT
        end = self._accelerator.wgt_depth - biases.count * size
        self._inp = SlotRing(self._schedule, inp, 0, tiling.inp_slot, tiling.inp_slots)
        base = self._free_first(wgt, tiling.wgt_slot * tiling.wgt_slots, end)
        self._wgt = SlotRing(self._schedule, wgt, base, tiling.wgt_slot, tiling.wgt_slots)
        self._biases = SlotRing(self._schedule, wgt, end, size, biases.count)
        self._vectors: tuple[int, int] | None = None

    def _free_first(self, memory: MemoryType, count: int, end: int) -> int:
        """Return the start of the ``count`` elements that become free first: at 0 or up to
        ``end``."""
        return min(
            (0, end - count),
            key=lambda first: self._schedule.last_reader(Extent(memory, first, count)),
        )

    def _load_weights(self, slot: BufferSlot, weights: Int8Array) -> None:
        with self._schedule.group(Module.LOAD, slot.filled):
            self._buffer.load(
                MemoryType.WGT,
                sram_base=slot.base,
                dram_base=self._constants.add(weights.tobytes(), self._accelerator.wgt_bytes),
                x_size=slot.filled.count,
                region=self._constants.region,
            )

    def load_biases(self, first: int) -> tuple[BufferSlot, int]:
        """Return a slot with the weights of biases, ``[bias][block]``, and how many blocks it has.

        The slot holds the biases of the chunk that starts at ``first``, or of all channels if they
        fit.
        """
        blocks, kernel = self._bias_blocks, self._kernel
        if blocks == kernel.co_blocks:
            first = 0
        count = min(blocks, kernel.co_blocks - first)
        slot, hit = self._biases.take(first, len(kernel.biases) * count)
        if not hit:
            block = self._accelerator.block_out
            lanes = kernel.biases[:, first * block : (first + count) * block]
            self._load_weights(slot, bias_weights(lanes, block))
        return slot, count

    def load_vectors(self, first: int, count: int) -> None:
        """Load the vectors of channel blocks into the accumulator, ``[vector][block]``.

        Call it inside a compute group. It does nothing if they are already there.
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
            dram_base=self._constants.add(chosen.astype("<i4").tobytes(), accelerator.acc_bytes),
            x_size=chosen.shape[0] * chosen.shape[1],
            region=self._constants.region,
        )

    def load_patch(self, tensor: TensorSpec, patch: Patch, first: int, count: int) -> BufferSlot:
        """Return a slot with channel blocks of a patch, ``[block][row][col]``."""
        slot, hit = self._inp.take((tensor.name, patch, first, count), patch.pixels * count)
        if hit:
            return slot
        region, parts = self._patch_transfers(tensor, patch, first, count)
        stored = self._builder.await_stores(region, parts)
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
        """Make compute wait for the stores that write a patch which will be loaded soon."""
        self._builder.await_stores(*self._patch_transfers(tensor, patch, first, count))

    def _patch_transfers(
        self, tensor: TensorSpec, patch: Patch, first: int, count: int
    ) -> tuple[int, list[Transfer]]:
        """Return a patch's region, and its transfers relative to the region and to the slot."""
        region, base = self._builder.first_element(tensor.name)
        rows, cols = patch.rows, patch.cols
        plane = tensor.height * tensor.width
        start = base + first * plane + rows.first * tensor.width + cols.first
        parts = transfers(
            blocks=count,
            rows=rows.count,
            cols=cols.count,
            pitch=rows.step * tensor.width,
            plane=plane,
            contiguous=cols.count == tensor.width and rows.step == 1,
        )
        return region, [part.shifted(0, start) for part in parts]

    def load_weights(self, index: int, out: tuple[int, int], inp: tuple[int, int]) -> BufferSlot:
        """Return a slot with weight blocks ``[co][ci][n]`` of source ``index``.

        ``out`` and ``inp`` are (first, count) of output blocks and of the source's input blocks.
        """
        source = self._kernel.sources[index]
        weights = source.weights
        if not source.shared:
            weights = weights[out[0] : out[0] + out[1], inp[0] : inp[0] + inp[1]]
        elements = weights.size // self._accelerator.wgt_bytes
        slot, hit = self._wgt.take((index,) if source.shared else (index, out, inp), elements)
        if not hit:
            self._load_weights(slot, weights)
        return slot
