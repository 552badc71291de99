"""Pictures with the channels last: found, and the layers before the first convolution turned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_networks import Builder

from edgepipe.frontend.folding import run_model
from edgepipe.frontend.network import load_network
from edgepipe.frontend.onnx_passes import simplify
from edgepipe.frontend.picture_input import channels_first, fix_size, is_channels_last

SHAPE = (1, 8, 10, 3)
Layers = Callable[[Builder], str]


def model_of(layers: Layers, shape: tuple[int | str, ...] = SHAPE) -> onnx.ModelProto:
    """End ``layers``, which read ``image`` [1, h, w, c], as tf2onnx does: a move, a convolution."""
    b = Builder()
    b.node("Transpose", [layers(b)], "moved", perm=[0, 3, 1, 2])
    b.conv("moved", "y", (4, 3, 1, 1))
    return b.model([*shape], {"y": 4})


def mobile(b: Builder) -> str:
    x = b.node("Mul", ["image", b.constant("factor", np.float32(1 / 127.5))], "scaled")
    return b.node("Add", [b.constant("offset", b.normal(1, 1, 1, 3)), x], "x")


def normalised(b: Builder) -> str:
    x = b.node("Sub", ["image", b.constant("mean", b.normal(3))], "centred")
    return b.node("Div", [x, b.constant("std", np.float32([[0.2, 0.3, 0.4]]))], "x")


def per_row(b: Builder) -> str:
    return b.node("Mul", ["image", b.constant("factor", b.normal(8, 1, 1))], "x")


def limited(b: Builder) -> str:
    limits = [b.constant("low", np.float32(-0.5)), b.constant("high", np.float32(0.5))]
    return b.node("Cast", [b.node("Clip", ["image", *limits], "limited")], "x", to=1)


def bordered(b: Builder) -> str:
    amounts = b.constant("amounts", np.array([0, 3, 1, 0, 0, 2, 1, 0]))
    return b.node("Pad", ["image", amounts], "x")


def enlarged(b: Builder) -> str:
    factors = b.constant("factors", np.float32([1, 2, 3, 1]))
    return b.node("Resize", ["image", "", factors], "x", mode="nearest")


def to_a_size(b: Builder) -> str:
    size = b.constant("size", np.array([1, 16, 20, 3]))
    return b.node("Resize", ["image", "", "", size], "x", mode="linear")


def swapped(b: Builder) -> str:
    return b.node("Gather", ["image", b.constant("order", np.array([2, 1, 0]))], "x", axis=-1)


def backwards(b: Builder) -> str:
    bounds = [b.constant(f"c{n}", np.array([v])) for n, v in enumerate((-1, -(2**31), 3, -1))]
    return b.node("Slice", ["image", *bounds], "x")


def cropped(b: Builder) -> str:
    bounds = [b.constant(f"c{n}", np.array(v)) for n, v in enumerate(([0, 1, 2], [1, 7, 8]))]
    return b.node("Slice", ["image", *bounds], "x")


def colours_apart(b: Builder) -> str:
    b.node("Split", ["image"], "red", "green", "blue", axis=-1)
    return b.node("Concat", ["blue", "green", "red"], "x", axis=3)


def reshaped(b: Builder) -> str:
    return b.node("Reshape", ["image", b.constant("shape", np.array([-1, 8, 10, 3]))], "x")


def with_itself(b: Builder) -> str:
    return b.node("Add", ["image", b.node("Relu", ["image"], "positive")], "x")


def moved_twice(b: Builder) -> str:
    x = b.node("Transpose", ["image"], "first", perm=[0, 3, 1, 2])
    return b.node("Transpose", [b.node("Relu", [x], "positive")], "x", perm=[0, 2, 3, 1])


def turned(b: Builder) -> str:
    return b.node("Transpose", ["image"], "x", perm=[0, 2, 1, 3])


TURNED: dict[str, tuple[Layers, str]] = {
    "a factor and offsets": (mobile, "Mul Add Conv"),
    "mean and deviation": (normalised, "Sub Div Conv"),
    "a factor per row": (per_row, "Mul Conv"),
    "limits": (limited, "Clip Conv"),
    "a border": (bordered, "Conv"),
    "factors": (enlarged, "Resize Conv"),
    "a size": (to_a_size, "Resize Conv"),
    "an order of channels": (swapped, "Gather Conv"),
    "channels backwards": (backwards, "Gather Conv"),
    "a crop": (cropped, "MatMul MatMul Conv"),
    "a split": (colours_apart, "Split Concat Conv"),
    "the same shape": (reshaped, "Conv"),
    "a sum with itself": (with_itself, "Relu Add Conv"),
    "moves there and back": (moved_twice, "Relu Conv"),
    "rows as columns": (turned, "Transpose Transpose Conv"),
}


@pytest.mark.parametrize("case", TURNED)
def test_layers_are_turned_and_keep_their_values(case: str) -> None:
    layers, expected = TURNED[case]
    model = model_of(layers)
    picture, before = run_last(model)
    channels_first(model, (3, 8, 10))
    simplify(model)
    assert sorted(node.op_type for node in model.graph.node) == sorted(expected.split())
    found = run_model(model, {"image": picture})
    np.testing.assert_allclose(found[0], before[0], rtol=1e-4, atol=1e-5)


def run_last(model: onnx.ModelProto) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return a random picture, channels first, and what the network makes of it."""
    dims = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    picture = np.random.default_rng(0).normal(0, 1, dims).astype(np.float32)
    first = np.ascontiguousarray(np.moveaxis(picture, 3, 1))
    return first, run_model(model, {"image": picture})


def written_by_opset_9(layers: Layers) -> onnx.ModelProto:
    model = model_of(layers)
    model.opset_import[0].version = 9
    return model


def test_attributes_of_old_opsets_are_turned(tmp_path: Path) -> None:
    def old(b: Builder) -> str:
        x = b.node("Pad", ["image"], "padded", pads=[0, 1, 2, 0, 0, 0, 1, 0])
        x = b.node("Slice", [x], "part", axes=[2], starts=[1], ends=[9])
        factors = b.constant("factors", np.float32([1, 2, 2, 1]))
        return b.node("Upsample", [x, factors], "x", mode="nearest")

    path = tmp_path / "net.onnx"
    onnx.save(written_by_opset_9(old), path)
    network = load_network(path, (3, 8, 10))  # compares the values
    assert network.input_shape == (1, 3, 8, 10)
    assert "Transpose" not in {node.op_type for node in network.onnx_model.graph.node}


def test_axes_of_opset_18_are_turned() -> None:
    def new(b: Builder) -> str:
        amounts, axes = b.constant("amounts", np.array([1, 2])), b.constant("axes", np.array([2]))
        x = b.node("Pad", ["image", amounts, "", axes], "padded", mode="edge")
        factors = b.constant("factors", np.float32([2]))
        return b.node("Resize", [x, "", factors], "x", axes=[1], mode="nearest")

    model = model_of(new)
    model.opset_import[0].version = 18
    picture, before = run_last(model)
    channels_first(model, (3, 8, 10))
    simplify(model)
    assert "Transpose" not in {node.op_type for node in model.graph.node}
    found = run_model(model, {"image": picture})
    np.testing.assert_allclose(found[0], before[0], rtol=1e-4, atol=1e-5)


def grey(reshape: list[int]) -> onnx.ModelProto:
    b = Builder()
    x = b.node("Mul", ["image", b.constant("factor", np.float32([0.5]))], "scaled")
    b.node("Reshape", [x, b.constant("shape", np.array(reshape))], "moved")
    b.conv("moved", "y", (4, reshape[1], 1, 1))
    return b.model([1, 8, 10, 1], {"y": 4})


@pytest.mark.parametrize("shape", [[-1, 1, 8, 10], [1, 4, 4, 5]])
def test_one_channel_is_moved_by_a_reshape(shape: list[int]) -> None:
    model = grey(shape)
    picture, before = run_last(model)
    channels_first(model, (1, 8, 10))
    simplify(model)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds == (["Mul", "Conv"] if shape[1] == 1 else ["Mul", "Reshape", "Conv"])
    np.testing.assert_allclose(run_model(model, {"image": picture})[0], before[0], rtol=1e-5)


def test_what_reads_pixels_in_their_order_reads_them_so() -> None:
    b = Builder()
    mobile(b)
    b.node("Reshape", ["x", b.constant("shape", np.array([1, -1]))], "flat")
    b.node("MatMul", ["flat", b.constant("w", b.normal(240, 4))], "y")
    b.node("Transpose", ["x"], "moved", perm=[0, 3, 1, 2])
    b.conv("moved", "z", (4, 3, 1, 1))
    model = b.model([*SHAPE], {"y": 2, "z": 4, "x": 4})
    picture, before = run_last(model)
    channels_first(model, (3, 8, 10))
    simplify(model)
    found = run_model(model, {"image": picture})
    for one, other in zip(found, before, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def plain(shape: tuple[int | str, ...], kind: str = "Relu") -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(kind, ["image"], ["y"])],
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("shape", "picture", "expected"),
    [
        ((1, 32, 32, 3), (3, 32, 32), True),
        ((1, 3, 32, 32), (3, 32, 32), False),
        (("n", 28, 28, 1), None, True),
        (("n", 1, 28, 28), None, False),
        (("n", "h", "w", 3), None, True),
        (("n", "c", "h", "w"), (3, 32, 48), False),
        (("n", "h", 48, "c"), (3, 32, 48), True),
        (("n", "c", "h", 3), (1, 5, 3), False),
        (("n", 3, 5, 3), (3, 3, 5), True),
        (("n", 3, 5, 3), (3, 5, 3), False),
        (("n", 3, 5, 3), None, False),
    ],
)
def test_the_layout_follows_from_the_sizes(
    shape: tuple[int | str, ...], picture: tuple[int, int, int] | None, expected: bool
) -> None:
    model = plain(shape)
    assert is_channels_last(model, model.graph.input[0], picture) is expected


def test_a_move_behind_other_layers_shows_the_layout_of_a_dynamic_input() -> None:
    model = model_of(mobile, ("n", "h", "w", "c"))
    notices = fix_size(Path("net.onnx"), model, (3, 8, 10))
    assert notices[1:] == [
        "image: dynamic height 'h' fixed to 8",
        "image: dynamic width 'w' fixed to 10",
        "image: dynamic channels 'c' fixed to 3",
    ]


def test_an_input_that_is_not_a_picture_is_not_turned() -> None:
    model = plain((1, 3, 5))
    assert not is_channels_last(model, model.graph.input[0])
