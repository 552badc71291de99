"""Refuse programs that break a rule of the hardware, before anything runs them.

What is checked: every instruction decodes; one FINISH, at the end, after everything else; transfers
stay within their buffer and DRAM region and name a region they may; no ACC load relies on pads;
GEMM and ALU indices stay within the buffers; no acc hazard within an instruction; tokens balance
and the bounded queues do not deadlock; everything is written before it is read; and accesses of two
modules to the same elements, on chip or in DRAM, are ordered by tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vta_stages.codec import NO_REGION, Column, decode_uops
from vta_stages.disassembler import Listing
from vta_stages.errors import VerificationError
from vta_stages.footprint import (
    Footprint,
    Loops,
    Selection,
    alu_footprint,
    gemm_footprint,
    loaded_elements,
    transferred_span,
)
from vta_stages.isa import (
    MemoryType,
    Module,
    Opcode,
    buffer_depth,
    element_bytes,
    uop_fields,
)
from vta_stages.ordering import Ordering, check_tokens, order_instructions
from vta_stages.program import Program, RegionKind

Row = tuple[int, ...]


def verify(program: Program) -> None:
    """Check a program against the rules above.

    Raises VerificationError naming instruction, layer, disassembly, what was found and what was
    expected; EncodingError when an instruction does not decode.
    """
    _Verifier(program).run()


@dataclass(slots=True)
class _Memory:
    """Who touched each element last, as 1 + the place in that module's queue; 0 is never.

    Every memory has one module that writes it, so its last write is after all earlier ones.
    """

    name: str
    writer: Module
    written: NDArray[np.int32]
    read: dict[Module, NDArray[np.int32]]

    @staticmethod
    def of(name: str, elements: int, writer: Module, *readers: Module) -> _Memory:
        read = {reader: np.zeros(elements, np.int32) for reader in readers if reader != writer}
        return _Memory(name, writer, np.zeros(elements, np.int32), read)


@dataclass(slots=True)
class _Access:
    """The instruction at work: its module, its place in that module's queue, what is before it."""

    index: int
    module: Module
    stamp: np.int32
    clock: list[int]


@dataclass
class _Verifier:
    program: Program
    footprints: dict[tuple[object, ...], Footprint] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program, accelerator = self.program, self.program.accelerator
        self.table = program.table
        self.listing = Listing.of(program)
        load, compute, store = Module
        self.inp = _Memory.of("inp", accelerator.inp_depth, load, compute)
        self.wgt = _Memory.of("wgt", accelerator.wgt_depth, load, compute)
        self.acc = _Memory.of("acc", accelerator.acc_depth, compute)
        self.out = _Memory.of("out", accelerator.out_depth, compute, store)
        self.uop = _Memory.of("uop", accelerator.uop_depth, compute)
        self.buffers = {
            MemoryType.INP: self.inp,
            MemoryType.WGT: self.wgt,
            MemoryType.ACC: self.acc,
            MemoryType.UOP: self.uop,
        }
        self.uop_words = np.zeros(accelerator.uop_depth, np.uint32)
        # DRAM is tracked in the largest unit that every tensor element is a multiple of.
        self.unit_bytes = math.gcd(
            accelerator.inp_bytes, accelerator.wgt_bytes, accelerator.out_bytes
        )
        self.dram = {
            number: _Memory.of(region.name, -(-region.bytes // self.unit_bytes), store, *Module)
            for number, region in enumerate(program.regions)
            if region.kind in (RegionKind.SCRATCH, RegionKind.OUTPUT)
        }

    def fault(self, index: int, what: str) -> VerificationError:
        """Return the error of a broken rule at instruction ``index``."""
        where = f"instruction {index} (layer {self.listing.layer(index)})"
        return VerificationError(f"{where}: {what}; in: {self.listing.text(index)}")

    def run(self) -> None:
        self._check_finish()
        self._check_transfers()
        self._check_loops()
        check_tokens(self.table, self.fault)
        ordering = order_instructions(self.table, self.fault)
        self._check_end(ordering)
        self._check_accesses(ordering)

    # Rules that look at one instruction.

    def _check_finish(self) -> None:
        count = len(self.table)
        if not count:
            raise VerificationError("program: no instructions, expected at least a FINISH")
        finishes = self.table.positions[Opcode.FINISH]
        if len(finishes) != 1 or finishes[0] != count - 1:
            found = ", ".join(map(str, finishes[:5])) or "none"
            raise self.fault(count - 1, f"FINISH at {found}, expected exactly one, at {count - 1}")

    def _check_transfers(self) -> None:
        table, accelerator = self.table, self.program.accelerator
        loads = table.columns[Opcode.LOAD]
        stores = table.columns[Opcode.STORE]
        stored = stores["y_size"] * stores["x_size"]
        memory_of_stores = np.full(len(stored), MemoryType.OUT, np.int64)
        for opcode, memory, elements in (
            (Opcode.LOAD, loads["memory_type"], loaded_elements(table)),
            (Opcode.STORE, memory_of_stores, stored),
        ):
            columns, positions = table.columns[opcode], table.positions[opcode]
            depths = np.array([buffer_depth(accelerator, m) for m in MemoryType])[memory]
            self._first(
                positions,
                (columns["x_size"] == 0) | (columns["y_size"] == 0),
                lambda row: "moves nothing, expected x_size and y_size of at least 1",
            )
            last = columns["sram_base"] + elements
            self._first(
                positions,
                last > depths,
                lambda row, last=last, memory=memory, depths=depths: (  # type: ignore[misc]
                    f"ends at {MemoryType(memory[row]).name.lower()}[{last[row]}], expected at "
                    f"most {depths[row]} elements"
                ),
            )
            self._check_regions(opcode, positions, memory)
        pads = loads["y_pad_0"] | loads["y_pad_1"] | loads["x_pad_0"] | loads["x_pad_1"]
        self._first(
            table.positions[Opcode.LOAD],
            (loads["memory_type"] == MemoryType.ACC) & (pads != 0),
            lambda row: "an ACC load has pads, which bitstreams may ignore; expected none",
        )

    def _check_regions(self, opcode: Opcode, positions: Column, memory: Column) -> None:
        program = self.program
        numbers = program.relocations[positions]
        self._first(
            positions, numbers == NO_REGION, lambda row: "names no DRAM region, expected one"
        )
        sizes = np.array([region.bytes for region in program.regions], np.int64)[numbers]
        units = np.array([element_bytes(program.accelerator, m) for m in MemoryType])[memory]
        first = self.table.columns[opcode]["dram_base"] * units
        last = first + transferred_span(self.table, opcode) * units
        self._first(
            positions,
            last > sizes,
            lambda row: (
                f"touches bytes {first[row]} to {last[row]} of region "
                f"{program.regions[numbers[row]].name}, which has {sizes[row]}"
            ),
        )
        kinds = [region.kind for region in program.regions]
        writable = np.array([k in (RegionKind.SCRATCH, RegionKind.OUTPUT) for k in kinds])
        constant = np.array([k is RegionKind.CONST for k in kinds])
        if opcode is Opcode.STORE:
            self._first(
                positions,
                ~writable[numbers] if len(kinds) else numbers == 0,
                lambda row: (
                    f"stores to {kinds[numbers[row]]} region "
                    f"{program.regions[numbers[row]].name}, expected scratch or output"
                ),
            )
        else:
            self._first(
                positions,
                (memory == MemoryType.UOP) & ~constant[numbers] if len(kinds) else memory < 0,
                lambda row: (
                    f"loads uops from {kinds[numbers[row]]} region "
                    f"{program.regions[numbers[row]].name}, expected const"
                ),
            )

    def _check_loops(self) -> None:
        depth = self.program.accelerator.uop_depth
        for opcode in (Opcode.GEMM, Opcode.ALU):
            columns, positions = self.table.columns[opcode], self.table.positions[opcode]
            self._first(
                positions,
                (columns["uop_bgn"] >= columns["uop_end"])
                | (columns["iter_out"] == 0)
                | (columns["iter_in"] == 0),
                lambda row: "has no step, expected at least one uop and one iteration",
            )
            self._first(
                positions,
                columns["uop_end"] > depth,
                lambda row: f"ends beyond the uop buffer of {depth} entries",
            )
        alu = self.table.columns[Opcode.ALU]
        self._first(
            self.table.positions[Opcode.ALU],
            alu["reset"] != 0,
            lambda row: "an ALU instruction has reset set, expected 0",
        )

    def _first(
        self, positions: Column, broken: NDArray[np.bool_], what: Callable[[int], str]
    ) -> None:
        """Raise for the first row where ``broken``; ``what`` describes a row."""
        rows = np.flatnonzero(broken)
        if len(rows):
            row = int(rows[0])
            raise self.fault(int(positions[row]), what(row))

    # Rules about order.

    def _check_end(self, ordering: Ordering) -> None:
        last = len(self.table) - 1
        counts = np.bincount(self.table.modules, minlength=len(Module))
        for module in Module:
            ended = int(ordering.clocks[last, module])
            if module is not Module.COMPUTE and ended < counts[module]:
                raise self.fault(
                    last,
                    f"only {ended} of {counts[module]} {module.name} instructions are certain to "
                    f"have ended, expected tokens that order all of them before FINISH",
                )

    def _check_accesses(self, ordering: Ordering) -> None:
        rows: dict[int, list[Row]] = {}
        for opcode in Opcode:
            columns = list(self.table.columns[opcode].values())
            rows[opcode] = (
                [tuple(row) for row in np.stack(columns, axis=-1).tolist()] if columns else [()]
            )
        actions: dict[int, Callable[[_Access, Row], None]] = {
            Opcode.LOAD: self._load,
            Opcode.STORE: self._store,
            Opcode.GEMM: self._gemm,
            Opcode.ALU: self._alu,
            Opcode.FINISH: lambda access, row: None,
        }
        opcodes, modules = self.table.opcode.tolist(), self.table.modules.tolist()
        row_of, places = self.table.rows.tolist(), ordering.places.tolist()
        clocks = ordering.clocks.tolist()
        self.load_elements = loaded_elements(self.table).tolist()
        self.row_of = row_of
        for index in ordering.sequence.tolist():
            opcode = opcodes[index]
            access = _Access(
                index, Module(modules[index]), np.int32(places[index] + 1), clocks[index]
            )
            actions[opcode](access, rows[opcode][row_of[index]])

    def _read(self, access: _Access, memory: _Memory, elements: Selection) -> None:
        self._read_view(access, memory, memory.written[elements])
        if access.module in memory.read:
            memory.read[access.module][elements] = access.stamp

    def _read_view(self, access: _Access, memory: _Memory, written: NDArray[np.int32]) -> None:
        if not written.min():
            raise self.fault(
                access.index, f"reads {memory.name}, part of which nothing has written"
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
        places = np.flatnonzero(self.table.modules == other)
        rival = int(places[stamp - 1])
        return self.fault(
            access.index,
            f"{does} {memory.name} elements that instruction {rival} ({other.name}) {did}, and no "
            f"token orders the two",
        )

    # What each instruction touches.

    def _load(self, access: _Access, row: Row) -> None:
        code, sram_base, dram_base, y_size, x_size, x_stride, *_ = row
        memory_type = MemoryType(code)
        if memory_type is MemoryType.UOP:
            y_size = 1
        number = int(self.program.relocations[access.index])
        unit = element_bytes(self.program.accelerator, memory_type)
        if number in self.dram:
            memory = self.dram[number]
            view = self._dram_view(memory.written, unit, dram_base, y_size, x_size, x_stride)
            self._read_view(access, memory, view)
            read = memory.read[access.module]
            self._dram_view(read, unit, dram_base, y_size, x_size, x_stride)[:] = access.stamp
        elements = self.load_elements[self.row_of[access.index]]
        self._write(access, self.buffers[memory_type], slice(sram_base, sram_base + elements))
        if memory_type is MemoryType.UOP:
            words = np.frombuffer(self.program.consts, "<u4", x_size, dram_base * unit)
            self.uop_words[sram_base : sram_base + x_size] = words

    def _store(self, access: _Access, row: Row) -> None:
        sram_base, dram_base, y_size, x_size, x_stride = row
        self._read(access, self.out, slice(sram_base, sram_base + y_size * x_size))
        memory = self.dram[int(self.program.relocations[access.index])]
        unit = self.program.accelerator.out_bytes
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
        """Return the stamps of a transfer as a view [rows, units]; bounds are checked before."""
        factor = element // self.unit_bytes
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
        footprint = self.footprints.get(key)
        if footprint is None:
            dst, src, wgt = (Loops(outer, inner, *factors[k : k + 2]) for k in (0, 2, 4))
            accelerator = self.program.accelerator
            uops = decode_uops(accelerator, words)
            footprint = gemm_footprint(
                accelerator, uops, reset=bool(reset), dst=dst, src=src, wgt=wgt
            )
            self.footprints[key] = footprint
        if footprint.fault:
            raise self.fault(access.index, footprint.fault)
        if footprint.src is not None and footprint.wgt is not None:
            self._read(access, self.inp, footprint.src)
            self._read(access, self.wgt, footprint.wgt)
            self._read(access, self.acc, footprint.dst)
        self._write(access, self.acc, footprint.dst)
        self._write(access, self.out, footprint.dst)

    def _alu(self, access: _Access, row: Row) -> None:
        _, begin, end, outer, inner, *factors, _, use_imm, _ = row
        words = self._uops(access, begin, end)
        key = ("alu", words.tobytes(), row[3:9], use_imm)
        footprint = self.footprints.get(key)
        if footprint is None:
            dst, src = (Loops(outer, inner, *factors[k : k + 2]) for k in (0, 2))
            accelerator = self.program.accelerator
            uops = decode_uops(accelerator, words)
            footprint = alu_footprint(accelerator, uops, use_imm=bool(use_imm), dst=dst, src=src)
            self.footprints[key] = footprint
        if footprint.fault:
            raise self.fault(access.index, footprint.fault)
        self._read(access, self.acc, footprint.dst)
        if footprint.src is not None:
            self._read(access, self.acc, footprint.src)
        self._write(access, self.acc, footprint.dst)
        self._write(access, self.out, footprint.dst)

    def _uops(self, access: _Access, begin: int, end: int) -> NDArray[np.uint32]:
        self._read(access, self.uop, slice(begin, end))
        words = self.uop_words[begin:end]
        used = sum(f.bits for f in uop_fields(self.program.accelerator))
        if used < 32 and (words >> np.uint32(used)).any():
            raise self.fault(access.index, f"a uop has bits above its {used} set, expected 0")
        return words
