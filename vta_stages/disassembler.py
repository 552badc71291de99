"""Show instructions and whole programs as readable text.

    program for 1x16_i8w8a32_15_15_18_17, encoding 0.0.1
    6 instructions: 3 LOAD, 1 STORE, 1 GEMM, 1 FINISH
    ...
    conv_3:
         0 load    inp[0:100] <- x[0], 8 x 8 stride 8, pads 1 1 1 1; push compute
         1 compute gemm acc <- inp wgt, uops 0:64; pop load

SRAM ranges and DRAM addresses are in elements, DRAM addresses relative to their region. ``8 x 8``
means rows x elements. Tokens name the module at the other end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.isa.codec import NO_REGION, InstructionTable, Words, decode_table
from vta_stages.isa.footprint import loaded_elements
from vta_stages.isa.instructions import (
    PAD_UNIT,
    REQUANTISING,
    SINGLE_ROW,
    TOKEN_FLAGS,
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    LoopedInstruction,
    Module,
    Opcode,
    Store,
    Token,
    leaky_parts,
    requantise_parts,
)
from vta_stages.printable import printable
from vta_stages.program import Program

DRAM = "dram"
"""The name of memory outside all regions, which has absolute addresses."""


class Listing:
    """The text of any instruction in a table. Cheap to create, so that errors can use it."""

    def __init__(
        self,
        table: InstructionTable,
        *,
        region_at: Callable[[int], str] = lambda index: DRAM,
        layer_at: Callable[[int], str] = lambda index: "-",
    ) -> None:
        self._table = table
        self._region_at = region_at
        self._layer_at = layer_at

    @staticmethod
    def of(program: Program) -> Listing:
        """Return the listing of a program, with its region and layer names."""

        def region_at(index: int) -> str:
            region = int(program.relocations[index])
            return DRAM if region == NO_REGION else printable(program.regions[region].name)

        def layer_at(index: int) -> str:
            return printable(program.layer_at(index))

        return Listing(program.table, region_at=region_at, layer_at=layer_at)

    def layer(self, index: int) -> str:
        """Return the name of the layer that instruction ``index`` belongs to, ``-`` if none."""
        return self._layer_at(index)

    def text(self, index: int) -> str:
        """Return what instruction ``index`` does, and its tokens."""
        instruction = self._table.record(index)
        body = _DESCRIPTIONS[type(instruction)](self, index, instruction)
        tokens = _token_text(Module(int(self._table.modules[index])), instruction)
        return f"{body}; {tokens}" if tokens else body

    def line(self, index: int) -> str:
        """Return the line of instruction ``index``: index, module, text."""
        module = Module(int(self._table.modules[index])).name.lower()
        return f"{index:6} {module:7} {self.text(index)}"

    def lines(self, first: int = 0, count: int | None = None) -> Iterator[str]:
        """Yield the lines of ``count`` instructions from ``first`` on, grouped by layer."""
        last = len(self._table) if count is None else min(len(self._table), first + count)
        layer = None
        for index in range(first, last):
            if self._layer_at(index) != layer:
                layer = self._layer_at(index)
                yield f"{layer}:"
            yield self.line(index)

    def _load(self, index: int, load: Load) -> str:
        row = self._table.rows[index]
        last = load.sram_base + int(loaded_elements(self._table, row))
        name = load.memory_type.name.lower()
        text = f"{name}[{load.sram_base}:{last}] <- {self._region_at(index)}[{load.dram_base}]"
        if load.memory_type in SINGLE_ROW:
            return text
        pads = (load.y_pad_0, load.y_pad_1, load.x_pad_0, load.x_pad_1)
        text += _extent(load.y_size, load.x_size, load.x_stride)
        if not any(pads):
            return text
        value = f" of {PAD_UNIT * load.pad_value}" if load.pad_value else ""
        return text + f", pads {' '.join(map(str, pads))}{value}"

    def _store(self, index: int, store: Store) -> str:
        last = store.sram_base + store.y_size * store.x_size
        target = f"{self._region_at(index)}[{store.dram_base}]"
        extent = _extent(store.y_size, store.x_size, store.x_stride)
        return f"out[{store.sram_base}:{last}] -> {target}{extent}"

    def _gemm(self, index: int, gemm: Gemm) -> str:
        factors = {
            "dst": (gemm.dst_factor_out, gemm.dst_factor_in),
            "src": (gemm.src_factor_out, gemm.src_factor_in),
            "wgt": (gemm.wgt_factor_out, gemm.wgt_factor_in),
        }
        action = "acc = 0" if gemm.reset else "acc += inp wgt"
        return f"gemm {action}, {_loops(gemm, factors)}"

    def _alu(self, index: int, alu: Alu) -> str:
        factors = {
            "dst": (alu.dst_factor_out, alu.dst_factor_in),
            "src": (alu.src_factor_out, alu.src_factor_in),
        }
        operand = str(alu.imm) if alu.use_imm else "acc"
        if alu.alu_opcode in REQUANTISING:
            shift, low, high = requantise_parts(alu.imm, use_imm=alu.use_imm)
            operand = f"{shift if alu.use_imm else 'acc'} clip {low}:{high}"
        elif alu.alu_opcode is AluOp.LEAKY:
            first, second, adds = leaky_parts(alu.imm)
            offset = "0" if alu.use_imm else "acc"
            operand = f"{offset} shifts {first}{' add' if adds else ''} {second}"
        reset = " reset" if alu.reset else ""
        return f"alu{reset} {alu.alu_opcode.name.lower()} acc, {operand}, {_loops(alu, factors)}"

    def _finish(self, index: int, finish: Finish) -> str:
        return "finish"


_DESCRIPTIONS: dict[type[Instruction], Callable[..., str]] = {
    Load: Listing._load,
    Store: Listing._store,
    Gemm: Listing._gemm,
    Alu: Listing._alu,
    Finish: Listing._finish,
}


def _extent(rows: int, elements: int, stride: int) -> str:
    return f", {rows} x {elements} stride {stride}" if rows > 1 else ""


def _loops(step: LoopedInstruction, factors: dict[str, tuple[int, int]]) -> str:
    text = f"uops {step.uop_bgn}:{step.uop_end}"
    if (step.iter_out, step.iter_in) == (1, 1):
        return text
    moved = [f"{name} {o},{i}" for name, (o, i) in factors.items() if o or i]
    return f"{text} x {step.iter_out} x {step.iter_in}" + "".join(f", {m}" for m in moved)


def _token_text(module: Module, instruction: Instruction) -> str:
    flags = [name for name in TOKEN_FLAGS if getattr(instruction, name)]
    return ", ".join(f"{name[:-5].rstrip('_')} {_peer_name(module, name)}" for name in flags)


def _peer_name(module: Module, flag: str) -> str:
    before = TOKEN_FLAGS[flag] in (Token.POP_PREV, Token.PUSH_PREV)
    peer = module - 1 if before else module + 1
    return Module(peer).name.lower() if Module.LOAD <= peer <= Module.STORE else "nothing"


def disassemble_words(accelerator: Accelerator, words: Words) -> str:
    """Return the listing of instructions uint64[n, 2].

    Raises EncodingError if one does not decode.
    """
    table = decode_table(accelerator, words)
    listing = Listing(table)
    return "".join(f"{listing.line(index)}\n" for index in range(len(table)))


def summarize(program: Program) -> str:
    """Return a program's configuration, instruction counts, regions and layers as text."""
    table = program.table
    mix = [f"{len(table.positions[o])} {o.name}" for o in Opcode if len(table.positions[o])]
    lines = [
        f"program for {program.accelerator.configuration}, encoding {program.accelerator.revision}",
        f"{len(table)} instructions: {', '.join(mix)}",
        "",
        f"{'region':32} {'kind':8} {'bytes':>12}",
    ]
    lines += [f"{printable(r.name):32} {r.kind:8} {r.bytes:12}" for r in program.regions]
    lines += ["", f"{'layer':32} {'first':>8} {'count':>8} {'gemm':>8} {'alu':>8} {'moves':>8}"]
    for layer in program.layers:
        opcodes = table.opcode[layer.first : layer.first + layer.count]
        gemm, alu = int((opcodes == Opcode.GEMM).sum()), int((opcodes == Opcode.ALU).sum())
        moves = int(np.isin(opcodes, [Opcode.LOAD, Opcode.STORE]).sum())
        counts = f"{layer.first:8} {layer.count:8} {gemm:8} {alu:8} {moves:8}"
        lines.append(f"{printable(layer.name):32} {counts}")
    return "\n".join(lines) + "\n"


def disassemble(program: Program) -> str:
    """Return the summary, a blank line and the listing of a program.

    Raises EncodingError if an instruction does not decode.
    """
    return summarize(program) + "\n" + "".join(f"{t}\n" for t in Listing.of(program).lines())
