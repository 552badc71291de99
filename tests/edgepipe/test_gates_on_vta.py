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
    check_one_vta_stage,
    reasons,
    with_extensions,
)
from small_networks import Builder, squeeze_excite


def gated_block() -> onnx.ModelProto:
    """Two convolutions of one picture: the sigmoid of one is a gate for the other."""
    b = Builder(5)
    x = b.conv("image", "stem", (16, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    value = b.conv(x, "value", (24, 16, 3, 3), pads=[1] * 4)
    gate = b.node("Sigmoid", [b.conv(x, "open", (24, 16, 1, 1))], "gate")
    b.conv(b.node("Mul", [gate, value], "gated"), "result", (8, 24, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4})


@pytest.mark.parametrize("model", [gated_block, squeeze_excite])
def test_the_whole_body_is_one_program(
    model: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    """Gates of two maps, of one value for each channel, and of one plane for all channels."""
    bundle = built(model(), EXTENDED, tmp_path)
    check_one_vta_stage(bundle, "stem")
    check_golden(bundle)


def test_without_the_extension_tensors_are_multiplied_on_arm(tmp_path: Path) -> None:
    others = with_extensions(*(set(ALL_EXTENSIONS) - {"multiply"}))
    bundle = built(gated_block(), others, tmp_path)
    assert reasons(bundle)["gated"] == "Mul: tensors are multiplied on arm"
    check_golden(bundle)
