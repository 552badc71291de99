"""Products whose rows are skewed by borders and reshapes: one product for each place."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Builder

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.rewrites.skewed_positions import straighten_positions

OTHERS, SIZE, DEPTH = 6, 5, 4
SHAPE = (1, OTHERS, SIZE, DEPTH)
DISTANCES = 2 * SIZE - 1


def numbers(b: Builder, *values: int) -> str:
    return b.constant(f"n{len(b.constants)}", np.array(values, np.int64))


def skewed(*, first: int = SIZE - 1, pad: int = 1, result: bool = False) -> onnx.ModelProto:
    """Return BoTNet's way to make places of distances; ``first`` is where the last slice begins."""
    b = Builder()
    weight = np.random.default_rng(1).normal(0, 1, (DEPTH, DISTANCES)).astype(np.float32)
    x = b.node("MatMul", ["image", b.constant("distances", weight)], "product")
    x = b.node("Reshape", [x, numbers(b, OTHERS, SIZE, DISTANCES)], "rows")
    x = b.node("Pad", [x, numbers(b, 0, 0, 0, 0, 0, pad)], "wider")
    x = b.node("Flatten", [x], "flat")
    wide = SIZE * (DISTANCES + pad)
    more = -wide % (DISTANCES + pad - 1)
    x = b.node("Pad", [x, numbers(b, 0, 0, 0, more)], "longer")
    x = b.node("Reshape", [x, numbers(b, OTHERS, -1, DISTANCES + pad - 1)], "skewed")
    x = b.node("Slice", [x, numbers(b, 0), numbers(b, SIZE), numbers(b, 1)], "high")
    x = b.node("Slice", [x, numbers(b, first), numbers(b, first + SIZE), numbers(b, 2)], "wide")
    outputs = {b.node("Relu", [x], "y"): 3}
    if result:
        outputs["flat"] = 2
    return b.model([*SHAPE], outputs)


def kinds_after(model: onnx.ModelProto) -> list[str]:
    """Return the operators after the rewrite; the values are those of before."""
    after = onnx.ModelProto()
    after.CopyFrom(model)
    infer_shapes(after)
    straighten_positions(after)
    onnx.checker.check_model(after)
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    one, other = (
        onnxruntime.InferenceSession(m.SerializeToString()).run(["y"], {"image": picture})[0]
        for m in (model, after)
    )
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return [node.op_type for node in after.graph.node]


@pytest.mark.parametrize("pad", [1, 2])
def test_distances_become_places(pad: int) -> None:
    straight = ["Reshape", "Transpose", "MatMul", "Transpose", "Reshape", "Relu"]
    assert kinds_after(skewed(pad=pad)) == straight


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(skewed(first=0), id="rows that are mixed"),
        pytest.param(skewed(result=True), id="a result between"),
    ],
)
def test_other_chains_stay(model: onnx.ModelProto) -> None:
    assert kinds_after(model) == [node.op_type for node in model.graph.node]


def test_a_border_that_is_cut_off_changes_no_product() -> None:
    b = Builder()
    weight = np.ones((DEPTH, DISTANCES), np.float32)
    x = b.node("MatMul", ["image", b.constant("weight", weight)], "product")
    x = b.node("Pad", [x, numbers(b, 0, 0, 0, 0, 0, 0, 0, 1)], "wider")
    x = b.node("Slice", [x, numbers(b, 1), numbers(b, 4), numbers(b, 3)], "part")
    b.node("Relu", [x], "y")
    assert "Pad" in kinds_after(b.model([*SHAPE], {"y": 4}))
