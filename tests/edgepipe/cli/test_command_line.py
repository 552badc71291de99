"""The command line: a small network from ONNX to results, and every error a user can cause.

An error is one line that names the object, a hint that says what to do, exit code 1, and nothing
half-written left behind.
"""

from __future__ import annotations

import json
import subprocess
import sys

import cv2
import needs
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_networks import classifier, frames

from edgepipe.cli.main import main

DESCRIPTION = """
[preprocess]
width = 16
height = 16
order = "BGR"
mean = [128.0, 128.0, 128.0]
std = [64.0, 64.0, 64.0]

[postprocess]
kind = "classify"
top = 2
"""


@pytest.fixture
def project(tmp_path):
    """Lay a user's folder out: a network, its description, calibration pictures, a clip."""
    onnx.save(classifier(), tmp_path / "net.onnx")
    (tmp_path / "net.toml").write_text(DESCRIPTION)
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for index, frame in enumerate(frames(4)):
        cv2.imwrite(str(pictures / f"{index}.png"), frame[0])
    return tmp_path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build one bundle for the tests that only read it."""
    folder = tmp_path_factory.mktemp("built")
    onnx.save(classifier(), folder / "net.onnx")
    (folder / "net.toml").write_text(DESCRIPTION)
    np.savez(folder / "calib.npz", frames=np.concatenate(list(frames(4))))
    arguments = ["build", folder / "net.onnx", "--board", "host", "--calib", folder / "calib.npz"]
    assert main([str(a) for a in [*arguments, "-o", folder / "net.edgepipe"]]) == 0
    return folder / "net.edgepipe"


def run(*arguments):
    return main([str(argument) for argument in arguments])


def build(project, *arguments, model="net.onnx", board="ultra96", calib="pictures", out="out"):
    return run(
        *("build", project / model, "--board", board, "--calib", project / calib),
        *("-o", project / out, *arguments),
    )


def assert_fails(capsys, code, message, hint=""):
    """Check exit code 1, one line of error, the hint, and that no traceback was shown."""
    errors = capsys.readouterr().err
    lines = [line for line in errors.splitlines() if line.startswith("edgepipe: error:")]
    assert code == 1
    assert len(lines) == 1, errors
    assert message in lines[0]
    assert hint in errors
    assert "Traceback" not in errors


def test_build_inspect_and_run(project, capsys):
    assert build(project) == 0
    assert "arm0" in capsys.readouterr().out
    assert run("inspect", project / "out", "--operators") == 0
    assert "fits the accelerator" in capsys.readouterr().out
    assert run("inspect", project / "out", "--json") == 0
    assert json.loads(capsys.readouterr().out)["board"] == "ultra96"
    assert run("inspect", project / "out", "--disassemble", "vta1") == 0
    assert "gemm" in capsys.readouterr().out.lower()
    assert run("inspect", project / "out", "--timing") == 0
    timing = capsys.readouterr().out
    assert "ms at 333 MHz" in timing
    assert "wait port" in timing
    results = project / "results"
    assert (
        run(
            *("run", project / "out", "--input", project / "pictures"),
            *("--output", results, "--compare", 2),
        )
        == 0
    )
    table = capsys.readouterr().out
    assert "serial" in table
    assert "bound" in table
    lines = [json.loads(line) for line in (results / "results.jsonl").read_text().splitlines()]
    assert [line["source"] for line in lines] == ["0.png", "1.png", "2.png", "3.png"]
    assert all(len(line["classes"]) == 2 for line in lines)
    assert sorted(p.name for p in results.iterdir()) == [
        "annotated.jpg",
        "annotated.mp4",
        "results.jsonl",
    ]


def test_results_go_to_standard_output_without_an_output_folder(built, project, capsys):
    source = project / "pictures" / "0.png"
    assert run("run", built, "--input", source, "--compare", 0) == 0
    assert json.loads(capsys.readouterr().out)["frame"] == 0


def test_boards_are_listed(capsys):
    assert run("boards") == 0
    assert "1x16_i8w8a32_15_15_18_17" in capsys.readouterr().out
    assert run("boards", "--json") == 0
    names = [board["name"] for board in json.loads(capsys.readouterr().out)]
    assert names == ["host", "kv260", "pynq-z2", "ultra96", "zcu104"]


@pytest.mark.parametrize("arguments", [[], ["build"], ["fly"], ["run", "x"]])
def test_wrong_use_exits_with_2(arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_the_module_runs_as_a_program():
    ran = subprocess.run(
        [sys.executable, "-m", "edgepipe", "--help"], capture_output=True, text=True, check=True
    )
    assert "a first session" in ran.stdout


def dynamic_size(path):
    model = classifier()
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "h"
    onnx.save(model, path)


def unsupported_operator(path):
    node = helper.make_node("NoSuchThing", ["x"], ["y"], domain="com.example")
    shape = [1, 3, 16, 16]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)


def invalid_operator(path):
    model = classifier()
    model.graph.node[0].op_type = "NoSuchThing"
    onnx.save(model, path)


BAD_NETWORKS = {
    "missing": (lambda path: path.unlink(), "no such file"),
    "corrupt": (lambda path: path.write_bytes(path.read_bytes()[:200] + b"\xff" * 64), "net.onnx"),
    "text": (lambda path: path.write_text("hello"), "net.onnx"),
    "empty": (lambda path: path.write_bytes(b""), "net.onnx"),
    "dynamic size": (dynamic_size, "net.onnx"),
    "unsupported operator": (unsupported_operator, "NoSuchThing"),
    "invalid operator": (invalid_operator, "breaks the ONNX rules"),
}


@pytest.mark.parametrize("kind", BAD_NETWORKS)
def test_bad_networks(project, capsys, kind):
    spoil, message = BAD_NETWORKS[kind]
    spoil(project / "net.onnx")
    assert_fails(capsys, build(project), message, "hint:")
    assert not (project / "out").exists()


def test_a_missing_description_says_where_it_is_expected(project, capsys):
    (project / "net.toml").unlink()
    assert_fails(capsys, build(project), "no description of the network", "[preprocess]")


def test_a_description_of_another_picture_size(project, capsys):
    (project / "net.toml").write_text(DESCRIPTION.replace("width = 16", "width = 20"))
    assert_fails(capsys, build(project), "16")
    assert not (project / "out").exists()


def test_an_unknown_key_in_the_description(project, capsys):
    (project / "net.toml").write_text(DESCRIPTION.replace("top = 2", "topp = 2"))
    assert_fails(capsys, build(project), "unknown key 'topp'", "top")


def test_an_empty_calibration_folder(project, capsys):
    (project / "nothing").mkdir()
    assert_fails(capsys, build(project, calib="nothing"), "nothing")
    assert not (project / "out").exists()


def test_calibration_frames_of_a_wrong_size(project, capsys):
    np.savez(project / "frames.npz", frames=np.zeros((2, 8, 8, 3), np.uint8))
    assert_fails(capsys, build(project, calib="frames.npz"), "[2, 8, 8, 3]")


def test_an_unknown_board(project, capsys):
    assert_fails(capsys, build(project, board="ultra97"), "board 'ultra97' is unknown", "ultra96")


def test_an_unknown_cut(project, capsys):
    code = build(project, "--cut", "conv_99")
    assert_fails(capsys, code, "cut 'conv_99' is unknown", "hint:")
    assert not (project / "out").exists()


def test_an_unknown_operator_and_device(project, capsys):
    assert_fails(capsys, build(project, "--place", "conv_99=arm"), "'conv_99' is unknown")
    assert_fails(capsys, build(project, "--place", "conv_99=gpu"), "expected OPERATOR=arm")


def test_an_output_that_is_something_else_is_kept(project, capsys):
    (project / "out").mkdir()
    (project / "out" / "thesis.tex").write_text("irreplaceable")
    assert_fails(capsys, build(project), "exists and is not a bundle", "-o")
    assert (project / "out" / "thesis.tex").read_text() == "irreplaceable"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("command", ["inspect", "run"])
def test_truncated_bundles(built, project, capsys, share, command):
    content = built.read_bytes()
    path = project / "cut.edgepipe"
    path.write_bytes(content[: int(share * len(content))])
    more = ["--input", project / "pictures"] if command == "run" else []
    assert_fails(capsys, run(command, path, *more), "cut.edgepipe")


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_altered_bundles(built, project, capsys, command):
    content = bytearray(built.read_bytes())
    content[len(content) // 2] ^= 1
    path = project / "altered.edgepipe"
    path.write_bytes(content)
    more = ["--input", project / "pictures"] if command == "run" else []
    assert_fails(capsys, run(command, path, *more), "altered.edgepipe")


def test_a_missing_bundle(project, capsys):
    assert_fails(capsys, run("inspect", project / "none"), "no such bundle", "edgepipe build")


def test_unreadable_inputs(built, project, capsys):
    broken = project / "broken.avi"
    broken.write_bytes(b"RIFF" + bytes(64))
    output = project / "results"
    arguments = ("--output", output)
    code = run("run", built, "--input", broken, *arguments)
    assert_fails(capsys, code, "no frame could be decoded", "hint:")
    code = run("run", built, "--input", project / "none.mp4", *arguments)
    assert_fails(capsys, code, "no such file")
    (project / "nothing").mkdir()
    code = run("run", built, "--input", project / "nothing", *arguments)
    assert_fails(capsys, code, "found no pictures")
    assert not output.exists()


def test_a_picture_that_goes_bad_midway_leaves_no_results(built, project, capsys):
    (project / "pictures" / "2.png").write_bytes(b"not a picture")
    output = project / "results"
    code = run("run", built, "--input", project / "pictures", "--output", output)
    assert_fails(capsys, code, "2.png: cannot be decoded")
    assert list(output.iterdir()) == []


def test_a_core_that_does_not_exist(built, project, capsys):
    code = run("run", built, "--input", project / "pictures", "--cores", "0,4096")
    assert_fails(capsys, code, "4096")


def test_the_cpp_runtime_refuses_a_picture_of_the_wrong_size(built, project):
    program = needs.built("edgepipe-run")
    path = project / "small.ppm"
    path.write_bytes(b"P6\n8 9\n255\n" + bytes(8 * 9 * 3))
    ran = subprocess.run([program, built, "--input", path], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "8x9" in ran.stderr
    assert "16x16" in ran.stderr
