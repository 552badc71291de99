"""Copies of pictures to C order and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from edgepipe.codegen.arm.layouts import Blocks
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.normal_forms import write_layer
from edgepipe.tvm_adapter import IRModule, ModuleBuilder
from vta_stages.layers.records import Table, TensorSpec

BYTES = 16 * 4 * 6


def table(name: str, source: str) -> Table:
    def picture(of: str) -> TensorSpec:
        return TensorSpec(name=of, channels=16, height=4, width=6)

    entries = np.arange(-128, 128).astype(np.int8)[None, ::-1].copy()
    return Table(name=name, input=picture(source), output=picture(name), table=entries)


def module() -> IRModule:
    """Return a layer, two generic operators that read it, and a layer that reads one of these."""
    builder = ModuleBuilder()
    builder.param("x", (1, 16, 4, 6), "int8")
    write_layer(builder, table("first", "x"))
    builder.emit("turned", "negative", "first")
    builder.emit("other", "reshape", "first", (1, 384))
    write_layer(builder, table("last", "turned"))
    return builder.finish(["last", "other"], returns_tuple=True)


def test_a_picture_is_copied_once_for_all_that_need_c_order_and_back_for_a_layer() -> None:
    copied = {o.name: o.copied_bytes for o in match_operators(module())}
    assert copied == {"first": 0, "turned": 2 * BYTES, "other": 0, "last": 0}


def test_a_stage_copies_what_its_operator_says(tmp_path: Path) -> None:
    """Around a stage of only the middle operators, both layers are on the accelerator."""
    builder = ModuleBuilder()
    builder.param("first", (1, 16, 4, 6), "int8")
    builder.emit("turned", "negative", "first")
    builder.emit("other", "reshape", "first", (1, 384))
    stage = builder.finish(["turned", "other"], returns_tuple=True)
    blocks = Blocks(block=16)
    compile_arm_stage(
        stage,
        arches=("x86_64",),
        input_layouts={"first": blocks},
        output_layouts={"turned": blocks},
    ).write(tmp_path)
    calls = json.loads((tmp_path / "plan.json").read_text())["calls"]
    assert [call["kernel"].startswith("copy") for call in calls].count(True) == 2
