"""An exported Python stage is exactly the function that was given, or is refused."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import exported_functions as functions
import numpy as np
import pipeline_stages as made
import pytest
from levels import every
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from edgepipe.errors import PipelineError
from edgepipe.pipeline import BuiltPipeline, load, python_stage

ROOT = Path(__file__).resolve().parents[3]
Array = NDArray[Any]

RUN = """
import sys
import numpy as np
from edgepipe.pipeline import load

with load(sys.argv[1]).start() as pipeline:
    pipeline.run(np.arange(8, dtype=np.int32).reshape(1, 8))
    print(pipeline.next().outputs[0].tolist()[0])
"""


def elsewhere(folder: Path) -> Any:
    """Run an exported pipeline in another process on 0 to 7; return what it computes."""
    return json.loads(made.printed_by_another_process(RUN, folder))


def built(function: Callable[..., Any]) -> BuiltPipeline:
    stage = python_stage(
        function, name="f", inputs={"x": made.VECTOR}, outputs={"out": made.VECTOR}
    )
    return made.chain(stage).build()


def entry(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "pipeline.json").read_text())["stages"][0]
    return found


KINDS: dict[str, tuple[Callable[..., Any], bool]] = {  # and whether it is exported by its name
    "function of a module": (functions.increment, True),
    "static method": (functions.Scale.negate, True),
    "decorated with its own name": (functions.decorated, True),
    "decorated with another's name": (functions.twice_incremented, False),
    "lambda": (lambda x: 5 - x, False),
    "closure": (functions.adder(40), False),
    "bound method": (functions.Scale(3).apply, False),
    "object": (functions.Scale(4), False),
    "partial": (functools.partial(np.multiply, np.int32(6)), False),
}


@pytest.mark.parametrize("kind", every(2, KINDS))
def test_a_function_of_any_kind_is_exported_as_itself(kind: str, tmp_path: Path) -> None:
    function, by_name = KINDS[kind]
    x = np.arange(8, dtype=np.int32).reshape(1, 8)
    folder = built(function).export(tmp_path / "exported")
    assert elsewhere(folder) == function(x).tolist()[0]
    assert bool(entry(folder).get("function")) is by_name
    assert ("pickle" in entry(folder)) is not by_name


def test_a_function_of_the_main_program_is_exported(tmp_path: Path) -> None:
    program = (
        "import sys; from edgepipe.pipeline import PipelineConfig, python_stage\n"
        "OFFSET = 100\n"
        "def shift(x): return x + x.dtype.type(OFFSET)\n"
        'ports = {"inputs": {"x": ("int32", (1, 8))}, "outputs": {"y": ("int32", (1, 8))}}\n'
        "stage = python_stage(shift, **ports)\n"
        "config = PipelineConfig()\n"
        'config.inputs["data"] = (stage, "x")\n'
        "config.outputs.append((stage, 0))\n"
        "config.build().export(sys.argv[1])\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "exported")]
    subprocess.run(command, check=True, cwd=ROOT)
    assert elsewhere(tmp_path / "exported") == list(range(100, 108))


def test_an_export_of_a_loaded_export_is_the_same_function(tmp_path: Path) -> None:
    first = built(functions.adder(7)).export(tmp_path / "first")
    second = load(first).export(tmp_path / "second")
    assert elsewhere(second) == list(range(7, 15))


def test_a_function_with_something_that_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    lock = threading.Lock()

    def locked(x: Array) -> Array:
        with lock:
            return x

    pipeline = built(locked)
    with pytest.raises(
        PipelineError, match=r"stage 'f': its function cannot be exported: TypeError: .*lock"
    ) as caught:
        pipeline.export(tmp_path / "exported")
    assert "define it at module level, or let it create what it uses" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []
    with pipeline.start() as running:  # here it still runs
        running.run(made.vector(1))
        assert_array_equal(running.next().outputs[0], made.vector(1))


def test_another_version_of_python_is_reported(tmp_path: Path) -> None:
    folder = built(functions.adder(1)).export(tmp_path / "exported")
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    text = (folder / "pipeline.json").read_text()
    assert f'"python": "{this}"' in text
    (folder / "pipeline.json").write_text(text.replace(f'"{this}"', '"3.9"'))
    with pytest.raises(PipelineError) as caught:
        load(folder)
    assert str(caught.value) == (
        f"stage 'f': its function was exported by Python 3.9, this is Python {this}"
    )
    assert caught.value.hint == "use Python 3.9, or export the pipeline again"


def test_code_that_has_been_altered_is_not_run(tmp_path: Path) -> None:
    folder = built(functions.adder(1)).export(tmp_path / "exported")
    pickle = folder / entry(folder)["pickle"]
    pickle.write_bytes(pickle.read_bytes()[:-1] + b"!")
    with pytest.raises(PipelineError, match=r"function\.pickle: is not the file that was exported"):
        load(folder)


def test_a_missing_module_of_the_code_is_reported(tmp_path: Path) -> None:
    folder = built(functions.Scale(2).apply).export(tmp_path / "exported")
    command = [sys.executable, "-c", RUN, str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "stage 'f': its function cannot be loaded: ModuleNotFoundError" in found.stderr
    assert "exported_functions" in found.stderr


def test_nothing_is_left_of_an_export_that_cannot_be_written(tmp_path: Path) -> None:
    pipeline = built(functions.increment)
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match=r"file/exported: cannot be written"):
        pipeline.export(tmp_path / "file" / "exported")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
