"""Bad input: one line that names the object, a hint, exit code 1, no partial output."""

from __future__ import annotations

import os
import tarfile

import numpy as np
import onnx
import pytest
from command_line import (
    DESCRIPTION,
    assert_error,
    assert_fails,
    assert_nothing_half_written,
    build,
    run,
    run_cpp,
)
from onnx import TensorProto, helper
from small_networks import classifier


def other_channels(path):
    """The description's order says that there are three channels, the network's input says one."""
    model = classifier()
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[1].dim_value = 1
    dims[2].dim_param = "h"
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
    "folder": (lambda path: (path.unlink(), path.mkdir()), "not a file"),
    "over 2 GiB": (lambda path: os.truncate(path, 2**31), "has 2147483648 bytes"),
    "corrupt": (lambda path: path.write_bytes(path.read_bytes()[:200] + b"\xff" * 64), "net.onnx"),
    "text": (lambda path: path.write_text("hello"), "net.onnx"),
    "empty": (lambda path: path.write_bytes(b""), "net.onnx"),
    "other channels": (other_channels, "net.onnx"),
    "unsupported operator": (unsupported_operator, "NoSuchThing"),
    "invalid operator": (invalid_operator, "not a valid ONNX model"),
}


@pytest.mark.parametrize("kind", BAD_NETWORKS)
def test_bad_networks(project, capsys, kind):
    spoil, message = BAD_NETWORKS[kind]
    spoil(project / "net.onnx")
    assert_fails(capsys, build(project), message)
    assert not (project / "out").exists()


def test_a_missing_description_says_where_it_is_expected(project, capsys):
    (project / "net.toml").unlink()
    assert_fails(capsys, build(project), "no description of the network", "edgepipe init")


BAD_DESCRIPTIONS = {
    "another picture size": (("width = 16", "width = 20"), "16"),
    "unknown key": (("top = 2", "topp = 2"), "unknown key 'topp'"),
    "missing key": (("width = 16", ""), "key 'width' is missing"),
    "wrong type": (("width = 16", 'width = "16"'), "width: found a string '16'"),
    "too few means": (("mean = [128.0, ", "mean = ["), "mean has 2 values, expected 3"),
    "no TOML": (("width", "="), "not valid TOML"),
    "no labels": (("top = 2", 'labels = "none.txt"'), "labels cannot be read (No such file"),
    "negative size": (("height = 16", "height = -1"), "size is 16x-1"),
}


@pytest.mark.parametrize("kind", BAD_DESCRIPTIONS)
def test_bad_descriptions(project, capsys, kind):
    change, message = BAD_DESCRIPTIONS[kind]
    (project / "net.toml").write_text(DESCRIPTION.replace(*change))
    assert_fails(capsys, build(project), message)
    assert_nothing_half_written(project)


def test_a_description_that_is_a_folder(project, capsys):
    code = build(project, "--description", project / "pictures")
    assert_fails(capsys, code, "no description of the network at")


def test_an_empty_calibration_folder(project, capsys):
    for picture in (project / "pictures").iterdir():
        picture.unlink()
    assert_fails(capsys, build(project), "no pictures among 0 entries", "expected files")
    assert_nothing_half_written(project)


def test_a_calibration_folder_that_is_missing(project, capsys):
    assert_fails(capsys, build(project, calib="none"), "none: no such file or folder")
    assert_nothing_half_written(project)


def bare_array(path):
    with path.open("wb") as stream:
        np.save(stream, np.zeros((2, 16, 16, 3), np.uint8))


BAD_ARCHIVES = {
    "wrong size": (lambda path: np.savez(path, np.zeros((2, 8, 8, 3), np.uint8)), "[2, 8, 8, 3]"),
    "bare array": (bare_array, "not an .npz archive, or damaged"),
    "empty": (lambda path: path.write_bytes(b""), "not an .npz archive, or damaged"),
    "damaged": (lambda path: path.write_bytes(b"PK\3\4" + bytes(99)), "not an .npz archive"),
}


@pytest.mark.parametrize("kind", BAD_ARCHIVES)
def test_bad_calibration_archives(project, capsys, kind):
    make, message = BAD_ARCHIVES[kind]
    make(project / "frames.npz")
    assert_fails(capsys, build(project, calib="frames.npz"), message, "numpy.savez")
    assert not (project / "out").exists()


def test_an_unknown_board(project, capsys):
    assert_fails(capsys, build(project, board="ultra97"), "board 'ultra97' is unknown", "ultra96")
    assert_nothing_half_written(project)


def test_bad_board_files(project, capsys, tmp_path_factory):
    board = tmp_path_factory.mktemp("boards") / "mine.toml"
    assert_fails(capsys, build(project, board=board), "mine.toml: no such file")
    board.write_text('name = "mine"')
    assert_fails(capsys, build(project, board=board), "key 'description' is missing", "board/")
    assert_nothing_half_written(project)


def test_an_unknown_cut(project, capsys):
    code = build(project, "--cut", "conv_99")
    assert_fails(capsys, code, "cut 'conv_99' is unknown")
    assert_nothing_half_written(project)


def test_an_unknown_operator_and_device(project, capsys):
    assert_fails(capsys, build(project, "--place", "conv_99=arm"), "'conv_99' is unknown")
    assert_fails(capsys, build(project, "--place", "conv_99=gpu"), "device 'gpu' is unknown")
    code = build(project, "--place", "a=arm", "--place", "a=arm", "--place", "a=vta")
    assert_fails(capsys, code, "--place a=vta: a is placed on arm already", "one --place")
    assert_nothing_half_written(project)


def test_an_output_that_is_something_else_is_kept(project, capsys):
    (project / "out").mkdir()
    (project / "out" / "thesis.tex").write_text("irreplaceable")
    assert_fails(capsys, build(project), "exists and is not a bundle", "-o")
    assert (project / "out" / "thesis.tex").read_text() == "irreplaceable"
    archive = project / "thesis.edgepipe"
    archive.write_text("irreplaceable")
    assert_fails(capsys, build(project, "-o", archive), "exists and is not a bundle", "-o")
    assert archive.read_text() == "irreplaceable"


def test_an_output_that_no_file_system_takes(project, capsys):
    for output in ("o" * 300, "o" * 300 + ".edgepipe", "net.onnx/out", "net.onnx/out.edgepipe"):
        code = build(project, "-o", project / output)
        assert_fails(capsys, code, "cannot be written", "-o")
    assert_nothing_half_written(project)


def reading(command, path, project):
    """Return the arguments of a command that reads a bundle."""
    pictures, results = project / "pictures", project / "results"
    more = ("--input", pictures, "--output", results) if command == "run" else ()
    return (command, path, *more)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("command", ["inspect", "run"])
def test_truncated_bundles(built, project, capsys, share, command):
    content = built.read_bytes()
    path = project / "cut.edgepipe"
    path.write_bytes(content[: int(share * len(content))])
    assert_fails(capsys, run(*reading(command, path, project)), "cut.edgepipe")
    assert not (project / "results").exists()


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_altered_bundles(built, project, capsys, command):
    content = bytearray(built.read_bytes())
    content[len(content) // 2] ^= 1
    path = project / "altered.edgepipe"
    path.write_bytes(content)
    assert_fails(capsys, run(*reading(command, path, project)), "altered.edgepipe")
    assert not (project / "results").exists()


@pytest.mark.parametrize("kind", ["archive", "folder"])
@pytest.mark.parametrize("altered", ["manifest.json", "manifest.digest"])
def test_an_altered_manifest_gives_the_same_error_in_python_and_cpp(
    built, project, capsys, kind, altered
):
    path = project / ("net.edgepipe" if kind == "archive" else "net")
    with tarfile.open(built) as archive:
        member = archive.getmember(altered)
        if kind == "folder":
            archive.extractall(path)
    file, start = (built, member.offset_data) if kind == "archive" else (path / altered, 0)
    content = bytearray(file.read_bytes())
    content[start + member.size // 2] ^= 1
    (path if kind == "archive" else file).write_bytes(content)

    message = f"error: {path}: manifest.json does not have the digest that manifest.digest records"
    for command in ("inspect", "run"):
        assert_fails(capsys, run(*reading(command, path, project)), message)
    assert not (project / "results").exists()
    ran = run_cpp("edgepipe-run", path, "--golden")
    assert_error(ran.stderr, ran.returncode, message)


def test_a_missing_bundle(project, capsys):
    path = project / "none"
    for command in ("inspect", "run"):
        code = run(*reading(command, path, project))
        assert_fails(capsys, code, f"{path}: no such bundle", "edgepipe build")
    ran = run_cpp("edgepipe-run", path, "--golden")
    assert_error(ran.stderr, ran.returncode, f"{path}: no such bundle", "edgepipe build")


def test_a_listing_of_a_stage_that_does_not_exist(built, capsys):
    code = run("inspect", built, "--disassemble", "vta9")
    assert_fails(capsys, code, "no VTA stage 'vta9'", "VTA stages: ")


def test_the_timing_of_a_bundle_without_vta_stages(project, capsys):
    assert build(project, "--cut", "logits", board="host") == 0
    capsys.readouterr()
    code = run("inspect", project / "out", "--timing")
    assert_fails(
        capsys,
        code,
        "no VTA stage, so there is nothing to time",
        "`edgepipe inspect --operators` shows why its operators are on arm",
    )


def test_unreadable_inputs(built, project, capsys):
    broken = project / "broken.avi"
    broken.write_bytes(b"RIFF" + bytes(64))
    (project / "nothing").mkdir()
    output = project / "results"
    cases = {
        "broken.avi": "no frame could be decoded",
        "none.mp4": "no such file",
        "none.png": "no such file",
        "nothing": "no pictures",
        "net.toml": "no frame could be decoded",
    }
    for name, message in cases.items():
        code = run("run", built, "--input", project / name, "--output", output)
        assert_fails(capsys, code, message)
        assert not output.exists()


def test_a_picture_that_goes_bad_midway_leaves_no_results(built, project, capsys):
    (project / "pictures" / "2.png").write_bytes(b"not a picture")
    output = project / "results"
    code = run("run", built, "--input", project / "pictures", "--output", output)
    assert_fails(capsys, code, "2.png: cannot be decoded")
    assert list(output.iterdir()) == []


@pytest.mark.parametrize("name", ["results.jsonl", "annotated.mp4", "annotated.jpg"])
def test_a_folder_with_a_results_name_is_kept_and_nothing_is_written(built, project, capsys, name):
    output = project / "results"
    (output / name).mkdir(parents=True)
    code = run("run", built, "--input", project / "pictures", "--output", output)
    assert_fails(capsys, code, f"it contains a folder named {name}", "--output")
    assert list(output.iterdir()) == [output / name]


def test_an_output_folder_that_is_a_file(built, project, capsys):
    code = run("run", built, "--input", project / "pictures", "--output", project / "net.onnx")
    assert_fails(capsys, code, "net.onnx: results cannot be written (File exists)", "--output")


def test_a_core_that_does_not_exist(built, project, capsys):
    code = run("run", built, "--input", project / "pictures", "--cores", "0,4096")
    assert_fails(capsys, code, "4096")


def test_the_cpp_runtime_refuses_a_picture_of_the_wrong_size(built, project):
    path = project / "small.raw"
    path.write_bytes(bytes(8 * 9 * 3))
    ran = run_cpp("edgepipe-run", built, "--input", path)
    assert_error(ran.stderr, ran.returncode, "frame 0: the input ends after 216 of 768 bytes")
