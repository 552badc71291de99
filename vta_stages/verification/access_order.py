"""Check that elements are written before they are read, and that tokens order shared accesses.

The load module writes INP and WGT, which compute reads. Compute writes OUT, which store reads.
Store writes tensors in DRAM, which load and compute read. Only compute uses ACC, UOP and TABLE.
The check follows the instructions in one possible order. Two accesses to the same element are safe
if the earlier instruction has certainly ended before the later one starts
(:mod:`vta_stages.verification.ordering`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Extension
from vta_stages.errors import VerificationError
from vta_stages.isa.codec import decode_uops
from vta_stages.isa.fields import uop_fields
from vta_stages.isa.footprint import (
    Footprint,
    Loops,
    Selection,
    alu_footprint,
    gemm_footprint,
    loaded_elements,
    reads_own_entries,
)
from vta_stages.isa.instructions import (
    SINGLE_ROW,
    AluOp,
    MemoryType,
    Module,
    Opcode,
    buffer_depth,
    element_bytes,
)
from vta_stages.program import Program, RegionKind
from vta_stages.verification.ordering import Fault, Ordering

Row = tuple[int, ...]

# What is known of an accumulator entry as the distances of a vector SHR.
_UNKNOWN, _RIGHT, _LEFT = range(3)


@dataclass(slots=True)
class _Memory:
    """The latest access to each element, as 1 + the instruction's position in its module's queue.

    0 means never; in ``written`` it also means that the content is undefined. Only one module
    writes a memory, so its latest write follows all its earlier ones.
    """

    name: str
    writer: Module
    written: NDArray[np.int32]
    read: dict[Module, NDArray[np.int32]]

    @staticmethod
    def of(name: str, elements: int, writer: Module, *readers: Module) -> _Memory:
        """Return a memory of ``elements`` elements that nothing has accessed."""
        read = {reader: np.zeros(elements, np.int32) for reader in readers if reader != writer}
        return _Memory(name, writer, np.zeros(elements, np.int32), read)


@dataclass(slots=True)
class _Access:
    """The current instruction: its module, 1 + its position in the queue, what has ended before."""

    index: int
    module: Module
    stamp: np.int32
    clock: list[int]


class AccessChecker:
    """Follows the instructions of a program and records the latest access to each element.

    The program's transfers and uop ranges must be within bounds. ``fault`` returns the errors to
    raise. Call :meth:`run` once.
    """

    def __init__(self, program: Program, ordering: Ordering, fault: Fault) -> None:
        accelerator = program.accelerator
        self._program = program
        self._accelerator = accelerator
        self._ordering = ordering
        self._fault = fault
        load, compute, store = Module
        self._inp = _Memory.of("inp", accelerator.inp_depth, load, compute)
        self._wgt = _Memory.of("wgt", accelerator.wgt_depth, load, compute)
        self._acc = _Memory.of("acc", accelerator.acc_depth, compute)
        self._out = _Memory.of("out", accelerator.out_depth, compute, store)
        self._uop = _Memory.of("uop", accelerator.uop_depth, compute)
        tables = buffer_depth(accelerator, MemoryType.TABLE)
        self._table = _Memory.of("table", tables, compute)
        self._buffers = {
            MemoryType.INP: self._inp,
            MemoryType.WGT: self._wgt,
            MemoryType.ACC: self._acc,
            MemoryType.ACC8: self._acc,
            MemoryType.UOP: self._uop,
            MemoryType.TABLE: self._table,
        }
        self._has_pad_value = accelerator.has(Extension.PAD_VALUE)
        self._is_chisel = accelerator.implementation == "chisel"
        self._distances = np.full(accelerator.acc_depth, _UNKNOWN, np.uint8)
        self._uop_words = np.zeros(accelerator.uop_depth, np.uint32)
        self._uop_bits = sum(f.bits for f in uop_fields(accelerator))
        # DRAM is tracked in the largest unit that divides the elements of all tensors.
        self._unit_bytes = math.gcd(
            accelerator.inp_bytes, accelerator.wgt_bytes, accelerator.out_bytes
        )
        self._dram = {
            number: _Memory.of(region.name, -(-region.bytes // self._unit_bytes), store, *Module)
            for number, region in enumerate(program.regions)
            if region.kind in (RegionKind.SCRATCH, RegionKind.OUTPUT)
        }
        self._regions: list[int] = program.relocations.tolist()
        self._footprints: dict[tuple[object, ...], Footprint] = {}

    def run(self) -> None:
        """Check all accesses. Raises the error that ``fault`` returns."""
        table = self._program.table
        rows: dict[int, list[Row]] = {Opcode.FINISH: [()]}
        for opcode in (Opcode.LOAD, Opcode.STORE, Opcode.GEMM, Opcode.ALU):
            columns = list(table.columns[opcode].values())
            if opcode is Opcode.LOAD:
                columns.insert(0, loaded_elements(table))
            rows[opcode] = [tuple(row) for row in np.stack(columns, axis=-1).tolist()]
        actions: dict[int, Callable[[_Access, Row], None]] = {
            Opcode.LOAD: self._load,
            Opcode.STORE: self._store,
            Opcode.GEMM: self._gemm,
            Opcode.ALU: self._alu,
            Opcode.FINISH: lambda access, row: None,
        }
        opcodes, modules = table.opcode.tolist(), table.modules.tolist()
        row_of, places = table.rows.tolist(), self._ordering.places.tolist()
        clocks = self._ordering.clocks.tolist()
        for index in self._ordering.sequence.tolist():
            access = _Access(
                index, Module(modules[index]), np.int32(places[index] + 1), clocks[index]
            )
            actions[opcodes[index]](access, rows[opcodes[index]][row_of[index]])

    def _read(self, access: _Access, memory: _Memory, elements: Selection) -> None:
        self._read_view(access, memory, memory.written[elements])
        if access.module in memory.read:
            memory.read[access.module][elements] = access.stamp

    def _read_view(self, access: _Access, memory: _Memory, written: NDArray[np.int32]) -> None:
        if not written.min():
            raise self._fault(
                access.index,
                f"reads undefined {memory.name} elements, expected them to be written first",
            )
        if access.module != memory.writer and written.max() > access.clock[memory.writer]:
            raise self._race(access, memory, memory.writer, int(written.max()), "reads", "writes")

    def _write(self, access: _Access, memory: _Memory, elements: Selection) -> None:
        for reader, read in memory.read.items():
            latest = read[elements].max()
            if latest > access.clock[reader]:
                raise self._race(access, memory, reader, int(latest), "writes", "reads")
        memory.written[elements] = access.stamp

    def _race(
        self, access: _Access, memory: _Memory, other: Module, stamp: int, does: str, did: str
    ) -> VerificationError:
        places = np.flatnonzero(self._program.table.modules == other)
        rival = int(places[stamp - 1])
        return self._fault(
            access.index,
            f"{does} {memory.name} elements that instruction {rival} ({other.name}) {did}, and no "
            f"token orders the two",
        )

    def _load(self, access: _Access, row: Row) -> None:
        buffer_elements, code, sram_base, dram_base, *rest = row
        y_size, x_size, x_stride = rest[1:4] if self._has_pad_value else rest[:3]
        memory_type = MemoryType(code)
        if memory_type in SINGLE_ROW:
            y_size = 1
        number = self._regions[access.index]
        unit = element_bytes(self._accelerator, memory_type)
        if number in self._dram:
            memory = self._dram[number]
            view = self._dram_view(memory.written, unit, dram_base, y_size, x_size, x_stride)
            self._read_view(access, memory, view)
            read = memory.read[access.module]
            self._dram_view(read, unit, dram_base, y_size, x_size, x_stride)[:] = access.stamp
        written = slice(sram_base, sram_base + buffer_elements)
        self._write(access, self._buffers[memory_type], written)
        if memory_type is MemoryType.ACC8:
            self._distances[written] = _UNKNOWN
        if memory_type is MemoryType.ACC:
            self._distances[written] = self._loaded_distances(
                number, dram_base, y_size, x_size, x_stride
            )
        if memory_type is MemoryType.UOP:
            words = np.frombuffer(self._program.consts, "<u4", x_size, dram_base * unit)
            self._uop_words[sram_base : sram_base + x_size] = words

    def _store(self, access: _Access, row: Row) -> None:
        sram_base, dram_base, y_size, x_size, x_stride = row
        self._read(access, self._out, slice(sram_base, sram_base + y_size * x_size))
        memory = self._dram[self._regions[access.index]]
        unit = self._accelerator.out_bytes
        for reader, read in memory.read.items():
            view = self._dram_view(read, unit, dram_base, y_size, x_size, x_stride)
            if view.max() > access.clock[reader]:
                raise self._race(access, memory, reader, int(view.max()), "writes", "reads")
        written = self._dram_view(memory.written, unit, dram_base, y_size, x_size, x_stride)
        written[:] = access.stamp

    def _dram_view(
        self,
        stamps: NDArray[np.int32],
        element: int,
        dram_base: int,
        rows: int,
        elements: int,
        stride: int,
    ) -> NDArray[np.int32]:
        """Return the stamps of a transfer as a view [rows, units], without checking its bounds."""
        factor = element // self._unit_bytes
        return np.ndarray(
            (rows, elements * factor),
            np.int32,
            stamps.data,
            dram_base * factor * stamps.itemsize,
            (stride * factor * stamps.itemsize, stamps.itemsize),
        )

    def _gemm(self, access: _Access, row: Row) -> None:
        reset, begin, end, outer, inner, *factors = row
        words = self._uops(access, begin, end)
        key = ("gemm", words.tobytes(), row[0], row[3:])
        footprint = self._footprints.get(key)
        if footprint is None:
            dst, src, wgt = (Loops(outer, inner, *factors[k : k + 2]) for k in (0, 2, 4))
            uops = decode_uops(self._accelerator, words)
            footprint = gemm_footprint(
                self._accelerator, uops, reset=bool(reset), dst=dst, src=src, wgt=wgt
            )
            self._footprints[key] = footprint
        if footprint.fault:
            raise self._fault(access.index, footprint.fault)
        if footprint.src is not None and footprint.wgt is not None:
            self._read(access, self._inp, footprint.src)
            self._read(access, self._wgt, footprint.wgt)
            self._read(access, self._acc, footprint.dst)
        self._distances[footprint.dst] = _UNKNOWN
        self._write(access, self._acc, footprint.dst)
        self._write(access, self._out, footprint.dst)
        if reset:  # out gets the low bits of the old acc, which are useless to a store
            self._out.written[footprint.dst] = 0

    def _alu(self, access: _Access, row: Row) -> None:
        _, begin, end, outer, inner, *factors, code, use_imm, _ = row
        words = self._uops(access, begin, end)
        key = ("alu", words.tobytes(), row[3:9], use_imm)
        footprint = self._footprints.get(key)
        if footprint is None:
            dst, src = (Loops(outer, inner, *factors[k : k + 2]) for k in (0, 2))
            uops = decode_uops(self._accelerator, words)
            footprint = alu_footprint(
                self._accelerator, uops, use_imm=bool(use_imm), dst=dst, src=src
            )
            self._footprints[key] = footprint
            if self._is_chisel and use_imm and not reads_own_entries(uops, dst, src):
                raise self._fault(
                    access.index,
                    "has an immediate and a src that differs from dst, where this implementation "
                    "reads its operand, expected them to be equal",
                )
        if footprint.fault:
            raise self._fault(access.index, footprint.fault)
        self._read(access, self._acc, footprint.dst)
        if code == AluOp.TABLE:
            self._read(access, self._table, slice(None))
        # Before the check: later steps may shift by what an earlier one wrote.
        self._distances[footprint.dst] = _UNKNOWN
        if footprint.src is not None:
            self._read(access, self._acc, footprint.src)
            if self._is_chisel and code == AluOp.SHR:
                self._check_distances(access, footprint.src)
        self._write(access, self._acc, footprint.dst)
        self._write(access, self._out, footprint.dst)

    def _loaded_distances(
        self, number: int, dram_base: int, rows: int, elements: int, stride: int
    ) -> NDArray[np.uint8] | int:
        """Return what each loaded accumulator entry would be as distances of a vector SHR."""
        if not self._is_chisel or self._program.regions[number].kind is not RegionKind.CONST:
            return _UNKNOWN
        lanes = self._accelerator.acc_bytes // 4
        first, consts = lanes * dram_base, self._program.consts
        values = np.frombuffer(consts, "<i4", len(consts) // 4 - first, 4 * first)
        found = np.lib.stride_tricks.as_strided(
            values, (rows, elements, lanes), (4 * lanes * stride, 4 * lanes, 4)
        )
        left = ((found & 31) >= 16).any(axis=-1).ravel()
        return np.where(left, _LEFT, _RIGHT).astype(np.uint8)

    def _check_distances(self, access: _Access, src: Selection) -> None:
        found = self._distances[src]
        if (found == _LEFT).any():
            raise self._fault(
                access.index,
                "shifts a lane left by a vector, which this implementation does not, expected "
                "distances from 0 to 15",
            )
        if (found == _UNKNOWN).any():
            raise self._fault(
                access.index,
                "shifts by a vector that is not constant, and this implementation does not shift "
                "left, expected distances from the const region",
            )

    def _uops(self, access: _Access, begin: int, end: int) -> NDArray[np.uint32]:
        self._read(access, self._uop, slice(begin, end))
        words = self._uop_words[begin:end]
        if self._uop_bits < 32 and (words >> np.uint32(self._uop_bits)).any():
            raise self._fault(
                access.index, f"a uop has bits set above bit {self._uop_bits - 1}, expected 0"
            )
        return words
