"""Which kinds of instructions the random programs had, of all that there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product

from vta_stages.accelerator import REVISIONS, Accelerator
from vta_stages.isa.instructions import (
    SINGLE_ROW,
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    LoopedInstruction,
    MemoryInstruction,
    MemoryType,
    Token,
    honours_pads,
)

from .program import RandomProgram

Kind = tuple[str, str, str]
"""Encoding revision, what runs, and a property of it."""

_ALL = [*Token]
_LOADS = {
    MemoryType.UOP: _ALL,
    MemoryType.WGT: [Token.POP_NEXT, Token.PUSH_NEXT],
    MemoryType.INP: [Token.POP_NEXT, Token.PUSH_NEXT],
    MemoryType.ACC: _ALL,
    MemoryType.TABLE: _ALL,
    MemoryType.ACC8: _ALL,
}
_PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
_VALUE = "pads that are not 0"
_CLEARS = "leaves zeros"
_STRIDES = ("repeated rows", "overlapping rows", "touching rows", "rows apart")
_EXTENTS = ("one row", "no element", *_STRIDES)
_LOOPS = ("no step", "one step", "outer loop", "inner loop", "both loops", "several uops")


class Coverage:
    """Counts kinds of instructions: opcode, memory type or operation, and flags or shape.

    Each instruction counts with its set of tokens, and with what its other fields say: pads, rows
    and strides of transfers, loops of GEMM and ALU.
    """

    def __init__(self, revisions: Iterable[str] = REVISIONS) -> None:
        self._seen: Counter[Kind] = Counter(dict.fromkeys(_kinds(tuple(revisions)), 0))

    def add(self, program: RandomProgram) -> None:
        """Count the instructions of a program."""
        revision = program.accelerator.revision
        for instruction in program.instructions:
            name = _name(instruction)
            tokens = _tokens(Token(bit) for bit in Token if instruction.tokens & bit)
            for property_ in (tokens, *_properties(instruction)):
                self._seen[revision, name, property_] += 1

    def merge(self, other: Coverage) -> None:
        """Count what another one has counted."""
        self._seen.update(other._seen)

    @property
    def percent(self) -> float:
        """How many of the kinds there were."""
        return 100 * sum(n > 0 for n in self._seen.values()) / len(self._seen)

    def missing(self) -> list[str]:
        """Return the kinds that there were not."""
        return [" ".join(kind) for kind, n in sorted(self._seen.items()) if not n]

    def __str__(self) -> str:
        seen = sum(n > 0 for n in self._seen.values())
        return f"{seen} of {len(self._seen)} kinds of instructions, {self.percent:.1f} %"


def _tokens(tokens: Iterable[Token]) -> str:
    return "+".join(token.name.lower() for token in tokens) or "no token"


def _name(instruction: Instruction) -> str:
    if isinstance(instruction, Load):
        return f"LOAD {instruction.memory_type.name}"
    if isinstance(instruction, Gemm):
        return "GEMM reset" if instruction.reset else "GEMM"
    if isinstance(instruction, Alu):
        operand = "immediate" if instruction.use_imm else "vector"
        return f"ALU {instruction.alu_opcode.name} {operand}"
    return type(instruction).__name__.upper()


def _properties(instruction: Instruction) -> Iterator[str]:
    if isinstance(instruction, MemoryInstruction):
        yield _extent(instruction)
    if isinstance(instruction, Load):
        pads = [pad for pad in _PADS if getattr(instruction, pad)]
        yield from pads
        if pads and instruction.pad_value:
            yield _VALUE
    if isinstance(instruction, LoopedInstruction):
        yield _loops(instruction)
        if instruction.uop_end - instruction.uop_bgn > 1:
            yield "several uops"
    if isinstance(instruction, Alu) and instruction.reset:
        yield _CLEARS
    if isinstance(instruction, Alu) and instruction.use_imm:
        yield "negative operand" if instruction.imm < 0 else "operand of at least 0"


def _extent(transfer: MemoryInstruction) -> str:
    if not transfer.x_size or not transfer.y_size:
        return "no element"
    if transfer.y_size == 1:
        return "one row"
    if not transfer.x_stride:
        return "repeated rows"
    if transfer.x_stride == transfer.x_size:
        return "touching rows"
    return "overlapping rows" if transfer.x_stride < transfer.x_size else "rows apart"


def _loops(instruction: LoopedInstruction) -> str:
    uops = instruction.uop_end - instruction.uop_bgn
    if not uops * instruction.iter_out * instruction.iter_in:
        return "no step"
    outer, inner = instruction.iter_out > 1, instruction.iter_in > 1
    if outer and inner:
        return "both loops"
    if outer or inner:
        return "outer loop" if outer else "inner loop"
    return "one step" if uops == 1 else "several uops"


def _sets(tokens: list[Token]) -> list[str]:
    chosen = product((False, True), repeat=len(tokens))
    return [_tokens(t for t, on in zip(tokens, some, strict=True) if on) for some in chosen]


def _kinds(revisions: tuple[str, ...]) -> Iterator[Kind]:
    """Yield all kinds that a program may have.

    No instruction takes a token after FINISH, so that it pushes none.
    """
    for revision in revisions:
        for memory, tokens in _LOADS.items():
            extents = ("one row", "no element") if memory in SINGLE_ROW else _EXTENTS
            padded = honours_pads(Accelerator(revision=revision), memory)
            for property_ in (*_sets(tokens), *extents, *((*_PADS, _VALUE) if padded else ())):
                yield revision, f"LOAD {memory.name}", property_
        for property_ in (*_sets([Token.POP_PREV, Token.PUSH_PREV]), *_EXTENTS):
            yield revision, "STORE", property_
        for property_ in (*_sets(_ALL), *_LOOPS):
            yield revision, "GEMM", property_
            yield revision, "GEMM reset", property_
        for operation in AluOp:
            for property_ in (*_sets(_ALL), *_LOOPS, _CLEARS):
                yield revision, f"ALU {operation.name} vector", property_
            signs = ("negative operand", "operand of at least 0")
            for property_ in (*_sets(_ALL), *_LOOPS, _CLEARS, *signs):
                yield revision, f"ALU {operation.name} immediate", property_
        for property_ in _sets([Token.POP_PREV, Token.POP_NEXT]):
            yield revision, Finish.__name__.upper(), property_
