"""Graphs that look like what a rewrite is for, but mean something else, keep their values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgepipe.errors import FrontendError
from edgepipe.frontend.network import load_network
from edgepipe.frontend.onnx_passes import simplify

CASES = {
    "a dense layer whose bias differs from row to row": (
        "float[16,4] y",
        "t = Transpose<perm=[0,2,3,1]>(p)  r = Reshape(t, rows)  y = Gemm(r, w34, c)",
        {"rows": np.array([16, 3]), "w34": (3, 4), "c": (16, 4)},
    ),
    "a dense layer with a bias for each row": (
        "float[16,4] y",
        "t = Transpose<perm=[0,2,3,1]>(p)  r = Reshape(t, rows)  y = Gemm(r, w34, c)",
        {"rows": np.array([16, 3]), "w34": (3, 4), "c": (16, 1)},
    ),
    "a sum of two tensors, neither of which has all sizes": (
        "float[1,3,4,4] y",
        "m = GlobalMaxPool(p)  s = ReduceMax<axes=[1],keepdims=0>(p)  y = Add(m, s)",
        {},
    ),
    "a border of infinity on the channels": (
        "float[1,4,2,2] y",
        "b = Pad(p, amounts, low)  y = MaxPool<kernel_shape=[2,2],strides=[2,2]>(b)",
        {"amounts": np.array([0, 0, 0, 0, 0, 1, 0, 0]), "low": np.float32(-1e30)},
    ),
    "a border before a maximum that rounds its size up": (
        "float[1,3,3,3] y",
        """r = Relu(p)  b = Pad(r, amounts)
        y = MaxPool<kernel_shape=[2,2],strides=[2,2],ceil_mode=1>(b)""",
        {"amounts": np.array([0, 0, 0, 0, 0, 0, 1, 1])},
    ),
    "a maximum with a number of another rank": (
        "float[1,1,1,4] y",
        "f = ReduceMean<axes=[1,2],keepdims=0>(p)  y = Max(f, one)",
        {"one": np.zeros((1, 1, 1, 1), np.float32)},
    ),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("case", CASES)
def test_the_values_stay(case: str, tmp_path: Path) -> None:
    output, nodes, constants = CASES[case]
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 13]>
        net (float[1,3,4,4] image) => ({output})
        {{ p = Conv<kernel_shape=[1,1]>(image, w)  {nodes} }}"""
    )
    rng = np.random.default_rng(0)
    for name, given in {"w": (3, 3, 1, 1), **constants}.items():
        values = rng.normal(0, 1, given).astype(np.float32) if isinstance(given, tuple) else given
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    onnx.save(model, tmp_path / "net.onnx")
    picture = rng.normal(0, 1, (1, 3, 4, 4)).astype(np.float32)
    made = load_network(tmp_path / "net.onnx").onnx_model
    expected, found = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"image": picture})[0]
        for each in (model, made)
    )
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


def test_a_tensor_that_a_branch_reads_keeps_its_channels_last() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13]>
        net (float[1,3,4,4] image) => (float[1,3,4,4] y)
        {
            t = Transpose<perm=[0,2,3,1]>(image)
            r = Relu(t)
            q = Transpose<perm=[0,3,1,2]>(r)
            sum = ReduceSum<keepdims=0>(image)
            positive = Greater(sum, zero)
            i = If(positive)<
                then_branch = one () => (float[1,4,4,3] a) { a = Neg(r) },
                else_branch = other () => (float[1,4,4,3] b) { b = Abs(r) }
            >
            k = Transpose<perm=[0,3,1,2]>(i)
            y = Add(q, k)
        }"""
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0), "zero"))
    picture = np.random.default_rng(0).normal(0, 1, (1, 3, 4, 4)).astype(np.float32)
    expected = results(model, picture)
    simplify(model)
    np.testing.assert_allclose(results(model, picture), expected, rtol=1e-6)


def test_blocks_without_pixels_are_refused_with_their_shape(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13]>
        net (float[1,3,4,4] image) => (float[1,2,2,6] y)
        {
            r = Relu(image)
            part = Slice(r, begin, end, axis)
            y = Conv<kernel_shape=[3,3],pads=[2,2,2,2]>(part, w)
        }"""
    )
    values = {"begin": [4], "end": [4], "axis": [2]}
    constants = {name: np.array(given) for name, given in values.items()}
    constants["w"] = np.ones((2, 3, 3, 3), np.float32)
    for name, array in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(FrontendError, match=r"has no elements: its shape is \[1, 3, 0, 4\]"):
        load_network(tmp_path / "net.onnx")


def results(model: onnx.ModelProto, picture: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return np.asarray(session.run(None, {"image": picture})[0])
