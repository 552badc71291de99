"""The engine of vta_rtl with its buffers, and the same instructions in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.sim import SimulatorContext
from numpy.typing import NDArray
from rtl_simulation import simulate

from vta_rtl.buffers.accumulator_buffer import AccumulatorBuffer
from vta_rtl.buffers.buffer import Buffer
from vta_rtl.compute.engine import Engine
from vta_stages.accelerator import Accelerator, Extension
from vta_stages.isa.codec import encode_uops
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import REQUANTISING, Alu, AluOp, Gemm, MemoryType

Instructions = Sequence[Gemm | Alu]

SMALL = Accelerator(
    block_in=4,
    block_out=4,
    inp_buffer_bytes_log2=12,
    wgt_buffer_bytes_log2=14,
    acc_buffer_bytes_log2=14,
)
"""An accelerator whose lanes are few, so that its simulation is quick."""


@dataclass
class Contents:
    """What the buffers hold: int64[n, 3] uops, int8 inp [n, batch, block], wgt [n, block, block],
    int32 acc [n, batch, block], int8 out [n, batch, block].

    They may hold fewer elements than the accelerator's buffers: the rest is never used.
    """

    uop: NDArray[np.int64]
    inp: NDArray[np.int8]
    wgt: NDArray[np.int8]
    acc: NDArray[np.int32]
    out: NDArray[np.int8]

    @staticmethod
    def full_range(draw: np.random.Generator, a: Accelerator, elements: int) -> Contents:
        """Return random elements over all of their range, a third of inp and wgt at its ends."""

        def int8(*shape: int) -> NDArray[np.int8]:
            values = draw.integers(-128, 128, shape, np.int8)
            ends = draw.choice(np.array([-128, 127], np.int8), shape)
            return np.where(draw.random(shape) < 1 / 3, ends, values)

        blocks = (elements, a.batch, a.block_out)
        return Contents(
            draw.integers(0, elements, (elements, 3)),
            int8(elements, a.batch, a.block_in),
            int8(elements, a.block_out, a.block_in),
            draw.integers(-(1 << 31), 1 << 31, blocks, np.int64).astype(np.int32),
            int8(*blocks),
        )


_OPERATIONS = {
    AluOp.MIN: np.minimum,
    AluOp.MAX: np.maximum,
    AluOp.ADD: np.add,
    AluOp.SHR: lambda a, b: np.where(b & 31 < 16, a >> (b & 15), a << (32 - (b & 31))),
    AluOp.MULTIPLY: lambda a, b: a.astype(np.int16).astype(np.int64) * b.astype(np.int16),
}


def requantised(
    acc: NDArray[np.int64], operand: NDArray[np.int64], imm: int, *, use_imm: bool
) -> NDArray[np.int64]:
    """Return what a REQUANTISE makes of an accumulator element, from the bits of its operands."""
    constant, distance, low = operand // 32, operand % 32, imm % 256
    if use_imm:
        constant, distance, low = np.int64(0), np.int64(imm % 32), low // 32 * 32
    total = (acc + constant + 2**31) % 2**32 - 2**31
    signed_low, high = (low + 128) % 256 - 128, imm // 256
    return np.minimum(np.maximum(total // 2**distance, signed_low), high)


def leaked(
    acc: NDArray[np.int64], operand: NDArray[np.int64], imm: int, *, use_imm: bool
) -> NDArray[np.int64]:
    """Return what a LEAKY makes of an accumulator element, from the bits of its operands."""

    def int32(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return (values + 2**31) % 2**32 - 2**31

    branch = int32(acc + (0 if use_imm else operand)) // 2 ** (imm % 8)
    value = int32(acc + branch) if imm // 8 % 2 else acc
    return np.maximum(value, branch // 2 ** (imm // 16 % 8))


_WITH_BITS = {**dict.fromkeys(REQUANTISING, requantised), AluOp.LEAKY: leaked}
"""The operations whose immediate is more than an operand."""


def run_in_numpy(a: Accelerator, contents: Contents, instructions: Instructions) -> Contents:
    """Return what the buffers hold after instructions whose steps run one by one.

    ``out`` is what the engine writes, before a table.
    """
    after = Contents(
        contents.uop, contents.inp, contents.wgt, contents.acc.copy(), contents.out.copy()
    )
    for i in instructions:
        for o in range(i.iter_out):
            for n in range(i.iter_in):
                for dst, src, wgt in contents.uop[i.uop_bgn : i.uop_end].tolist():
                    dst += o * i.dst_factor_out + n * i.dst_factor_in
                    src += o * i.src_factor_out + n * i.src_factor_in
                    old = after.acc[dst].astype(np.int64)
                    if isinstance(i, Alu):
                        operand = np.int64(i.imm) if i.use_imm else after.acc[src].astype(np.int64)
                        if i.alu_opcode in _WITH_BITS:
                            new = _WITH_BITS[i.alu_opcode](old, operand, i.imm, use_imm=i.use_imm)
                        else:
                            new = _OPERATIONS[i.alu_opcode](old, operand)
                    elif i.reset:
                        new = np.zeros_like(old)
                    else:
                        wgt += o * i.wgt_factor_out + n * i.wgt_factor_in
                        w = contents.wgt[wgt].astype(np.int64)
                        new = old + contents.inp[src].astype(np.int64) @ w.T
                    after.acc[dst] = (new & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
                    after.out[dst] = after.acc[dst].astype(np.int8)
                    if isinstance(i, Alu) and i.reset and a.has(Extension.CLEAR):
                        after.acc[dst] = 0
    return after


class EngineOnBuffers(wiring.Component):
    """An engine connected to all of its buffers."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.engine = Engine(accelerator)
        self.uop = Buffer(accelerator, MemoryType.UOP)
        self.inp = Buffer(accelerator, MemoryType.INP)
        self.wgt = Buffer(accelerator, MemoryType.WGT)
        self.acc = AccumulatorBuffer(accelerator)
        self.out = Buffer(accelerator, MemoryType.OUT)
        super().__init__({})

    def row(self, name: str, n: int) -> Value:
        """Return an element of a buffer, to set and get."""
        return self.acc.row(n) if name == "acc" else getattr(self, name).rows[n]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules += [self.engine, self.uop, self.inp, self.wgt, self.acc, self.out]
        for buffer in ("uop", "inp", "wgt"):
            wiring.connect(m, getattr(self.engine, buffer), getattr(self, buffer).read)
        wiring.connect(m, self.engine.acc_dst, self.acc.read_0)
        wiring.connect(m, self.engine.acc_src, self.acc.read_1)
        wiring.connect(m, self.engine.acc, self.acc.write)
        wiring.connect(m, self.engine.out, self.out.write)
        return m


def run_on_engine(
    accelerator: Accelerator, contents: Contents, instructions: Instructions
) -> tuple[Contents, list[int]]:
    """Return what the buffers hold after instructions, and the cycles that each was busy."""
    circuit = EngineOnBuffers(accelerator)
    engine = circuit.engine
    after = Contents(
        contents.uop, contents.inp, contents.wgt, contents.acc.copy(), contents.out.copy()
    )
    busy_cycles = []

    async def run(ctx: SimulatorContext) -> None:
        for n, word in enumerate(encode_uops(accelerator, contents.uop).tolist()):
            ctx.set(circuit.uop.rows[n], word)
        for name in ("inp", "wgt", "acc", "out"):
            for n, element in enumerate(getattr(contents, name)):
                ctx.set(circuit.row(name, n), int.from_bytes(element.tobytes(), "little"))
        for low, high in encode(accelerator, instructions).tolist():
            ctx.set(engine.instruction, high << 64 | low)
            ctx.set(engine.start, 1)
            await ctx.tick()
            ctx.set(engine.start, 0)
            cycles = 0
            while ctx.get(engine.busy):
                await ctx.tick()
                cycles += 1
            busy_cycles.append(cycles)
        for name in ("acc", "out"):
            for n, element in enumerate(getattr(after, name)):
                row = ctx.get(circuit.row(name, n))
                data = row.to_bytes(element.nbytes, "little")
                element[...] = np.frombuffer(data, element.dtype).reshape(element.shape)

    simulate(circuit, run)
    return after, busy_cycles
