"""The search for the cheapest tiling: all candidates that fit, rated in closed form.

:mod:`~vta_stages.tiling.kernel_shape` lists the sizes that tiles may have,
:mod:`~vta_stages.tiling.slot_options` how the buffers can be divided for a size, and
:mod:`~vta_stages.tiling.cycle_estimate` rates the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import product

from vta_stages.accelerator import Accelerator
from vta_stages.lowering.kernel import Kernel
from vta_stages.tiling.cycle_estimate import CycleEstimate
from vta_stages.tiling.kernel_shape import KernelShape, TileSize
from vta_stages.tiling.loop_nest import LoopNest
from vta_stages.tiling.loop_split import loop_split
from vta_stages.tiling.slot_options import SlotNeeds, inp_options, slot_needs, wgt_options
from vta_stages.tiling.tiling import (
    AccLayout,
    BiasSlots,
    Tiling,
    acc_capacity,
    alu_sources,
    inp_capacity,
    wgt_capacity,
)
from vta_stages.timing.cost_model import CostModel


def cheapest_tiling(accelerator: Accelerator, kernel: Kernel, cost: CostModel) -> Tiling | None:
    """Return the cheapest tiling, None if none fits.

    The result depends on the kernel's shape, not on the values of weights and biases.
    """
    search = _Search(accelerator, kernel, cost)
    search.run()
    return search.best


def least_need(accelerator: Accelerator, kernel: Kernel) -> str:
    """Say which buffer is too small for one output pixel of one channel block."""
    shape = KernelShape(kernel)
    needs = [
        (
            "input elements",
            max(shape.patch(index, 1, 1).pixels for index in range(len(kernel.sources))),
            inp_capacity(accelerator),
        ),
        (
            "weight blocks",
            max(source.weight_blocks for source in kernel.sources),
            wgt_capacity(accelerator, kernel, 1, channels_outer=True),
        ),
        (
            "uops",
            max(source.rows.most_products * source.cols.most_products for source in kernel.sources),
            accelerator.uop_depth // 2 // accelerator.parts,
        ),
    ]
    text = [f"{need} {what}, of {depth} that fit" for what, need, depth in needs if need > depth]
    return "one output pixel needs " + " and ".join(text)


class _Search:
    """The search for one kernel; :attr:`best` is the cheapest tiling found so far."""

    def __init__(self, accelerator: Accelerator, kernel: Kernel, cost: CostModel) -> None:
        self.best: Tiling | None = None
        self._accelerator, self._kernel = accelerator, kernel
        self._shape = KernelShape(kernel)
        self._estimate = CycleEstimate(accelerator, self._shape, cost)
        self._acc_capacity = acc_capacity(accelerator, kernel)
        self._alu_sources = alu_sources(accelerator)
        # Vectors stay in the accumulator unless they would leave too little room for tiles.
        resident = len(kernel.vectors) * kernel.co_blocks
        self._vectors_fit = resident <= accelerator.acc_depth // 8

    def run(self) -> None:
        """Rate the tilings of all candidate sizes."""
        for cols in self._shape.widths():
            for size in self._shape.sizes(cols):
                self._try(size)
            # Once a tile of this width fits, narrower ones only cost more. Folded windows are the
            # exception: a flat tile copies the rims repeatedly.
            if self.best is not None and not self._shape.folded:
                return

    def _try(self, size: TileSize) -> None:
        """Rate the tilings with tiles of one size, if the buffers can hold such tiles at all."""
        if not self._uops_fit(size):
            return
        needs = slot_needs(self._shape, size)
        if needs.inp_slot > inp_capacity(self._accelerator):
            return
        loops = self._loop_nest(size)
        for tiling in self._tilings(size, needs, loops):
            layout = AccLayout.of(self._accelerator, self._kernel, tiling)
            can_read = not len(self._kernel.vectors) or layout.temp <= self._alu_sources
            if can_read and layout.end <= self._acc_capacity:
                self._rate(tiling, loops)

    def _uops_fit(self, size: TileSize) -> bool:
        """Return whether the uops of one pair of blocks take at most half of the uop buffer."""
        areas, _ = self._shape.areas(size)
        half = self._accelerator.uop_depth // 2 // self._accelerator.parts
        return all(
            products / areas / repeats <= half
            for products, repeats in zip(self._shape.products, self._shape.repeats, strict=True)
        )

    def _loop_nest(self, size: TileSize) -> LoopNest:
        """Return the loops over tiles of one size, with the lengths of their uop sequences."""
        shape, kernel = self._shape, self._kernel
        areas, across = shape.areas(size)
        sequences: list[tuple[int, int]] = []
        for index, source in enumerate(kernel.sources):
            blocks, chunks = shape.input_chunks(source, size)
            uops = int(shape.products[index] / areas / shape.repeats[index])
            if index in shape.folded:
                pixels = shape.patch(index, size.rows, size.cols).pixels
                uops = pixels + shape.folds(index, size.rows, size.cols)
            inputs = 1 if source.diagonal else blocks
            co_unrolled, ci_unrolled = loop_split(uops, size.co, inputs)
            uops *= co_unrolled * ci_unrolled
            if size.co > co_unrolled and inputs > ci_unrolled:  # no loop is left for the parts
                uops *= self._accelerator.parts
            sequences += [(index, uops)] * chunks
        biases = BiasSlots.of(kernel, size.co, channels_outer=True)
        return LoopNest(
            areas=areas,
            areas_across=across,
            channel_chunks=shape.channel_chunks(size),
            chunks=tuple(sequences),
            parts=tuple(shape.repeats),
            folded=tuple(shape.folded),
            bias_slots=biases.count if len(kernel.biases) else 0,
        )

    def _tilings(self, size: TileSize, needs: SlotNeeds, loops: LoopNest) -> Iterator[Tiling]:
        """Yield every order of loops and division of the buffers for tiles of one size.

        Input and weight slots fit their buffers; the accumulator may be too small.
        """
        inp_depth = inp_capacity(self._accelerator) // needs.inp_slot
        both_orders = loops.channel_chunks > 1 and loops.areas > 1
        for channels_outer in (True, False) if both_orders else (True,):
            capacity = wgt_capacity(
                self._accelerator, self._kernel, size.co, channels_outer=channels_outer
            )
            wgt_depth = capacity // needs.wgt_slot
            if not wgt_depth:
                continue
            options = product(
                inp_options(needs, loops, inp_depth, channels_outer=channels_outer),
                wgt_options(needs, loops, wgt_depth, channels_outer=channels_outer),
                (2, 1),
            )
            for (inp_slots, keep_inp), (wgt_slots, keep_wgt), acc_slots in options:
                yield Tiling(
                    rows=size.rows, cols=size.cols, co=size.co, ci=size.ci,
                    channels_outer=channels_outer,
                    inp_slot=needs.inp_slot, inp_slots=inp_slots, keep_inp=keep_inp,
                    wgt_slot=needs.wgt_slot, wgt_slots=wgt_slots, keep_wgt=keep_wgt,
                    acc_slots=acc_slots, vectors_resident=self._vectors_fit and not channels_outer,
                    temp_entries=needs.temp_entries,
                )  # fmt: skip

    def _rate(self, tiling: Tiling, loops: LoopNest) -> None:
        """Estimate the cycles of a tiling and keep it if it is the cheapest so far."""
        modules = self._estimate.without_uops(tiling, loops)
        # The cycles of uop loads take the longest to estimate, and by now most tilings are already
        # too expensive.
        if self.best is not None and modules.total() >= self.best.cycles:
            return
        modules = self._estimate.with_waits(tiling, loops, modules)
        if self.best is not None and modules.total() >= self.best.cycles:
            return
        cycles = modules.total(self._estimate.uop_cycles(tiling, loops, modules))
        if self.best is None or cycles < self.best.cycles:
            self.best = dataclasses.replace(tiling, cycles=cycles)
