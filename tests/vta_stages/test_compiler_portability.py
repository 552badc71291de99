"""Programs that mean the same to upstream's two implementations, in HLS and in Chisel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from accelerators import CHISEL
from compiler_support import STOCK, check_program, conv, tensor

from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.errors import VerificationError
from vta_stages.isa.codec import decode_uops
from vta_stages.isa.instructions import AluOp, MemoryType, Opcode
from vta_stages.layers.records import Layer, MaxPool, Term
from vta_stages.lowering.terms import plan_terms
from vta_stages.program import Program
from vta_stages.verification.verifier import verify

pytestmark = pytest.mark.sim
HLS = Accelerator(implementation="hls")


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


def plain() -> list[Layer]:
    """Return a convolution whose tiles have several channel blocks and many pixels."""
    return [conv(np.random.default_rng(3), "y", tensor("x", 40, 30, 31), 50, 3, pad=1)]


def leaky() -> list[Layer]:
    """Return a leaky ReLU, which also combines two accumulators, by uops of its own."""
    rng = np.random.default_rng(3)
    return [conv(rng, "y", tensor("x", 40, 30, 31), 50, 3, pad=1, leaky=True)]


def residual() -> list[Layer]:
    """Return a sum whose channels need different left shifts, or one and remainders."""
    rng = np.random.default_rng(5)
    factor = (rng.integers(64, 127, 40) << rng.integers(1, 9, 40)).astype(np.int32)
    source = tensor("x", 40, 9, 11)
    return [conv(rng, "y", source, 40, 1, terms=(Term(tensor=source, factor=factor),))]


def pooled() -> list[Layer]:
    """Return a pooling that folds windows in the accumulator."""
    source = tensor("x", 20, 12, 14)
    output = tensor("y.out", 20, 6, 7)
    return [
        MaxPool(
            name="y", input=source, output=output, kernel=(2, 2), stride=(2, 2), padding=(0,) * 4
        )
    ]


NETWORKS: tuple[Callable[[], list[Layer]], ...] = (plain, leaky, residual, pooled)
each_network = pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)


def shifts_by_vectors(program: Program) -> int:
    columns = program.table.columns[Opcode.ALU]
    return int(((columns["alu_opcode"] == AluOp.SHR) & (columns["use_imm"] == 0)).sum())


@each_network
def test_an_immediate_reads_where_it_writes(network: Callable[[], list[Layer]]) -> None:
    found = uops_of_immediates(check_program(STOCK, network(), ["x"], ["y.out"]))
    assert found or network is pooled
    for uops, (dst_out, dst_in, src_out, src_in) in found:
        assert (uops[:, 0] == uops[:, 1]).all()
        assert (dst_out, dst_in) == (src_out, src_in)


@each_network
def test_a_program_for_an_unknown_implementation_follows_the_rules_of_both(
    network: Callable[[], list[Layer]],
) -> None:
    """Its bits equal the reference in either meaning of the simulator."""
    check_program(CHISEL, network(), ["x"], ["y.out"])
    either = replace(CHISEL, implementation="")
    program = check_program(either, network(), ["x"], ["y.out"])
    verify(replace(program, accelerator=CHISEL))
    verify(replace(program, accelerator=replace(CHISEL, implementation="hls")))


def test_vectors_shift_left_only_where_the_accelerator_says_so() -> None:
    program = check_program(HLS, residual(), ["x"], ["y.out"])
    portable = check_program(STOCK, residual(), ["x"], ["y.out"])
    assert shifts_by_vectors(program) > shifts_by_vectors(portable)
    with pytest.raises(VerificationError, match="shifts a lane left by a vector, which this imple"):
        verify(replace(program, accelerator=Accelerator(implementation="chisel")))


def test_a_plan_with_one_distance_adds_up_to_the_factors() -> None:
    rng = np.random.default_rng(8)
    for _ in range(20):
        factors = [
            (rng.integers(-127, 128, 9) << rng.integers(0, 17, 9)).astype(np.int64)
            for _ in range(int(rng.integers(1, 4)))
        ]
        plan = plan_terms(factors, one_distance=True)
        assert (plan.shift == plan.shift[0]).all()
        for index, factor in enumerate(factors):
            below = sum(m for term, m in plan.shifted if term == index)
            beside = sum(m for term, m in plan.plain if term == index)
            assert (((below << plan.shift) + beside) == factor).all()


def test_accumulators_that_src_cannot_name_stay_unused_where_immediates_read_them() -> None:
    """The input buffer has 512 elements, so src has 9 bits; the accumulator has 2,048."""
    shallow = replace(CHISEL, inp_buffer_bytes_log2=13)
    program = check_program(shallow, plain(), ["x"], ["y.out"])
    assert all(uops[:, 0].max() < 512 for uops, _ in uops_of_immediates(program))
    with pytest.raises(VerificationError, match="src that differs from dst, where this impl"):
        deep = replace(shallow, implementation="hls")
        verify(replace(compile_program(deep, plain(), ["x"], ["y.out"]), accelerator=shallow))
