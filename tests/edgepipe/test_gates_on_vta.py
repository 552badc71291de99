"""Products of two tensors stay on an accelerator that multiplies: gates, squeeze-and-excitation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from accelerators import ALL_EXTENSIONS
from extended_bundles import (
    EXTENDED,
    built,
    check_golden,
    count_vta_stages,
    reasons,
    with_extensions,
)
from small_networks import Builder

from edgepipe.bundle import storage


def gated_block() -> onnx.ModelProto:
    """Two convolutions of one picture: one, between 0 and 1, is a gate for the other."""
    b = Builder(5)
    x = b.conv("image", "stem", (16, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    value = b.conv(x, "value", (24, 16, 3, 3), pads=[1] * 4)
    gate = b.node("HardSigmoid", [b.conv(x, "open", (24, 16, 1, 1))], "gate")
    b.conv(b.node("Mul", [value, gate], "gated"), "result", (8, 24, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4})


def squeezed_block() -> onnx.ModelProto:
    """MobileNetV3's block with ReLU: expand, depthwise, a gate for each channel, project, add."""
    b = Builder(9)
    x = b.conv("image", "stem", (16, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = block = b.node("Relu", [x], "stem/relu")
    x = b.node("Relu", [b.conv(x, "expand", (40, 16, 1, 1))], "expand/relu")
    x = b.node("Relu", [b.conv(x, "depth", (40, 1, 3, 3), group=40, pads=[1] * 4)], "depth/relu")
    y = b.node("GlobalAveragePool", [x], "squeeze")
    y = b.node("Relu", [b.conv(y, "reduce", (8, 40, 1, 1))], "reduce/relu")
    y = b.node("HardSigmoid", [b.conv(y, "excite", (40, 8, 1, 1))], "gate", alpha=1 / 6)
    x = b.node("Mul", [y, x], "gated")
    x = b.node("Add", [b.conv(x, "project", (16, 40, 1, 1)), block], "added")
    b.conv(x, "result", (8, 16, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4}, opset=14)


def placed(bundle: Path) -> dict[str, str]:
    """Return the device of each operator between the stem and the decoding."""
    placement = storage.read_manifest(bundle).placement
    ends = ("image.int8", "stem", "stem_relu", "result")
    return {p.operator: p.device for p in placement if p.operator not in ends}


@pytest.mark.parametrize("model", [gated_block, squeezed_block])
def test_the_whole_body_is_one_program(
    model: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    bundle = built(model(), EXTENDED, tmp_path)
    devices = placed(bundle)
    assert "gated" in devices
    assert set(devices.values()) == {"vta"}
    assert count_vta_stages(bundle) == 1
    check_golden(bundle)


def test_without_the_extension_tensors_are_multiplied_on_arm(tmp_path: Path) -> None:
    others = with_extensions(*(set(ALL_EXTENSIONS) - {"multiply"}))
    bundle = built(gated_block(), others, tmp_path)
    assert reasons(bundle)["gated"] == "Mul: tensors are multiplied on arm"
    check_golden(bundle)
