"""Names from bundles and arguments never reach a terminal as controls."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from command_line import run, run_cpp, run_program

from edgepipe.bundle import manifest as manifest_format
from edgepipe.bundle import storage

EVIL = "x\x1b]0;owned\x07\x9b2J\x7f\u202e\nfake: line\r"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def renamed(bundle, path, names):
    """Write the bundle with ``names`` changed wherever the manifest has them."""
    manifest = storage.read_manifest(bundle)
    files = {entry.path: storage.read_file(bundle, entry) for entry in manifest.files}
    text = manifest_format.to_json(manifest)
    for name in names(manifest):
        text = text.replace(f'"{name}"', json.dumps(name + EVIL))
    changed = manifest_format.from_json(text, "test")
    storage.write(path, files, lambda entries: dataclasses.replace(changed, files=entries))
    return path


def stage_names(manifest):
    return {manifest.name, manifest.board, *(stage.name for stage in manifest.stages)}


def all_names(manifest):
    operators = {placement.operator for placement in manifest.placement}
    return stage_names(manifest) | operators | {tensor.name for tensor in manifest.tensors}


@pytest.fixture
def evil(built, tmp_path):
    """Return a bundle whose network, board, tensors, stages and operators have such names."""
    return renamed(built, tmp_path / "evil.edgepipe", all_names)


@pytest.mark.parametrize("flags", [[], ["--operators"], ["--timing"]], ids=str)
def test_inspect_escapes_every_name(evil, capsys, flags):
    run("inspect", evil, *flags)
    printed = capsys.readouterr()
    assert r"x\u001b]0;owned\u0007\u009b2J\u007f\u202e" in printed.out + printed.err or flags
    assert not CONTROLS.search(printed.out + printed.err)
    assert not re.search("^fake: line", printed.out + printed.err, re.MULTILINE)


def test_json_keeps_the_names(evil, capsys):
    assert run("inspect", evil, "--json") == 0
    printed = capsys.readouterr().out
    assert not CONTROLS.search(printed)
    assert json.loads(printed)["name"].endswith(EVIL)


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", f"no{EVIL}"],
        ["inspect", "net", f"--no-such{EVIL}"],
        ["build", "net.onnx", "--board", f"no{EVIL}", "--calib", "x", "-o", "y"],
        ["logs", "--host", f"-no{EVIL}"],
        [f"no{EVIL}"],
    ],
    ids=lambda arguments: arguments[0][:7],
)
def test_errors_escape_what_was_typed(arguments, tmp_path):
    result = run_program(*arguments, cwd=tmp_path)
    assert result.returncode in (1, 2)
    assert not CONTROLS.search(result.stdout + result.stderr)


def test_a_traceback_escapes_what_was_typed(tmp_path):
    result = run_program("--debug", "inspect", f"no{EVIL}", cwd=tmp_path)
    assert "Traceback" in result.stderr
    assert not CONTROLS.search(result.stderr)


@pytest.mark.parametrize("program", ["edgepipe-run", "edgepipe-cam"])
def test_cpp_programs_escape_what_was_typed(program):
    for arguments in ([f"no{EVIL}", "--golden"], [f"--no{EVIL}"], [f"no{EVIL}", "--test-pattern"]):
        result = run_cpp(program, *arguments)
        assert result.returncode != 0
        assert not CONTROLS.search(result.stdout + result.stderr)


def test_cpp_programs_escape_names_of_bundles(built, tmp_path):
    evil = renamed(built, tmp_path / "evil.edgepipe", stage_names)
    result = run_cpp("edgepipe-run", str(evil), "--golden", "--json")
    printed = result.stdout + result.stderr
    assert result.returncode == 0, printed
    assert r"x\u001b]0;owned\u0007\u009b2J\u007f\u202e" in printed
    assert not CONTROLS.search(printed)
    assert not re.search("^fake: line", printed, re.MULTILINE)
