"""A signal at every step of a build's writing: 130 and what was there, or 0 and all that is new."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import build, build_arguments

import edgepipe
from edgepipe import exports, interrupts, recipe, scratch
from edgepipe.bundle import storage
from edgepipe.cli import build_command
from edgepipe.interrupts import SIGNALS
from edgepipe.quantize import scheme_file

# What a build computes, which stays the same; the rest of it writes.
COMPUTED = (
    *("describe", "calibration_frames", "quantized_network", "vta_check", "arrange_shared"),
    *("network_record", "golden_tensors", "compile_stages"),
)
WRITING = {
    module.__file__ for module in (build_command, exports, interrupts, recipe, scratch, storage)
}


@pytest.fixture
def computed(monkeypatch):
    """Let all builds of a test but the first write what the first one has computed."""

    def once(function):
        results = []

        def known(*arguments):
            if not results:
                results.append(function(*arguments))
            return results[0]

        return known

    for name in COMPUTED:
        monkeypatch.setattr(recipe, name, once(getattr(recipe, name)))
    monkeypatch.setattr(recipe, "bundle_files", lambda *_: {"a": b"1", "b/c": b"2"})
    monkeypatch.setattr(scratch, "_watch", lambda path: -1)  # a process for each folder


class Injection:
    """Sends a signal to this process at one of the steps of a build's writing.

    Python runs handlers of signals after a function has begun, or one in C has returned. Steps are
    these places in the modules that write, and each system call below them. ``ordinal`` counts them
    from 0, in the order in which they are first reached.
    """

    def __init__(self, ordinal, number):
        self._ordinal, self._number = ordinal, number
        self._reached = {}
        self._writing = False

    @property
    def where(self):
        """Return the step at which the signal was sent, None if the build ended before."""
        steps = list(self._reached)
        return steps[self._ordinal] if len(steps) > self._ordinal else None

    def __enter__(self):
        sys.setprofile(self._passed)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _passed(self, frame, event, function):
        self._writing |= frame.f_code is exports.prepared.__wrapped__.__code__
        of_system = event == "c_return" and function.__module__ == os.rename.__module__
        own = event in ("call", "c_return") and frame.f_code.co_filename in WRITING
        if not self._writing or not (own or of_system):
            return
        while frame is not None and frame.f_code.co_filename not in WRITING:
            frame = frame.f_back
        if frame is None:
            return
        file = Path(frame.f_code.co_filename).name
        step = (f"{file}:{frame.f_lineno}", event, getattr(function, "__name__", ""))
        if step not in self._reached:
            self._reached[step] = None
            if len(self._reached) == self._ordinal + 1:
                signal.raise_signal(self._number)


def contents(path):
    """Return the content of a file, or of all files in a folder; None if there is nothing."""
    if path.is_dir():
        return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    return path.read_bytes() if path.exists() else None


def lay(path, content):
    """Make ``path`` what it was when ``contents`` returned ``content``."""
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if isinstance(content, dict):
        for name, text in content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(text)
    elif content is not None:
        path.write_bytes(content)


@pytest.mark.parametrize(("output", "older"), [("out", True), ("out.edgepipe", False)])
def test_a_signal_at_every_step_of_the_writing(project, computed, capsys, output, older):
    outputs = [project / output, project / "net.scheme.toml"]
    arguments = ("-o", outputs[0], "--export-scheme", outputs[1])
    assert build(project, *arguments) == 0
    after = [contents(path) for path in outputs]
    before = [None, None]
    if older:
        assert build(project, *arguments, "--bundle-version", 2) == 0
        outputs[1].write_bytes(b"# edited\n" + after[1])
        before = [contents(path) for path in outputs]
    names = {path.name for path in outputs}
    others = {path.name for path in project.iterdir()} - names
    codes = []
    while True:
        for path, content in zip(outputs, before, strict=True):
            lay(path, content)
        with Injection(len(codes), SIGNALS[len(codes) % 2]) as injection:
            code = build(project, *arguments)
        errors = capsys.readouterr().err
        if injection.where is None:
            break
        codes.append(code)
        found = [contents(path) for path in outputs]
        assert (code, found == before, found == after) in [(130, True, False), (0, False, True)], (
            injection.where
        )
        assert ("interrupted" in errors) == (code == 130)
        if {path.name for path in project.iterdir()} - names != others:
            gc.collect()  # a folder whose block had not begun: its watcher removes it at the exit
        assert {path.name for path in project.iterdir()} - names == others, injection.where
    assert codes == sorted(codes, reverse=True), "a late signal interrupted"
    assert codes.count(130) > 30
    assert codes.count(0) > 8


def test_an_interrupt_that_is_too_late_for_a_call_in_python(project, monkeypatch):
    """A program with more to do must not miss it: it is raised once the bundle is complete."""
    commit = interrupts.Interrupts.commit

    def late(seen):
        commit(seen)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(interrupts.Interrupts, "commit", late)
    with pytest.raises(KeyboardInterrupt):
        edgepipe.build(
            project / "net.onnx",
            board="ultra96",
            calibration=project / "pictures",
            output=project / "out",
            export_scheme=project / "net.scheme.toml",
        )
    storage.check(project / "out")
    scheme_file.read(project / "net.scheme.toml")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


PROGRAM = """
import atexit, os, signal, sys
from edgepipe.cli import build_command
from edgepipe.cli.main import main

def interrupt(*_):
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)

def build(options, progress, interrupts):
    interrupts.commit()
    interrupt()

class Last:
    __del__ = interrupt

build_command.build_bundle = build
build_command.print_summary = interrupt
atexit.register(interrupt)
kept = Last()
sys.exit(main())
"""


def test_a_program_whose_bundle_is_complete_ends_with_success(project):
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, build_arguments(project))],
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_command_within_a_program_leaves_its_handlers_alone(project, computed):
    before = [signal.getsignal(number) for number in SIGNALS]
    assert build(project) == 0
    assert [signal.getsignal(number) for number in SIGNALS] == before
