"""Outputs of integers become float, and networks that select their results are refused."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_networks import Builder

from edgepipe.errors import FrontendError
from edgepipe.frontend.network import load_network
from edgepipe.tvm_adapter import run_module

SHAPE = [1, 3, 9, 12]


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "net.onnx"
    onnx.save(model, path)
    return path


def segmenter() -> onnx.ModelProto:
    b = Builder()
    b.node("ArgMax", [b.conv("image", "scores", (4, 3, 1, 1))], "classes", axis=1, keepdims=0)
    model = b.model(SHAPE, {"classes": 4})
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("classes", TensorProto.INT64, [1, 9, 12])
    )
    return model


def test_an_output_of_integers_becomes_float(tmp_path: Path) -> None:
    network = load_network(saved(segmenter(), tmp_path))
    assert "classes: int64 output becomes float" in network.notices
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    (found,) = run_module(network.module, {network.input_name: picture}).values()
    assert found.dtype == np.float32
    assert found.shape == (1, 9, 12)
    assert set(np.unique(found)) <= {0, 1, 2, 3}


def selecting(*, twice: bool) -> onnx.ModelProto:
    """Boxes and scores from one tensor, or from two convolutions, as in YOLOv10 and SSD."""
    b = Builder()
    first = b.node("Relu", [b.conv("image", "first", (8, 3, 1, 1))], "features")
    if twice:
        boxes = b.conv(first, "boxes", (4, 8, 1, 1))
        scores = b.conv(first, "scores", (2, 8, 1, 1))
    else:
        head = b.conv(first, "head", (6, 8, 1, 1))
        sizes = b.constant("sizes", np.array([4, 2], np.int64))
        b.nodes.append(helper.make_node("Split", [head, sizes], ["boxes", "scores"], axis=1))
        boxes, scores = "boxes", "scores"
    axes = b.constant("axes", np.array([1], np.int64))
    best = b.node("ReduceMax", [scores], "best", axes=[1], keepdims=1)
    flat = b.node("Reshape", [best, b.constant("flat", np.array([1, -1], np.int64))], "flattened")
    count = b.constant("count", np.array([5], np.int64))
    b.nodes.append(helper.make_node("TopK", [flat, count], ["values", "places"]))
    b.node("Unsqueeze", ["places", axes], "index")
    shape = b.constant("rows", np.array([1, 4, -1], np.int64))
    rows = b.node("Reshape", [boxes, shape], "rows_of_boxes")
    four = b.constant("four", np.array([1, 4, 5], np.int64))
    b.node("GatherElements", [rows, b.node("Expand", ["index", four], "wide")], "found", axis=2)
    model = b.model(SHAPE, {"found": 4})
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("found", TensorProto.FLOAT, [1, 4, 5])
    )
    return model


@pytest.mark.parametrize(("twice", "border"), [(False, ["head"]), (True, ["boxes", "scores"])])
def test_a_selection_is_refused_with_the_command_that_cuts_it_off(
    twice: bool, border: list[str], tmp_path: Path
) -> None:
    path = saved(selecting(twice=twice), tmp_path)
    with pytest.raises(FrontendError, match=r"TopK 'values' selects the best results") as raised:
        load_network(path)
    start = "a decoder selects them afterwards; to cut the network off before that: python -c "
    assert raised.value.hint is not None
    assert raised.value.hint.startswith(start)
    script = shlex.split(raised.value.hint.removeprefix(start))
    subprocess.run([sys.executable, "-c", *script], check=True)
    cut = load_network(tmp_path / "net-cut.onnx")
    assert sorted(cut.values[name] for name in cut.output_names) == border


def test_a_selection_among_constants_is_no_selection(tmp_path: Path) -> None:
    b = Builder()
    numbers = b.constant("numbers", np.array([3.0, 1.0, 2.0], np.float32))
    count = b.constant("count", np.array([1], np.int64))
    b.nodes.append(helper.make_node("TopK", [numbers, count], ["largest", "place"]))
    b.node("Mul", [b.conv("image", "first", (4, 3, 1, 1)), "largest"], "y")
    network = load_network(saved(b.model(SHAPE, {"y": 4}), tmp_path))
    assert network.output_names == ("y",)
