"""The parts of lowering: axis maps, plans for residual factors, biases, omitted clips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiler_support import STOCK, conv, epilogue, tensor
from hypothesis import given
from hypothesis import strategies as st

from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import (
    AluOp,
    leaky_immediate,
    requantise_bounds,
    requantise_immediate,
)
from vta_stages.layers.records import Conv, Layer, Leaky, LeakySum, Sum, Term
from vta_stages.lowering.axis_maps import clamped_axis, conv_axis, transposed_axis
from vta_stages.lowering.bias_weights import bias_input, bias_weights, largest_bias
from vta_stages.lowering.kernel import (
    Accumulate,
    Accumulator,
    AddBias,
    Combine,
    FoldWindows,
    Immediate,
    Reset,
    Step,
    Vector,
)
from vta_stages.lowering.lower import lower
from vta_stages.lowering.terms import plan_terms

SMALL = st.integers(1, 9)


def dense(axis, extent_out: int, extent_in: int) -> np.ndarray:
    """[out, in, tap] of an axis map."""
    table = np.zeros((extent_out, extent_in, axis.taps), np.int64)
    np.add.at(table, (axis.out, axis.src, axis.tap), 1)
    return table


def test_padding_has_no_products() -> None:
    axis = conv_axis(2, 4, 3, 2, 1, 1)
    assert axis.out.tolist() == [0, 0, 1, 1, 1]
    assert axis.src.tolist() == [0, 1, 1, 2, 3]
    assert axis.tap.tolist() == [1, 2, 0, 1, 2]
    assert axis.rank.tolist() == [0, 1, 0, 1, 2]


@given(extent=SMALL, kernel=SMALL, stride=st.integers(1, 3), pad=st.integers(0, 3))
def test_a_transposed_convolution_is_the_transpose_of_a_convolution(
    extent, kernel, stride, pad
) -> None:
    out = (extent - 1) * stride + kernel - 2 * pad
    if out < 1:
        return
    forward = dense(transposed_axis(out, extent, kernel, stride, pad), out, extent)
    backward = dense(conv_axis(extent, out, kernel, stride, pad, 1), extent, out)
    np.testing.assert_array_equal(forward, backward.transpose(1, 0, 2))


def test_clamping_repeats_pixels_of_the_same_window() -> None:
    axis = clamped_axis(3, 5, 3, 2, 1)
    assert axis.src.reshape(3, 3).tolist() == [[0, 0, 1], [1, 2, 3], [3, 4, 4]]


FACTOR = st.builds(lambda f, k: f << k, st.integers(-128, 127), st.integers(0, 16))


@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[FACTOR] * n), min_size=1)))
def test_plans_of_terms_multiply_by_exactly_the_factors(channels) -> None:
    factors = [np.array(factor, np.int64) for factor in zip(*channels, strict=True)]
    plan = plan_terms(factors)
    found = [np.zeros_like(factor) for factor in factors]
    for products, shift in ((plan.shifted, plan.shift), (plan.plain, 0)):
        for index, mantissa in products:
            assert np.abs(mantissa).max() <= 127
            found[index] += mantissa << shift
    np.testing.assert_array_equal(found, factors)
    assert 0 <= plan.shift.min() <= plan.shift.max() <= 16


@pytest.mark.parametrize(
    ("factors", "steps"),
    [
        ([[100, -3]], 1),  # fits int8
        ([[250, 3]], 2),  # two pieces
        ([[97 << 3, 97 << 3]], 3),  # below one shift
        ([[97 << 3, 97 << 5]], 3),  # below a shift of each channel's own
        ([[97 << 3, 97 << 5], [5, 6]], 4),  # only one of the terms below it
        ([[1000, 1001], [999, 64]], 6),  # split in two
    ],
)
def test_the_cheapest_plan_is_taken(factors, steps: int) -> None:
    assert plan_terms([np.array(factor, np.int64) for factor in factors]).steps == steps


@given(st.lists(st.integers(-241_998, 241_998), min_size=16, max_size=16))
def test_biases_are_exact(values) -> None:
    assert largest_bias(16) == 241_998
    wanted = np.array([values], np.int32)
    tile = bias_weights(wanted, 16)[0, 0].astype(np.int64)
    np.testing.assert_array_equal(tile @ bias_input(STOCK)[0].astype(np.int64), wanted[0])


def clips(layer) -> list[AluOp]:
    steps = lower(layer, STOCK).steps
    return [s.op for s in steps if isinstance(s, Immediate) and s.op in (AluOp.MIN, AluOp.MAX)]


def test_a_clip_without_effect_is_left_out() -> None:
    rng = np.random.default_rng(0)
    x = tensor("x", 16, 4, 4)
    wide = conv(rng, "wide", x, 16, 3, pad=1)
    assert clips(wide) == [AluOp.MAX, AluOp.MIN]
    narrow = Conv(
        name="narrow",
        input=x,
        output=tensor("y", 16, 4, 4),
        weight=np.full((16, 16, 1, 1), 2, np.int8),
        epilogue=epilogue(rng, 16, shift=12, low=0),
    )
    assert clips(narrow) == [AluOp.MAX]
    copy = Sum(
        name="copy",
        output=tensor("y", 16, 4, 4),
        terms=(Term(tensor=x, factor=np.ones(16, np.int32)),),
        epilogue=epilogue(rng, 16, shift=0, per_channel=False),
    )
    assert clips(copy) == [AluOp.MAX, AluOp.MIN]


def test_a_bias_is_a_product_and_equal_shifts_are_immediate() -> None:
    rng = np.random.default_rng(0)
    layer = conv(rng, "c", tensor("x", 16, 4, 4), 16, 3, pad=1)
    kernel = lower(layer, STOCK)
    assert any(isinstance(step, AddBias) for step in kernel.steps)
    assert any(isinstance(step, Vector) and step.op is AluOp.SHR for step in kernel.steps)
    np.testing.assert_array_equal(kernel.biases[0], layer.epilogue.bias)


EXTENDED = Accelerator(extensions=("requantise",))


def passes(layer: Layer, accelerator: Accelerator = EXTENDED) -> list[Step]:
    """Return the steps of a layer after its products."""
    steps = lower(layer, accelerator).steps
    return [step for step in steps if not isinstance(step, Reset | Accumulate | FoldWindows)]


def test_requantise_replaces_bias_shift_and_clips() -> None:
    layer = conv(np.random.default_rng(0), "c", tensor("x", 16, 4, 4), 16, 3, pad=1, low=0, high=6)
    kernel = lower(layer, EXTENDED)
    bounds = requantise_bounds(0, 6)
    assert passes(layer) == [Vector(AluOp.REQUANTISE, Accumulator.MAIN, 0, bounds)]
    assert len(passes(layer, STOCK)) == 4
    lanes = kernel.vectors[0]
    np.testing.assert_array_equal(lanes >> 5, layer.epilogue.bias)
    np.testing.assert_array_equal(lanes & 31, layer.epilogue.shift)
    assert not len(kernel.biases)


def test_requantise_needs_no_vector_without_a_bias_and_with_one_shift() -> None:
    layer = conv(np.random.default_rng(0), "c", tensor("x", 16, 4, 4), 16, 3, pad=1)
    none = np.zeros(16, np.int32)
    uniform = replace(layer.epilogue, bias=none, shift=none + 21)
    whole = replace(layer, epilogue=uniform)
    immediate = requantise_immediate(21, -128, 127)
    assert passes(whole) in ([], [Immediate(AluOp.REQUANTISE, Accumulator.MAIN, immediate)])
    assert not len(lower(whole, EXTENDED).vectors)


def test_a_bias_that_is_too_large_for_requantise_keeps_its_passes() -> None:
    layer = conv(np.random.default_rng(0), "c", tensor("x", 16, 4, 4), 16, 3, pad=1)
    for bias, fits in ((-(1 << 26), True), ((1 << 26) - 1, True), (1 << 26, False)):
        large = replace(layer.epilogue, bias=np.full(16, bias, np.int32))
        found = passes(replace(layer, epilogue=large))
        assert (AluOp.REQUANTISE in [getattr(step, "op", None) for step in found]) == fits


LEAKY = Accelerator(extensions=("leaky", "requantise"))


@pytest.mark.parametrize(
    ("steps", "immediate"),
    [
        (((3, LeakySum.NOTHING),), leaky_immediate(3, 0, adds=False)),
        (((9, LeakySum.NOTHING),), leaky_immediate(7, 2, adds=False)),
        (((2, LeakySum.TO_VALUE), (1, LeakySum.NOTHING)), leaky_immediate(2, 1, adds=True)),
    ],
)
def test_a_leaky_relu_is_one_pass(steps: tuple[tuple[int, LeakySum], ...], immediate: int) -> None:
    layer = conv(np.random.default_rng(0), "c", tensor("x", 16, 4, 4), 16, 3, pad=1)
    offset = np.arange(16, dtype=np.int32)
    leaky = replace(
        layer, epilogue=replace(layer.epilogue, leaky=Leaky(offset=offset, steps=steps))
    )
    _, *found = passes(leaky, LEAKY)
    assert found[0] == Vector(AluOp.LEAKY, Accumulator.MAIN, 0, immediate)
    assert [step.op for step in found if isinstance(step, Vector)][1:] == [AluOp.REQUANTISE]
    none = Leaky(offset=np.zeros(16, np.int32), steps=steps)
    without = replace(layer, epilogue=replace(layer.epilogue, leaky=none))
    assert passes(without, LEAKY)[1] == Immediate(AluOp.LEAKY, Accumulator.MAIN, immediate)


@pytest.mark.parametrize(
    "steps",
    [
        ((1, LeakySum.TO_BRANCH), (4, LeakySum.NOTHING)),
        ((15, LeakySum.NOTHING),),
        ((8, LeakySum.TO_VALUE), (1, LeakySum.NOTHING)),
    ],
)
def test_a_leaky_relu_of_other_steps_keeps_its_passes(
    steps: tuple[tuple[int, LeakySum], ...],
) -> None:
    layer = conv(np.random.default_rng(0), "c", tensor("x", 16, 4, 4), 16, 3, pad=1)
    leaky = Leaky(offset=np.zeros(16, np.int32), steps=steps)
    found = passes(replace(layer, epilogue=replace(layer.epilogue, leaky=leaky)), LEAKY)
    assert AluOp.LEAKY not in [getattr(step, "op", None) for step in found]
    assert Combine(AluOp.MAX, Accumulator.MAIN, Accumulator.TEMP) in found


def test_a_single_pass_is_not_replaced() -> None:
    rng = np.random.default_rng(0)
    copy = Sum(
        name="copy",
        output=tensor("y", 16, 4, 4),
        terms=(Term(tensor=tensor("x", 16, 4, 4), factor=np.ones(16, np.int32)),),
        epilogue=replace(
            epilogue(rng, 16, shift=0, low=0, per_channel=False), bias=np.zeros(16, np.int32)
        ),
    )
    assert passes(copy) == passes(copy, STOCK) == [Immediate(AluOp.MAX, Accumulator.MAIN, 0)]


@pytest.mark.parametrize(
    ("groups", "diagonal", "count"), [(1, False, 4), (64, True, 1), (4, True, 1), (2, False, 2)]
)
def test_groups_read_only_their_blocks(groups: int, diagonal: bool, count: int) -> None:
    rng = np.random.default_rng(0)
    layer = conv(rng, "g", tensor("x", 64, 4, 4), 64, 3, pad=1, groups=groups)
    source = lower(layer, STOCK).sources[0]
    assert (source.diagonal, source.ci_count) == (diagonal, count)


def test_pooling_shares_one_weight_block_between_all_channels() -> None:
    layer = Conv(
        name="average",
        input=tensor("x", 64, 7, 7),
        output=tensor("y", 64, 1, 1),
        weight=np.ones((64, 1, 7, 7), np.int8),
        epilogue=epilogue(np.random.default_rng(0), 64),
        groups=64,
    )
    assert lower(layer, STOCK).sources[0].weights.shape[0] == 1
