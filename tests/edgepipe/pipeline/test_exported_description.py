"""pipeline.json is checked before anything of its folder is used: each error in one line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pipeline_stages as made
import pytest

from edgepipe.errors import PipelineError
from edgepipe.pipeline import PipelineConfig, RpcServer, load, python_stage, relax_stage
from edgepipe.pipeline.exported_description import parse
from edgepipe.pipeline.remote import remote_stage

Change = Callable[[Any], object]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python function -> Relax module, exported."""
    function = python_stage(made.add_ten, inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR})
    scaled = made.scaled_stage()
    config = PipelineConfig("two")
    config.inputs["data"] = (function, "x")
    config.connect(function, 0, scaled, "x")
    config.outputs.append((scaled, 0))
    config.parameter_groups["weights"] = scaled
    return config.build().export(tmp_path_factory.mktemp("export") / "two")


def refused(text: str | bytes) -> str:
    with pytest.raises(PipelineError) as caught:
        parse(text, "folder")
    assert caught.value.hint == "export the pipeline again"
    assert "\n" not in str(caught.value)
    where, _, said = str(caught.value).partition("folder/pipeline.json: ")
    assert where == ""
    return said


def test_the_table_is_returned_as_it_was_written(exported: Path) -> None:
    text = (exported / "pipeline.json").read_text()
    assert parse(text, str(exported)) == json.loads(text)


def test_a_stage_on_a_server_is_a_stage_within_a_stage(tmp_path: Path) -> None:
    server = RpcServer(port=9190, key="k")
    far = remote_stage(relax_stage(made.two_outputs(), name="far"), server)
    config = PipelineConfig()
    config.inputs["data"] = (far, "x")
    config.outputs.append((far, 0))
    folder = config.build().export(tmp_path / "far")
    table = json.loads((folder / "pipeline.json").read_text())
    assert parse(json.dumps(table), str(folder)) == table
    table["stages"][0]["server"]["port"] = 70_000
    assert "server: port is 70000, expected 0 to 65535" in refused(json.dumps(table))
    table["stages"][0]["server"] |= {"port": 9190, "timeout_s": float("nan")}
    assert "timeout_s is nan, expected more than 0 seconds" in refused(json.dumps(table))
    table["stages"][0]["stage"] = {"kind": "python", "folder": "f"}
    table["stages"][0]["server"]["timeout_s"] = 1.0
    assert "kind is 'python', expected one of tvm, arm, bundle" in refused(json.dumps(table))
    table["stages"][0]["stage"] = None
    assert "stage: expected a stage's table with its kind" in refused(json.dumps(table))
    table["stages"][0]["more"] = 1
    assert refused(json.dumps(table)) == "stages[0]: unknown key 'more'"


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000, b'{"format": ' + b"9" * 5000])
def test_text_that_is_not_json_is_damaged(text: bytes) -> None:
    assert refused(text).startswith("is damaged: ")


@pytest.mark.parametrize("text", ["[]", "null", "{}", '{"format": "4\\n"}'])
def test_another_format_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(PipelineError, match="this edgepipe reads format 4") as caught:
        parse(text, "folder")
    assert caught.value.hint == "export the pipeline again with this edgepipe"
    assert "\n" not in str(caught.value)


CHANGES: dict[str, tuple[Change, str]] = {
    "no tensors": (lambda t: t.pop("tensors"), "description: key 'tensors' is missing"),
    "another key": (lambda t: t.update(more=1), "description: unknown key 'more'"),
    "a file outside": (
        lambda t: t["files"][0].update(path="../x"),
        "files: path: '../x' is not a path inside the folder",
    ),
    "an absolute file": (
        lambda t: t["files"][0].update(path="/dev/zero"),
        "files: path: '/dev/zero' is not a path inside the folder",
    ),
    "a path that no file system has": (
        lambda t: t["files"][0].update(path="a\0b"),
        r"files: path: 'a\x00b' is not a path inside the folder",
    ),
    "half a character": (
        lambda t: t["files"][0].update(path="\ud800"),
        r"files: path: '\ud800' is not a path inside the folder",
    ),
    "an odd digest": (lambda t: t["files"][0].update(sha256="0"), "expected 64 hex digits"),
    "an unknown tensor": (lambda t: t["inputs"].append("q"), "inputs: 'q' is not in tensors"),
    "an unknown output": (lambda t: t["outputs"].append("q"), "outputs: 'q' is not in tensors"),
    "a tensor twice": (
        lambda t: t["tensors"].append(t["tensors"][0]),
        "tensors: two have the same name",
    ),
    "other bytes": (
        lambda t: t["tensors"][0].update(bytes=7),
        "tensor 'data': 7 bytes for int32[1, 8], expected 32",
    ),
    "a dtype that NumPy cannot parse": (
        lambda t: t["tensors"][0].update(dtype="(1,"),
        "tensor 'data': found dtype '(1,', expected one of NumPy's numbers",
    ),
    "a dtype that is not text": (
        lambda t: t["tensors"][0].update(dtype="\ud800"),
        r"tensor 'data': found dtype '\ud800', expected one of NumPy's numbers",
    ),
    "a dtype by NumPy's number": (
        lambda t: t["tensors"][0].update(dtype="\n"),
        r"tensor 'data': found dtype '\n', expected its usual name uint64",
    ),
    "an unknown layout": (
        lambda t: t["tensors"][0].update(layout="\n"),
        r"tensor 'data': layout is '\n', expected one of nchw, nhwc, vta",
    ),
    "no stages": (lambda t: t.pop("stages"), "stages: expected an array"),
    "a stage that is a number": (
        lambda t: t["stages"].append(1),
        "stages[2]: expected a table",
    ),
    "a stage twice": (
        lambda t: t["stages"].append(t["stages"][0]),
        "stages: two have the same name",
    ),
    "a stage without a kind": (
        lambda t: t["stages"][0].pop("kind"),
        "stages[0]: key 'kind' is missing",
    ),
    "an unknown kind": (
        lambda t: t["stages"][0].update(kind="gpu"),
        "stages[0]: kind is 'gpu', expected one of tvm, arm, bundle, library, python",
    ),
    "a key of another kind": (
        lambda t: t["stages"][0].update(symbol="f"),
        "stages[0]: unknown key 'symbol'",
    ),
    "another number of names": (
        lambda t: t["stages"][0]["input_names"].append("z"),
        "stages[0]: 2 input_names for 1 inputs",
    ),
    "an impossible core": (
        lambda t: t["stages"][0]["cores"].append(1024),
        "stages[0]: a core is 1024, expected 0 to 1023",
    ),
    "an empty folder": (
        lambda t: t["stages"][0].update(folder=""),
        "stages[0]: folder is empty, expected a path inside the folder",
    ),
    "a relative module": (
        lambda t: t["stages"][0].update(function=".stages:f"),
        "stages[0]: function is '.stages:f', expected module:name",
    ),
    "a pickle for no Python": (
        lambda t: t["stages"][0].update(pickle="p"),
        "stages[0]: expected pickle and python, or neither",
    ),
    "a negative device": (
        lambda t: t["stages"][1].update(device_index=-1),
        "stages[1]: device_index is -1, expected 0 or more",
    ),
    "no groups": (lambda t: t.pop("parameter_groups"), "parameter_groups: expected a table"),
    "a group of no stage": (
        lambda t: t["parameter_groups"].update(weights=[]),
        "parameter_groups: 'weights': [] is not in stages",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_damaged_description_says_what_is_wrong(exported: Path, name: str) -> None:
    change, expected = CHANGES[name]
    table = json.loads((exported / "pipeline.json").read_text())
    change(table)
    assert expected in refused(json.dumps(table))


def test_a_function_that_was_not_exported_is_reported_when_loaded(
    exported: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(exported, tmp_path / "copy"))
    table = json.loads((copy / "pipeline.json").read_text())
    del table["stages"][0]["function"]
    (copy / "pipeline.json").write_text(json.dumps(table))
    with pytest.raises(PipelineError, match="'add_ten': its function was not exported") as caught:
        load(copy)
    assert caught.value.hint == "export the pipeline again"


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(exported: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(exported, tmp_path / "copy"))
    library = next(copy.rglob("*.so"))
    library.unlink()
    os.mkfifo(library)
    with pytest.raises(PipelineError, match=rf"{library.name}: is not a regular file"):
        load(copy)
