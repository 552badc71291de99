"""Turn a kernel and its tiling into instructions.

For each tile, the load module fills slots with blocks of input and weights, the compute module runs
products and vector operations on an accumulator slot, and the store module writes the finished
tile. :mod:`vta_stages.emission.schedule` groups the instructions and adds the tokens, so the
modules overlap as far as the slots allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vta_stages.accelerator import Extension
from vta_stages.emission.block_loader import BlockLoader, transfers
from vta_stages.emission.buffer_slots import BufferSlot
from vta_stages.emission.gemm_sequence import Pairs, gemm_calls
from vta_stages.emission.program_builder import ProgramBuilder
from vta_stages.emission.schedule import Extent
from vta_stages.emission.window_fold import Moves, WindowFold, window_fold
from vta_stages.isa.instructions import AluOp, MemoryType, Module
from vta_stages.lowering.kernel import (
    Accumulate,
    Accumulator,
    AddBias,
    Combine,
    FoldWindows,
    Immediate,
    IndexArray,
    Kernel,
    Reset,
    Source,
    Vector,
)
from vta_stages.tiling.patch import OutputArea, Patch, Products, patch_of, products_of
from vta_stages.tiling.tiling import (
    SPARE_BASE,
    AccLayout,
    Tiling,
    acc_capacity,
    alu_sources,
    channel_chunks,
    output_areas,
)

SHORT_PIXELS = 64
"""With fewer pixels in a tile, the uops of a vector instruction cover all channel blocks too."""

LONG_PIXELS = 512
"""The most pixels that the uops of a vector instruction cover; loops cover the rest."""

VectorStep = Reset | Immediate | Vector | Combine


@dataclass(frozen=True, slots=True)
class Tile:
    """The output pixels of ``area`` in the channel blocks ``first .. first + count - 1``."""

    area: OutputArea
    first: int
    count: int


class KernelEmitter:
    """Appends the instructions of one kernel to a program. Call :meth:`emit` once."""

    def __init__(self, kernel: Kernel, tiling: Tiling, builder: ProgramBuilder) -> None:
        self._accelerator = builder.accelerator
        self._kernel, self._tiling, self._builder = kernel, tiling, builder
        self._schedule, self._buffer = builder.schedule, builder.buffer
        self._layout = AccLayout.of(self._accelerator, kernel, tiling)
        self._loader = BlockLoader(kernel, tiling, builder)
        self._products: dict[tuple[Accumulate, OutputArea], Products] = {}
        self._folds: dict[tuple[FoldWindows, OutputArea], WindowFold] = {}
        last = kernel.steps[-1]
        self._clears = (
            self._accelerator.has(Extension.CLEAR)
            and isinstance(last, Immediate | Vector | Combine)
            and last.target is Accumulator.MAIN
        )
        # For each slot, how many accumulators from its first on are zero.
        self._zeros: dict[int, int] = {}

    def emit(self) -> None:
        """Append the kernel's instructions."""
        if self._tiling.vectors_resident and len(self._kernel.vectors):
            with self._schedule.group(Module.COMPUTE):
                self._loader.load_vectors(0, self._kernel.co_blocks)
        if self._kernel.table:
            self._builder.load_table(self._kernel.table)
        areas = output_areas(self._kernel, self._tiling)
        chunks = channel_chunks(self._kernel, self._tiling.co)
        if self._tiling.channels_outer:
            tiles = [Tile(area, *chunk) for chunk in chunks for area in areas]
        else:
            tiles = [Tile(area, *chunk) for area in areas for chunk in chunks]
        size = self._layout.entries
        slots = [Extent(MemoryType.OUT, base, size) for base in self._layout.main]
        slots.sort(key=self._schedule.last_reader)
        for number, tile in enumerate(tiles):
            self._emit_tile(tile, slots[number % len(slots)].first)

    def _touched(self, tile: Tile, slot: int, *targets: Accumulator) -> list[Extent]:
        """Return the accumulator entries of a tile; the out buffer holds their low 8 bits."""
        return [
            Extent(MemoryType.OUT, self._base(target, slot), _pixels(tile, target) * tile.count)
            for target in targets
        ]

    def _emit_tile(self, tile: Tile, slot: int) -> None:
        pending: list[VectorStep] = []
        for step in self._kernel.steps:
            if isinstance(step, Reset | Immediate | Vector | Combine):
                pending.append(step)
                continue
            self._emit_vector_steps(pending, tile, slot)
            pending = []
            if isinstance(step, AddBias):
                self._emit_bias(step, tile, slot)
            elif isinstance(step, FoldWindows):
                self._emit_windows(step, tile, slot)
            else:
                self._emit_products(step, tile, slot)
        self._emit_vector_steps(pending, tile, slot, clears=self._clears)
        self._emit_store(tile, slot)

    def _base(self, target: Accumulator, slot: int) -> int:
        return slot if target is Accumulator.MAIN else self._layout.temp

    # Vector operations.

    def _emit_vector_steps(
        self, steps: list[VectorStep], tile: Tile, slot: int, *, clears: bool = False
    ) -> None:
        """Append steps; with ``clears`` the last one leaves zeros, for the next tile."""
        steps = [step for step in steps if not self._is_zero_already(step, tile, slot)]
        if not steps:
            return
        touched = self._touched(tile, slot, *{step.target for step in steps})
        with self._schedule.group(Module.COMPUTE, *touched):
            for step in steps[:-1]:
                self._emit_vector_step(step, tile, slot)
            self._emit_vector_step(steps[-1], tile, slot, clears=clears)
        if clears:
            self._zeros[slot] = tile.area.pixels * tile.count

    def _is_zero_already(self, step: VectorStep, tile: Tile, slot: int) -> bool:
        """Whether a step is a Reset of what the last pass of an earlier tile has cleared."""
        if not isinstance(step, Reset) or step.target is not Accumulator.MAIN:
            return False
        return self._zeros.pop(slot, 0) >= tile.area.pixels * tile.count

    def _emit_vector_step(
        self, step: VectorStep, tile: Tile, slot: int, *, clears: bool = False
    ) -> None:
        """Apply a step to all entries of a tile: uops cover a run of pixels, the loops the rest."""
        pixels = _pixels(tile, step.target)
        piece = _piece(pixels)
        unrolled = tile.count if pixels < SHORT_PIXELS else 1
        block, pixel = (g.ravel() for g in np.mgrid[:unrolled, :piece])
        offset = block * pixels + pixel
        dst = self._base(step.target, slot) + offset
        loops = (tile.count // unrolled, pixels // piece)
        moving = (int(loops[0] > 1), int(loops[1] > 1))
        dst_factors = (moving[0] * pixels, moving[1] * piece)
        # Upstream's HLS hardware reads the operand of an immediate at ``dst``, its Chisel hardware
        # at ``src``, so both are equal if ``src`` can name all entries. A Reset reads nothing and
        # shares the uops.
        own = acc_capacity(self._accelerator, self._kernel) <= alu_sources(self._accelerator)
        src: IndexArray | int = dst if own else 0
        src_factors = dst_factors if own else (0, 0)
        if isinstance(step, Vector):
            src = self._vector_base(step.vector, tile) + block
            src_factors = (moving[0], 0)
        elif isinstance(step, Combine):
            of_channels = step.source is Accumulator.CHANNELS
            src = self._base(step.source, slot) + (block if of_channels else offset)
            src_factors = (moving[0], 0) if of_channels else dst_factors
        if isinstance(step, Reset):
            self._builder.clear(dst, src, loops=loops, dst_factors=dst_factors)
            return
        self._builder.alu(
            step.op, dst, src, imm=step.imm if isinstance(step, Immediate) else None,
            vector_imm=step.imm if isinstance(step, Vector) else 0, reset=clears,
            loops=loops, dst_factors=dst_factors, src_factors=src_factors,
        )  # fmt: skip

    def _vector_base(self, vector: int, tile: Tile) -> int:
        """Return the accumulator entry of a vector for the tile's first block."""
        base = self._layout.vectors
        if self._tiling.vectors_resident:
            return base + vector * self._kernel.co_blocks + tile.first
        self._loader.load_vectors(tile.first, tile.count)
        return base + vector * tile.count

    # Products.

    def _emit_bias(self, step: AddBias, tile: Tile, slot: int) -> None:
        count = tile.area.pixels
        vector = self._builder.load_bias_input()
        biases, blocks = self._loader.load_biases(tile.first)
        offset = tile.first if blocks == self._kernel.co_blocks else 0
        products = Products(
            np.arange(count) + self._base(step.target, slot),
            np.full(count, vector.first),
            np.full(count, biases.base + step.bias * blocks + offset),
        )
        touched = self._touched(tile, slot, step.target)
        with self._schedule.group(Module.COMPUTE, *touched, biases.filled, vector):
            self._emit_gemm(products, Pairs(co=tile.count, co_dst=count, co_wgt=1))

    def _emit_products(self, step: Accumulate, tile: Tile, slot: int) -> None:
        source = self._kernel.sources[step.source]
        patch = patch_of(source, tile.area)
        if not patch.pixels:
            return
        products = self._products_of(step, source, tile.area, patch)
        if not len(products):
            return
        if source.diagonal:
            weights = self._loader.load_weights(step.source, (tile.first, tile.count), (0, 1))
            inputs = self._loader.load_patch(source.tensor, patch, tile.first, tile.count)
            pairs = Pairs(
                co=tile.count,
                co_dst=_pixels(tile, step.target),
                co_src=patch.pixels,
                co_wgt=0 if source.shared else source.weight_blocks,
            )
            self._emit_chunk(step, products, pairs, (inputs, weights), tile, slot)
            return
        for first in range(0, source.ci_count, self._tiling.ci):
            count = min(self._tiling.ci, source.ci_count - first)
            out = slice(tile.first, tile.first + tile.count)
            if not source.weights[out, first : first + count].any():
                continue
            weights = self._loader.load_weights(
                step.source, (tile.first, tile.count), (first, count)
            )
            start = int(source.ci_first[tile.first])
            inputs = self._loader.load_patch(source.tensor, patch, start + first, count)
            following = min(count, source.ci_count - first - count)
            if following:
                self._loader.await_patch(source.tensor, patch, start + first + count, following)
            pairs = Pairs(
                co=tile.count,
                ci=count,
                co_dst=_pixels(tile, step.target),
                ci_src=patch.pixels,
                co_wgt=count * source.weight_blocks,
                ci_wgt=source.weight_blocks,
            )
            self._emit_chunk(step, products, pairs, (inputs, weights), tile, slot)

    def _products_of(
        self, step: Accumulate, source: Source, area: OutputArea, patch: Patch
    ) -> Products:
        """Return the products of a step, computed once per area."""
        known = self._products.get((step, area))
        if known is None:
            known = products_of(source, area, patch, step.part)
            if step.target is Accumulator.CHANNELS:
                known = Products(known.dst[:1], known.src[:1], known.wgt[:1])
            self._products[step, area] = known
        return known

    def _emit_chunk(
        self,
        step: Accumulate,
        products: Products,
        pairs: Pairs,
        operands: tuple[BufferSlot, BufferSlot],
        tile: Tile,
        slot: int,
    ) -> None:
        """Emit the products of a loaded input slot with a loaded weight slot."""
        inputs, weights = operands
        shifted = Products(
            products.dst + self._base(step.target, slot),
            products.src + inputs.base,
            products.wgt + weights.base,
        )
        touched = self._touched(tile, slot, step.target)
        with self._schedule.group(Module.COMPUTE, *touched, inputs.filled, weights.filled):
            self._emit_gemm(shifted, pairs)

    def _emit_gemm(self, products: Products, pairs: Pairs, *, reset: bool = False) -> None:
        """Emit products; with ``reset``, clear the entries that they would be added to instead."""
        for call in gemm_calls(
            products,
            pairs,
            hazard=self._accelerator.acc_hazard_steps,
            longest=self._builder.uops.longest // self._accelerator.parts,
            spare=SPARE_BASE,
        ):
            self._builder.gemm(
                call.uops.dst, call.uops.src, call.uops.wgt, reset=reset, loops=call.loops,
                dst_factors=call.dst_factors, src_factors=call.src_factors,
                wgt_factors=call.wgt_factors,
            )  # fmt: skip

    # Poolings.

    def _emit_windows(self, step: FoldWindows, tile: Tile, slot: int) -> None:
        source = self._kernel.sources[step.source]
        patch = patch_of(source, tile.area)
        fold = self._folds.get((step, tile.area))
        if fold is None:
            fold = self._folds[step, tile.area] = window_fold(source, tile.area, patch)
        weights = self._loader.load_weights(step.source, (tile.first, tile.count), (0, 1))
        inputs = self._loader.load_patch(source.tensor, patch, tile.first, tile.count)
        pixels, temp = tile.area.pixels, self._layout.temp
        aside = Extent(MemoryType.OUT, temp, patch.pixels * tile.count)
        touched = [
            *self._touched(tile, slot, Accumulator.MAIN),
            aside,
            inputs.filled,
            weights.filled,
        ]
        with self._schedule.group(Module.COMPUTE, *touched):
            for moves, base, plane in (
                (fold.to_main, slot, pixels),
                (fold.to_temp, temp, patch.pixels),
            ):
                copies = Products(
                    moves.dst + base,
                    moves.src + inputs.base,
                    np.full(len(moves.dst), weights.base + int(source.weight_of_tap[0])),
                )
                if len(copies):
                    pairs = Pairs(co=tile.count, co_dst=plane, co_src=patch.pixels)
                    if base == temp:
                        self._emit_gemm(copies, pairs, reset=True)
                    self._emit_gemm(copies, pairs)
            for moves in fold.in_temp:
                self._emit_fold(moves, temp, (patch.pixels, patch.pixels), tile.count)
            for moves in fold.into_main:
                self._emit_fold(moves, slot, (pixels, patch.pixels), tile.count)

    def _emit_fold(self, moves: Moves, base: int, planes: tuple[int, int], blocks: int) -> None:
        several = int(blocks > 1)
        self._builder.alu(
            AluOp.MAX, moves.dst + base, moves.src + self._layout.temp, loops=(1, blocks),
            dst_factors=(0, several * planes[0]), src_factors=(0, several * planes[1]),
        )  # fmt: skip

    # The result.

    def _emit_store(self, tile: Tile, slot: int) -> None:
        output, pixels = self._kernel.output, tile.area
        region, base = self._builder.first_element(output.name)
        plane = output.height * output.width
        start = base + tile.first * plane
        start += pixels.rows[0] * output.width + pixels.cols[0]
        parts = transfers(
            blocks=tile.count,
            rows=pixels.height,
            cols=pixels.width,
            pitch=output.width,
            plane=plane,
            contiguous=pixels.width == output.width,
            parts=self._accelerator.parts,
        )
        parts = [part.shifted(slot, start) for part in parts]
        touched = self._touched(tile, slot, Accumulator.MAIN)
        with self._schedule.group(Module.STORE, *touched) as group:
            for part in parts:
                self._buffer.store(
                    sram_base=part.sram,
                    dram_base=part.dram,
                    y_size=part.y_size,
                    x_size=part.x_size,
                    x_stride=part.x_stride,
                    region=region,
                )
        self._builder.note_store(region, parts, group)


def _pixels(tile: Tile, target: Accumulator) -> int:
    """Return how many entries of an accumulator a channel block of a tile has."""
    return 1 if target is Accumulator.CHANNELS else tile.area.pixels


def _piece(pixels: int) -> int:
    """Return how many pixels the uops of a vector instruction cover, a divisor of ``pixels``."""
    for parts in range(1, pixels // SHORT_PIXELS + 1):
        if pixels % parts == 0 and pixels // parts <= LONG_PIXELS:
            return pixels // parts
    return pixels
