"""``edgepipe inspect net.onnx``: text, JSON, exit codes, and options of the other kind of file."""

from __future__ import annotations

import json

import onnx
import pytest
from command_line import DESCRIPTION, assert_error, assert_fails, run
from onnx import TensorProto, helper
from small_networks import classifier


def test_a_network_is_placed_as_a_build_places_it(built, capsys):
    assert run("inspect", built.parent / "net.onnx", "--board", "host", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert run("inspect", built, "--json") == 0
    manifest = json.loads(capsys.readouterr().out)
    placed = [(o["name"], o["kind"], o["device"], o["stage"]) for o in found["operators"]]
    assert placed == [
        (p["operator"], p["kind"], p["device"], p["stage"]) for p in manifest["placement"]
    ]
    assert [s["name"] for s in found["stages"]] == [s["name"] for s in manifest["stages"]]
    assert found["memory"]["slots"] == manifest["slots"]
    assert found["hand_overs"] == manifest["hand_overs"]


def test_tensors_between_stages_and_the_copies_in_them_are_listed(built, capsys):
    assert run("inspect", built, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    keys = ("tensor", "writer", "readers", "layout", "bytes", "crosses")
    assert [tuple(each[key] for key in keys) for each in printed["hand_overs"]] == [
        ("image", "", ["arm0"], "nhwc", 16 * 16 * 3, False),
        ("stem_Clip", "arm0", ["vta1"], "vta", 8 * 8 * 16, True),
        ("logits.int8", "vta1", ["arm2"], "vta", 16, True),
        ("logits", "arm2", [], "nchw", 5 * 4, False),
    ]
    # TVM's kernel for the network's output reads C order.
    assert printed["copies"] == [{"stage": "arm2", "operator": "logits.int8", "bytes": 5}]


def test_the_answer_is_text_for_people(tmp_path, capsys):
    onnx.save(classifier(), tmp_path / "net.onnx")
    assert run("inspect", tmp_path / "net.onnx") == 0
    printed = capsys.readouterr().out
    assert "net.onnx builds for ultra96; ranges are from made-up pictures\n" in printed
    assert "description: none, so this one was drafted; its guesses: order = " in printed
    assert "note: image: dynamic batch dimension 'n' fixed to 1\n" in printed
    assert "camera bytes become int8 through a table" in printed
    assert "stages: 3, hops: 2\n" in printed
    assert "times by the model, with hops: VTA " in printed
    assert " ms on 3 cores; a frame every " in printed
    assert "contiguous memory: 0.1 MiB of 128: " in printed
    assert not (tmp_path / "net.toml").exists()


def test_layers_can_stay_float(tmp_path, capsys):
    onnx.save(classifier(), tmp_path / "net.onnx")
    assert run("inspect", tmp_path / "net.onnx", "--float", "block_depth_Clip..block_Relu") == 0
    printed = capsys.readouterr().out
    assert "Relu: stays float: requested" in printed
    assert "requested; without the request they are in int8\n" in printed
    code = run("inspect", tmp_path / "net.onnx", "--float", "block_Rel")
    assert_fails(capsys, code, "layer block_Rel: is unknown", "did you mean: block_Relu")


def test_a_network_that_would_not_build_has_its_own_exit_code(tmp_path, capsys):
    graph = helper.make_graph(
        [helper.make_node("Det", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    assert run("inspect", tmp_path / "net.onnx") == 3
    errors = capsys.readouterr().err
    assert_error(errors, 1, "net.onnx does not build: ", "replace or decompose the named operators")


def test_files_and_options_that_are_wrong_fail_as_usual(tmp_path, capsys):
    path = tmp_path / "net.onnx"
    assert_fails(capsys, run("inspect", path), "no such file")
    onnx.save(classifier(), path)
    code = run("inspect", path, "--description", tmp_path / "no.toml")
    assert_fails(capsys, code, "no.toml: no such file")
    (tmp_path / "net.toml").write_text(DESCRIPTION)
    code = run("inspect", path, "--place", "nothing=arm")
    assert_fails(capsys, code, "operator 'nothing' is unknown", "did you mean: logits.int8")
    code = run("inspect", path, "--board", "no")
    assert_fails(capsys, code, "board 'no' is unknown", "known boards: ")


@pytest.mark.parametrize(
    ("command", "more"), [("inspect", ()), ("run", ("--input", "x.png")), ("report", ())]
)
def test_a_tflite_network_gets_the_command_that_converts_it(tmp_path, capsys, command, more):
    path = tmp_path / "net.tflite"
    path.write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(2000))
    code = run(command, path, *more)
    assert_fails(
        capsys,
        code,
        "net.tflite: a TensorFlow Lite network, expected a bundle",
        "build a bundle of it; first convert it (pip install tf2onnx tensorflow): "
        f"python -m tf2onnx.convert --tflite {path} --opset 13 --output {tmp_path / 'net.onnx'}",
    )


def test_a_file_that_is_neither_a_bundle_nor_a_network_is_named(tmp_path, capsys):
    path = tmp_path / "notes.txt"
    path.write_text("hello" * 1000)
    code = run("inspect", path)
    assert code == 1
    errors = capsys.readouterr().err
    assert "notes.txt: neither a bundle nor an ONNX network" in errors
    assert "hint: name a bundle (a folder or *.edgepipe) or a network (*.onnx)\n" in errors
    truncated = path.rename(tmp_path / "net.edgepipe")
    assert_fails(capsys, run("inspect", truncated), "not a bundle, or truncated", "copy it again")


def test_options_of_the_other_kind_of_file_are_refused(built, capsys):
    code = run("inspect", built.parent / "net.onnx", "--timing", "--operators")
    hint = "build it, then inspect the bundle"
    assert_fails(capsys, code, "--operators, --timing cannot be used for it", hint)
    code = run("inspect", built, "--board", "host", "--place", "a=arm", "--float", "a")
    hint = "they belong to networks; a bundle contains its arrangement"
    assert_fails(capsys, code, "--board, --place, --float cannot be used for it", hint)
