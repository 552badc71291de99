"""Small networks: tensors shared between layers, concatenations, several outputs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from compiler_support import (
    ACCELERATORS,
    STOCK,
    check_program,
    conv,
    epilogue,
    tensor,
)
from instruction_records import name_of

from vta_stages.compiler import compile_program
from vta_stages.layers import records
from vta_stages.program import RegionKind

each_accelerator = pytest.mark.parametrize("accelerator", ACCELERATORS, ids=name_of)


def term(source: records.TensorSpec, factor: int) -> records.Term:
    return records.Term(tensor=source, factor=np.full(source.channels, factor, np.int32))


def add(rng, name, *sources: records.TensorSpec) -> records.Sum:
    first = sources[0]
    return records.Sum(
        name=name,
        output=tensor(f"{name}.out", first.channels, first.height, first.width),
        terms=tuple(term(source, 64) for source in sources),
        epilogue=epilogue(rng, first.channels, shift=6, per_channel=False),
    )


def concat(name: str, *parts: records.TensorSpec) -> records.Concat:
    channels = sum(part.channels for part in parts)
    output = tensor(f"{name}.out", channels, parts[0].height, parts[0].width)
    return records.Concat(name=name, inputs=parts, output=output)


@pytest.mark.parametrize(("channels", "extent", "stride"), [(20, 15, 2), (48, 8, 1)])
@each_accelerator
def test_projections_add_into_the_same_accumulator(
    accelerator, channels: int, extent: int, stride: int
) -> None:
    rng = np.random.default_rng(channels)
    source = tensor("x", channels, extent, extent)
    first = conv(rng, "first", source, 40, 3, stride=stride, pad=1)
    second = conv(rng, "second", first.output, 36, 3, pad=1, low=0)
    projection = records.Projection(
        tensor=source,
        weight=rng.integers(-128, 128, (36, channels)).astype(np.int8),
        stride=(stride, stride),
    )
    last = dataclasses.replace(
        second, terms=(term(tensor("r", 36, *([first.output.height] * 2)), 99),),
        projections=(projection,),
    )  # fmt: skip
    check_program(accelerator, [first, last], ["x", "r"], ["second.out"])


def linear_matrix(extent_out: int, extent_in: int) -> np.ndarray:
    """Half-pixel linear resampling with weights in quarters."""
    matrix = np.zeros((extent_out, extent_in), np.int32)
    for y in range(extent_out):
        at = (y + 0.5) * extent_in / extent_out - 0.5
        low = int(np.floor(at))
        weight = round((at - low) * 4)
        matrix[y, np.clip(low, 0, extent_in - 1)] += 4 - weight
        matrix[y, np.clip(low + 1, 0, extent_in - 1)] += weight
    return matrix


def resize(name: str, source: records.TensorSpec, extent: int) -> records.Resize:
    return records.Resize(
        name=name,
        input=source,
        output=tensor(f"{name}.out", source.channels, extent, extent),
        rows=linear_matrix(extent, source.height),
        cols=linear_matrix(extent, source.width),
        shift=4,
    )


def pool(name: str, source: records.TensorSpec) -> records.MaxPool:
    extent = (source.height - 1) // 2 + 1
    return records.MaxPool(
        name=name,
        input=source,
        output=tensor(f"{name}.out", source.channels, extent, extent),
        kernel=(3, 3),
        stride=(2, 2),
        padding=(1, 1, 1, 1),
    )


@pytest.mark.sim
@each_accelerator
def test_residual_block(accelerator) -> None:
    rng = np.random.default_rng(1)
    x = tensor("x", 48, 14, 14)
    first = conv(rng, "a", x, 48, 3, pad=1, low=0)
    second = conv(rng, "b", first.output, 48, 3, pad=1, low=0, terms=(term(x, 3 << 9),))
    check_program(accelerator, [first, second], ["x"], ["b.out"])


@pytest.mark.sim
@each_accelerator
def test_an_output_that_is_read_again(accelerator) -> None:
    rng = np.random.default_rng(2)
    first = conv(rng, "a", tensor("x", 20, 9, 9), 40, 3, pad=1)
    second = conv(rng, "b", first.output, 24, 3, pad=1)
    check_program(accelerator, [first, second], ["x"], ["a.out", "b.out"])


@pytest.mark.sim
@each_accelerator
@pytest.mark.parametrize("channels", [(32, 64, 32), (32, 20, 64), (32, 32, 5)])
def test_concat_of_computed_tensors(accelerator, channels: tuple[int, ...]) -> None:
    """Parts that start at a block, parts that do not, and one that is also read elsewhere."""
    rng = np.random.default_rng(3)
    x = tensor("x", 32, 10, 10)
    parts = [conv(rng, f"p{i}", x, count, 3, pad=1) for i, count in enumerate(channels)]
    joined = concat("join", *(part.output for part in parts))
    after = conv(rng, "after", joined.output, 32, 1)
    other = conv(rng, "other", parts[0].output, 16, 1)
    outputs = [after.output.name, other.output.name]
    check_program(accelerator, [*parts, joined, after, other], ["x"], outputs)


@pytest.mark.sim
@each_accelerator
def test_concats_that_share_parts(accelerator) -> None:
    """A part in two concats, one twice in a concat, a program input, an output, a nested concat."""
    rng = np.random.default_rng(4)
    x = tensor("x", 32, 6, 6)
    a, b = (conv(rng, name, x, 32, 1) for name in "ab")
    inner = concat("inner", a.output, x, a.output)
    outer = concat("outer", inner.output, b.output, a.output)
    layers: list[records.Layer] = [a, b, inner, outer, conv(rng, "c", outer.output, 16, 1)]
    check_program(accelerator, layers, ["x"], ["b.out", "outer.out", "c.out"])


@pytest.mark.sim
@each_accelerator
def test_detector_head(accelerator) -> None:
    """A pyramid as in NanoDet: pooling, resizing both ways, sums, several outputs."""
    rng = np.random.default_rng(5)
    stem = conv(rng, "stem", tensor("x", 3, 52, 52), 24, 3, stride=2, pad=1, leaky=True)
    pooled = pool("pool", stem.output)
    fine = conv(rng, "fine", pooled.output, 48, 3, pad=1, leaky=True)
    coarse = conv(rng, "coarse", fine.output, 48, 3, stride=2, pad=1, leaky=True)
    up = resize("up", coarse.output, 13)
    top = add(rng, "top", fine.output, up.output)
    down = resize("down", top.output, 7)
    low = add(rng, "low", coarse.output, down.output)
    heads = [conv(rng, f"head{i}", s.output, 124, 1) for i, s in enumerate((top, low))]
    layers: list[records.Layer] = [stem, pooled, fine, coarse, up, top, down, low, *heads]
    check_program(accelerator, layers, ["x"], [head.output.name for head in heads])


def test_scratch_is_reused() -> None:
    rng = np.random.default_rng(6)
    layers: list[records.Layer] = []
    source = tensor("x", 16, 20, 20)
    for index in range(6):
        layers.append(conv(rng, f"c{index}", source, 16, 3, pad=1))
        source = layers[-1].output
    program = compile_program(STOCK, layers, ["x"], [source.name])
    scratch = next(r for r in program.regions if r.kind is RegionKind.SCRATCH)
    one_tensor = 16 * 20 * 20
    assert scratch.bytes < 3 * one_tensor


def test_a_concat_costs_nothing_if_its_parts_start_at_blocks() -> None:
    rng = np.random.default_rng(7)
    x = tensor("x", 16, 8, 8)
    a, b = conv(rng, "a", x, 16, 1), conv(rng, "b", x, 16, 1)
    program = compile_program(
        STOCK, [a, b, concat("join", a.output, b.output)], ["x"], ["join.out"]
    )
    assert [layer.name for layer in program.layers] == ["a", "b"]


def pick(name: str, source: records.TensorSpec, first: int, end: int) -> records.Pick:
    output = tensor(f"{name}.out", end - first, source.height, source.width)
    return records.Pick(name=name, input=source, output=output, channels=tuple(range(first, end)))


def test_a_pick_of_whole_blocks_costs_nothing() -> None:
    rng = np.random.default_rng(9)
    x = tensor("x", 40, 8, 8)
    head, tail = pick("head", x, 0, 16), pick("tail", x, 16, 40)
    part = pick("part", x, 16, 36)  # the rest of its last block is not 0
    layers = [head, tail, part]
    convs = [conv(rng, f"c{at}", each.output, 16, 1) for at, each in enumerate(layers)]
    program = compile_program(STOCK, [*layers, *convs], ["x"], [each.output.name for each in convs])
    assert [layer.name for layer in program.layers] == ["part", "c0", "c1", "c2"]


@pytest.mark.sim
@each_accelerator
def test_picks_of_blocks_of_computed_tensors(accelerator) -> None:
    """Picks of a tensor inside a concatenation, of another pick, in a sum, and as an output."""
    rng = np.random.default_rng(10)
    block = accelerator.block_out
    x = tensor("x", 2 * block, 6, 6)
    a, b = (conv(rng, name, x, 2 * block, 1) for name in "ab")
    join = concat("join", a.output, b.output)
    middle = pick("middle", join.output, block, 3 * block)
    inner = pick("inner", middle.output, 0, block)
    own = pick("own", a.output, 0, block)
    made = pick("made", b.output, block, 2 * block)
    again = concat("again", own.output, made.output)
    both = add(rng, "both", inner.output, own.output)
    layers: list[records.Layer] = [a, b, join, middle, inner, own, made, again, both]
    check_program(accelerator, layers, ["x"], ["both.out", "made.out", "again.out", "join.out"])


def test_the_same_layers_give_the_same_bytes() -> None:
    def build():
        rng = np.random.default_rng(8)
        first = conv(rng, "a", tensor("x", 20, 12, 12), 40, 3, pad=1, leaky=True)
        last = pool("b", first.output)
        return compile_program(STOCK, [first, last], ["x"], [last.output.name])

    one, other = build(), build()
    assert one.consts == other.consts
    np.testing.assert_array_equal(one.instructions, other.instructions)
    np.testing.assert_array_equal(one.relocations, other.relocations)
    assert (one.regions, one.layers) == (other.regions, other.layers)
