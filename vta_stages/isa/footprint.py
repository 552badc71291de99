"""Which elements an instruction touches, and whether its own steps follow too closely.

A step of a GEMM or ALU instruction touches ``uop + o * factor_out + i * factor_in``. There ``o``
and ``i`` count the outer and the inner loop. The functions below use this structure instead of
expanding all steps, with one exception (:func:`_operand_hazard`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator
from vta_stages.isa.codec import Column, InstructionTable
from vta_stages.isa.instructions import SINGLE_ROW, MemoryType, Opcode, honours_pads

Selection = slice | NDArray[np.int64]
"""Elements of a buffer, as an index of a numpy array."""

_STEP_LIMIT = 1 << 22
"""The largest number of steps that are expanded: an array of them takes 32 MiB."""


@dataclass(frozen=True, slots=True)
class Loops:
    """The two loops around the uops, with the factors of one operand in elements per iteration."""

    iter_out: int
    iter_in: int
    factor_out: int
    factor_in: int

    @property
    def reach(self) -> int:
        """The largest offset that the loops add to a uop's index."""
        return (self.iter_out - 1) * self.factor_out + (self.iter_in - 1) * self.factor_in


@dataclass(frozen=True, slots=True)
class Hazard:
    """Two steps of an instruction, ``distance`` steps apart, that touch the same acc entry."""

    first_uop: int
    second_uop: int
    distance: int

    def __str__(self) -> str:
        steps = "1 step" if self.distance == 1 else f"{self.distance} steps"
        return f"uops {self.first_uop} and {self.second_uop} touch the same acc entry {steps} apart"


def loaded_elements(table: InstructionTable, rows: int | slice = slice(None)) -> Column:
    """Return how many elements each LOAD writes to its buffer, with pads, int64[m].

    ``rows`` selects rows of the table's LOAD columns.
    """
    columns = {name: column[rows] for name, column in table.columns[Opcode.LOAD].items()}
    memory = columns["memory_type"]
    padded = np.zeros(memory.shape, np.int64)
    for memory_type in MemoryType:
        if honours_pads(table.accelerator, memory_type):
            padded |= memory == memory_type
    width = columns["x_size"] + padded * (columns["x_pad_0"] + columns["x_pad_1"])
    height = columns["y_size"] + padded * (columns["y_pad_0"] + columns["y_pad_1"])
    return width * np.where(np.isin(memory, SINGLE_ROW), 1, height)


def transferred_span(table: InstructionTable, opcode: Opcode) -> Column:
    """Return the distance from the first to the last DRAM element of each transfer, int64[m].

    Both ends are counted. ``opcode`` is LOAD or STORE.
    """
    columns = table.columns[opcode]
    rows = columns["y_size"]
    if opcode is Opcode.LOAD:
        rows = np.where(np.isin(columns["memory_type"], SINGLE_ROW), 1, rows)
    return (rows - 1) * columns["x_stride"] + columns["x_size"]


def touched(uop_indices: Column, loops: Loops, depth: int) -> Selection:
    """Return the elements that one operand touches; all must be below ``depth``."""
    mask = np.zeros(depth, np.bool_)
    mask[uop_indices] = True
    for count, factor in (
        (loops.iter_in, loops.factor_in),
        (loops.iter_out, loops.factor_out),
    ):
        if count > 1 and factor:
            starts = np.flatnonzero(mask)
            mask[np.add.outer(np.arange(count) * factor, starts)] = True
    indices = np.flatnonzero(mask)
    first, last = int(indices[0]), int(indices[-1])
    if last - first + 1 == len(indices):
        return slice(first, last + 1)
    return indices


def _neighbours(loops: Loops, uops: int, steps: int) -> Iterator[tuple[int, int]]:
    """Yield (d, offset) for iterations ``d`` apart that have steps less than ``steps`` apart.

    ``offset`` is the later index minus the earlier one. Where the pair starts matters only for how
    often the inner loop restarts in between.
    """
    for d in range((steps - 1 + uops - 1) // uops + 1):
        wraps = {d // loops.iter_in, -(-d // loops.iter_in)}
        for wrap in sorted(wraps):
            if wrap < loops.iter_out:
                inner = d - wrap * loops.iter_in
                yield d, wrap * loops.factor_out + inner * loops.factor_in


def _pair(first: Column, second: Column, loops: Loops, hazard_steps: int) -> Hazard | None:
    """Find a step of ``first`` and a later step of ``second`` that touch the same entry too soon.

    They are less than ``hazard_steps`` apart. Both operands have the same loops.
    """
    uops = len(first)
    for d, offset in _neighbours(loops, uops, hazard_steps):
        for distance in range(1, hazard_steps):
            shift = distance - d * uops  # from the earlier uop's index to the later uop's
            if abs(shift) >= uops:
                continue
            begin = max(0, -shift)
            end = uops - max(0, shift)
            equal = second[begin + shift : end + shift] + offset == first[begin:end]
            if equal.any():
                at = begin + int(np.argmax(equal))
                return Hazard(at, at + shift, distance)
    return None


def destination_hazard(dst: Column, loops: Loops, hazard_steps: int) -> Hazard | None:
    """Return two steps less than ``hazard_steps`` apart that write the same entry, or None."""
    return _pair(dst, dst, loops, hazard_steps)


def operand_hazard(
    dst: Column, dst_loops: Loops, src: Column, src_loops: Loops, hazard_steps: int
) -> Hazard | None:
    """Return two steps less than ``hazard_steps`` apart, one of which writes what the other reads.

    None if there are none. For instructions without an immediate. A step may read the entry that
    it writes itself. Raises OverflowError if dst and src have different factors and the steps are
    too many to expand.
    """
    if dst_loops == src_loops:
        return _pair(dst, src, dst_loops, hazard_steps) or _pair(src, dst, dst_loops, hazard_steps)
    return _operand_hazard(dst, dst_loops, src, src_loops, hazard_steps)


def _operand_hazard(
    dst: Column, dst_loops: Loops, src: Column, src_loops: Loops, hazard_steps: int
) -> Hazard | None:
    """Expand all steps: the distance of dst and src changes from iteration to iteration."""
    if len(dst) * dst_loops.iter_out * dst_loops.iter_in > _STEP_LIMIT:
        raise OverflowError
    written, read = _expand(dst, dst_loops), _expand(src, src_loops)
    for distance in range(1, hazard_steps):
        equal = (written[:-distance] == read[distance:]) | (read[:-distance] == written[distance:])
        if equal.any():
            step = int(np.argmax(equal))
            return Hazard(step % len(dst), (step + distance) % len(dst), distance)
    return None


def _expand(uop_indices: Column, loops: Loops) -> Column:
    outer = np.arange(loops.iter_out)[:, None, None] * loops.factor_out
    inner = np.arange(loops.iter_in)[None, :, None] * loops.factor_in
    return (outer + inner + uop_indices).reshape(-1)


@dataclass(frozen=True, slots=True)
class Footprint:
    """The elements that a GEMM or ALU instruction touches.

    ``src`` is None without a second operand, ``wgt`` for all but a GEMM. If the instruction breaks
    a rule, ``fault`` says which, and the selections are empty.
    """

    dst: Selection
    src: Selection | None = None
    wgt: Selection | None = None
    fault: str | None = None


def _broken(fault: str) -> Footprint:
    return Footprint(slice(0, 0), fault=fault)


def gemm_footprint(
    accelerator: Accelerator, uops: Column, *, reset: bool, dst: Loops, src: Loops, wgt: Loops
) -> Footprint:
    """Return what a GEMM touches; ``uops`` is int64[n, 3]. A reset reads neither INP nor WGT."""
    depths = {"acc": accelerator.acc_depth, "inp": accelerator.inp_depth}
    operands = [("acc", uops[:, 0], dst)]
    if not reset:
        depths["wgt"] = accelerator.wgt_depth
        operands += [("inp", uops[:, 1], src), ("wgt", uops[:, 2], wgt)]
    fault = _bounds_fault(operands, depths)
    if fault:
        return _broken(fault)
    hazard = destination_hazard(uops[:, 0], dst, accelerator.acc_hazard_steps)
    if hazard:
        return _broken(_hazard_text(hazard, accelerator))
    written, *read = (touched(indices, loops, depths[name]) for name, indices, loops in operands)
    return Footprint(written) if reset else Footprint(written, read[0], read[1])


def reads_own_entries(uops: Column, dst: Loops, src: Loops) -> bool:
    """Return whether dst and src are equal in all steps; ``uops`` is int64[n, 3]."""
    alike = (dst.iter_out == 1 or dst.factor_out == src.factor_out) and (
        dst.iter_in == 1 or dst.factor_in == src.factor_in
    )
    return alike and bool((uops[:, 0] == uops[:, 1]).all())


def alu_footprint(
    accelerator: Accelerator, uops: Column, *, use_imm: bool, dst: Loops, src: Loops
) -> Footprint:
    """Return what an ALU instruction touches; ``src`` is read only without an immediate."""
    depth, steps = accelerator.acc_depth, accelerator.acc_hazard_steps
    operands = [("acc", uops[:, 0], dst)]
    if not use_imm:
        operands.append(("acc", uops[:, 1], src))
    fault = _bounds_fault(operands, {"acc": depth})
    if fault:
        return _broken(fault)
    hazard = destination_hazard(uops[:, 0], dst, steps)
    written = touched(uops[:, 0], dst, depth)
    read = None
    if not use_imm:
        read = touched(uops[:, 1], src, depth)
        if not hazard and _overlap(written, read, depth):
            try:
                hazard = operand_hazard(uops[:, 0], dst, uops[:, 1], src, steps)
            except OverflowError:
                return _broken(
                    f"reads and writes the same acc entries with different factors in more than "
                    f"{_STEP_LIMIT} steps, too many to check for hazards"
                )
    if hazard:
        return _broken(_hazard_text(hazard, accelerator))
    return Footprint(written, read)


def _overlap(first: Selection, second: Selection, depth: int) -> bool:
    mask = np.zeros(depth, np.bool_)
    mask[first] = True
    return bool(mask[second].any())


def _bounds_fault(operands: list[tuple[str, Column, Loops]], depths: dict[str, int]) -> str | None:
    for name, indices, loops in operands:
        last = int(indices.max()) + loops.reach
        if last >= depths[name]:
            return f"touches {name}[{last}], expected an index below {depths[name]}"
    return None


def _hazard_text(hazard: Hazard, accelerator: Accelerator) -> str:
    return f"{hazard}, expected at least {accelerator.acc_hazard_steps} (acc hazard)"
