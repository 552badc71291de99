"""Programs for the accelerator, each of which does one kind of work many times.

The names say what a program repeats. Two programs that differ in one count give the cost of what is
counted (:mod:`edgepipe.board_costs.cost_fit` lists the pairs), because the rest takes equally long
in both. The convolutions are compiled like those of a network. No cost is taken from them: they
show whether the costs explain a program.

Every program ends with a store, because a driver runs no other: only a FINISH that waits for the
last store says that memory is written. Programs that do something else store a single entry after
their work, which costs the same in both programs of a pair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.isa.codec import encode_uops
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import AluOp, MemoryType, Token, element_bytes
from vta_stages.layers.records import Conv, Epilogue, TensorSpec
from vta_stages.program import Program, Region, RegionKind
from vta_stages.timing.cost_model import CostModel

EMPTY = "nothing"
"""The program that only stores one entry and ends."""

CACHED = "nothing_cached"
"""The same program with large borders, whose caches the host maintains though nothing is there."""

_CACHED_BYTES = 1 << 19  # of each border: both together fill the second-level cache of an A53

_CONST, _START, _STORED, _END = range(4)  # regions
_MOST_ITERATIONS = 1 << 13  # of one of the two loops
_REPEATS = 4096
_ROWS = 128
_WEIGHT_BUFFERS = 4  # loaded in turns: more than a cache between the port and the memory holds


@dataclass(frozen=True, slots=True)
class Steps:
    """What a program computes: ``instructions``, each ``iterations`` of a loop over ``uops``."""

    uops: int
    iterations: int = 1
    instructions: int = 1


@dataclass(frozen=True, slots=True)
class Rows:
    """What a program moves: ``instructions``, each ``rows`` of ``elements``."""

    elements: int
    rows: int = 1
    instructions: int = 1


def probe_programs(accelerator: Accelerator, cost: CostModel) -> dict[str, Program]:
    """Return the programs by name. ``cost`` decides only how the convolutions are tiled.

    Raises LayerError if the accelerator's buffers are too small for the convolutions.
    """
    long, short = _longest(accelerator), _shortest(accelerator)
    all_inputs, all_weights = accelerator.inp_depth, accelerator.wgt_depth
    input_row = max(all_inputs // _ROWS, 1)
    all_rows = all_inputs // input_row
    output_row = max(accelerator.acc_depth // _ROWS, 1)
    few = min(_ROWS, all_inputs)
    inp, wgt = MemoryType.INP, MemoryType.WGT
    steps = {
        ("gemm_steps", _gemm): Steps(long, 1024),
        ("gemm_half", _gemm): Steps(long // 2, 1024),
        ("gemm_loops", _gemm): Steps(short, 512 * long // short),
        ("gemm_instructions", _gemm): Steps(short, 1, _REPEATS),
        ("gemm_one", _gemm): Steps(short, _REPEATS),
        ("alu_steps", _alu): Steps(long, 512),
        ("alu_half", _alu): Steps(long // 2, 512),
        ("alu_loops", _alu): Steps(short, 256 * long // short),
        ("vector_steps", _vector): Steps(long, 256),
        ("vector_half", _vector): Steps(long // 2, 256),
    }
    loads = {
        ("input_bytes", inp): Rows(all_inputs, 1, 256),
        ("input_half", inp): Rows(all_inputs // 2, 1, 256),
        ("input_rows", inp): Rows(input_row, all_rows, 32),
        ("input_flat", inp): Rows(input_row * all_rows, 1, 32),
        ("input_loads", inp): Rows(1, 1, _REPEATS),
        ("input_few", inp): Rows(1, few, _REPEATS // few),
        ("accumulator_loads", MemoryType.ACC): Rows(1, 1, _REPEATS),
        ("weight_bytes", wgt): Rows(all_weights, 1, 32),
        ("weight_half", wgt): Rows(all_weights // 2, 1, 32),
    }
    stores = {
        "store_rows": Rows(output_row, accelerator.acc_depth // output_row, 32),
        "store_flat": Rows(accelerator.acc_depth, 1, 32),
    }
    programs = {EMPTY: _Writer(accelerator, EMPTY).store_one()}
    programs |= {
        name: _compute(accelerator, name, counts, emit) for (name, emit), counts in steps.items()
    }
    programs |= {
        name: _load(accelerator, name, counts, memory) for (name, memory), counts in loads.items()
    }
    programs |= {name: _store(accelerator, name, counts) for name, counts in stores.items()}
    programs[CACHED] = _with_borders(programs[EMPTY])
    layers = {"wide_convolution": _convolution(64, 56), "deep_convolution": _convolution(256, 14)}
    return programs | {
        name: compile_program(
            accelerator, [layer], [layer.input.name], [layer.output.name], cost=cost
        )
        for name, layer in layers.items()
    }


def _with_borders(program: Program) -> Program:
    """Return the program with a large input and a large output in place of its own."""
    ends = {RegionKind.INPUT: f"{CACHED}_start", RegionKind.OUTPUT: f"{CACHED}_end"}
    regions = tuple(
        Region(name=ends[region.kind], bytes=_CACHED_BYTES, kind=region.kind)
        if region.kind in ends
        else region
        for region in program.regions
    )
    return dataclasses.replace(program, regions=regions)


def _longest(accelerator: Accelerator) -> int:
    """Return the uops of a long loop: half of the accumulator and of the uop buffer."""
    return min(accelerator.acc_depth, accelerator.uop_depth) // 2


def _shortest(accelerator: Accelerator) -> int:
    """Return the uops of the shortest loop whose iterations may follow each other at once."""
    return max(8, 1 << (accelerator.acc_hazard_steps - 1).bit_length())


def _convolution(channels: int, extent: int) -> Conv:
    def picture(name: str) -> TensorSpec:
        return TensorSpec(name=name, channels=channels, height=extent, width=extent)

    name = f"convolution_{channels}"
    return Conv(
        name=name,
        input=picture(f"{name}_start"),
        output=picture(name),
        weight=np.ones((channels, channels, 3, 3), np.int8),
        epilogue=Epilogue(
            bias=np.zeros(channels, np.int32),
            shift=np.full(channels, 8, np.int32),
            low=-128,
            high=127,
        ),
        stride=(1, 1),
        padding=(1, 1, 1, 1),
    )


class _Writer:
    """A program under construction: instructions, and constants that begin with zeros to load."""

    def __init__(self, accelerator: Accelerator, name: str, data_bytes: int = 4096) -> None:
        self.accelerator, self.buffer = accelerator, InstructionBuffer(accelerator)
        self._consts = bytearray(max(data_bytes, accelerator.acc_bytes))  # which store_one loads
        self._name = name

    def load_uops(self, count: int, first_read: int, moving: int, tokens: int = 0) -> None:
        """Load uops: step n writes entry n and reads ``first_read + moving * n``."""
        dst = np.arange(count)
        uops = np.stack([dst, first_read + moving * dst, np.zeros_like(dst)], 1)
        first = len(self._consts) // self.accelerator.uop_bytes
        self._consts += encode_uops(self.accelerator, uops).tobytes()
        self.buffer.load(
            MemoryType.UOP, sram_base=0, dram_base=first, x_size=count, region=_CONST, tokens=tokens
        )

    def clear(self, count: int) -> None:
        """Clear all accumulators, ``count`` in each iteration."""
        times = self.accelerator.acc_depth // count
        factors = (0, count * (times > 1))
        self.buffer.gemm(0, count, reset=True, iter_in=times, dst_factors=factors)

    def add_nothing(self, count: int, tokens: int) -> None:
        """Add 0 to all accumulators, so that they can be stored: clearing does not suffice."""
        times = self.accelerator.acc_depth // count
        factors = (0, count * (times > 1))
        self.buffer.alu(
            AluOp.ADD, 0, count, imm=0, iter_in=times, dst_factors=factors, src_factors=factors,
            tokens=tokens,
        )  # fmt: skip

    def store_one(self, tokens: int = 0) -> Program:
        """Store one entry after everything else, and end; ``tokens`` are what it waits for."""
        self.load_uops(1, 0, 0, tokens)
        self.buffer.load(MemoryType.ACC, sram_base=0, dram_base=0, x_size=1, region=_CONST)
        self.buffer.alu(AluOp.ADD, 0, 1, imm=0, tokens=Token.PUSH_NEXT)
        tokens = Token.POP_PREV | Token.PUSH_PREV
        self.buffer.store(sram_base=0, dram_base=0, x_size=1, region=_STORED, tokens=tokens)
        return self.finish(self.accelerator.out_bytes)

    def finish(self, stored: int) -> Program:
        """End the program, whose last store pushes a token; it stores ``stored`` bytes."""
        self.buffer.finish(tokens=Token.POP_NEXT)
        border = self.accelerator.inp_bytes
        regions = [
            Region(name="consts", bytes=len(self._consts), kind=RegionKind.CONST),
            Region(name="start", bytes=border, kind=RegionKind.INPUT),
            Region(name="stored", bytes=max(stored, border), kind=RegionKind.SCRATCH),
            Region(name=f"{self._name}_end", bytes=border, kind=RegionKind.OUTPUT),
        ]
        return Program(
            accelerator=self.accelerator,
            instructions=self.buffer.encode(),
            relocations=self.buffer.relocations,
            regions=tuple(regions),
            consts=bytes(self._consts),
        )


Emit = Callable[[InstructionBuffer, Steps, int], object]


def _loops(iterations: int) -> tuple[int, int]:
    """Divide iterations, a power of two, between the outer and the inner loop."""
    inner = min(iterations, _MOST_ITERATIONS)
    return iterations // inner, inner


def _gemm(buffer: InstructionBuffer, steps: Steps, tokens: int) -> object:
    out, inner = _loops(steps.iterations)
    return buffer.gemm(0, steps.uops, iter_out=out, iter_in=inner, tokens=tokens)


def _alu(buffer: InstructionBuffer, steps: Steps, tokens: int) -> object:
    out, inner = _loops(steps.iterations)
    return buffer.alu(AluOp.ADD, 0, steps.uops, imm=1, iter_out=out, iter_in=inner, tokens=tokens)


def _vector(buffer: InstructionBuffer, steps: Steps, tokens: int) -> object:
    out, inner = _loops(steps.iterations)
    return buffer.alu(AluOp.ADD, 0, steps.uops, iter_out=out, iter_in=inner, tokens=tokens)


# What a step reads: the first entry, and how far it moves from step to step. A GEMM reads one
# input. An operand of an immediate is the entry itself, as upstream's compiler writes it.
_READS: Mapping[Emit, Callable[[int], tuple[int, int]]] = MappingProxyType(
    {_gemm: lambda long: (0, 0), _alu: lambda long: (0, 1), _vector: lambda long: (long, 1)}
)


def _compute(accelerator: Accelerator, name: str, steps: Steps, emit: Emit) -> Program:
    """Return a program whose start is the same for all: it loads uops, an input and a weight."""
    writer, long = _Writer(accelerator, name), _longest(accelerator)
    buffer = writer.buffer
    writer.load_uops(long, *_READS[emit](long))
    for memory, tokens in ((MemoryType.INP, 0), (MemoryType.WGT, Token.PUSH_NEXT)):
        buffer.load(memory, sram_base=0, dram_base=0, x_size=1, region=_CONST, tokens=tokens)
    writer.clear(long)
    for number in range(steps.instructions):
        emit(buffer, steps, 0 if number else Token.POP_PREV)
    return writer.store_one()


def _load(accelerator: Accelerator, name: str, rows: Rows, memory: MemoryType) -> Program:
    moved = rows.rows * rows.elements
    buffers = _WEIGHT_BUFFERS if memory is MemoryType.WGT else 1
    writer = _Writer(accelerator, name, buffers * moved * element_bytes(accelerator, memory))
    for number in range(rows.instructions):
        writer.buffer.load(
            memory, sram_base=0, dram_base=number % buffers * moved, y_size=rows.rows,
            x_size=rows.elements, x_stride=rows.elements, region=_CONST,
        )  # fmt: skip
    if memory is MemoryType.ACC:  # compute loads them itself
        return writer.store_one()
    writer.buffer.add_tokens(-1, Token.PUSH_NEXT)
    return writer.store_one(Token.POP_PREV)


def _store(accelerator: Accelerator, name: str, rows: Rows) -> Program:
    writer, long = _Writer(accelerator, name), _longest(accelerator)
    writer.load_uops(long, 0, 1)
    writer.clear(long)
    writer.add_nothing(long, Token.PUSH_NEXT)
    for number in range(rows.instructions):
        writer.buffer.store(
            sram_base=0, dram_base=0, y_size=rows.rows, x_size=rows.elements,
            x_stride=rows.elements, region=_STORED, tokens=0 if number else Token.POP_PREV,
        )  # fmt: skip
    writer.buffer.add_tokens(-1, Token.PUSH_PREV)
    return writer.finish(rows.rows * rows.elements * accelerator.out_bytes)
