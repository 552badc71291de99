"""``edgepipe init``: what it writes and prints, and its errors."""

from __future__ import annotations

import onnx
import pytest
from command_line import assert_fails, run
from onnx import helper
from small_networks import classifier

from edgepipe import description


@pytest.fixture
def network(tmp_path):
    """Write a classifier that names its classes, and nothing else."""
    model = classifier()
    helper.set_model_props(model, {"names": "['ant', 'bee', 'cow', 'dog', 'emu']"})
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_a_description_is_written_and_summed_up(network, capsys):
    assert run("init", network) == 0
    written = sorted(path.name for path in network.parent.iterdir())
    assert written == ["net.labels.txt", "net.onnx", "net.toml"]
    loaded = description.load(network.with_suffix(".toml"))
    assert description.labels_of(loaded, network)[1] == "bee"
    printed = capsys.readouterr().out
    assert "input    image float32[n, 3, 16, 16], channels first" in printed
    assert "outputs  logits [1, 5] is one of 5 scores" in printed
    assert "classes  5 names, from ant to emu" in printed
    assert '  order = "RGB"  # order of the channels: the most common order' in printed
    assert f"next: edgepipe inspect {network}, which says what would run where" in printed


def test_a_file_is_replaced_only_with_force(network, tmp_path, capsys):
    target = tmp_path / "other.toml"
    target.write_text("mine")
    code = run("init", network, "-o", target)
    hint = "give the description another name, or replace the file: --force"
    assert_fails(capsys, code, f"{target}: exists already", hint)
    assert target.read_text() == "mine"
    assert run("init", network, "-o", target, "--force") == 0
    assert description.load(target).postprocess.labels == "other.labels.txt"


def test_a_size_is_taken_for_a_dynamic_input_only(network, capsys):
    code = run("init", network, "--size", "32x16")
    assert_fails(capsys, code, "the size 32x16 was given", "give a size only for inputs whose")
    assert not network.with_suffix(".toml").exists()


@pytest.mark.parametrize("text", ["", "3", "0x3", "3x", "-1x2", "1x999999", "a"])
def test_a_malformed_size_is_wrong_use(text, network, capsys):
    with pytest.raises(SystemExit) as caught:
        run("init", network, f"--size={text}")
    assert caught.value.code == 2
    assert f"found {text!r}, expected WIDTHxHEIGHT, such as 640x480" in capsys.readouterr().err


def test_a_file_that_is_not_a_network_is_one_error(tmp_path, capsys):
    (tmp_path / "net.onnx").write_bytes(b"\x08not protobuf")
    assert_fails(capsys, run("init", tmp_path / "net.onnx"), "not an ONNX file, or damaged")
    assert_fails(capsys, run("init", tmp_path / "no.onnx"), "no such file", "*.onnx")
