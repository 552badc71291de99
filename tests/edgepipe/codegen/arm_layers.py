"""Helpers of the ARM code generator's tests: layers as modules, stages compiled and run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from edgepipe.codegen.arm.layouts import Blocks
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.quantize.normal_forms import write_input_table, write_layer
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import ModuleBuilder, run_module
from vta_stages.layers import records
from vta_stages.layers.inputs import layer_inputs

CHANNELS = st.sampled_from([1, 3, 4, 8, 10, 16, 20, 24, 33])


def spec(name, channels, height, width):
    return records.TensorSpec(name=name, channels=channels, height=height, width=width)


def module_of(layers, inputs):
    """Return a module that feeds ``inputs`` (records) to ``layers``; the last one is the output."""
    builder = ModuleBuilder()
    for tensor in inputs:
        builder.param(tensor.name, (1, tensor.channels, tensor.height, tensor.width), "int8")
    for layer in layers:
        write_layer(builder, layer)
    return builder.finish([layers[-1].name])


def random_inputs(module_inputs, rng):
    return {
        t.name: rng.integers(-128, 128, (1, t.channels, t.height, t.width)).astype(np.int8)
        for t in module_inputs
    }


def packed(layout, array):
    """Return int8[1, c, h, w] in the accelerator's blocks, garbage in the padding lanes."""
    _, channels, height, width = array.shape
    lanes = layout.lanes(channels)
    result = np.full((lanes, layout.batch, height, width), 77, np.int8)
    result[:channels, 0] = array[0]
    blocks = result.reshape(-1, layout.block, layout.batch, height, width)
    return np.ascontiguousarray(blocks.transpose(0, 3, 4, 2, 1))


def assert_same_bits(folder: Path, layers, inputs, seed, input_layouts, output_layouts):
    """Compile ``layers`` for this machine; outputs must be stock TVM's, padding lanes zero."""
    module = module_of(layers, inputs)
    arrays = random_inputs(inputs, np.random.default_rng(seed))
    expected = run_module(module, arrays)
    artifact = compile_arm_stage(
        module,
        input_layouts=input_layouts,
        output_layouts=output_layouts,
        arches=("x86_64",),
    )
    artifact.write(folder)
    given = {
        name: packed(input_layouts[name], array) if name in input_layouts else array
        for name, array in arrays.items()
    }
    for threads in (1, 3):
        with ArmStage(folder, threads=threads) as stage:
            _assert_bits(stage.run(given), expected, output_layouts)


def _assert_bits(found, expected, output_layouts):
    for name, array in expected.items():
        if name in output_layouts:
            layout = output_layouts[name]
            lanes = layout.lanes(array.shape[1])
            flat = (
                found[name].transpose(0, 4, 3, 1, 2).reshape(lanes, layout.batch, *array.shape[2:])
            )
            np.testing.assert_array_equal(flat[: array.shape[1], 0], array[0], err_msg=name)
            assert not flat[array.shape[1] :].any(), f"{name}: padding lanes are not zero"
            assert not flat[:, 1:].any(), f"{name}: padding batch rows are not zero"
        else:
            np.testing.assert_array_equal(found[name], array, err_msg=name)


def epilogues(channels):
    """Epilogues that use the whole int8 range, with and without leaky."""

    @st.composite
    def build(draw):
        rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
        low, high = draw(st.sampled_from([(-128, 127), (0, 127), (0, 90), (-20, 31), (5, 100)]))
        leaky = None
        if draw(st.booleans()):
            offset = rng.integers(0, 200, channels).astype(np.int32)
            leaky = records.Leaky(offset=offset, steps=draw(st.sampled_from(STEPS)))
        return records.Epilogue(
            bias=rng.integers(-4000, 4000, channels).astype(np.int32),
            shift=rng.integers(0, 12, channels).astype(np.int32),
            low=low,
            high=high,
            leaky=leaky,
        )

    return build()


_NOTHING, _TO_BRANCH, _TO_VALUE = records.LeakySum
STEPS = (
    ((1, _TO_BRANCH), (4, _NOTHING)),
    ((3, _NOTHING),),
    ((3, _TO_VALUE),),
    ((2, _TO_BRANCH), (1, _TO_VALUE), (3, _NOTHING)),
)


@st.composite
def terms(draw, channels, height, width, least=0):
    """Residual terms t0, t1... of a picture's size."""
    count = draw(st.integers(least, 2))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    return tuple(
        records.Term(
            tensor=spec(f"t{i}", channels, height, width),
            factor=(rng.integers(-127, 128, channels) << rng.integers(0, 4)).astype(np.int32),
        )
        for i in range(count)
    )


def random_weights(draw, shape):
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    low = draw(st.sampled_from([-128, -127]))
    return rng.integers(low, 128, shape).astype(np.int8)


@st.composite
def projections(draw, channels, height, width):
    """Projections of pictures p0, p1... that are as large as their strides allow."""
    found = []
    for number in range(draw(st.sampled_from([0, 0, 1, 2]))):
        inputs = draw(CHANNELS)
        stride = (draw(st.integers(1, 3)), draw(st.integers(1, 2)))
        sizes = [
            (size - 1) * step + draw(st.integers(1, step))
            for size, step in zip((height, width), stride, strict=True)
        ]
        found.append(
            records.Projection(
                tensor=spec(f"p{number}", inputs, *sizes),
                weight=random_weights(draw, (channels, inputs)),
                stride=stride,
            )
        )
    return tuple(found)


@st.composite
def convolutions(draw):
    """Dense, grouped and depthwise convolutions with residual terms and projections."""
    groups = draw(st.sampled_from([1, 1, 2, 3, "depthwise"]))
    if groups == "depthwise":
        groups = inputs = outputs = draw(CHANNELS)
    else:
        inputs = groups * draw(st.sampled_from([1, 3, 4, 8, 11]))
        outputs = groups * draw(st.sampled_from([1, 4, 5, 8, 16, 20]))
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 2)))
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    padding = tuple(draw(st.integers(0, k)) for k in (*kernel, *kernel))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    height, width = (draw(st.integers(span, 14)) for span in spans)
    sizes = [
        (size + padding[i] + padding[i + 2] - spans[i]) // stride[i] + 1
        for i, size in enumerate((height, width))
    ]
    return records.Conv(
        name="y",
        input=spec("x", inputs, height, width),
        output=spec("y", outputs, *sizes),
        weight=random_weights(draw, (outputs, inputs // groups, *kernel)),
        epilogue=draw(epilogues(outputs)),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        terms=draw(terms(outputs, *sizes)),
        projections=draw(projections(outputs, *sizes)),
    )


@st.composite
def transposed_convolutions(draw):
    groups = draw(st.sampled_from([1, 1, 2]))
    inputs = groups * draw(st.sampled_from([1, 4, 8, 9]))
    outputs = groups * draw(st.sampled_from([1, 4, 8, 16, 20]))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    # A kernel smaller than its stride would leave gaps, which stock TVM does not lower.
    kernel = tuple(draw(st.integers(s, 4)) for s in stride)
    padding = tuple(draw(st.integers(0, k - 1)) for k in (*kernel, *kernel))
    height, width = draw(st.integers(3, 7)), draw(st.integers(3, 7))
    sizes = [
        max(1, (size - 1) * stride[i] + kernel[i] - padding[i] - padding[i + 2])
        for i, size in enumerate((height, width))
    ]
    return records.TransposedConv(
        name="y",
        input=spec("x", inputs, height, width),
        output=spec("y", outputs, *sizes),
        weight=random_weights(draw, (inputs, outputs // groups, *kernel)),
        epilogue=draw(epilogues(outputs)),
        stride=stride,
        padding=padding,
        groups=groups,
        terms=draw(terms(outputs, *sizes)),
    )


@st.composite
def sums(draw):
    channels, height, width = draw(CHANNELS), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    return records.Sum(
        name="y",
        output=spec("y", channels, height, width),
        terms=draw(terms(channels, height, width, least=1)),
        epilogue=draw(epilogues(channels)),
    )


@st.composite
def max_pools(draw):
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    padding = tuple(draw(st.integers(0, k - 1)) for k in (*kernel, *kernel))
    channels, height, width = draw(CHANNELS), draw(st.integers(3, 12)), draw(st.integers(3, 12))
    sizes = [
        (size + padding[i] + padding[i + 2] - kernel[i]) // stride[i] + 1
        for i, size in enumerate((height, width))
    ]
    return records.MaxPool(
        name="y",
        input=spec("x", channels, height, width),
        output=spec("y", channels, *sizes),
        kernel=kernel,
        stride=stride,
        padding=padding,
    )


@st.composite
def resizes(draw):
    channels, height, width = draw(CHANNELS), draw(st.integers(1, 8)), draw(st.integers(1, 8))
    sizes = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))

    def matrix(outputs, inputs):
        found = np.zeros((outputs, inputs), np.int32)
        for row in found:
            first = rng.integers(0, inputs)
            row[first : first + 2] = rng.integers(-5, 12, row[first : first + 2].size)
        return found

    return records.Resize(
        name="y",
        input=spec("x", channels, height, width),
        output=spec("y", channels, *sizes),
        rows=matrix(sizes[0], height),
        cols=matrix(sizes[1], width),
        shift=draw(st.sampled_from([0, 1, 4, 6])),
    )


@st.composite
def concats(draw):
    height, width = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    parts = draw(st.lists(CHANNELS, min_size=1, max_size=4))
    inputs = tuple(spec(f"x{i}", channels, height, width) for i, channels in enumerate(parts))
    return records.Concat(name="y", inputs=inputs, output=spec("y", sum(parts), height, width))


@st.composite
def picks(draw):
    """Neighbouring channels, or some in any order."""
    channels, height, width = draw(CHANNELS), draw(st.integers(1, 7)), draw(st.integers(1, 7))
    begin = draw(st.integers(0, channels - 1))
    order = tuple(range(begin, draw(st.integers(begin + 1, channels))))
    order = draw(st.permutations(order).map(tuple) | st.just(order))
    return records.Pick(
        name="y",
        input=spec("x", channels, height, width),
        output=spec("y", len(order), height, width),
        channels=order,
    )


@st.composite
def looked_up(draw):
    """A table alone, or the end of a convolution, sum or product."""
    before = draw(st.sampled_from([None, convolutions(), transposed_convolutions(), sums()]))
    layers = []
    if before is not None:
        first = draw(before)
        layers.append(dataclasses.replace(first, name="t", output=renamed(first.output, "t")))
    source = layers[0].output if layers else spec("x", draw(CHANNELS), draw(st.integers(1, 9)), 5)
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    rows = source.channels if draw(st.booleans()) else 1
    table = rng.integers(-128, 128, (rows, 256)).astype(np.int8)
    output = renamed(source, "y")
    return [*layers, records.Table(name="y", input=source, output=output, table=table)]


@st.composite
def products(draw):
    """Products with a picture, a vector of channels or a plane, and with terms."""
    channels, height, width = draw(CHANNELS), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    shapes = [(channels, height, width), (channels, 1, 1), (1, height, width), (channels, 1, width)]
    first, second = draw(
        st.sampled_from([(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (2, 1)]).map(
            lambda pair: [shapes[i] for i in pair]
        )
    )
    return records.Product(
        name="y",
        first=spec("a", *first),
        second=spec("b", *second),
        output=spec("y", channels, height, width),
        factor=rng.integers(-127, 128, channels).astype(np.int32),
        epilogue=draw(epilogues(channels)),
        terms=draw(terms(channels, height, width)),
    )


@st.composite
def quotients(draw):
    """Quotients of pictures, by and of vectors of channels, planes and rows."""
    product = draw(products())
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    rows = product.output.channels if draw(st.booleans()) else 1
    return records.Quotient(
        name="y",
        first=product.first,
        second=product.second,
        output=product.output,
        table=rng.integers(-(1 << 20), 1 << 20, (rows, 256)).astype(np.int32),
        epilogue=product.epilogue,
        terms=product.terms,
    )


@st.composite
def pixel_affines(draw):
    """Constants for pixels, channels, rows or all, applied to a picture or to a part of one."""
    channels, height, width = draw(CHANNELS), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))

    def size():
        return [draw(st.sampled_from([1, extent])) for extent in (channels, height, width)]

    def values():
        return rng.integers(-(1 << 12), 1 << 12, (1, *size())).astype(np.int32)

    factor = values()
    bias = rng.integers(-(1 << 12), 1 << 12, (1, channels, height, width)).astype(np.int32)
    return records.PixelAffine(
        name="y",
        input=spec("x", *size()),
        output=spec("y", channels, height, width),
        factor=factor,
        bias=draw(st.just(bias)),
        epilogue=draw(epilogues(channels)),
    )


@st.composite
def halves(draw):
    """A product, quotient or sum of channels that are picked out of one picture (GLU)."""
    channels, height, width = draw(CHANNELS), draw(st.integers(1, 7)), draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    begins = [draw(st.sampled_from([0, 8, 16, channels, 3])) for _ in range(2)]
    whole = spec("x", max(begins) + channels, height, width)
    picked = [
        records.Pick(
            name=name,
            input=whole,
            output=spec(name, channels, height, width),
            channels=tuple(range(begin, begin + channels)),
        )
        for name, begin in zip("ab", begins, strict=True)
    ]
    factor = rng.integers(-127, 128, channels).astype(np.int32)
    output, epilogue = spec("y", channels, height, width), draw(epilogues(channels))
    first, second = (pick.output for pick in picked)
    layer = draw(
        st.sampled_from(
            [
                records.Product(
                    name="y",
                    first=first,
                    second=second,
                    output=output,
                    factor=factor,
                    epilogue=epilogue,
                ),
                records.Sum(
                    name="y",
                    output=output,
                    terms=tuple(records.Term(tensor=t, factor=factor) for t in (first, second)),
                    epilogue=epilogue,
                ),
            ]
        )
    )
    return [*picked, layer]


@st.composite
def chains(draw):
    """Up to six operators on elements, most of which read only the one before."""
    channels, height, width = draw(CHANNELS), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    count = draw(st.integers(2, 6))
    made = [spec("x", channels, height, width)]
    layers = []
    for index in range(count):
        name = "y" if index == count - 1 else f"v{index}"
        before, output = made[-1], spec(name, channels, height, width)
        other = draw(st.sampled_from([made[0], before, spec("o", channels, height, width)]))
        kind = draw(
            st.sampled_from(
                [
                    records.Table,
                    records.Sum,
                    records.Product,
                    records.Quotient,
                    records.PixelAffine,
                ]
            )
        )
        factor = rng.integers(-127, 128, channels).astype(np.int32)
        scaled = records.Term(tensor=other, factor=factor)
        if kind is records.Table:
            rows = channels if draw(st.booleans()) else 1
            table = rng.integers(-128, 128, (rows, 256)).astype(np.int8)
            layer = records.Table(name=name, input=before, output=output, table=table)
        elif kind is records.Sum:
            layer = records.Sum(
                name=name,
                output=output,
                terms=(records.Term(tensor=before, factor=factor), scaled),
                epilogue=draw(epilogues(channels)),
            )
        elif kind is records.Quotient:
            layer = records.Quotient(
                name=name,
                first=before,
                second=draw(st.sampled_from([spec("gate", channels, 1, 1), other])),
                output=output,
                table=rng.integers(-(1 << 15), 1 << 15, (1, 256)).astype(np.int32),
                epilogue=draw(epilogues(channels)),
            )
        elif kind is records.PixelAffine:
            layer = records.PixelAffine(
                name=name,
                input=before,
                output=output,
                factor=rng.integers(-128, 128, (1, 1, height, width)).astype(np.int32),
                bias=rng.integers(-999, 999, (1, channels, height, 1)).astype(np.int32),
                epilogue=draw(epilogues(channels)),
            )
        else:
            gate = spec("gate", channels, 1, 1)
            layer = records.Product(
                name=name,
                first=before,
                second=draw(st.sampled_from([gate, other])),
                output=output,
                factor=factor,
                epilogue=draw(epilogues(channels)),
                terms=draw(st.sampled_from([(), (scaled,)])),
            )
        layers.append(layer)
        made.append(output)
    return layers


def renamed(tensor, name):
    return dataclasses.replace(tensor, name=name)


def inputs_of(layers):
    """Return the records of the tensors that layers read and none of them makes."""
    made = {layer.output.name for layer in layers}
    read = {tensor.name: tensor for layer in layers for tensor in layer_inputs(layer)}
    return [tensor for name, tensor in read.items() if name not in made]


LAYOUTS = st.sampled_from([None, None, Blocks(), Blocks(block=8), Blocks(batch=2, block=4)])


def first_convolution(kernel, channels):
    """Return a stage from a camera frame to one convolution's features, and a frame.

    Runs of 1 to 17 pairs of elements, odd and even; -128 * -127 twice is the most in int16.
    """
    rng = np.random.default_rng(kernel)
    pad = kernel // 2
    features = spec("features", 16, 9, 13)
    layer = records.Conv(
        name="features",
        input=spec("image", channels, 17, 25),
        output=features,
        weight=rng.choice([-127, 127, 5], (16, channels, kernel, kernel)).astype(np.int8),
        epilogue=records.Epilogue(
            bias=rng.integers(-4000, 4000, 16).astype(np.int32),
            shift=rng.integers(12, 15, 16).astype(np.int32),
            low=-128,
            high=127,
        ),
        stride=(2, 2),
        padding=(pad,) * 4,
    )
    builder = ModuleBuilder()
    builder.param("frame", (1, 17, 25, channels), "uint8")
    table = np.tile(np.where(np.arange(256) < 128, -128, 127).astype(np.int8), (channels, 1))
    write_input_table(builder, "image", "frame", table)
    write_layer(builder, layer)
    module = builder.finish(["features"])
    frame = rng.integers(0, 256, (1, 17, 25, channels)).astype(np.uint8)
    return module, frame
