"""Refuse programs that break a rule of the hardware, before they run.

The rules:

- Every instruction decodes. There is one FINISH, at the end, which waits for everything else.
- Transfers stay within their buffer and DRAM region, and the kind of the region permits them. Only
  loads of INP and ACC8 have pads.
- Uops and tables are loaded from constants.
- GEMM and ALU indices stay within the buffers, and no instruction has an acc hazard.
- Tokens balance, and the bounded queues do not deadlock.
- Everything is written before it is read.
- Tokens order the accesses of two modules to the same elements, on chip and in DRAM.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Extension
from vta_stages.disassembler import Listing
from vta_stages.errors import VerificationError
from vta_stages.isa.codec import NO_REGION, Column
from vta_stages.isa.footprint import loaded_elements, transferred_span
from vta_stages.isa.instructions import MemoryType, Module, Opcode, buffer_depth, element_bytes
from vta_stages.program import Program, RegionKind
from vta_stages.verification.access_order import AccessChecker
from vta_stages.verification.ordering import Ordering, check_tokens, order_instructions

_PADDED = (MemoryType.INP, MemoryType.ACC8)
"""What every accelerator that can load it pads."""

_WRITABLE = (RegionKind.SCRATCH, RegionKind.OUTPUT)


def verify(program: Program) -> None:
    """Check a program against the rules above.

    Raises VerificationError with the instruction, its layer and disassembly, and what was found and
    expected; EncodingError if an instruction does not decode.
    """
    _Verifier(program).run()


class _Verifier:
    """The checks of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.table = program.table
        self.listing = Listing.of(program)

    def fault(self, index: int, what: str) -> VerificationError:
        """Return the error for instruction ``index``, which breaks a rule."""
        where = f"instruction {index} (layer {self.listing.layer(index)})"
        return VerificationError(f"{where}: {what}; in: {self.listing.text(index)}")

    def run(self) -> None:
        """Check all rules; the order matters, as later checks rely on earlier ones."""
        self._check_finish()
        self._check_transfers()
        self._check_loops()
        check_tokens(self.table, self.fault)
        ordering = order_instructions(self.table, self.fault)
        AccessChecker(self.program, ordering, self.fault).run()
        self._check_end(ordering)

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
        positions, memory = table.positions[Opcode.LOAD], loads["memory_type"]
        pads = loads["y_pad_0"] | loads["y_pad_1"] | loads["x_pad_0"] | loads["x_pad_1"]
        self._first(
            positions,
            ~np.isin(memory, _PADDED) & (pads != 0),
            lambda row: (
                f"has pads, which some or all bitstreams ignore in loads of "
                f"{MemoryType(memory[row]).name}, expected none"
            ),
        )
        for kind, what in ((MemoryType.UOP, "uops"), (MemoryType.TABLE, "a table")):
            self._first(
                positions,
                (memory == kind) & (loads["y_size"] != 1),
                lambda row, what=what: (  # type: ignore[misc]
                    f"loads {loads['y_size'][row]} rows of {what}, expected 1"
                ),
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
        writable = np.array([k in _WRITABLE for k in kinds], np.bool_)
        constant = np.array([k is RegionKind.CONST for k in kinds], np.bool_)
        if opcode is Opcode.STORE:
            self._first(
                positions,
                ~writable[numbers],
                lambda row: (
                    f"stores to {kinds[numbers[row]]} region "
                    f"{program.regions[numbers[row]].name}, expected scratch or output"
                ),
            )
        else:
            for kind, what in ((MemoryType.UOP, "uops"), (MemoryType.TABLE, "a table")):
                self._first(
                    positions,
                    (memory == kind) & ~constant[numbers],
                    lambda row, what=what: (  # type: ignore[misc]
                        f"loads {what} from {kinds[numbers[row]]} region "
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
        if not self.program.accelerator.has(Extension.CLEAR):
            self._first(
                self.table.positions[Opcode.ALU],
                self.table.columns[Opcode.ALU]["reset"] != 0,
                lambda row: "reset is set in an ALU instruction, expected 0",
            )

    def _first(
        self, positions: Column, broken: NDArray[np.bool_], what: Callable[[int], str]
    ) -> None:
        """Raise the error of the first row that is ``broken``; ``what`` describes its fault."""
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
