"""Ordinary operators are rewritten so that the values stay, and each has an integer form."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import ordinary_operators
import pytest
from ordinary_operators import CHANNELS, OPERATORS, REWRITTEN, SHAPE
from small_networks import Builder

from edgepipe.frontend.onnx_passes import simplify

BEFORE = Counter(["Conv", "Relu", "Conv"])


def run(model: onnx.ModelProto) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    return np.asarray(session.run(None, {"image": picture})[0])


@pytest.mark.parametrize("case", OPERATORS)
def test_a_rewrite_keeps_the_values(case: str) -> None:
    model = ordinary_operators.network([OPERATORS[case]])
    before = run(model)
    simplify(model)
    found = Counter(node.op_type for node in model.graph.node)
    read = {value for node in model.graph.node for value in node.input}
    layers = [
        "Conv" if len(model.graph.output[0].type.tensor_type.shape.dim) == 4 else "MatMul",
        *(["Conv"] * ("v" in read)),
    ]
    assert found == BEFORE + Counter(layers) + Counter(REWRITTEN[case].split())
    np.testing.assert_allclose(run(model), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("squares", [("Mul", "x", "x"), ("Pow", "x", "two")])
def test_what_normalises_keeps_its_statistics_in_float(squares: tuple[str, ...]) -> None:
    """Layer normalisation of channels, as exporters write it before opset 17."""
    b = Builder(3)
    features = b.conv("image", "features", (CHANNELS, 3, 3, 3), pads=[1] * 4)
    b.constant("two", np.float32(2))
    epsilon = b.constant("epsilon", np.float32(1e-5))
    b.node("Sub", [features, b.node("ReduceMean", [features], "mean", axes=[1])], "x")
    b.node(squares[0], list(squares[1:]), "squares")
    variance = b.node("ReduceMean", ["squares"], "variance", axes=[1])
    root = b.node("Sqrt", [b.node("Add", [variance, epsilon], "more")], "root")
    b.conv(b.node("Div", ["x", root], "normed"), "y", (4, CHANNELS, 1, 1))
    model = b.model([*SHAPE], {"y": 4})
    simplify(model)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("ReduceMean") == 2
    assert kinds.count("Conv") == 2
