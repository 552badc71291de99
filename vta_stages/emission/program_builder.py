"""The program under construction: what the kernels of a program share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator
from vta_stages.emission.constant_pool import ConstantPool
from vta_stages.emission.schedule import Extent, Group, Schedule
from vta_stages.emission.uop_buffer import UopBuffer
from vta_stages.isa.codec import encode_uops
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import MemoryType, Module
from vta_stages.lowering.bias_weights import bias_input
from vta_stages.lowering.kernel import IndexArray
from vta_stages.memory_plan import CONST_REGION, TensorAddress
from vta_stages.program import Region, RegionKind
from vta_stages.tiling.tiling import SPARE_BASE, bias_input_element


@dataclass(frozen=True, slots=True)
class Transfer:
    """A LOAD or STORE between a buffer and DRAM; all counts are elements."""

    sram: int
    dram: int
    y_size: int
    x_size: int
    x_stride: int

    def shifted(self, sram: int, dram: int) -> Transfer:
        """Return the transfer moved by ``sram`` and ``dram`` elements."""
        return Transfer(self.sram + sram, self.dram + dram, self.y_size, self.x_size, self.x_stride)


class ProgramBuilder:
    """The instructions, uops and constants so far, and which store wrote which elements.

    Two things hold for all kernels. The spare entries of the accumulator are initialised, and once
    :meth:`load_bias_input` has been called, the last input element holds the input vector of
    biases.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        regions: Sequence[Region],
        addresses: Mapping[str, TensorAddress],
    ) -> None:
        self.accelerator = accelerator
        self._addresses = addresses
        self.buffer = InstructionBuffer(accelerator)
        self.schedule = Schedule(self.buffer)
        self.constants = ConstantPool(accelerator, CONST_REGION)
        self.uops = UopBuffer(self.buffer, self.constants)
        self._stored: dict[int, NDArray[np.int64]] = {
            number: np.full(region.bytes // accelerator.out_bytes, -1, np.int64)
            for number, region in enumerate(regions)
            if region.kind in (RegionKind.SCRATCH, RegionKind.OUTPUT)
        }
        self._has_bias_input = False
        self._touch_spare(None)

    def first_element(self, tensor: str) -> tuple[int, int]:
        """Return a tensor's region and the element in it at which channel block 0 starts."""
        address = self._addresses[tensor]
        return address.region, address.offset_bytes // self.accelerator.inp_bytes

    def load_bias_input(self) -> Extent:
        """Return where the input vector of biases is; the first call appends its load."""
        extent = Extent(MemoryType.INP, bias_input_element(self.accelerator), 1)
        if self._has_bias_input:
            return extent
        self._has_bias_input = True
        with self.schedule.group(Module.LOAD, extent):
            element = bias_input(self.accelerator)
            self.buffer.load(
                MemoryType.INP,
                sram_base=extent.first,
                dram_base=self.constants.add(element.tobytes(), self.accelerator.inp_bytes),
                x_size=1,
                region=self.constants.region,
            )
        return extent

    def _touch_spare(self, after: Group | None) -> Group:
        """Append the smallest compute group: it clears the spare entries."""
        with self.schedule.group(Module.COMPUTE, after=[after]) as group:
            spare = np.arange(self.accelerator.acc_hazard_steps) + SPARE_BASE
            begin = self.place_uops(spare, 0, 0)
            self.buffer.gemm(begin, begin + len(spare), reset=True)
        return group

    def place_uops(self, dst: IndexArray, src: IndexArray | int, wgt: IndexArray | int) -> int:
        """Return the uop buffer index of a sequence, int64[n] each; scalars are repeated."""
        table = np.empty((len(dst), 3), np.int64)
        table[:, 0], table[:, 1], table[:, 2] = dst, src, wgt
        return self.uops.place(encode_uops(self.accelerator, table))

    def note_store(self, region: int, transfers: Sequence[Transfer], group: Group) -> None:
        """Record that a store group writes these elements of a region."""
        for part in transfers:
            self._rows(region, part)[:] = group.index

    def await_stores(self, region: int, transfers: Sequence[Transfer]) -> Group | None:
        """Return a compute group that starts after the stores to these elements are done.

        Only compute receives the tokens of stores, so a load waits for a compute group that has
        waited for the store. Appends such a group if there is none. Returns None if no store of
        this program writes the elements.
        """
        if region not in self._stored:
            return None
        store = max(int(self._rows(region, part).max()) for part in transfers)
        if store < 0:
            return None
        known = self.schedule.behind_store(store)
        return known or self._touch_spare(self.schedule.group_at(Module.STORE, store))

    def _rows(self, region: int, part: Transfer) -> NDArray[np.int64]:
        """Return the elements of a transfer as a view [rows, elements]."""
        stored = self._stored[region]
        return np.lib.stride_tricks.as_strided(
            stored[part.dram :],
            (part.y_size, part.x_size),
            (part.x_stride * stored.itemsize, stored.itemsize),
        )
