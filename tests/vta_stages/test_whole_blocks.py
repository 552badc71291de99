"""Rectangular blocks: what the compiler sees, and the elements that its programs use."""

from __future__ import annotations

import numpy as np
import pytest
from accelerators import FOUR_BY_EIGHT, QUARTERS, THIRTYTWO_BY_SIXTEEN
from compiler_support import STOCK, conv, tensor

from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.isa.instructions import MemoryType, Opcode
from vta_stages.whole_blocks import real_accelerator, whole_blocks


@pytest.mark.parametrize("accelerator", [STOCK, FOUR_BY_EIGHT], ids=["1x16", "4x8"])
def test_square_blocks_are_whole_already(accelerator: Accelerator) -> None:
    assert whole_blocks(accelerator) is accelerator
    assert real_accelerator(accelerator) is accelerator
    assert accelerator.parts == 1


@pytest.mark.parametrize(
    ("accelerator", "parts"), [(THIRTYTWO_BY_SIXTEEN, 2), (QUARTERS, 4)], ids=["1x32x16", "1x16x4"]
)
def test_an_element_is_several_of_the_hardware(accelerator: Accelerator, parts: int) -> None:
    whole = whole_blocks(accelerator)
    assert (whole.block_in, whole.block_out) == (accelerator.block_in, accelerator.block_in)
    assert whole.parts == accelerator.parts == parts
    assert (whole.inp_depth, whole.uop_depth) == (accelerator.inp_depth, accelerator.uop_depth)
    assert whole.wgt_depth * parts == accelerator.wgt_depth
    assert whole.acc_depth * parts == accelerator.acc_depth
    assert whole.out_bytes == whole.inp_bytes == accelerator.out_bytes * parts
    assert whole.configuration == accelerator.configuration
    assert whole_blocks(whole) is whole
    assert real_accelerator(whole) is accelerator


def test_the_configuration_names_both_blocks() -> None:
    assert THIRTYTWO_BY_SIXTEEN.configuration == "1x32x16_i8w8a32_15_16_18_17"


def test_a_program_has_half_the_steps_of_1x16_and_stores_both_halves_of_a_pixel() -> None:
    layer = conv(np.random.default_rng(0), "c", tensor("x", 64, 8, 8), 64, 3, pad=1)
    steps = {}
    for accelerator in (STOCK, THIRTYTWO_BY_SIXTEEN):
        program = compile_program(accelerator, [layer], ["x"], ["c.out"])
        assert program.accelerator == accelerator
        gemm = program.table.columns[Opcode.GEMM]
        uops = gemm["uop_end"] - gemm["uop_bgn"]
        products = ~gemm["reset"].astype(bool)
        steps[accelerator] = int((uops * gemm["iter_out"] * gemm["iter_in"])[products].sum())
        stores = program.table.columns[Opcode.STORE]
        stored = int((stores["x_size"] * stores["y_size"]).sum())
        assert stored * accelerator.out_bytes == 64 * 8 * 8
        loads = program.table.columns[Opcode.LOAD]
        weights = loads["memory_type"] == MemoryType.WGT
        assert int(loads["x_size"][weights].sum()) * accelerator.wgt_bytes >= layer.weight.size
    assert steps[THIRTYTWO_BY_SIXTEEN] < 0.6 * steps[STOCK]
