"""A pipeline.json of arbitrary text is refused in one line, or can be used: for `make fuzz`.

Files and functions of the folder are left alone, because loading them runs their code.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris
import json_mutator
import tvm  # noqa: F401  # before the instrumentation, which would take minutes for it

with atheris.instrument_imports(include=["edgepipe"]):
    from edgepipe.errors import PipelineError
    from edgepipe.pipeline import exported_description
    from edgepipe.pipeline.artifact import BuiltPipeline

ROOT = Path("exported")


def test_one_input(data: bytes) -> None:
    """Read a description, and follow its wires and paths."""
    try:
        table = exported_description.parse(data, str(ROOT))
    except PipelineError as error:
        assert str(error).startswith(str(ROOT))
        assert "\n" not in str(error)
        assert error.hint
        return
    built = BuiltPipeline(ROOT, table, {})
    stages = {entry["name"]: entry for entry in table["stages"]}
    for ends in built.input_map.values():
        for stage, port in ends:
            assert port in stages[stage]["input_names"]
    for entry in table["files"]:
        assert (ROOT / entry["path"]).resolve().is_relative_to(ROOT.resolve())


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input, custom_mutator=json_mutator.mutate)
    atheris.Fuzz()
