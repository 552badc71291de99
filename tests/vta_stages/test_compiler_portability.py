"""Programs that mean the same to upstream's two implementations, in HLS and in Chisel."""

from __future__ import annotations

import numpy as np
import pytest
from compiler_support import STOCK, check_program, conv, tensor

from vta_stages.isa.codec import decode_uops
from vta_stages.isa.instructions import MemoryType, Opcode
from vta_stages.layers.inputs import layer_inputs
from vta_stages.layers.records import Layer
from vta_stages.program import Program

pytestmark = pytest.mark.sim


def uops_of_immediates(program: Program) -> list[tuple[np.ndarray, tuple[int, ...]]]:
    """Return the uops int64[n, 3] of every ALU instruction with an immediate, and its factors."""
    table, found = program.table, []
    buffer = np.zeros(program.accelerator.uop_depth, np.uint32)
    names = ("dst_factor_out", "dst_factor_in", "src_factor_out", "src_factor_in")
    for opcode, row in zip(table.opcode.tolist(), table.rows.tolist(), strict=True):
        values = {name: int(column[row]) for name, column in table.columns[Opcode(opcode)].items()}
        if opcode == Opcode.LOAD and values["memory_type"] == MemoryType.UOP:
            begin, count = values["sram_base"], values["x_size"]
            words = np.frombuffer(program.consts, "<u4", count, 4 * values["dram_base"])
            buffer[begin : begin + count] = words
        elif opcode == Opcode.ALU and values["use_imm"]:
            words = buffer[values["uop_bgn"] : values["uop_end"]]
            factors = tuple(values[name] for name in names)
            found.append((decode_uops(program.accelerator, words), factors))
    return found


def network(leaky: bool) -> list[Layer]:
    """Return a convolution whose tiles have several channel blocks and many pixels."""
    rng = np.random.default_rng(3)
    return [conv(rng, "y", tensor("x", 40, 30, 31), 50, 3, pad=1, leaky=leaky)]


@pytest.mark.parametrize("leaky", [False, True])
def test_an_immediate_reads_where_it_writes(leaky: bool) -> None:
    """A leaky ReLU also combines two accumulators, by uops of its own."""
    layers = network(leaky)
    names = [spec.name for spec in layer_inputs(layers[0])]
    found = uops_of_immediates(check_program(STOCK, layers, names, ["y.out"]))
    assert len(found) > 3
    assert any(max(factors) > 0 for _, factors in found)
    for uops, (dst_out, dst_in, src_out, src_in) in found:
        assert (uops[:, 0] == uops[:, 1]).all()
        assert (dst_out, dst_in) == (src_out, src_in)
