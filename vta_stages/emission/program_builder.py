"""The program under construction: what the kernels of a program share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator
from vta_stages.emission.constant_pool import ConstantPool
from vta_stages.emission.schedule import Extent, Group, Schedule
from vta_stages.emission.uop_buffer import UopBuffer
from vta_stages.isa.codec import Column, InstructionTable, Words, encode_table, encode_uops
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import AluOp, MemoryType, Module, Opcode, element_bytes
from vta_stages.lowering.bias_weights import bias_input
from vta_stages.lowering.kernel import IndexArray
from vta_stages.memory_plan import CONST_REGION, TensorAddress
from vta_stages.program import Region, RegionKind
from vta_stages.tiling.tiling import SPARE_BASE, bias_input_element
from vta_stages.whole_blocks import real_accelerator


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


@dataclass(frozen=True, slots=True)
class _Steps:
    """The uops, loops and factors of an instruction; factors of dst, src and wgt."""

    begin: int
    end: int
    loops: tuple[int, int]
    factors: tuple[tuple[int, int], ...]


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
        self.accelerator, self._real = accelerator, real_accelerator(accelerator)
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
        self._table = b""
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

    def load_table(self, content: bytes) -> None:
        """Append the load of a table, unless the table is there; ``content`` is what it reads."""
        if content == self._table:
            return
        self._table = content
        unit = element_bytes(self.accelerator, MemoryType.TABLE)
        with self.schedule.group(Module.COMPUTE):
            self.buffer.load(
                MemoryType.TABLE,
                sram_base=0,
                dram_base=self.constants.add(content, unit),
                x_size=len(content) // unit,
                region=self.constants.region,
            )

    def _touch_spare(self, after: Group | None) -> Group:
        """Append the smallest compute group: it clears the spare entries."""
        with self.schedule.group(Module.COMPUTE, after=[after]) as group:
            spare = np.arange(self.accelerator.acc_hazard_steps) + SPARE_BASE
            self.clear(spare, 0)
        return group

    def clear(
        self,
        dst: IndexArray,
        src: IndexArray | int,
        *,
        loops: tuple[int, int] = (1, 1),
        dst_factors: tuple[int, int] = (0, 0),
    ) -> None:
        """Append a GEMM that clears the accumulators ``dst``, int64[n], and those that loops reach.

        ``src``, which nothing reads, is that of an ALU instruction that can use the same uops.
        ``loops`` and factors are (outer, inner).
        """
        of_parts = (1, int(isinstance(src, np.ndarray)), 0)
        steps = self._steps((dst, src, 0), loops, (dst_factors, (0, 0), (0, 0)), of_parts)
        self.buffer.gemm(
            steps.begin, steps.end, reset=True, iter_out=steps.loops[0], iter_in=steps.loops[1],
            dst_factors=steps.factors[0],
        )  # fmt: skip

    def gemm(
        self,
        dst: IndexArray,
        src: IndexArray | int,
        wgt: IndexArray | int,
        *,
        reset: bool = False,
        loops: tuple[int, int] = (1, 1),
        dst_factors: tuple[int, int] = (0, 0),
        src_factors: tuple[int, int] = (0, 0),
        wgt_factors: tuple[int, int] = (0, 0),
    ) -> None:
        """Append a GEMM with these uops, int64[n] each; scalars are repeated.

        ``loops`` and factors are (outer, inner).
        """
        of_parts = (1, 0, int(isinstance(wgt, np.ndarray)))
        steps = self._steps(
            (dst, src, wgt), loops, (dst_factors, src_factors, wgt_factors), of_parts
        )
        self.buffer.gemm(
            steps.begin, steps.end, reset=reset, iter_out=steps.loops[0], iter_in=steps.loops[1],
            dst_factors=steps.factors[0], src_factors=steps.factors[1],
            wgt_factors=steps.factors[2],
        )  # fmt: skip

    def alu(
        self,
        op: AluOp,
        dst: IndexArray,
        src: IndexArray | int,
        *,
        imm: int | None = None,
        vector_imm: int = 0,
        reset: bool = False,
        loops: tuple[int, int] = (1, 1),
        dst_factors: tuple[int, int] = (0, 0),
        src_factors: tuple[int, int] = (0, 0),
    ) -> None:
        """Append an ALU instruction with these uops, int64[n] each; a scalar is repeated.

        ``loops`` and factors are (outer, inner), immediates as in an InstructionBuffer.
        """
        of_parts = (1, int(isinstance(src, np.ndarray)), 0)
        # Elements with even and with odd addresses are in two banks: a step that reads two vectors
        # would wait for one bank if all of an instruction's elements were in it.
        steps = self._steps(
            (dst, src, 0), loops, (dst_factors, src_factors, (0, 0)), of_parts,
            alternates=imm is None,
        )  # fmt: skip
        self.buffer.alu(
            op, steps.begin, steps.end, imm=imm, vector_imm=vector_imm, reset=reset,
            iter_out=steps.loops[0], iter_in=steps.loops[1],
            dst_factors=steps.factors[0], src_factors=steps.factors[1],
        )  # fmt: skip

    def _steps(
        self,
        uops: tuple[IndexArray | int, ...],
        loops: tuple[int, int],
        factors: tuple[tuple[int, int], ...],
        of_parts: tuple[int, ...],
        *,
        alternates: bool = False,
    ) -> _Steps:
        """Place the uops of an instruction that computes all parts of its elements.

        ``of_parts`` says for dst, src and wgt whether the parts have elements of their own, which
        are neighbours. The parts take a loop that is free, or else uops of their own, as they do
        with ``alternates``: then neighbours follow each other.
        """
        parts = self.accelerator.parts
        table = np.empty((np.size(uops[0]), 3), np.int64)
        for column, indices in enumerate(uops):
            table[:, column] = indices
        if parts > 1:
            scale = np.where(of_parts, parts, 1)
            table *= scale
            factors = tuple(
                (outer * int(by), inner * int(by))
                for (outer, inner), by in zip(factors, scale, strict=True)
            )
            if 1 in loops and not alternates:
                count, kept = (loops[0], 0) if loops[1] == 1 else (loops[1], 1)
                loops = (count, parts)
                factors = tuple(
                    (by[kept], step) for by, step in zip(factors, of_parts, strict=True)
                )
            else:
                table = (table[:, None] + np.arange(parts)[:, None] * of_parts).reshape(-1, 3)
        begin = self.uops.place(encode_uops(self._real, table))
        return _Steps(begin, begin + len(table), loops, factors)

    def encode(self) -> Words:
        """Return the words of all instructions, uint64[n, 2], in elements of the hardware."""
        return encode_table(in_elements_of(self._real, self.buffer.table()))

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


_IN_PARTS = (MemoryType.WGT, MemoryType.ACC, MemoryType.ACC8)
"""The memory types of LOADs whose elements have parts; inputs and uops are the hardware's."""


def in_elements_of(accelerator: Accelerator, table: InstructionTable) -> InstructionTable:
    """Return instructions whose transfers count in whole blocks as those of ``accelerator``.

    GEMM and ALU instructions have its elements already.
    """
    columns = {opcode: dict(known) for opcode, known in table.columns.items()}
    for opcode in (Opcode.LOAD, Opcode.STORE) if accelerator.parts > 1 else ():
        known = columns[opcode]
        by: Column | int = accelerator.parts
        if opcode is Opcode.LOAD:
            by = np.where(np.isin(known["memory_type"], _IN_PARTS), by, 1)
        for name in ("sram_base", "dram_base", "x_size", "x_stride"):
            known[name] = known[name] * by
    return replace(table, accelerator=accelerator, columns=columns)
