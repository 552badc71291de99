"""Ordinary operators are rewritten so that the values stay, and each has an integer form."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import ordinary_operators
import pytest
from ordinary_operators import OPERATORS, REWRITTEN, SHAPE

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
        "MatMul" if case == "flattened_channels_last" else "Conv",
        *(["Conv"] * ("v" in read)),
    ]
    assert found == BEFORE + Counter(layers) + Counter(REWRITTEN[case].split())
    np.testing.assert_allclose(run(model), before, rtol=1e-4, atol=1e-5)
