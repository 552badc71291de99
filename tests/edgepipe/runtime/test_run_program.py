"""edgepipe-run: golden check, raw frames, pictures, results as JSON, exit codes, interruption."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import time

import numpy as np
import pipeline_bundles as bundles
import pytest
from idleness import wait_until_idle
from needs import built, emulated

from edgepipe import __version__
from edgepipe.bitstream import fingerprint
from edgepipe.bundle import storage

pytestmark = pytest.mark.sim

FRAME = bundles.frames(1)[0]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, network, files):
    golden = {"frame": FRAME, "scores": network.run(FRAME)}
    path = tmp_path_factory.mktemp("run") / "tiny.edgepipe"
    return bundles.write_bundle(path, files, golden)


def run(*arguments, stdin=b"", program=None, environment=None):
    return subprocess.run(
        [*(program or (built("edgepipe-run"),)), *arguments],
        input=stdin,
        capture_output=True,
        timeout=120,
        env=os.environ | (environment or {}),
        check=False,
    )


def lines_of(ran):
    assert ran.returncode == 0, ran.stderr.decode()
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("mode", [(), ("--serial",)], ids=["pipelined", "serial"])
def test_the_golden_input_gives_the_golden_output(bundle, mode):
    ran = run(bundle, "--golden", "--frames", "20", *mode)
    assert [line["frame"] for line in lines_of(ran)] == list(range(20))
    assert b"golden: 20 frames x 1 outputs are bit-equal" in ran.stderr
    assert b"20 submitted = 20 delivered + 0 dropped + 0 failed" in ran.stderr


def test_the_simulator_at_the_boards_speed_gives_the_golden_output(bundle):
    ran = run(bundle, "--golden", "--frames", "3", "--json", "--device", "timed")
    last = lines_of(ran)[-1]
    assert last["device"] == "timed"
    stages = last["statistics"]["stages"]
    assert next(stage for stage in stages if stage["name"] == "body")["busy"]["min_ms"] >= 10
    assert b"3 frames x 1 outputs are bit-equal" in ran.stderr
    assert b"VTA stages ran on: timed" in ran.stderr


def test_the_golden_output_on_a_board(architecture, network, tmp_path):
    golden = {"frame": FRAME, "scores": network.run(FRAME)}
    files = bundles.compile_files(network, (architecture,))
    path = bundles.write_bundle(tmp_path / "tiny", files, golden, architectures=(architecture,))
    ran = run(path, "--golden", program=emulated("edgepipe-run", architecture))
    assert ran.returncode == 0, ran.stderr.decode()
    assert b"bit-equal" in ran.stderr


def test_an_interrupt_loses_no_line_when_the_reader_is_slow(bundle):
    process = subprocess.Popen(
        [built("edgepipe-run"), bundle, "--golden", "--frames", "1000000", "--no-pin"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=4096,
    )
    wait_until_idle(process.pid)  # the pipe is full, and the program blocked in a write
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 0, said.decode()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["frame"] for line in lines] == list(range(len(lines)))
    assert f"{len(lines)} submitted = {len(lines)} delivered".encode() in said


@pytest.mark.parametrize("left", [0, 0.5], ids=["empty", "half"])
@pytest.mark.parametrize("name", ["folder", "archive.edgepipe"])
def test_a_bundle_that_is_truncated_while_it_runs_still_gives_the_golden_output(
    tmp_path, network, files, name, left
):
    golden = {"frame": FRAME, "scores": network.run(FRAME)}
    path = bundles.write_bundle(tmp_path / name, files, golden)
    assert path.is_dir() == (name == "folder")
    process = subprocess.Popen(
        [built("edgepipe-run"), path, "--golden", "--frames", "1000", "--no-pin"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=4096,  # it cannot end before its output is read
    )
    process.stdout.readline()  # it runs
    for file in [file for file in (path, *path.rglob("*")) if file.is_file()]:
        os.truncate(file, int(file.stat().st_size * left))
    assert process.poll() is None
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0, said.decode()
    assert len(out.splitlines()) == 999
    assert b"golden: 1000 frames x 1 outputs are bit-equal" in said


def test_a_wrong_golden_output_says_where(tmp_path, network, files):
    scores = network.run(FRAME)
    scores[0, 1] += 1
    path = bundles.write_bundle(tmp_path / "off", files, {"frame": FRAME, "scores": scores})
    ran = run(path, "--golden")
    assert ran.returncode == 1
    assert b"frame 0: output 'scores' differs from the golden output:" in ran.stderr
    assert b"of 20 bytes differ, the first at" in ran.stderr
    assert (
        "hint: run the bundle on the simulator: if it is right there, examine the board with "
        "`edgepipe doctor`\n" in ran.stderr.decode()
    )


def test_raw_frames_from_standard_input_give_classes_and_tensors(bundle, network, tmp_path):
    frames = bundles.frames(5)
    ran = run(
        bundle,
        "--input",
        "-",
        "--tensors",
        tmp_path,
        "--json",
        "--quiet",
        stdin=b"".join(frame.tobytes() for frame in frames),
    )
    *results, last = lines_of(ran)
    assert ran.stderr == b""
    for index, (frame, result) in enumerate(zip(frames, results, strict=True)):
        scores = network.run(frame)
        best = int(scores.argmax())
        assert result["classes"][0]["label"] == bundles.LABELS[best]
        assert (tmp_path / f"{index}_scores.bin").read_bytes() == scores.tobytes()
    assert set(last) == {"statistics", "device", "peak_memory_bytes"}
    assert last["peak_memory_bytes"] > 1 << 20
    assert last["statistics"]["delivered"] == 5
    assert [stage["name"] for stage in last["statistics"]["stages"]] == ["stem", "body", "head"]


def test_pictures_give_the_same_as_raw_frames(bundle, tmp_path):
    size = bundles.SIZE
    header = f"P6\n{size} {size}\n255\n".encode()
    rgb = np.ascontiguousarray(FRAME[0, :, :, ::-1])  # the network expects BGR
    (tmp_path / "two.ppm").write_bytes((header + rgb.tobytes()) * 2)
    pictures = lines_of(run(bundle, "--input", tmp_path / "two.ppm"))
    raw = lines_of(run(bundle, "--input", "-", stdin=FRAME.tobytes() * 2))
    assert [line["classes"] for line in pictures] == [line["classes"] for line in raw]


def test_an_input_that_ends_inside_a_frame_fails_after_the_frames_before_it(bundle):
    ran = run(bundle, "--input", "-", stdin=FRAME.tobytes() * 2 + b"half")
    assert ran.returncode == 1
    assert len(ran.stdout.splitlines()) == 2
    assert b"standard input: frame 2: the input ends after 4 of 768 bytes" in ran.stderr


def test_an_interruption_finishes_frames_in_flight(bundle):
    with subprocess.Popen(
        [built("edgepipe-run"), bundle, "--input", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(FRAME.tobytes())
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["frame"] == 0
        process.send_signal(signal.SIGINT)  # while it waits for the next frame
        _, report = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"1 submitted = 1 delivered + 0 dropped + 0 failed" in report


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "no bundle was given"),
        (("b",), "give one of --input, --golden and --verify"),
        (("b", "--golden", "--input", "x"), "give one of --input, --golden and --verify"),
        (("b", "c", "--golden"), "found a second bundle, 'c'"),
        (("b", "--golden", "--frames", "0"), "--frames: found '0', expected a number from 1 up"),
        (("b", "--golden", "--cores=0,x"), "--cores: found '0,x', expected core numbers"),
        (("b", "--golden", "-x"), "unknown option '-x'"),
        (("b", "--golden", "--fast"), "unknown option '--fast'"),
        (("b", "--input"), "--input needs a value: --input FILE"),
        (("b", "--golden=1"), "--golden takes no value"),
        (("b", "--golden", "--fast", "1"), "unknown option '--fast'"),
        (("b", "--goldne"), "unknown option '--goldne'; did you mean --golden?"),
        (("b", "--slot=2"), "unknown option '--slot'; did you mean --slots?"),
        (("b", "--input", "x", "--format", "pmp"), "expected raw or ppm; did you mean ppm?"),
    ],
)
def test_wrong_use_is_exit_code_2_with_a_hint(arguments, text):
    ran = run(*arguments)
    assert ran.returncode == 2
    assert ran.stdout == b""
    assert text in ran.stderr.decode()
    assert "hint: edgepipe-run --help" in ran.stderr.decode()


def test_failures_are_exit_code_1_and_say_what_is_wrong(bundle, tmp_path):
    missing = run(tmp_path / "nothing", "--golden")
    assert (missing.returncode, missing.stdout) == (1, b"")
    assert b"nothing: no such bundle\nhint: check the name;" in missing.stderr
    core = run(bundle, "--golden", "--cores", "999")
    assert core.returncode == 1
    assert (
        b"thread 'stem': core 999 does not exist or is not available to this process, expected 0"
        in core.stderr
    )
    output = run(bundle, "--golden", "--output", tmp_path / "no" / "folder")
    assert output.returncode == 1
    assert b"cannot be created" in output.stderr
    tensors = run(bundle, "--golden", "--tensors", "/proc/tensors")
    assert tensors.returncode == 1
    assert b"/proc/tensors: cannot be created: " in tensors.stderr
    assert "hint: choose another folder\n" in tensors.stderr.decode()


def test_a_bundle_of_another_version_is_refused_with_its_own_exit_code(bundle, tmp_path):
    manifest = storage.read_manifest(bundle)
    contents = {entry.path: storage.read_file(bundle, entry) for entry in manifest.files}
    older = dataclasses.replace(manifest.fingerprint, builder_version="0.0.9")
    storage.write(
        tmp_path / "older",
        contents,
        lambda files: dataclasses.replace(manifest, files=files, fingerprint=older),
    )
    ran = run(tmp_path / "older", "--golden")
    assert (ran.returncode, ran.stdout) == (fingerprint.EXIT_CODES["runtime version"], b"")
    error, hint = ran.stderr.decode().splitlines()
    assert error.endswith(f"runtime version is {__version__}, the bundle was built by 0.0.9")
    assert hint == (
        "hint: build the bundle again with this version, or run it with the version that built it"
    )


def test_help_names_every_option():
    text = run("--help").stdout.decode()
    for option in ("--input", "--golden", "--frames", "--serial", "--cores", "--json", "--tensors"):
        assert option in text


@pytest.mark.parametrize("mode", [(), ("--serial",), ("--spin", "500")], ids=" ".join)
def test_a_trace_shows_every_stage_on_every_frame(bundle, tmp_path, mode):
    path = tmp_path / "trace.json"
    ran = run(bundle, "--golden", "--frames", "5", "--trace", path, *mode)
    assert ran.returncode == 0, ran.stderr.decode()
    events = json.loads(path.read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert {event["args"]["frame"] for event in slices} == set(range(5))
    assert len(slices) == 5 * (1 + 3)
    assert [event["ts"] for event in events if "ts" in event] == sorted(
        event["ts"] for event in events if "ts" in event
    )


def test_a_trace_that_cannot_be_written_is_an_error(bundle):
    ran = run(bundle, "--golden", "--trace", "/nowhere/trace.json")
    assert ran.returncode == 1
    assert b"/nowhere/trace.json: the trace cannot be written" in ran.stderr
    assert "hint: choose another path, or free some space\n" in ran.stderr.decode()


def test_an_impossible_spin_is_wrong_use(bundle):
    ran = run(bundle, "--golden", "--spin", "-1")
    assert ran.returncode == 2
    assert b"--spin: found '-1', expected 0 to 1000000" in ran.stderr
