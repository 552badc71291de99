"""Layers on a batch of windows, heads or patches become layers on one picture."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_networks import Builder

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.onnx_graph import shapes_of
from edgepipe.frontend.rewrites.batches import batches_as_pictures

MOVES = ("Identity", "Reshape", "Transpose")
COUNT, CHANNELS, SIZE = 4, 6, 5
BATCH = (COUNT, CHANNELS, SIZE, SIZE)


def numbers(b: Builder, name: str, *values: int) -> str:
    return b.constant(name, np.array(values, np.int64))


def reshaped(b: Builder, x: str, name: str, *shape: int) -> str:
    return b.node("Reshape", [x, numbers(b, f"{name}.shape", *shape)], name)


def batch(b: Builder, shape: tuple[int, ...] = BATCH) -> tuple[str, list[int]]:
    """A batch that comes from nowhere else: the input's elements in their order."""
    return reshaped(b, "image", "batch", *shape), [1, 1, 1, int(np.prod(shape))]


def windows(b: Builder, x: str = "image") -> str:
    """Windows [4, 6, 5, 5] of a picture [1, 6, 10, 10], as torch writes them."""
    x = b.node("Transpose", [x], "image.last", perm=[0, 2, 3, 1])
    x = reshaped(b, x, "split", 1, 2, 5, 2, 5, 6)
    x = b.node("Transpose", [x], "swapped", perm=[0, 1, 3, 2, 4, 5])
    x = reshaped(b, x, "windows.last", 4, 5, 5, 6)
    return b.node("Transpose", [x], "windows", perm=[0, 3, 1, 2])


def picture_of(b: Builder, x: str, channels: int = 6) -> str:
    """The picture [1, c, 10, 10] of windows [4, c, 5, 5]."""
    x = b.node("Transpose", [x], "windows.turned", perm=[0, 2, 3, 1])
    x = reshaped(b, x, "joined.split", 1, 2, 2, 5, 5, channels)
    x = b.node("Transpose", [x], "joined.swapped", perm=[0, 1, 3, 2, 4, 5])
    x = reshaped(b, x, "joined.last", 1, 10, 10, channels)
    return b.node("Transpose", [x], "joined", perm=[0, 3, 1, 2])


def ending(b: Builder, given: list[int], value: str = "y", opset: int = 13) -> onnx.ModelProto:
    """A network whose result is that of a layer; onnx knows no shapes of results."""
    b.node("Identity", [value], "result")
    return b.model(given, {"result": 4}, opset=opset)


def rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph after the rewrite; its values are those of before."""
    after = onnx.ModelProto()
    after.CopyFrom(model)
    infer_shapes(after)
    batches_as_pictures(after)
    onnx.checker.check_model(after, full_check=True)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    picture = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
    for one, other in zip(run(model, picture), run(after, picture), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    return after


def run(model: onnx.ModelProto, picture: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"image": picture})


def kinds(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def computing(model: onnx.ModelProto) -> list[str]:
    """Return the operators that do more than move, in their order."""
    return [node.op_type for node in model.graph.node if node.op_type not in MOVES]


def on_pictures(model: onnx.ModelProto) -> bool:
    """Return whether all operators that compute make pictures [1, c, h, w]."""
    infer_shapes(model)
    shapes = shapes_of(model)
    made = [node for node in model.graph.node if node.op_type not in MOVES]
    return all(len(shapes[v]) == 4 and shapes[v][0] == 1 for node in made for v in node.output)


def of_batch(*, shape=BATCH, opset=13, **layer) -> onnx.ModelProto:
    """One convolution of a batch."""
    b = Builder()
    x, given = batch(b, shape)
    weights = layer.pop("weights", (8, shape[1] // layer.get("group", 1), 1, 1))
    b.conv(x, "y", weights, **layer)
    return ending(b, given, opset=opset)


# Convolutions.


def test_a_pointwise_convolution_is_one_of_pictures_below_each_other() -> None:
    model = rewritten(of_batch())
    assert computing(model) == ["Conv"]
    assert on_pictures(model)
    (conv,) = (node for node in model.graph.node if node.op_type == "Conv")
    assert shapes_of(model)[conv.input[0]] == (1, CHANNELS, COUNT * SIZE, SIZE)


def test_a_depthwise_convolution_is_one_of_more_channels() -> None:
    model = rewritten(of_batch(weights=(CHANNELS, 1, 3, 3), group=CHANNELS, pads=[1] * 4))
    assert kinds(model) == {"Conv": 1, "Identity": 1, "Reshape": 2}
    assert on_pictures(model)
    (conv,) = (node for node in model.graph.node if node.op_type == "Conv")
    assert shapes_of(model)[conv.input[0]] == (1, COUNT * CHANNELS, SIZE, SIZE)


def test_padding_between_pictures_is_shared() -> None:
    model = rewritten(of_batch(weights=(8, CHANNELS, 5, 5), pads=[2] * 4))
    assert computing(model) == ["Pad", "Gather", "Conv", "Gather"]
    assert on_pictures(model)
    (conv,) = (node for node in model.graph.node if node.op_type == "Conv")
    height = COUNT * SIZE + (COUNT - 1) * 2
    assert shapes_of(model)[conv.input[0]] == (1, CHANNELS, height, SIZE)


def test_patches_as_large_as_the_stride_need_no_padding() -> None:
    model = rewritten(of_batch(shape=(3, 6, 8, 8), weights=(8, 6, 4, 4), strides=[4, 4]))
    assert computing(model) == ["Conv"]


def test_a_depthwise_convolution_of_very_many_weights_is_one_of_a_grid() -> None:
    shape = (64, 128, 7, 7)
    model = rewritten(of_batch(shape=shape, weights=(128, 1, 7, 7), group=128, pads=[3] * 4))
    (conv,) = (node for node in model.graph.node if node.op_type == "Conv")
    assert shapes_of(model)[conv.input[1]] == (128, 1, 7, 7)
    assert on_pictures(model)


def test_very_many_pictures_lie_beside_each_other_as_well() -> None:
    model = rewritten(of_batch(shape=(196, 3, 6, 6), weights=(8, 3, 3, 3), pads=[1] * 4))
    (conv,) = (node for node in model.graph.node if node.op_type == "Conv")
    assert shapes_of(model)[conv.input[0]] == (1, 3, 14 * 7 - 1, 14 * 7 - 1)


@st.composite
def layers(draw: st.DrawFn) -> onnx.ModelProto:
    """A convolution of a batch, of any kind."""
    group = draw(st.sampled_from([1, 2, 4]))
    channels = group * draw(st.integers(1, 2))
    kernel, strides, dilations = (
        [draw(st.integers(1, most)), draw(st.integers(1, most))] for most in (4, 4, 2)
    )
    pads = [draw(st.integers(0, 3)) for _ in range(4)]
    size = [draw(st.integers(1, 9)) for _ in range(2)]
    for axis in range(2):
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        assume(size[axis] + pads[axis] + pads[2 + axis] >= reach)
    return of_batch(
        shape=(draw(st.integers(2, 5)), channels, *size),
        weights=(group * draw(st.integers(1, 3)), channels // group, *kernel),
        group=group,
        strides=strides,
        dilations=dilations,
        pads=pads,
    )


@settings(deadline=None, max_examples=120)
@given(layers())
def test_any_convolution_has_the_same_values(model) -> None:
    made = rewritten(model)
    assert kinds(made)["Conv"] == 1
    assert on_pictures(made)


@settings(deadline=None, max_examples=60)
@given(layers())
def test_so_has_one_of_windows_of_a_picture(model) -> None:
    """The same layers where the pictures lie beside each other in one."""
    shapes = shapes_of(infer(model))
    count, channels, height, width = shapes["batch"]
    b = Builder()
    x = reshaped(b, "image", "split", channels, count, height, width)
    b.node("Transpose", [x], "batch", perm=[1, 0, 2, 3])
    b.constants += [c for c in model.graph.initializer if c.name.startswith("y.")]
    b.nodes += [node for node in model.graph.node if node.op_type == "Conv"]
    made = rewritten(ending(b, [1, channels, count * height, width]))
    assert on_pictures(made)


def infer(model: onnx.ModelProto) -> onnx.ModelProto:
    infer_shapes(model)
    return model


# Pools.


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
        ("GlobalAveragePool", {}),
        ("GlobalMaxPool", {}),
        ("ReduceMean", {"axes": [2, 3], "keepdims": 1}),
        ("ReduceMax", {"axes": [-1, -2], "keepdims": 1}),
    ],
)
def test_a_pool_is_one_of_more_channels(kind, attributes) -> None:
    b = Builder()
    x, given = batch(b)
    x = b.node(kind, [x], "pooled", **attributes)
    b.conv(x, "y", (3, CHANNELS, 1, 1))
    model = rewritten(ending(b, given))
    assert computing(model) == [kind, "Conv"]
    assert on_pictures(model)


def test_a_mean_with_its_axes_as_an_input_is_one_of_more_channels() -> None:
    b = Builder()
    x, given = batch(b)
    x = b.node("ReduceMean", [x, numbers(b, "axes", 2, 3)], "pooled", keepdims=1)
    b.conv(x, "y", (3, CHANNELS, 1, 1))
    assert on_pictures(rewritten(ending(b, given, opset=18)))


# Borders, resizes and transposed convolutions.


@pytest.mark.parametrize("group", [1, 2, CHANNELS])
def test_a_transposed_convolution_is_one_of_groups(group) -> None:
    b = Builder()
    x, given = batch(b)
    weights = [b.constant("w", b.normal(CHANNELS, 2, 3, 2)), b.constant("b", b.normal(2 * group))]
    b.node("ConvTranspose", [x, *weights], "y", group=group, strides=[2, 2], pads=[1, 0, 1, 0])
    model = rewritten(ending(b, given))
    assert kinds(model) == {"ConvTranspose": 1, "Identity": 1, "Reshape": 2}
    assert on_pictures(model)


def resampled(
    kind: str, inputs: list[object], channels: int = CHANNELS, **attributes: object
) -> onnx.ModelProto:
    b = Builder()
    x, given = batch(b)
    names = [
        b.constant(f"{kind}{index}", values) if values is not None else ""
        for index, values in enumerate(inputs)
    ]
    x = b.node(kind, [x, *names], "between", **attributes)
    b.conv(x, "y", (3, channels, 1, 1))
    return ending(b, given)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes"),
    [
        ("Pad", [np.array([0, 0, 1, 2, 0, 0, 3, 0])], {"mode": "reflect"}),
        ("Pad", [np.array([0, 0, 1, 2, 0, 0, 3, 0]), np.float32(0.5)], {}),
        ("Resize", [None, np.array([1, 1, 2, 2], np.float32)], {"mode": "nearest"}),
        ("Resize", [None, None, np.array([COUNT, CHANNELS, 7, 9])], {"mode": "linear"}),
    ],
)
def test_a_border_or_a_resize_is_one_of_more_channels(kind, inputs, attributes) -> None:
    model = rewritten(resampled(kind, inputs, **attributes))
    assert computing(model) == [kind, "Conv"]
    assert on_pictures(model)


@pytest.mark.parametrize(
    ("amounts", "channels"), [([1, 0, 0, 0, 0, 0, 0, 0], 6), ([0, 0, 0, 0, 0, 1, 0, 0], 7)]
)
def test_a_border_of_the_batch_or_of_channels_stays(amounts, channels) -> None:
    model = rewritten(resampled("Pad", [np.array(amounts)], channels))
    (node,) = (node for node in model.graph.node if node.op_type == "Pad")
    assert list(node.output) == ["between"]


def test_a_transposed_convolution_of_very_many_weights_stays() -> None:
    b = Builder()
    x, given = batch(b, (64, 64, 3, 3))
    b.node("ConvTranspose", [x, b.constant("w", b.normal(64, 64, 2, 2))], "y", strides=[2, 2])
    assert left_alone(ending(b, given))


# What stands between layers.


def chain(b: Builder, x: str, kind: str, inputs: list[str], **attributes: object) -> str:
    """A pointwise convolution before and behind an operator."""
    x = b.conv(x, "first", (CHANNELS, CHANNELS, 1, 1))
    x = b.node(kind, [x, *inputs], "between", **attributes)
    return b.conv(x, "y", (CHANNELS, CHANNELS, 1, 1))


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(
    ("kind", "shapes", "attributes"),
    [
        ("Relu", [], {}),
        ("HardSwish", [], {}),
        ("LeakyRelu", [], {"alpha": 0.1}),
        ("Clip", [(), ()], {}),
        ("PRelu", [(CHANNELS, 1, 1)], {}),
        ("Mul", [()], {}),
        ("Add", [(1,)], {}),
        ("Sub", [(1, CHANNELS, 1, 1)], {}),
        ("Add", [(SIZE, SIZE)], {}),
        ("Add", [(1, CHANNELS, SIZE, SIZE)], {}),
        ("Div", [(COUNT, 1, 1, SIZE)], {}),
        ("Mul", [BATCH], {}),
        ("BatchNormalization", [(CHANNELS,)] * 4, {"epsilon": 1e-3}),
    ],
)
def test_an_operator_with_constants_keeps_the_picture(kind, shapes, attributes, depthwise) -> None:
    b = Builder()
    constants = [
        b.constant(f"constant{i}", np.abs(b.normal(*shape)) + np.float32(0.5 + i))
        for i, shape in enumerate(shapes)
    ]
    x, given = batch(b)
    if depthwise:
        x = b.conv(x, "first", (CHANNELS, 1, 3, 3), group=CHANNELS, pads=[1] * 4)
        x = b.node(kind, [x, *constants], "between", **attributes)
        b.conv(x, "y", (CHANNELS, 1, 3, 3), group=CHANNELS, pads=[1] * 4)
    else:
        chain(b, x, kind, constants, **attributes)
    model = rewritten(ending(b, given, opset=14))
    assert computing(model) == ["Conv", kind, "Conv"]
    assert on_pictures(model)
    # Only before the first and behind the last layer is anything moved.
    assert [node.op_type in MOVES for node in model.graph.node].count(False) == 3
    first, last = (i for i, node in enumerate(model.graph.node) if node.op_type == "Conv")
    assert last - first == 2


def test_a_constant_minus_a_batch_keeps_the_picture() -> None:
    b = Builder()
    x, given = batch(b)
    x = b.conv(x, "first", (CHANNELS, CHANNELS, 1, 1))
    b.node("Sub", [b.constant("one", np.float32(1)), x], "between")
    b.conv("between", "y", (CHANNELS, CHANNELS, 1, 1))
    assert computing(rewritten(ending(b, given))) == ["Conv", "Sub", "Conv"]


def test_a_sum_of_two_batches_is_one_of_pictures() -> None:
    b = Builder()
    x, given = batch(b)
    y = b.conv(x, "first", (CHANNELS, CHANNELS, 1, 1))
    y = b.node("Add", [y, x], "sum")
    b.conv(y, "y", (CHANNELS, CHANNELS, 1, 1))
    assert on_pictures(rewritten(ending(b, given)))


def test_a_gate_of_each_picture_is_one_of_channels() -> None:
    b = Builder()
    x, given = batch(b)
    gate = b.conv(b.node("GlobalAveragePool", [x], "mean"), "gate", (CHANNELS, CHANNELS, 1, 1))
    x = b.node("Mul", [x, b.node("Sigmoid", [gate], "shares")], "gated")
    b.conv(x, "y", (CHANNELS, 1, 3, 3), group=CHANNELS)
    model = rewritten(ending(b, given))
    assert computing(model) == ["GlobalAveragePool", "Conv", "Sigmoid", "Mul", "Conv"]
    assert on_pictures(model)


@pytest.mark.parametrize("split", [False, True])
def test_channels_are_taken_and_joined_in_the_picture(split) -> None:
    b = Builder()
    x, given = batch(b)
    x = b.conv(x, "first", (CHANNELS, CHANNELS, 1, 1))
    if split:
        b.node("Split", [x, numbers(b, "parts", 2, 4)], "a", "c", axis=1)
    else:
        for name, begin, end in (("a", 0, 2), ("c", 2, 6)):
            bounds = [numbers(b, f"{name}.{i}", n) for i, n in enumerate((begin, end, 1))]
            b.node("Slice", [x, *bounds], name)
    b.node("Concat", [b.node("Relu", ["c"], "relu"), "a"], "joined", axis=1)
    b.conv("joined", "y", (3, CHANNELS, 1, 1))
    model = rewritten(ending(b, given))
    assert kinds(model)["Conv"] == 2
    assert on_pictures(model)


def test_one_picture_serves_all_layers_that_read_a_batch() -> None:
    b = Builder()
    x, given = batch(b)
    y = b.conv(x, "first", (CHANNELS, CHANNELS, 1, 1))
    z = b.conv(x, "second", (CHANNELS, CHANNELS, 1, 1))
    b.node("Add", [y, z], "y")
    model = rewritten(ending(b, given))
    first, second = (node for node in model.graph.node if node.op_type == "Conv")
    assert first.input[0] == second.input[0]


@st.composite
def chains(draw: st.DrawFn) -> onnx.ModelProto:
    """Layers and operators in any order, some of which read what earlier ones made."""
    b = Builder(draw(st.integers(0, 3)))
    from_windows = draw(st.booleans())
    x, given = (windows(b), [1, 6, 10, 10]) if from_windows else batch(b)
    made = [x]
    for number in range(draw(st.integers(1, 7))):
        x, name = draw(st.sampled_from(made)), f"v{number}"
        kind = draw(st.sampled_from(_STEPS))
        if kind == "Slice":
            bounds = [numbers(b, f"{name}.{i}", n) for i, n in enumerate((1, 4, 1))]
            part = b.node("Slice", [x, *bounds], f"{name}.part")
            x = b.node("Concat", [part, b.node("Relu", [part], f"{name}.relu")], name, axis=1)
        elif kind == "flat":
            flat = reshaped(b, x, f"{name}.flat", COUNT, CHANNELS, SIZE * SIZE)
            x = reshaped(b, b.node("Tanh", [flat], f"{name}.tanh"), name, *BATCH)
        elif kind == "Add":
            x = b.node("Add", [x, draw(st.sampled_from(made))], name)
        elif kind == "constant":
            shape = draw(st.sampled_from([(), (CHANNELS, 1, 1), BATCH, (SIZE,)]))
            x = b.node("Mul", [b.constant(f"{name}.c", b.normal(*shape)), x], name)
        elif kind == "gate":
            x = b.node("Mul", [x, b.node("GlobalMaxPool", [x], f"{name}.pool")], name)
        elif kind == "MaxPool":
            x = b.node("MaxPool", [x], name, kernel_shape=[3, 3], pads=[1] * 4)
        else:
            group, kernel = _CONVS[kind]
            shape = (CHANNELS, CHANNELS // group, kernel, kernel)
            x = b.conv(x, name, shape, group=group, pads=[kernel // 2] * 4)
        made.append(x)
    x = picture_of(b, x) if from_windows and draw(st.booleans()) else x
    b.node("Identity", [x], "y")
    return ending(b, given)


_CONVS = {"pointwise": (1, 1), "full": (1, 3), "grouped": (2, 3), "depthwise": (CHANNELS, 5)}
_STEPS = (*_CONVS, "Slice", "flat", "Add", "constant", "gate", "MaxPool")


@settings(deadline=None, max_examples=150)
@given(chains())
def test_any_chain_of_layers_has_the_same_values(model) -> None:
    before = kinds(model)
    after = kinds(rewritten(model))
    for kind in ("Conv", "MaxPool", "Mul"):
        assert after[kind] <= before[kind]


# Windows of a picture.


def test_windows_of_a_picture_need_no_moves() -> None:
    b = Builder()
    x = b.conv(windows(b), "first", (CHANNELS, CHANNELS, 1, 1))
    x = b.conv(b.node("Relu", [x], "relu"), "second", (8, CHANNELS, 1, 1))
    b.node("Relu", [picture_of(b, x, 8)], "y")
    model = rewritten(ending(b, [1, 6, 10, 10]))
    assert [node.op_type for node in model.graph.node if node.op_type != "Identity"] == [
        *("Conv", "Relu", "Conv", "Relu")
    ]


def test_windows_that_are_taken_pixel_by_pixel_need_none() -> None:
    """``unfold``, as TNT's pixels of patches: each pixel is in one patch."""
    b = Builder()
    index = b.constant("index", np.arange(10).reshape(2, 5).T.copy())
    x = b.node("Gather", ["image", index], "rows", axis=2)
    x = b.node("Gather", [x, index], "pixels", axis=4)
    x = b.node("Transpose", [x], "turned", perm=[0, 1, 2, 4, 3, 5])
    x = b.node("Transpose", [reshaped(b, x, "columns", 1, 150, 4)], "patches", perm=[0, 2, 1])
    x = reshaped(b, x, "batch", 4, 6, 5, 5)
    b.conv(x, "y", (8, 6, 3, 3), strides=[2, 2], pads=[1] * 4)
    model = rewritten(ending(b, [1, 6, 10, 10]))
    assert model.graph.node[0].op_type == "Pad"
    assert model.graph.node[0].input[0] == "image"
    (conv,) = (node for node in model.graph.node if node.op_type == "Conv")
    assert shapes_of(model)[conv.input[0]] == (1, 6, 11, 11)


def test_windows_that_overlap_are_moved() -> None:
    b = Builder()
    index = b.constant("index", np.array([[0, 1, 2], [2, 3, 4]]))
    x = b.node("Gather", ["image", index], "rows", axis=2)
    x = b.node("Transpose", [x], "turned", perm=[2, 0, 1, 3, 4])
    x = reshaped(b, x, "batch", 2, 6, 3, 5)
    b.conv(x, "y", (8, 6, 1, 1))
    model = rewritten(ending(b, [1, 6, 5, 5]))
    assert kinds(model)["Gather"] == 1
    assert computing(model) == ["Gather", "Conv"]


def test_a_cascade_of_heads_adds_what_the_one_before_made() -> None:
    b = Builder()
    x, made = windows(b), []
    for head in range(3):
        bounds = [numbers(b, f"{head}.{i}", n) for i, n in enumerate((2 * head, 2 * head + 2, 1))]
        part = b.node("Slice", [x, *bounds], f"part{head}")
        if head:
            part = b.node(
                "Add", [reshaped(b, made[-1], f"before{head}", 4, 2, 5, 5), part], f"s{head}"
            )
        y = b.conv(part, f"pointwise{head}", (2, 2, 1, 1))
        y = b.conv(y, f"depthwise{head}", (2, 1, 3, 3), group=2, pads=[1] * 4)
        y = b.node("Softmax", [reshaped(b, y, f"flat{head}", 4, 2, 25)], f"shares{head}", axis=-1)
        made.append(reshaped(b, y, f"made{head}", 4, 2, 5, 5))
    x = b.conv(
        b.node("Relu", [b.node("Concat", made, "heads", axis=1)], "relu"), "last", (6, 6, 1, 1)
    )
    b.node("Relu", [picture_of(b, x)], "y")
    model = rewritten(ending(b, [1, 6, 10, 10]))
    shapes = shapes_of(model)
    for node in model.graph.node:
        if node.op_type in ("Add", "Concat", "Conv", "Relu", "Slice"):
            assert shapes[node.output[0]][0] == 1
    assert shapes[next(n for n in model.graph.node if n.op_type == "Concat").output[0]] == (
        1,
        6,
        10,
        10,
    )


# What is left alone.


def left_alone(model: onnx.ModelProto) -> bool:
    before = [node.SerializeToString() for node in infer(model).graph.node]
    return before == [node.SerializeToString() for node in rewritten(model).graph.node]


def test_one_picture_is_left_alone() -> None:
    assert left_alone(of_batch(shape=(1, 4, 5, 5)))


def test_computed_weights_are_left_alone() -> None:
    b = Builder()
    x, given = batch(b, (4, 6, 5, 5))
    weight = b.node("Slice", [x, *(numbers(b, f"b{i}", n) for i, n in enumerate((0, 1, 2)))], "w")
    b.node("Conv", [x, weight], "y")
    assert left_alone(ending(b, given))


def test_signals_are_left_alone() -> None:
    b = Builder()
    x = reshaped(b, "image", "signals", 2, 6, 5)
    b.node("Conv", [x, b.constant("w", b.normal(3, 6, 3))], "y")
    assert left_alone(b.model([1, 1, 1, 60], {"y": 3}))


def test_a_pool_of_results_is_left_alone() -> None:
    b = Builder()
    x, given = batch(b)
    b.node("GlobalAveragePool", [x], "y")
    assert left_alone(ending(b, given))


def test_positions_of_maxima_are_left_alone() -> None:
    b = Builder()
    x, given = batch(b)
    b.node("MaxPool", [x], "pooled", "positions", kernel_shape=[2, 2])
    b.node("Cast", ["positions"], "y", to=onnx.TensorProto.FLOAT)
    b.conv("pooled", "z", (3, CHANNELS, 1, 1))
    model = rewritten(b.model(given, {"y": 4, "z": 4}))
    shapes = shapes_of(model)
    assert shapes[next(n for n in model.graph.node if n.op_type == "MaxPool").input[0]] == BATCH


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes"),
    [
        ("Softmax", [], {"axis": 1}),
        ("Concat", ["first"], {"axis": 0}),
        ("Concat", ["first"], {"axis": 2}),
        ("Slice", ["zero", "one", "zero"], {}),
        ("Add", ["each"], {}),
        ("Gather", ["zero"], {"axis": 0}),
    ],
)
def test_what_depends_on_the_batch_stays_between_layers(kind, inputs, attributes) -> None:
    b = Builder()
    numbers(b, "zero", 0)
    numbers(b, "one", 1)
    x, given = batch(b)
    b.node("Sigmoid", [reshaped(b, "image", "all", 1, 6, 100, 1)], "sigmoid")
    b.node("GlobalAveragePool", ["sigmoid"], "each")
    chain(b, x, kind, inputs, **attributes)
    model = rewritten(ending(b, given))
    (node,) = (node for node in model.graph.node if node.op_type == kind)
    assert node.input[0] == "first"
    assert list(node.output) == ["between"]


def test_an_automatic_border_is_left_alone() -> None:
    assert left_alone(of_batch(weights=(8, CHANNELS, 3, 3), auto_pad="SAME_UPPER"))


def test_slices_with_attributes_are_left_alone() -> None:
    assert left_alone(of_batch(opset=9))


def test_a_very_large_batch_is_left_alone() -> None:
    assert left_alone(of_batch(shape=(16, 16, 128, 129), weights=(1, 16, 1, 1)))
