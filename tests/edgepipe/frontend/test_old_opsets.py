"""Networks of opsets before 11 are converted, and stay what they are if that fails."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from small_networks import Builder

from edgepipe.frontend.old_opsets import modernise
from edgepipe.frontend.onnx_graph import opset_of

SHAPE = [1, 3, 9, 12]


def network(opset: int) -> onnx.ModelProto:
    b = Builder()
    cut = b.node("Slice", [b.conv("image", "first", (4, 3, 1, 1))], "cut", starts=[2], ends=[8])
    padded = b.node("Pad", [cut], "padded", pads=[0, 0, 1, 0, 0, 0, 1, 0])
    b.node("Clip", [padded], "y", min=0.0, max=6.0)
    model = b.model(SHAPE, {"y": 4})
    for node in model.graph.node:
        if node.op_type == "Slice":
            node.attribute.append(helper.make_attribute("axes", [2]))
    model.opset_import[0].version = opset
    return model


def run(model: onnx.ModelProto) -> np.ndarray:
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"image": picture})[0]


@pytest.mark.parametrize("opset", [7, 8, 9])
def test_attributes_become_inputs_with_the_same_values(opset: int) -> None:
    model = network(opset)
    before = run(model)
    names = [node.output[0] for node in model.graph.node]
    modernise(model)
    assert opset_of(model) == 13
    assert set(names) <= {name for node in model.graph.node for name in node.output}
    np.testing.assert_array_equal(run(model), before)


def test_newer_networks_stay_what_they_are() -> None:
    model = network(11)
    before = model.SerializeToString()
    modernise(model)
    assert model.SerializeToString() == before


def test_a_network_that_cannot_be_converted_stays_what_it_is() -> None:
    model = network(9)
    model.graph.node[0].op_type = "Unheard"
    before = model.SerializeToString()
    modernise(model)
    assert model.SerializeToString() == before
