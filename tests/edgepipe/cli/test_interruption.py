"""Interruptions and full disks: a clear message, a defined exit code, no partial output."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi
from command_line import (
    EDGEPIPE,
    assert_error,
    assert_fails,
    assert_nothing_half_written,
    build,
    build_arguments,
    run,
    run_program,
)
from lateness import LateError, in_time_at_least_once
from tvm.relax.frontend.onnx import from_onnx

INTERRUPTED_IMPORT = """
import os, signal, sys
module = sys.argv[1]
class Interrupt:
    def find_spec(self, name, *rest):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from edgepipe.cli.entry import main
sys.argv[1:] = ["build", "--help"]
sys.exit(main())
"""
LOADED_BEFORE = """
import sys
before = set(sys.modules)
import edgepipe.cli.entry
print(*sorted(set(sys.modules) - before))
"""


def test_nothing_is_loaded_before_an_interruption_is_expected():
    ran = subprocess.run(
        [sys.executable, "-c", LOADED_BEFORE], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["edgepipe", "edgepipe.cli", "edgepipe.cli.entry"]


@pytest.mark.parametrize(
    "module", ["edgepipe.cli.main", "argparse", "edgepipe.cli.build_command", "numpy", "tvm", "cv2"]
)
def test_an_interruption_while_modules_are_loaded(module):
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, module], capture_output=True, text=True
    )
    assert ran.returncode == 130
    assert ran.stderr == "\nedgepipe: interrupted; no partly written output is left behind\n"


def test_an_interruption_inside_tvms_importer(project, capsys, monkeypatch):
    @tvm_ffi.convert_func
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("tvm.relax.frontend.onnx.from_onnx", lambda model: interrupted())
    assert build(project) == 130
    assert "interrupted" in capsys.readouterr().err
    assert_nothing_half_written(project)


@pytest.mark.parametrize("error", [None, RuntimeError("a pass failed")])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_that_tvms_importer_swallows(project, capsys, monkeypatch, number, error):
    import_model = from_onnx

    def swallowing(model):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(number)
        if error is not None:
            raise error
        return import_model(model)

    monkeypatch.setattr("tvm.relax.frontend.onnx.from_onnx", swallowing)
    assert build(project) == 130
    assert "interrupted" in capsys.readouterr().err
    assert_nothing_half_written(project)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_inspection_ends_when_tvms_importer_swallows_the_interruption(
    project, capsys, monkeypatch, number
):
    def swallowing(model):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(number)
        return from_onnx(model)

    monkeypatch.setattr("tvm.relax.frontend.onnx.from_onnx", swallowing)
    assert run("inspect", project / "net.onnx") == 130
    captured = capsys.readouterr()
    assert "interrupted" in captured.err
    assert not captured.out


@in_time_at_least_once
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", ["reading the network", "quantising", "compiling stage"])
def test_a_build_that_is_interrupted(project, step, number):
    with subprocess.Popen(
        [*EDGEPIPE, *map(str, build_arguments(project))], stderr=subprocess.PIPE, text=True
    ) as process:
        errors = ""
        for line in process.stderr:
            errors += line
            if line.startswith(step):
                break
        sent = time.time()
        process.send_signal(number)
        errors += process.stderr.read()
    if made_before(sent, project / "out"):
        shutil.rmtree(project / "out")
        raise LateError
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert_nothing_half_written(project)


@pytest.mark.networks
def test_builds_on_a_busy_machine_that_are_interrupted_at_any_moment(project):
    """Twenty moments between the first line of progress and the end of the whole build."""
    command, out = [*EDGEPIPE, *map(str, build_arguments(project))], project / "out"
    random = np.random.default_rng(0)
    with contextlib.ExitStack() as busy:
        for _ in os.sched_getaffinity(0):
            endless = busy.enter_context(
                subprocess.Popen([sys.executable, "-c", "while True: pass"])
            )
            busy.callback(endless.kill)
        started = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        whole_s = time.monotonic() - started
        whole = contents(out)
        shutil.rmtree(out)
        codes = []
        for share in random.uniform(0, 0.8, 20):
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
                errors = process.stderr.readline()
                time.sleep(share * whole_s)
                process.send_signal(signal.SIGINT)
                errors += process.stderr.read()
            codes.append(process.returncode)
            assert "Traceback" not in errors
            if process.returncode == 0:
                assert contents(out) == whole
                shutil.rmtree(out)
            else:
                assert process.returncode == 130, errors
                assert_nothing_half_written(project)
    assert codes.count(130) >= 10


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def made_before(sent, path):
    """Return whether a program had finished a file before it got a signal."""
    return path.exists() and path.stat().st_ctime < sent


@in_time_at_least_once
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted(built, project, number):
    pictures, output = project / "pictures", project / "results"
    for index in range(4, 400):
        shutil.copy(pictures / "0.png", pictures / f"{index}.png")
    with subprocess.Popen(
        [*EDGEPIPE, "run", built, "--input", pictures, "--output", output],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None and not (output.is_dir() and list(output.iterdir())):
            pass
        sent = time.time()
        process.send_signal(number)
        errors = process.stderr.read()
    if made_before(sent, output / "results.jsonl"):
        shutil.rmtree(output)
        raise LateError
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert list(output.iterdir()) == []


@pytest.mark.parametrize("command", [("boards",), ("bitstream", "list"), ("--help",)])
def test_standard_output_without_a_reader(command):
    read, write = os.pipe()
    os.close(read)
    ran = run_program(*command, capture_output=False, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (1, "")


@pytest.mark.parametrize("command", [("boards",), ("--help",)])
def test_standard_output_on_a_full_disk(command):
    with Path("/dev/full").open("w") as full:
        ran = run_program(*command, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert_error(ran.stderr, ran.returncode, "standard output", "free some space")
    assert "No space left on device" in ran.stderr


def test_names_that_are_not_utf_8(built, project):
    name = os.fsdecode(b"caf\xe9")
    bundle, pictures = project / f"{name}.edgepipe", project / name
    shutil.copy(built, bundle)
    (project / "pictures").rename(pictures)
    (pictures / "0.png").rename(pictures / f"{name}.png")
    assert run_program("inspect", bundle).returncode == 0
    trace = pictures / f"{name}.json"
    ran = run_program("run", bundle, "--input", pictures, "--compare", 0, "--trace", trace)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 4
    assert trace.exists()
    trace.unlink()
    ran = run_program("run", bundle, "--input", pictures, "--output", project / name / "out")
    assert_error(ran.stderr, ran.returncode, "the name is not UTF-8", "rename")
    assert list((pictures / "out").iterdir()) == []


def test_a_build_on_a_full_disk(project, capsys, monkeypatch):
    write_bytes = Path.write_bytes

    def full(path, content):
        if path.is_relative_to(project):
            raise OSError(28, "No space left on device")
        return write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    assert_fails(capsys, build(project), "out: cannot be written (No space left on device)")
    monkeypatch.undo()
    assert_nothing_half_written(project)


def test_an_unforeseen_error_of_the_system_shows_no_traceback(capsys, monkeypatch):
    def fail(*arguments):
        raise PermissionError(13, "Permission denied", "/etc/shadow")

    monkeypatch.setattr("edgepipe.boards.names", fail)
    assert_fails(capsys, run("boards"), "/etc/shadow: Permission denied", "--debug")
