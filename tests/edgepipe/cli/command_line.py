"""Helpers for the tests of the command line: run it, and check the form of errors."""

from __future__ import annotations

import os
import subprocess
import sys

import needs
import small_networks

from edgepipe.cli.main import main

EDGEPIPE = (sys.executable, "-m", "edgepipe")

DESCRIPTION = small_networks.DESCRIPTION + "top = 2\n"


def run(*arguments):
    """Run the command line in this process and return its exit code."""
    return main([str(argument) for argument in arguments])


def run_program(*arguments, **options):
    """Run the command line as a separate process with Python's default buffering."""
    options = {"env": os.environ | {"PYTHONUNBUFFERED": ""}, **options}
    return subprocess.run(
        [*EDGEPIPE, *map(str, arguments)],
        **{"capture_output": True, "text": True, "check": False, "timeout": 300, **options},
    )


def run_cpp(program, *arguments, **options):
    """Run a C++ program of edgepipe."""
    return subprocess.run(
        [needs.built(program), *arguments],
        **{"capture_output": True, "text": True, "check": False, "timeout": 300, **options},
    )


def build_arguments(project, *arguments, model="net.onnx", board="ultra96", calib="pictures"):
    """Return the arguments that build ``project/out``."""
    return (
        *("build", project / model, "--board", board, "--calib", project / calib),
        *("-o", project / "out", *arguments),
    )


def build(project, *arguments, **changes):
    return run(*build_arguments(project, *arguments, **changes))


def assert_fails(capsys, code, message, hint="hint: "):
    """Check exit code 1, one line of error, the hint, and that no traceback was shown."""
    assert_error(capsys.readouterr().err, code, message, hint)


def assert_error(errors, code, message, hint="hint: "):
    lines = [line for line in errors.splitlines() if ": error: " in line]
    hints = [line for line in errors.splitlines() if line.startswith("hint: ")]
    assert code == 1
    assert len(lines) == 1, errors
    assert lines[0].startswith("edgepipe")
    assert message in lines[0]
    assert len(hints) == 1, errors
    assert hint in hints[0]
    assert "Traceback" not in errors


def assert_nothing_half_written(project):
    """Check that the user's folder contains only the user's files, and no bundle."""
    assert sorted(path.name for path in project.iterdir()) == ["net.onnx", "net.toml", "pictures"]
