"""GEMM instructions in hardware give numpy's integers, at one step a cycle."""

from __future__ import annotations

import numpy as np
import pytest
from accelerators import FOUR_BY_EIGHT, RECTANGULAR
from engine_on_buffers import SMALL, Contents, run_in_numpy, run_on_engine

from vta_rtl.compute.engine import latency_cycles
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import Gemm

ACCELERATORS = [Accelerator(revision="0.0.2"), FOUR_BY_EIGHT, SMALL, RECTANGULAR]
each_accelerator = pytest.mark.parametrize(
    "accelerator", ACCELERATORS, ids=lambda a: a.configuration
)
ELEMENTS = 64


def same(found: Contents, expected: Contents) -> None:
    np.testing.assert_array_equal(found.acc, expected.acc)
    np.testing.assert_array_equal(found.out, expected.out)


def random_gemm(draw: np.random.Generator, contents: Contents) -> Gemm:
    """Draw a GEMM whose steps stay within the contents; a few have no step."""
    bgn, end = sorted(draw.integers(0, 17, 2).tolist())
    out, inner = draw.integers(0 if draw.random() < 0.1 else 1, 5, 2).tolist()
    factors = {}
    for name, column in (("dst", 0), ("src", 1), ("wgt", 2)):
        room = ELEMENTS - 1 - int(contents.uop[bgn:end, column].max(initial=0))
        factors[f"{name}_factor_out"] = int(draw.integers(0, max(1, room // 8) + 1))
        factors[f"{name}_factor_in"] = int(draw.integers(0, max(1, room // 8) + 1))
    reset = bool(draw.random() < 0.15)
    return Gemm(uop_bgn=bgn, uop_end=end, reset=reset, iter_out=out, iter_in=inner, **factors)


def contents_with_room(draw: np.random.Generator, accelerator: Accelerator) -> Contents:
    """Draw contents whose uops leave room for factors, half of them on very few accumulators."""
    contents = Contents.full_range(draw, accelerator, ELEMENTS)
    contents.uop %= ELEMENTS // 2
    contents.uop[::2, 0] %= 3
    return contents


@each_accelerator
def test_random_programs_give_numpys_integers(accelerator: Accelerator) -> None:
    draw = np.random.default_rng(16)
    contents = contents_with_room(draw, accelerator)
    program = [random_gemm(draw, contents) for _ in range(15)]
    found, _ = run_on_engine(accelerator, contents, program)
    same(found, run_in_numpy(accelerator, contents, program))


def test_the_same_accumulator_can_be_used_in_every_cycle() -> None:
    draw = np.random.default_rng(1)
    contents = Contents.full_range(draw, SMALL, ELEMENTS)
    for distance in range(1, 8):
        contents.uop[:, 0] = np.arange(ELEMENTS) % distance
        program = [Gemm(uop_bgn=0, uop_end=ELEMENTS, iter_out=2)]
        found, _ = run_on_engine(SMALL, contents, program)
        same(found, run_in_numpy(SMALL, contents, program))


def test_a_reset_between_products_of_the_same_accumulator_clears_it() -> None:
    contents = Contents.full_range(np.random.default_rng(2), SMALL, ELEMENTS)
    contents.uop[:, 0] = 5
    program = [
        Gemm(uop_bgn=0, uop_end=3),
        Gemm(uop_bgn=0, uop_end=1, reset=True),
        Gemm(uop_bgn=3, uop_end=4),
    ]
    found, _ = run_on_engine(SMALL, contents, program)
    _, src, wgt = contents.uop[3]
    product = contents.inp[src].astype(np.int32) @ contents.wgt[wgt].astype(np.int32).T
    np.testing.assert_array_equal(found.acc[5], product)
    np.testing.assert_array_equal(found.out[5], product.astype(np.int8))


def test_the_largest_products_and_sums_wrap_at_32_bits() -> None:
    accelerator = Accelerator()
    contents = Contents.full_range(np.random.default_rng(3), accelerator, ELEMENTS)
    contents.inp[...] = -128
    contents.wgt[...] = -128
    contents.acc[...] = (1 << 31) - 1
    program = [Gemm(uop_bgn=0, uop_end=ELEMENTS)]
    found, _ = run_on_engine(accelerator, contents, program)
    same(found, run_in_numpy(accelerator, contents, program))
    assert found.acc[contents.uop[0, 0]].max() < 0


@each_accelerator
def test_no_cycle_is_lost_between_iterations(accelerator: Accelerator) -> None:
    contents = Contents.full_range(np.random.default_rng(4), accelerator, ELEMENTS)
    contents.uop[...] = 0
    shapes = [(1, 1, 1), (1, 1, 60), (60, 1, 1), (1, 60, 1), (5, 4, 3)]
    program = [
        Gemm(uop_bgn=0, uop_end=uops, iter_out=out, iter_in=inner) for out, inner, uops in shapes
    ]
    _, cycles = run_on_engine(accelerator, contents, program)
    latency = latency_cycles(accelerator)
    assert cycles == [out * inner * uops + latency for out, inner, uops in shapes]


@pytest.mark.parametrize("loops", [{"iter_out": 0}, {"iter_in": 0}, {"uop_end": 4}])
def test_loops_without_a_step_leave_the_buffers_alone(loops: dict[str, int]) -> None:
    contents = Contents.full_range(np.random.default_rng(5), SMALL, ELEMENTS)
    program = [Gemm(**{"uop_bgn": 4, "uop_end": 9, **loops})]
    found, cycles = run_on_engine(SMALL, contents, program)
    same(found, contents)
    assert cycles == [0]
