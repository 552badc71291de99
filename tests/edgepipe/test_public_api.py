"""``import edgepipe``: its names and types, and the cost of the import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from small_networks import build_small_bundle

import edgepipe
from edgepipe.frontend.resizing import resize

PACKAGE = Path(edgepipe.__file__).parent


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_small_bundle(tmp_path_factory.mktemp("bundle"))


def python(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_every_public_name_is_there_and_typed() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {
        (alias.name, node.module)
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    lazy = {(name, f"edgepipe.{module}") for name, module in edgepipe._HOMES.items()}
    assert names == lazy
    assert {name for name, _ in names} | {"__version__"} == set(edgepipe.__all__)
    for name in edgepipe.__all__:
        assert getattr(edgepipe, name) is not None
    assert set(edgepipe.__all__) <= set(dir(edgepipe))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'edgepipe' has no attribute 'laod'"):
        edgepipe.laod  # type: ignore[attr-defined]  # noqa: B018


def test_every_public_name_says_what_it_is() -> None:
    for name in edgepipe.__all__:
        if name != "__version__":
            assert getattr(edgepipe, name).__doc__, name


def test_importing_is_cheap_and_running_a_bundle_needs_no_compiler(bundle: Path) -> None:
    code = """
import sys
before = set(sys.modules)
import edgepipe
assert not {"numpy", "tvm", "tvm_ffi", "cv2", "onnx"} & (set(sys.modules) - before)
with edgepipe.load(sys.argv[1]) as pipeline:
    print(len(pipeline.inputs))
assert not {"tvm", "onnx", "onnxruntime"} & set(sys.modules)
"""
    assert python(code, bundle) == "1\n"


def test_a_picture_of_any_size_gives_a_result_in_three_lines(bundle: Path, tmp_path: Path) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (31, 47, 3), dtype=np.uint8)
    path = tmp_path / "picture.png"
    cv2.imwrite(str(path), picture)
    with edgepipe.load(bundle) as pipeline:
        fitted = resize(picture, 16, 16)[None]
        expected = pipeline.submit(fitted).result()
        for given in (picture, path, str(path)):
            result = pipeline(given)
            for found, wanted in zip(result.outputs, expected.outputs, strict=True):
                np.testing.assert_array_equal(found, wanted)
        with pytest.raises(edgepipe.MediaError, match=r"expected uint8\[h, w, 3\] in BGR"):
            pipeline(picture[:, :, 0])
        with pytest.raises(edgepipe.MediaError, match="no such file"):
            pipeline(tmp_path / "none.png")
        assert pipeline.statistics().in_flight == 0


def test_a_graph_of_stages_does_not_guess_how_a_picture_fits(tmp_path: Path) -> None:
    config = edgepipe.PipelineConfig("twice")
    vector = ("int32", (1, 8))
    stage = edgepipe.python_stage(
        np.negative, name="negative", inputs={"x": vector}, outputs={"y": vector}
    )
    config.inputs["x"] = (stage, "x")
    config.outputs.append((stage, 0))
    config.build().export(tmp_path / "exported")
    with edgepipe.load(tmp_path / "exported", trace=True) as pipeline:
        result = next(pipeline.map([np.arange(8, dtype=np.int32)[None]]))
        assert result.outputs["negative.y"] is result.outputs[0]
        pipeline.write_trace(tmp_path / "trace.json")
        with pytest.raises(edgepipe.PipelineError, match="does not say how a picture becomes"):
            pipeline(np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(edgepipe.PipelineError, match="name their own cores"):
        edgepipe.load(tmp_path / "exported", cores=[0])


def test_frames_are_given_as_arrays_sequences_or_names(bundle: Path) -> None:
    frames = np.random.default_rng(2).integers(0, 256, (3, 1, 16, 16, 3), dtype=np.uint8)
    with edgepipe.load(bundle) as pipeline:
        (name,) = pipeline.inputs.names
        given = [frames[0], (frames[1],), {name: frames[2]}]
        results = [future.result() for future in pipeline.submit_many(given)]
        again = list(pipeline.map(given))
        assert [result.frame for result in results] == [0, 1, 2]
        for one, other in zip(results, again, strict=True):
            np.testing.assert_array_equal(one.outputs[0], other.outputs[0])
        with pytest.raises(edgepipe.PipelineError, match="'scoers' is unknown"):
            results[0].outputs["scoers"]
        with pytest.raises(edgepipe.PipelineError, match="index 9 is out of range"):
            pipeline.outputs[9]


SCRIPT = """
from typing import assert_type

import edgepipe
import numpy as np

pipeline = edgepipe.load("net.edgepipe", slots=4)
assert_type(pipeline, edgepipe.Pipeline)
result = pipeline("street.jpg")
assert_type(result, edgepipe.FrameResult)
assert_type([box.label for box in result.detections], list[str])
assert_type(result.classes, tuple[edgepipe.ClassScore, ...])
assert_type(pipeline.run(np.zeros(3)), int)
assert_type(pipeline.submit(x=np.zeros(3)).result(timeout_s=1.0), edgepipe.FrameResult)
assert_type(pipeline.inputs[0].name, str)
assert_type(pipeline.statistics().stages[0].busy.median_ms, float)
try:
    pipeline.next()
except edgepipe.DeadlinePassed as error:
    assert_type(error.hint, str)
config = edgepipe.PipelineConfig("mine")
assert_type(config.build().start(), edgepipe.Pipeline)
pipeline.run(timeout=3)  # type: ignore[arg-type]
edgepipe.build("net.onnx", board="ultra96", calibration="pictures", output="net.edgepipe")
edgepipe.load(5)  # type: ignore[arg-type]
"""


def test_mypy_sees_the_types_in_a_strict_users_script(tmp_path: Path) -> None:
    assert (PACKAGE / "py.typed").is_file()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--warn-unused-ignores",
        "--no-incremental",
    ]
    done = subprocess.run(
        [*command, "--follow-imports=silent", str(script)],
        capture_output=True,
        text=True,
        cwd=PACKAGE.parent,
    )
    assert done.returncode == 0, done.stdout
