"""A table replaces the results of TABLE instructions on their way to the out buffer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from amaranth.sim import SimulatorContext
from engine_on_buffers import SMALL
from numpy.typing import NDArray
from rtl_simulation import simulate

from vta_rtl.compute.table_lookup import TableLookup
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Alu, AluOp, Gemm, table_content

EXTENDED = replace(SMALL, extensions=("requantise", "table"))
VALUES = np.arange(-128, 128)


def looked_up(
    accelerator: Accelerator, instruction: Alu | Gemm, table: NDArray[np.int8]
) -> NDArray[np.int64]:
    """Return what the out buffer gets for each int8 value, from a circuit that loaded a table."""
    circuit = TableLookup(accelerator)
    found: list[list[int]] = []

    async def run(ctx: SimulatorContext) -> None:
        words = np.frombuffer(table_content(table), "<u4").tolist()
        ctx.set(circuit.table.enable, 1)
        for n, word in enumerate(words):
            ctx.set(circuit.table.address, n)
            ctx.set(circuit.table.data, word)
            await ctx.tick()
        ctx.set(circuit.table.enable, 0)
        low, high = encode(accelerator, [instruction])[0].tolist()
        ctx.set(circuit.instruction, high << 64 | low)
        ctx.set(circuit.results.enable, 1)
        for value in VALUES.tolist():
            lanes = np.array([value, -value - 1, 7, value], np.int8)
            ctx.set(circuit.results.address, value & 7)
            ctx.set(circuit.results.data, int.from_bytes(lanes.tobytes(), "little"))
            await ctx.delay(1e-9)
            assert ctx.get(circuit.out.enable)
            assert ctx.get(circuit.out.address) == value & 7
            row = ctx.get(circuit.out.data).to_bytes(4, "little")
            found.append(np.frombuffer(row, np.int8).tolist())

    simulate(circuit, run)
    return np.array(found)


@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_every_lane_gets_the_entry_of_its_own_result(revision: str) -> None:
    table = np.random.default_rng(3).integers(-128, 128, 256, np.int8)
    instruction = Alu(alu_opcode=AluOp.TABLE, uop_bgn=0, uop_end=1)
    found = looked_up(replace(EXTENDED, revision=revision), instruction, table)
    rows = [VALUES, -VALUES - 1, np.full(256, 7), VALUES]
    np.testing.assert_array_equal(found, np.stack([table[row + 128] for row in rows], axis=1))


@pytest.mark.parametrize(
    "instruction",
    [
        Alu(alu_opcode=AluOp.REQUANTISE, uop_bgn=0, uop_end=1),
        Alu(alu_opcode=AluOp.ADD, uop_bgn=0, uop_end=1),
        Gemm(uop_bgn=0, uop_end=1),
    ],
    ids=["requantise", "add", "gemm"],
)
@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_other_instructions_give_their_results(instruction: Alu | Gemm, revision: str) -> None:
    found = looked_up(replace(EXTENDED, revision=revision), instruction, np.zeros(256, np.int8))
    rows = [VALUES, -VALUES - 1, np.full(256, 7), VALUES]
    np.testing.assert_array_equal(found, np.stack(rows, axis=1))
