"""Exported pipelines: a folder that can be moved, loaded elsewhere, and is checked when loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pipeline_stages as made
import pytest
from numpy.testing import assert_array_equal
from pipeline_stages import vector

from edgepipe.errors import PipelineError, RuntimeFailure
from edgepipe.pipeline import PipelineConfig, library_stage, load, python_stage


def full_config(folder: Path) -> PipelineConfig:
    """Return relax -> imported Python function -> C++ function, with a parameter group."""
    scaled = made.scaled_stage()
    tens = python_stage(
        made.add_ten, inputs={"x": made.VECTOR}, outputs={"out": made.VECTOR}, core=0
    )
    negate = library_stage(
        made.build_library(folder), "negate", inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR}
    )
    config = PipelineConfig("full")
    config.inputs["data"] = (scaled, "x")
    config.connect(scaled, 0, tens, "x")
    config.connect(tens, 0, negate, "x")
    config.outputs.append((negate, 0))
    config.outputs.append((scaled, 0))
    config.parameter_groups["weights"] = scaled
    return config


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported pipeline, moved away from where it was exported to."""
    folder = tmp_path_factory.mktemp("export")
    config = full_config(folder)
    config.build().export(folder / "first")
    (folder / "libnegate.so").unlink()
    return shutil.move(folder / "first", folder / "moved")


def test_a_moved_folder_loads_and_runs_with_parameters_cores_and_devices(exported: Path) -> None:
    with load(exported).start() as pipeline:
        pipeline.run(data=vector(30))
        pipeline.set_parameters("weights", {"factor": made.scalar(4)})
        pipeline.run(data=vector(30))
        for factor in (2, 4):
            outputs = pipeline.next().outputs
            assert_array_equal(outputs[0], -(vector(30) * factor + 10))
            assert_array_equal(outputs[1], vector(30) * factor)
        assert [stage.cores for stage in pipeline.statistics().stages] == [(), (0,), ()]
    entry = json.loads((exported / "pipeline.json").read_text())["stages"][0]
    assert (entry["device_kind"], entry["device_index"]) == ("cpu", 0)


def test_another_process_loads_it(exported: Path) -> None:
    program = (
        "import sys; from edgepipe.pipeline import load; import numpy as np\n"
        "with load(sys.argv[1]).start() as pipeline:\n"
        "    pipeline.run(data=np.full((1, 8), 50, np.int32))\n"
        "    print(pipeline.next().outputs[0][0, 0])\n"
    )
    assert made.printed_by_another_process(program, exported) == "-110\n"


def test_nothing_in_the_folder_names_another_place(exported: Path) -> None:
    text = (exported / "pipeline.json").read_text()
    assert str(exported.parent) not in text
    assert "/tmp" not in text


def test_an_altered_or_missing_file_is_reported(exported: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(exported, tmp_path / "copy"))
    library = next(copy.rglob("libnegate.so"))
    library.write_bytes(library.read_bytes()[:-1])
    with pytest.raises(PipelineError, match=r"libnegate\.so: is not the file that was exported"):
        load(copy)
    library.unlink()
    with pytest.raises(PipelineError, match=r"libnegate\.so: cannot be read"):
        load(copy)
    (copy / "pipeline.json").write_text('{"format": 7}')
    with pytest.raises(PipelineError, match="format 7, this edgepipe reads format 4"):
        load(copy)
    (copy / "pipeline.json").write_text("{")
    with pytest.raises(PipelineError, match=r"pipeline\.json: is damaged"):
        load(copy)


def test_an_export_replaces_nothing(exported: Path) -> None:
    with pytest.raises(PipelineError, match="already exists"):
        load(exported).export(exported)


def test_a_function_that_is_gone_is_reported_when_loaded(exported: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(exported, tmp_path / "copy"))
    text = (copy / "pipeline.json").read_text()
    (copy / "pipeline.json").write_text(text.replace(":add_ten", ":add_eleven"))
    with pytest.raises(PipelineError, match="'pipeline_stages:add_eleven' cannot be imported"):
        load(copy)


def test_a_device_that_does_not_exist_is_reported_when_started(
    exported: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(exported, tmp_path / "copy"))
    text = (copy / "pipeline.json").read_text()
    (copy / "pipeline.json").write_text(text.replace('"cpu"', '"cuda"'))
    missing = "stage 'scaled': device cuda:0 does not exist"
    with pytest.raises(PipelineError, match=missing) as caught:
        load(copy).start()
    assert caught.value.hint == (
        "export the pipeline again, for a target and device of this machine"
    )


def test_a_function_that_the_library_lacks_is_reported_when_started(
    exported: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(exported, tmp_path / "copy"))
    text = (copy / "pipeline.json").read_text()
    (copy / "pipeline.json").write_text(text.replace('"symbol": "negate"', '"symbol": "neg"'))
    with pytest.raises(RuntimeFailure, match=r"stage 'negate': .* no function 'neg'"):
        load(copy).start()
