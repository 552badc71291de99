"""Activations stay on an accelerator that has a table: no ARM stage in a network's body."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from extended_bundles import EXTENDED, STOCK, built, check_golden, check_one_vta_stage, reasons
from small_networks import Builder, silu_block

from edgepipe.accuracy.networks import Origin, load_pair


def hard_swish_block() -> onnx.ModelProto:
    """Hard-swish and sigmoid between convolutions."""
    b = Builder(3)
    x = b.conv("image", "stem", (16, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = b.node("HardSwish", [b.conv(x, "first", (24, 16, 3, 3), pads=[1] * 4)], "swish")
    x = b.node("Sigmoid", [b.conv(x, "second", (16, 24, 1, 1))], "gate")
    b.conv(x, "result", (8, 16, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4}, opset=14)


@pytest.mark.parametrize(("model", "stem"), [(silu_block, "stem_conv"), (hard_swish_block, "stem")])
def test_no_operator_of_the_body_runs_on_arm(
    model: Callable[[], onnx.ModelProto], stem: str, tmp_path: Path
) -> None:
    """The board's accelerator needs one table for all channels, so the quantiser makes one."""
    bundle = built(model(), EXTENDED, tmp_path)
    check_one_vta_stage(bundle, stem)
    check_golden(bundle)
    # To measure its accuracy, the network is quantised again, for the bundle's accelerator.
    load_pair(bundle, Origin(network=tmp_path / "net.onnx", calibration=tmp_path / "frames.npz"))


def test_without_a_table_an_activation_is_on_arm(tmp_path: Path) -> None:
    bundle = built(hard_swish_block(), STOCK, tmp_path)
    assert reasons(bundle)["swish"] == "HardSwish: values are looked up in a table on arm"
