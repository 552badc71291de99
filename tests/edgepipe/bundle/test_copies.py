"""Copies in a bundle's ARM stages: read from their plans, which may be missing or damaged."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import tiny_bundle

from edgepipe.bundle import storage
from edgepipe.bundle.copies import Copy, copies
from edgepipe.bundle.manifest import Stage
from edgepipe.errors import BundleError

PLAN = {
    "tensors": [{"dtype": "int8", "shape": [1, 3, 4]}, {"dtype": "float32", "shape": [5]}],
    "calls": [
        {"operator": "a", "kernel": "copy_0", "args": [1, 0]},
        {"operator": "b", "kernel": "convolution_1", "args": [0, 1]},
        {"operator": "c", "kernel": "flat_copy_12", "args": [0, 1]},
    ],
}


def found(folder: Path, files: dict[str, bytes]) -> tuple[Copy, ...]:
    stage = Stage(name="arm0", kind="arm", folder="stages/0_arm", inputs=(), outputs=())
    made = storage.write(
        folder / "net",
        files,
        lambda entries: dataclasses.replace(tiny_bundle.manifest(entries), stages=(stage,)),
    )
    return copies(folder / "net", made)


def test_calls_that_only_copy_are_listed(tmp_path: Path) -> None:
    assert found(tmp_path, {"stages/0_arm/plan.json": json.dumps(PLAN).encode()}) == (
        Copy(stage="arm0", operator="a", bytes=12),
        Copy(stage="arm0", operator="c", bytes=20),
    )


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"other": b"{}"}, "stages/0_arm/plan.json is missing"),
        ({"stages/0_arm/plan.json": b"["}, "stages/0_arm/plan.json is damaged: JSONDecodeError"),
        ({"stages/0_arm/plan.json": b"[]"}, "stages/0_arm/plan.json is damaged: TypeError"),
        (
            {"stages/0_arm/plan.json": json.dumps({**PLAN, "tensors": []}).encode()},
            "stages/0_arm/plan.json is damaged: IndexError",
        ),
    ],
)
def test_a_plan_that_cannot_be_read_is_one_error(
    files: dict[str, bytes], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BundleError) as caught:
        found(tmp_path, files)
    assert message in str(caught.value)
    assert caught.value.hint == "build the bundle again"
