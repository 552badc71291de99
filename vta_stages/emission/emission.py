"""What the kernels of a program share while it is emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator
from vta_stages.emission.consts import ConstBuilder
from vta_stages.emission.schedule import Extent, Group, Schedule
from vta_stages.emission.uop_buffer import UopBuffer
from vta_stages.isa.codec import InstructionBuffer, encode_uops
from vta_stages.isa.instructions import MemoryType, Module
from vta_stages.lowering.constant_tiles import constant_element
from vta_stages.lowering.kernel import IndexArray
from vta_stages.memory_plan import CONST_REGION
from vta_stages.program import Region, RegionKind
from vta_stages.tiling.tiling import SPARE_BASE, constant_input


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies: a region and the element in it at which block 0 starts."""

    region: int
    element: int


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


class Emission:
    """Instructions, uops and constants of a program so far, and which store wrote what.

    Two things stay for all kernels: the spare entries of the accumulator have a value, and the last
    input element, once somebody asks for it, is the vector that tiles of constants are
    multiplied with.
    """

    def __init__(
        self, accelerator: Accelerator, regions: Sequence[Region], places: Mapping[str, Place]
    ) -> None:
        self.accelerator = accelerator
        self.places = places
        self.buffer = InstructionBuffer(accelerator)
        self.schedule = Schedule(self.buffer)
        self.consts = ConstBuilder(accelerator, CONST_REGION)
        self.uops = UopBuffer(self.buffer, self.consts)
        self._stored: dict[int, NDArray[np.int64]] = {
            number: np.full(region.bytes // accelerator.out_bytes, -1, np.int64)
            for number, region in enumerate(regions)
            if region.kind in (RegionKind.SCRATCH, RegionKind.OUTPUT)
        }
        self._has_constant_vector = False
        self._touch_spare(None)

    def constant_vector(self) -> Extent:
        """Return where the vector of constants is, having appended its load the first time."""
        extent = Extent(MemoryType.INP, constant_input(self.accelerator), 1)
        if self._has_constant_vector:
            return extent
        self._has_constant_vector = True
        with self.schedule.group(Module.LOAD, extent):
            element = constant_element(self.accelerator)
            self.buffer.load(
                MemoryType.INP,
                sram_base=extent.first,
                dram_base=self.consts.add(element.tobytes(), self.accelerator.inp_bytes),
                x_size=1,
                region=self.consts.region,
            )
        return extent

    def _touch_spare(self, after: Group | None) -> Group:
        """Clear the spare entries: the least that compute can do behind a store."""
        with self.schedule.group(Module.COMPUTE, after=[after]) as group:
            spare = np.arange(self.accelerator.acc_hazard_steps) + SPARE_BASE
            begin = self.place_uops(spare, 0, 0)
            self.buffer.gemm(begin, begin + len(spare), reset=True)
        return group

    def place_uops(self, dst: IndexArray, src: IndexArray | int, wgt: IndexArray | int) -> int:
        """Return the uop buffer index of a sequence."""
        table = np.empty((len(dst), 3), np.int64)
        table[:, 0], table[:, 1], table[:, 2] = dst, src, wgt
        return self.uops.place(encode_uops(self.accelerator, table))

    def note_store(self, region: int, transfers: Sequence[Transfer], group: Group) -> None:
        """Note that a store group writes elements of a region."""
        for part in transfers:
            self._rows(region, part)[:] = group.index

    def await_stores(self, region: int, transfers: Sequence[Transfer]) -> Group | None:
        """Return the compute group behind which what is to be read has been stored.

        Stores tell only compute that they are done, so a load waits for a compute group that has
        waited for the store. Appends such a group if there is none; None where nothing is stored.
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
