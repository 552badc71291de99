"""Networks that were exported as they are trained are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_networks import Builder

from edgepipe.errors import FrontendError
from edgepipe.frontend.network import load_network
from edgepipe.quantize.graph import ConvNode
from edgepipe.quantize.quantizer import understand

HINT = "export the network for inference, from PyTorch after model.eval(), without `training=`"


def dropped(ratio: float, *, in_nodes: bool = False) -> onnx.ModelProto:
    """A Dropout that trains; its numbers are initialisers or the results of Constant nodes."""
    b = Builder()
    x = b.conv("image", "first", (4, 3, 1, 1))
    numbers = {"ratio": np.float32(ratio), "train": np.bool_(True)}
    for name, value in numbers.items():
        b.constant(name, value)
        if in_nodes:
            b.node("Constant", [], name, value=b.constants.pop())
    b.conv(b.node("Dropout", [x, *numbers], "dropped"), "result", (4, 4, 1, 1))
    return b.model([1, 3, 9, 12], {"result": 4})


def normalised(*more: str, opset: int, **attributes: object) -> onnx.ModelProto:
    b = Builder()
    x = b.conv("image", "first", (4, 3, 1, 1))
    numbers = [b.constant(f"n{n}", np.abs(b.normal(4))) for n in range(4)]
    b.node("BatchNormalization", [x, *numbers], "normalised", *more, **attributes)
    b.conv("normalised", "result", (4, 4, 1, 1))
    return b.model([1, 3, 9, 12], {"result": 4}, opset=opset)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (dropped(0.5), "Dropout 'dropped' drops values at random"),
        (dropped(0.5, in_nodes=True), "Dropout 'dropped' drops values at random"),
        (
            normalised("a", "b", opset=15, training_mode=1),
            "BatchNormalization 'normalised' takes mean and variance from each picture",
        ),
        (
            normalised("a", "b", "c", "d", opset=9),
            "BatchNormalization 'normalised' takes mean and variance from each picture",
        ),
    ],
    ids=["dropout", "dropout with constant nodes", "batch norm", "batch norm of opset 9"],
)
def test_a_layer_that_trains_is_refused(
    model: onnx.ModelProto, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    with pytest.raises(FrontendError, match=message) as raised:
        load_network(path)
    assert raised.value.hint == HINT


def test_a_dropout_that_drops_nothing_is_built(tmp_path: Path) -> None:
    onnx.save(dropped(0.0), tmp_path / "net.onnx")
    assert load_network(tmp_path / "net.onnx").output_names == ("result",)


@pytest.mark.parametrize(("opset", "attributes"), [(13, {}), (19, {"training_mode": 1})])
def test_weights_that_are_standardised_are_folded(
    opset: int, attributes: dict[str, int], tmp_path: Path
) -> None:
    """As timm's NFNet and BiT are exported."""
    b = Builder()
    weight, scale, shift = b.normal(4, 3, 3, 3), b.normal(4), b.normal(4)
    shapes = {"row": [1, 4, -1], "kernel": [4, 3, 3, 3]}
    for name, shape in shapes.items():
        b.constant(f"{name}.shape", np.array(shape, np.int64))
    b.node("Reshape", [b.constant("weight", weight), "row.shape"], "row")
    numbers = [b.constant("scale", scale), b.constant("shift", shift)]
    numbers += [b.constant(f"old.{n}", np.abs(b.normal(4))) for n in range(2)]
    more = [f"more{n}" for n in range(2 if attributes else 4)]
    given = {"epsilon": 1e-3, **attributes}
    b.node("BatchNormalization", ["row", *numbers], "standard", *more, **given)
    b.node("Reshape", ["standard", "kernel.shape"], "kernel")
    b.node("Conv", ["image", "kernel"], "result")
    onnx.save(b.model([1, 3, 9, 12], {"result": 4}, opset=opset), tmp_path / "net.onnx")
    (node,) = understand(load_network(tmp_path / "net.onnx")).nodes
    assert isinstance(node, ConvNode)
    rows = weight.reshape(4, -1).astype(np.float64)
    root = np.sqrt(rows.var(axis=1, keepdims=True) + 1e-3)
    rows = (rows - rows.mean(axis=1, keepdims=True)) / root * scale[:, None] + shift[:, None]
    np.testing.assert_allclose(node.weight.reshape(4, -1), rows, rtol=1e-4, atol=1e-5)
