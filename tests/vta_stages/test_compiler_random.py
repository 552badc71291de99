"""Random small layers of every kind, on several accelerators, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from compiler_support import ACCELERATORS, check_program, epilogue, int8, tensor
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from instruction_records import name_of
from levels import every

from vta_stages.layers.check import conv_extent
from vta_stages.layers.records import (
    Concat,
    Conv,
    MaxPool,
    Pick,
    Resize,
    Sum,
    Term,
    TransposedConv,
)

pytestmark = pytest.mark.sim

SEEDS = st.integers(0, 2**32 - 1)
EXTENTS = st.integers(1, 13)
CHANNELS = st.integers(1, 70)
SMALL = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)
each_accelerator = pytest.mark.parametrize("accelerator", every(2, ACCELERATORS), ids=name_of)


def random_terms(rng, count, output):
    """Residual terms whose factors need different, or the same, powers of two."""
    terms = []
    for index in range(count):
        mantissa = rng.integers(-127, 128, output.channels)
        highest = int(rng.integers(0, 9))
        power = rng.integers(0, highest + 1, output.channels)
        if rng.integers(2):
            mantissa, power = mantissa[:1].repeat(output.channels), power[:1]
        terms.append(
            Term(
                tensor=tensor(f"r{index}", output.channels, output.height, output.width),
                factor=(mantissa << power).astype(np.int32),
            )
        )
    return tuple(terms)


def random_epilogue(rng, channels):
    low, high = [(-128, 127), (0, 127), (0, 6), (-5, 100)][rng.integers(4)]
    return epilogue(
        rng,
        channels,
        shift=int(rng.integers(0, 18)),
        low=low,
        high=high,
        leaky=bool(rng.integers(3) == 0),
        per_channel=bool(rng.integers(2)),
    )


def input_names(layer, terms):
    return sorted({layer.input.name, *(term.tensor.name for term in terms)})


@each_accelerator
@given(
    seed=SEEDS, height=EXTENTS, width=EXTENTS, channels=CHANNELS, outputs=CHANNELS,
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(*[st.integers(0, 3)] * 4),
    terms=st.integers(0, 2),
)  # fmt: skip
@SMALL
def test_convolutions(
    accelerator, seed, height, width, channels, outputs, kernel, stride, dilation, padding, terms
):
    rng = np.random.default_rng(seed)
    out_height = conv_extent(height, kernel[0], stride[0], dilation[0], padding[0] + padding[2])
    out_width = conv_extent(width, kernel[1], stride[1], dilation[1], padding[1] + padding[3])
    assume(out_height > 0 and out_width > 0)
    output = tensor("y", outputs, out_height, out_width)
    residuals = random_terms(rng, terms, output)
    layer = Conv(
        name="conv",
        input=tensor("x", channels, height, width),
        output=output,
        weight=int8(rng, outputs, channels, *kernel),
        epilogue=random_epilogue(rng, outputs),
        stride=stride,
        dilation=dilation,
        padding=padding,
        terms=residuals,
    )
    check_program(accelerator, [layer], input_names(layer, residuals), ["y"], seed)


@each_accelerator
@given(
    seed=SEEDS, extent=EXTENTS, groups=st.integers(1, 40), group_in=st.integers(1, 20),
    group_out=st.integers(1, 20), kernel=st.integers(1, 3), stride=st.integers(1, 2),
)  # fmt: skip
@SMALL
def test_grouped_convolutions(
    accelerator, seed, extent, groups, group_in, group_out, kernel, stride
):
    assume(groups * max(group_in, group_out) <= 160 and extent + 2 >= kernel)
    rng = np.random.default_rng(seed)
    out = conv_extent(extent, kernel, stride, 1, 2)
    layer = Conv(
        name="grouped",
        input=tensor("x", groups * group_in, extent, extent),
        output=tensor("y", groups * group_out, out, out),
        weight=int8(rng, groups * group_out, group_in, kernel, kernel),
        epilogue=random_epilogue(rng, groups * group_out),
        stride=(stride, stride),
        padding=(1, 1, 1, 1),
        groups=groups,
    )
    check_program(accelerator, [layer], ["x"], ["y"], seed)


@each_accelerator
@given(
    seed=SEEDS, height=EXTENTS, width=EXTENTS, channels=CHANNELS, outputs=CHANNELS,
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(*[st.integers(0, 2)] * 4), extra=st.integers(0, 2),
    groups=st.integers(1, 3), terms=st.integers(0, 1),
)  # fmt: skip
@SMALL
def test_transposed_convolutions(
    accelerator, seed, height, width, channels, outputs, kernel, stride, padding, extra, groups,
    terms,
):  # fmt: skip
    rng = np.random.default_rng(seed)
    top, left, bottom, right = padding
    out_height = (height - 1) * stride[0] + kernel[0] - top - bottom + min(extra, stride[0] - 1)
    out_width = (width - 1) * stride[1] + kernel[1] - left - right + min(extra, stride[1] - 1)
    assume(out_height > 0 and out_width > 0)
    output = tensor("y", outputs * groups, out_height, out_width)
    residuals = random_terms(rng, terms, output)
    layer = TransposedConv(
        name="up",
        input=tensor("x", channels * groups, height, width),
        output=output,
        weight=int8(rng, channels * groups, outputs, *kernel),
        epilogue=random_epilogue(rng, outputs * groups),
        stride=stride,
        padding=padding,
        groups=groups,
        terms=residuals,
    )
    check_program(accelerator, [layer], input_names(layer, residuals), ["y"], seed)


@each_accelerator
@given(seed=SEEDS, height=EXTENTS, width=EXTENTS, channels=CHANNELS, terms=st.integers(1, 4))
@example(seed=359, height=1, width=1, channels=1, terms=1)  # its only factor is 0
@SMALL
def test_sums(accelerator, seed, height, width, channels, terms):
    rng = np.random.default_rng(seed)
    output = tensor("y", channels, height, width)
    residuals = random_terms(rng, terms, output)
    layer = Sum(name="sum", output=output, terms=residuals, epilogue=random_epilogue(rng, channels))
    check_program(accelerator, [layer], [t.tensor.name for t in residuals], ["y"], seed)


@each_accelerator
@given(
    seed=SEEDS, height=EXTENTS, width=EXTENTS, channels=CHANNELS,
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(*[st.integers(0, 3)] * 4),
)  # fmt: skip
@SMALL
def test_max_pools(accelerator, seed, height, width, channels, kernel, stride, padding):
    top, left, bottom, right = padding
    assume(max(top, bottom) < kernel[0] and max(left, right) < kernel[1])
    out_height = conv_extent(height, kernel[0], stride[0], 1, top + bottom)
    out_width = conv_extent(width, kernel[1], stride[1], 1, left + right)
    assume(out_height > 0 and out_width > 0)
    assume((out_height - 1) * stride[0] - top < height)
    assume((out_width - 1) * stride[1] - left < width)
    layer = MaxPool(
        name="pool",
        input=tensor("x", channels, height, width),
        output=tensor("y", channels, out_height, out_width),
        kernel=kernel,
        stride=stride,
        padding=padding,
    )
    check_program(accelerator, [layer], ["x"], ["y"], seed)


@each_accelerator
@given(
    seed=SEEDS, height=EXTENTS, width=EXTENTS, out_height=EXTENTS, out_width=EXTENTS,
    channels=CHANNELS, shift=st.integers(0, 6),
)  # fmt: skip
@SMALL
def test_resizes(accelerator, seed, height, width, out_height, out_width, channels, shift):
    rng = np.random.default_rng(seed)

    def weights(extent_out, extent_in):
        matrix = rng.integers(-4, 12, (extent_out, extent_in))
        kept = rng.integers(0, extent_in, (extent_out, 2))
        sparse = np.zeros_like(matrix)
        for column in kept.T:
            sparse[np.arange(extent_out), column] = matrix[np.arange(extent_out), column]
        sparse[0, 0] = 1
        return sparse.astype(np.int32)

    layer = Resize(
        name="resize",
        input=tensor("x", channels, height, width),
        output=tensor("y", channels, out_height, out_width),
        rows=weights(out_height, height),
        cols=weights(out_width, width),
        shift=shift,
    )
    check_program(accelerator, [layer], ["x"], ["y"], seed)


@each_accelerator
@given(
    seed=SEEDS, height=EXTENTS, width=EXTENTS,
    channels=st.lists(CHANNELS | st.sampled_from([16, 32, 64]), min_size=1, max_size=4),
)  # fmt: skip
@SMALL
def test_concats(accelerator, seed, height, width, channels):
    parts = tuple(tensor(f"x{i}", c, height, width) for i, c in enumerate(channels))
    layer = Concat(name="concat", inputs=parts, output=tensor("y", sum(channels), height, width))
    check_program(accelerator, [layer], [part.name for part in parts], ["y"], seed)


@each_accelerator
@given(
    seed=SEEDS, height=EXTENTS, width=EXTENTS, channels=CHANNELS | st.just(64), data=st.data()
)  # fmt: skip
@SMALL
def test_picks(accelerator, seed, height, width, channels, data):
    any_order = st.lists(st.integers(0, channels - 1), min_size=1, max_size=70)
    neighbours = st.builds(
        lambda begin, count: list(range(begin, min(begin + count, channels))),
        st.integers(0, channels - 1),
        st.integers(1, 70),
    )
    picked = tuple(data.draw(any_order | neighbours))
    x = tensor("x", channels, height, width)
    layer = Pick(name="p", input=x, output=tensor("y", len(picked), height, width), channels=picked)
    check_program(accelerator, [layer], ["x"], ["y"], seed)
