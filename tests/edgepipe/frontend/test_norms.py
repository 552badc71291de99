"""Normalisations in the spellings of exporters are gathered by the quantiser, values unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_networks import Builder

from edgepipe.frontend.network import Network, load_network
from edgepipe.quantize.graph import FloatNode, NormNode
from edgepipe.quantize.quantizer import understand

CHANNELS, SIZE = 8, 6
Maker = Callable[[Builder], str]


def numbers(b: Builder, name: str, *values: int) -> str:
    return b.constant(name, np.array(values, np.int64))


def affine(b: Builder, count: int = CHANNELS) -> list[str]:
    return [
        b.constant("scale", 1 + 0.2 * b.normal(count)),
        b.constant("shift", 0.3 * b.normal(count)),
    ]


def last(b: Builder, x: str = "x") -> str:
    return b.node("Transpose", [x], f"{x}.last", perm=[0, 2, 3, 1])


def first(b: Builder, x: str) -> str:
    return b.node("Transpose", [x], f"{x}.first", perm=[0, 3, 1, 2])


def layer(b: Builder) -> str:
    return first(b, b.node("LayerNormalization", [last(b), *affine(b)], "y", axis=-1, epsilon=1e-6))


def layer_without_shift(b: Builder) -> str:
    return first(b, b.node("LayerNormalization", [last(b), affine(b)[0]], "y"))


def layer_of_parts(b: Builder) -> str:
    """As torch writes it before opset 17: the deviation is computed twice by some versions."""
    x = last(b)
    mean = b.node("ReduceMean", [x, numbers(b, "axes", -1)], "mean")
    squared = b.node(
        "Pow", [b.node("Sub", [x, mean], "one"), b.constant("two", np.float32(2))], "s"
    )
    variance = b.node("ReduceMean", [squared, "axes"], "variance")
    kept = b.node("Add", [b.constant("epsilon", np.float32(1e-5)), variance], "kept")
    x = b.node("Div", [b.node("Sub", [x, mean], "other"), b.node("Sqrt", [kept], "root")], "y")
    scale, shift = affine(b)
    return first(b, b.node("Add", [b.node("Mul", [x, scale], "scaled"), shift], "z"))


def by_the_reciprocal(b: Builder) -> str:
    mean = b.node("ReduceMean", ["x", numbers(b, "axes", 1)], "mean")
    centred = b.node("Sub", ["x", mean], "centred")
    squared = b.node("Mul", [centred, centred], "squared")
    variance = b.node("ReduceMean", [squared, "axes"], "variance")
    kept = b.node("Add", [variance, b.constant("epsilon", np.float32(1e-5))], "kept")
    root = b.node("Pow", [kept, b.constant("half", np.float32(0.5))], "root")
    return b.node("Mul", [b.node("Reciprocal", [root], "inverse"), centred], "y")


def root_mean_square(b: Builder) -> str:
    x = last(b)
    squared = b.node("Pow", [x, b.constant("two", np.float32(2))], "squared")
    mean = b.node("ReduceMean", [squared, numbers(b, "axes", -1)], "mean")
    kept = b.node("Add", [mean, b.constant("epsilon", np.float32(1e-6))], "kept")
    x = b.node("Div", [x, b.node("Sqrt", [kept], "root")], "y")
    return first(b, b.node("Mul", [x, affine(b)[0]], "scaled"))


def length(b: Builder) -> str:
    """``torch.nn.functional.normalize``."""
    norm = b.node("ReduceL2", ["x", numbers(b, "axes", 1)], "length")
    norm = b.node("Clip", [norm, b.constant("least", np.float32(1e-12))], "positive")
    norm = b.node("Expand", [norm, numbers(b, "shape", 1, CHANNELS, SIZE, SIZE)], "copied")
    return b.node("Div", ["x", norm], "y")


def unit_of_keras(b: Builder) -> str:
    """UnitNormalization through tf2onnx: the inverse of the length has a bound."""
    total = b.node("ReduceSum", [b.node("Mul", ["x", "x"], "s"), numbers(b, "axes", 1)], "total")
    inverse = b.node("Reciprocal", [b.node("Sqrt", [total], "root")], "inverse")
    most = b.constant("most", np.full((1, 1, 1, 1), 1e12, np.float32))
    return b.node("Mul", ["x", b.node("Min", [inverse, most], "bounded")], "y")


def unit_of_tensorflow(b: Builder) -> str:
    """tf.math.l2_normalize: the sum of squares has a bound."""
    total = b.node("ReduceSum", [b.node("Mul", ["x", "x"], "s"), numbers(b, "axes", 1)], "total")
    least = b.constant("least", np.full((1, 1, 1, 1), 1e-12, np.float32))
    root = b.node("Sqrt", [b.node("Max", [total, least], "positive")], "root")
    return b.node("Mul", ["x", b.node("Reciprocal", [root], "inverse")], "y")


def unit_by_a_quotient(b: Builder) -> str:
    """x * (1 / sqrt(sum + epsilon)), of each picture."""
    squares = b.node("Pow", ["x", b.constant("two", np.float32(2))], "squares")
    total = b.node("ReduceSum", [squares, numbers(b, "axes", 2, 3)], "total")
    kept = b.node("Add", [total, b.constant("epsilon", np.float32(1e-6))], "kept")
    one = b.constant("one", np.float32(1))
    inverse = b.node("Div", [one, b.node("Sqrt", [kept], "root")], "inverse")
    return b.node("Mul", [inverse, "x"], "y")


def layer_over_a_plane(b: Builder) -> str:
    scale, shift = (b.constant(name, b.normal(SIZE, SIZE)) for name in ("scale", "shift"))
    return b.node("LayerNormalization", ["x", scale, shift], "y", axis=-2)


def length_as_one_node(b: Builder) -> str:
    return b.node("LpNormalization", ["x"], "y", axis=1, p=2)


def instance(b: Builder) -> str:
    return b.node("InstanceNormalization", ["x", *affine(b)], "y")


def groups_of_pytorch(b: Builder) -> str:
    x = b.node("Reshape", ["x", numbers(b, "grouped", 0, 2, -1)], "groups")
    parts = [
        b.constant("ones", np.ones(2, np.float32)),
        b.constant("zeros", np.zeros(2, np.float32)),
    ]
    x = b.node("InstanceNormalization", [x, *parts], "normed")
    x = b.node("Reshape", [x, numbers(b, "back", 1, CHANNELS, SIZE, SIZE)], "y")
    scale, shift = (b.constant(name, b.normal(CHANNELS, 1, 1)) for name in ("g", "b"))
    return b.node("Add", [b.node("Mul", [x, scale], "scaled"), shift], "z")


def groups(b: Builder) -> str:
    return b.node("GroupNormalization", ["x", *affine(b)], "y", num_groups=4)


def groups_twice(b: Builder) -> str:
    x = b.node("GroupNormalization", ["x", *affine(b)], "first", num_groups=4)
    x = b.conv(x, "between", (CHANNELS, CHANNELS, 1, 1))
    return b.node("GroupNormalization", [x, "scale", "shift"], "second", num_groups=4)


def tokens(b: Builder) -> str:
    """Linear layers around a normalisation of tokens, with a sum across."""
    x = b.node("Reshape", ["x", numbers(b, "flat", 1, CHANNELS, SIZE * SIZE)], "flattened")
    x = b.node("Transpose", [x], "tokens", perm=[0, 2, 1])
    y = b.node("LayerNormalization", [x, *affine(b)], "normed")
    y = b.node("MatMul", [y, b.constant("w", b.normal(CHANNELS, CHANNELS))], "linear")
    x = b.node("Transpose", [b.node("Add", [x, y], "sum")], "channels", perm=[0, 2, 1])
    return b.node("Reshape", [x, numbers(b, "size", 1, CHANNELS, SIZE, SIZE)], "y")


def windows(b: Builder) -> str:
    """A normalisation of windows of a picture, [windows, pixels, c], and back."""
    x = b.node("Reshape", ["x", numbers(b, "cut", CHANNELS, 2, 3, 2, 3)], "cuts")
    x = b.node("Transpose", [x], "turned", perm=[1, 3, 2, 4, 0])
    x = b.node("Reshape", [x, numbers(b, "windows", 4, 9, CHANNELS)], "windowed")
    y = b.node("LayerNormalization", [x, *affine(b)], "normed")
    y = b.node("MatMul", [y, b.constant("w", b.normal(CHANNELS, CHANNELS))], "linear")
    x = b.node("Reshape", [b.node("Add", [y, x], "sum"), numbers(b, "uncut", 2, 2, 3, 3, 8)], "un")
    x = b.node("Transpose", [x], "unturned", perm=[4, 0, 2, 1, 3])
    return b.node("Reshape", [x, numbers(b, "size", 1, CHANNELS, SIZE, SIZE)], "y")


def windows_of_normalised_tokens(b: Builder) -> str:
    """A block of Swin without its attention: the normalisation is before the windows."""
    x = b.node("Reshape", ["x", numbers(b, "flat", 1, CHANNELS, SIZE * SIZE)], "flattened")
    x = b.node("Transpose", [x], "tokens", perm=[0, 2, 1])
    y = b.node("LayerNormalization", [x, *affine(b)], "normed")
    y = b.node("Reshape", [y, numbers(b, "cut", 2, 3, 2, 3, CHANNELS)], "cuts")
    y = b.node("Transpose", [y], "turned", perm=[0, 2, 1, 3, 4])
    y = b.node("Reshape", [y, numbers(b, "windows", 4, 9, CHANNELS)], "windowed")
    y = b.node("MatMul", [y, b.constant("w", b.normal(CHANNELS, CHANNELS))], "linear")
    y = b.node("Reshape", [y, numbers(b, "uncut", 2, 2, 3, 3, CHANNELS)], "un")
    y = b.node("Transpose", [y], "unturned", perm=[0, 2, 1, 3, 4])
    y = b.node("Reshape", [y, numbers(b, "whole", 1, SIZE * SIZE, CHANNELS)], "again")
    x = b.node("Transpose", [b.node("Add", [x, y], "sum")], "channels", perm=[0, 2, 1])
    return b.node("Reshape", [x, numbers(b, "size", 1, CHANNELS, SIZE, SIZE)], "y")


def without_bias(b: Builder) -> str:
    """``torch.var`` divides by one value fewer than there are."""
    mean = b.node("ReduceMean", ["x", numbers(b, "axes", 2, 3)], "mean")
    centred = b.node("Sub", ["x", mean], "centred")
    squared = b.node("Mul", [centred, centred], "squared")
    variance = b.node("ReduceMean", [squared, "axes"], "biased")
    variance = b.node("Mul", [variance, b.constant("n", np.float32(SIZE**2))], "total")
    variance = b.node("Div", [variance, b.constant("n1", np.float32(SIZE**2 - 1))], "variance")
    kept = b.node("Add", [variance, b.constant("epsilon", np.float32(0.1))], "kept")
    return b.node("Div", [centred, b.node("Sqrt", [kept], "root")], "y")


def moved_mean(b: Builder, x: str, shape: tuple[int, ...], *axes: int) -> str:
    """As Keras and tf2onnx write it: x * inv + (beta - mean * inv)."""
    scale, shift = (b.constant(name, 1 + 0.3 * b.normal(*shape)) for name in ("scale", "shift"))
    mean = b.node("ReduceMean", [x, numbers(b, "axes", *axes)], "mean")
    centred = b.node("Sub", [x, mean], "centred")
    variance = b.node("ReduceMean", [b.node("Mul", [centred] * 2, "squared"), "axes"], "variance")
    kept = b.node("Add", [variance, b.constant("epsilon", np.float32(1e-3))], "kept")
    inverse = b.node("Reciprocal", [b.node("Sqrt", [kept], "root")], "inverse")
    inverse = b.node("Mul", [inverse, scale], "inv")
    moved = b.node("Sub", [shift, b.node("Mul", [mean, inverse], "taken")], "moved")
    if len(axes) != 2:  # Keras 3
        negative = b.node("Neg", [mean], "negative")
        moved = b.node("Add", [b.node("Mul", [negative, inverse], "less"), shift], "rest")
    return b.node("Add", [b.node("Mul", [x, inverse], "scaled"), moved], "y")


def layer_of_keras(b: Builder) -> str:
    return first(b, moved_mean(b, last(b), (CHANNELS,), -1))


def instance_of_keras(b: Builder) -> str:
    return moved_mean(b, "x", (1, CHANNELS, 1, 1), 2, 3)


def groups_of_keras(b: Builder) -> str:
    x = b.node("Reshape", [last(b), numbers(b, "grouped", 1, SIZE, SIZE, 4, 2)], "groups")
    y = moved_mean(b, x, (1, 1, 1, 4, 2), 1, 2, 4)
    return first(b, b.node("Reshape", [y, numbers(b, "back", 1, SIZE, SIZE, CHANNELS)], "all"))


def root_mean_square_of_keras(b: Builder) -> str:
    mean = b.node("ReduceMean", [b.node("Mul", ["x", "x"], "squared"), numbers(b, "axes", 1)], "m")
    kept = b.node("Add", [mean, b.constant("epsilon", np.float32(1e-6))], "kept")
    inverse = b.node("Reciprocal", [b.node("Sqrt", [kept], "root")], "inverse")
    scale = b.constant("scale", 1 + 0.2 * b.normal(1, CHANNELS, 1, 1))
    return b.node("Mul", ["x", b.node("Mul", [inverse, scale], "inv")], "y")


def layer_of_pictures(b: Builder) -> str:
    """A scale and a constant for each element of a picture."""
    shape = (CHANNELS, SIZE, SIZE)
    scale, shift = (b.constant(name, b.normal(*shape)) for name in ("scale", "shift"))
    return b.node("LayerNormalization", ["x", scale, shift], "y", axis=1)


def length_of_all_tokens(b: Builder) -> str:
    """SwiftFormer's additive attention: one weight for each token, the length of all is one."""
    tokens = b.node("Reshape", [last(b), numbers(b, "tokens", 1, SIZE * SIZE, CHANNELS)], "t")
    weights = b.node("MatMul", [tokens, b.constant("w", b.normal(CHANNELS, 1))], "weights")
    norm = b.node("ReduceL2", [weights, numbers(b, "axes", 1)], "norm")
    norm = b.node("Clip", [norm, b.constant("least", np.float32(1e-12))], "positive")
    norm = b.node("Expand", [norm, numbers(b, "wide", 1, SIZE * SIZE, 1)], "expanded")
    weighted = b.node("Mul", [b.node("Div", [weights, norm], "unit"), tokens], "weighted")
    query = b.node("ReduceSum", [weighted, "axes"], "query")
    y = b.node("Mul", [query, tokens], "asked")
    y = b.node("MatMul", [y, b.constant("out", b.normal(CHANNELS, CHANNELS))], "y")
    return first(b, b.node("Reshape", [y, numbers(b, "back", 1, SIZE, SIZE, CHANNELS)], "all"))


def length_by_a_root(b: Builder) -> str:
    """RTMPose's ScaleNorm: the length is divided by the root of the count."""
    norm = b.node("ReduceL2", ["x", numbers(b, "axes", 1)], "norm")
    norm = b.node("Mul", [norm, b.constant("root", np.float32(CHANNELS**-0.5))], "mean")
    norm = b.node("Clip", [norm, b.constant("least", np.float32(1e-5))], "positive")
    scale = b.constant("g", np.float32(1.3))
    return b.node("Mul", [b.node("Div", ["x", norm], "unit"), scale], "y")


CASES: dict[str, tuple[Maker, int]] = {
    "layer of pictures": (layer_of_pictures, 1),
    "without bias": (without_bias, CHANNELS),
    "layer of Keras": (layer_of_keras, 0),
    "instance of Keras": (instance_of_keras, CHANNELS),
    "groups of Keras": (groups_of_keras, 4),
    "root mean square of Keras": (root_mean_square_of_keras, 0),
    "groups twice": (groups_twice, 4),
    "layer": (layer, 0),
    "layer without shift": (layer_without_shift, 0),
    "layer of parts": (layer_of_parts, 0),
    "by the reciprocal": (by_the_reciprocal, 0),
    "root mean square": (root_mean_square, 0),
    "length": (length, 0),
    "length by a root": (length_by_a_root, 0),
    "length of all tokens": (length_of_all_tokens, 1),
    "length as one node": (length_as_one_node, 0),
    "unit of Keras": (unit_of_keras, 0),
    "unit of TensorFlow": (unit_of_tensorflow, 0),
    "unit by a quotient": (unit_by_a_quotient, CHANNELS),
    "layer over a plane": (layer_over_a_plane, CHANNELS),
    "instance": (instance, CHANNELS),
    "groups of PyTorch": (groups_of_pytorch, 2),
    "groups": (groups, 4),
    "tokens": (tokens, 0),
    "windows": (windows, 0),
    "windows of normalised tokens": (windows_of_normalised_tokens, 0),
}


def network(folder: Path, make: Maker) -> Network:
    """Load a network, which raises if its values are no longer those of the original."""
    b = Builder(41)
    b.conv("image", "x", (CHANNELS, 3, 1, 1))
    b.conv(make(b), "head", (4, CHANNELS, 1, 1))
    model = b.model([1, 3, SIZE, SIZE], {"head": 4}, opset=21)
    model.ir_version = 10
    onnx.save(model, folder / "net.onnx")
    return load_network(folder / "net.onnx")


@pytest.mark.parametrize("case", CASES)
def test_a_spelling_of_a_normalisation_has_an_integer_form(case: str, tmp_path: Path) -> None:
    make, wanted = CASES[case]
    nodes = understand(network(tmp_path, make)).nodes
    assert {node.groups for node in nodes if isinstance(node, NormNode)} == {wanted}
    assert not [node.name for node in nodes if isinstance(node, FloatNode)]


def length_in_rows(b: Builder) -> str:
    return b.node("LpNormalization", ["x"], "y", axis=2, p=2)


def far_from_zero(b: Builder) -> str:
    """A guard that is not only one against zero."""
    norm = b.node("ReduceL2", ["x", numbers(b, "axes", 1)], "length")
    norm = b.node("Clip", [norm, b.constant("least", np.float32(0.5))], "positive")
    return b.node("Div", ["x", norm], "y")


def bounded_inverse(b: Builder) -> str:
    """A bound that changes results."""
    total = b.node("ReduceSum", [b.node("Mul", ["x", "x"], "s"), numbers(b, "axes", 1)], "total")
    inverse = b.node("Reciprocal", [b.node("Sqrt", [total], "root")], "inverse")
    return b.node("Mul", ["x", b.node("Min", [inverse, b.constant("m", np.float32(2))], "b")], "y")


def other_axes(b: Builder) -> str:
    """Mean and variance over different axes."""
    mean = b.node("ReduceMean", ["x", numbers(b, "axes", 1)], "mean")
    centred = b.node("Sub", ["x", mean], "centred")
    squared = b.node("Mul", [centred, centred], "squared")
    variance = b.node("ReduceMean", [squared, numbers(b, "others", 2, 3)], "variance")
    return b.node("Div", [centred, b.node("Sqrt", [variance], "root")], "y")


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_values_that_are_all_zero_have_the_length_zero(axis: int, tmp_path: Path) -> None:
    """onnxruntime's result is zero, too: loading compares."""
    zeros = np.zeros((CHANNELS, CHANNELS, 1, 1), np.float32)

    def nothing(b: Builder) -> str:
        b.node("Conv", ["x", b.constant("w", zeros)], "zero")
        return b.node("LpNormalization", ["zero"], "y", axis=axis, p=2)

    network(tmp_path, nothing)


@pytest.mark.parametrize("make", [unit_of_keras, unit_of_tensorflow])
def test_the_unit_of_values_that_are_all_zero_is_zero(make: Maker, tmp_path: Path) -> None:
    def nothing(b: Builder) -> str:
        b.node("Mul", ["x", b.constant("none", np.float32(0))], "zero")
        y = make(b)
        for node in b.nodes:
            node.input[:] = [
                "zero" if v == "x" and node.output[0] != "zero" else v for v in node.input
            ]
        return y

    network(tmp_path, nothing)


@pytest.mark.parametrize("make", [length_in_rows, far_from_zero, bounded_inverse])
def test_what_is_no_such_normalisation_stays_float(make: Maker, tmp_path: Path) -> None:
    nodes = understand(network(tmp_path, make)).nodes
    assert not [node for node in nodes if isinstance(node, NormNode)]
    assert [node for node in nodes if isinstance(node, FloatNode)]


def test_a_mean_over_other_axes_than_the_squares_is_no_normalisation(tmp_path: Path) -> None:
    """What is left is a division by the root of squares, over the axes of these."""
    nodes = understand(network(tmp_path, other_axes)).nodes
    assert [(n.groups, n.is_centred) for n in nodes if isinstance(n, NormNode)] in (
        [],
        [(8, False)],
    )
