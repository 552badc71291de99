"""Every run ends in a controlled way, reports where, and accounts for every frame."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pipeline_bundles as bundles
import pytest
from idleness import wait_until_idle
from needs import built

pytestmark = pytest.mark.sim

RUN, CAM = "edgepipe-run", "edgepipe-cam"
FRAME = bundles.frames(1)[0].tobytes()
ACCOUNT = re.compile(r"(\d+) submitted = (\d+) delivered \+ (\d+) dropped \+ (\d+) failed;")
SIGNALS = [signal.SIGINT, signal.SIGTERM]
ENDLESS = ("--source", "synthetic", "--rate", "200", "--headless")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, network, files):
    golden = {"frame": bundles.frames(1)[0], "scores": network.run(bundles.frames(1)[0])}
    path = tmp_path_factory.mktemp("account") / "tiny"
    return bundles.write_bundle(path, files, golden)


def account(report: str) -> tuple[int, int, int, int]:
    """Return submitted, delivered, dropped and failed, which must add up with none in flight."""
    found = ACCOUNT.search(report)
    assert found, report
    submitted, delivered, dropped, failed = map(int, found.groups())
    assert submitted == delivered + dropped + failed, report
    return submitted, delivered, dropped, failed


def start(program: str, bundle: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    command = [str(built(program)), str(bundle), *arguments]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)


def report_of(process: subprocess.Popen[bytes]) -> str:
    """Wait for the end and return what the program wrote to standard error."""
    return process.communicate(timeout=60)[1].decode()


# ---- a full disk


def test_a_full_disk_under_the_results_ends_the_run_with_its_cause(bundle):
    command = [str(built(RUN)), str(bundle), "--golden", "--frames", "50", "--output", "/dev/full"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert "/dev/full: cannot be written: No space left on device\n" in ran.stderr
    assert "hint: free some space, or write to another disk\n" in ran.stderr
    account(ran.stderr)


@pytest.mark.parametrize(
    ("program", "option", "file"),
    [
        (CAM, "--record", "00000000.ppm"),
        (CAM, "--record", "results.jsonl"),
        (RUN, "--tensors", "0_scores.bin"),
    ],
)
def test_a_full_disk_under_a_recording_ends_the_run_and_leaves_no_half_file(
    bundle, tmp_path, program, option, file
):
    (tmp_path / file).symlink_to("/dev/full")
    source = ENDLESS if program == CAM else ("--golden",)
    command = [str(built(program)), str(bundle), *source, option, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert f"{tmp_path / file}: cannot be written: No space left on device\n" in ran.stderr
    assert "hint: free some space, or write to another disk\n" in ran.stderr
    assert file.endswith(".jsonl") or not (tmp_path / file).is_symlink()
    account(ran.stderr)


# ---- a reader that goes away


@pytest.mark.parametrize(
    ("program", "arguments"),
    [(RUN, ("--golden", "--frames", "100000")), (CAM, ENDLESS)],
    ids=["run", "cam"],
)
def test_a_killed_reader_ends_the_run_with_its_cause(bundle, program, arguments):
    process = start(program, bundle, arguments)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    report = process.stderr.read().decode()
    assert process.wait(timeout=60) == 1
    assert "standard output: cannot be written: Broken pipe" in report
    account(report)


# ---- signals in every phase


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_stages_are_loaded_or_before_ends_it_at_once(bundle, number):
    for delay_s in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05):
        endless = ("--golden", "--frames", "10000000", "--output", "/dev/null")
        process = start(RUN, bundle, endless)
        time.sleep(delay_s)
        process.send_signal(number)
        report = report_of(process)
        # A signal before the program has installed its handler kills it, like any other program.
        assert process.returncode in (0, -number), report
        if process.returncode == 0:
            account(report)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_waiting_for_the_source_delivers_the_frames_so_far(bundle, number):
    process = start(RUN, bundle, ("--input", "-"))
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(FRAME)
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(number)
    report = report_of(process)
    assert process.returncode == 0, report
    assert account(report) == (1, 1, 0, 0)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("program", "arguments"),
    [(RUN, ("--golden", "--frames", "10000000")), (CAM, ENDLESS)],
    ids=["run", "cam"],
)
def test_a_signal_while_frames_flow_delivers_frames_in_flight(bundle, program, arguments, number):
    process = start(program, bundle, arguments)
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()
    process.send_signal(number)
    assert process.stderr is not None
    lines, report = process.stdout.read(), process.stderr.read().decode()
    assert process.wait(timeout=60) == 0, report
    submitted, delivered, dropped, failed = account(report)
    assert (dropped, failed) == (0, 0)
    assert submitted == delivered == 3 + len(lines.splitlines())


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_results_have_no_reader_ends_it(bundle, tmp_path, number):
    report = tmp_path / "report"
    command = [str(built(RUN)), str(bundle), "--golden", "--frames", "10000000"]
    with (
        report.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        try:
            wait_until_idle(process.pid)  # the pipe is full
            process.send_signal(number)
            assert process.wait(timeout=60) == 1
        finally:
            process.kill()
    text = report.read_text()
    assert "standard output: nobody has read it for 5 s since the request to end" in text
    account(text)


def is_at_work(process):
    """Return whether a program has published that it has submitted a frame."""
    try:
        live = json.loads(Path(f"/dev/shm/edgepipe-{process}-0.json").read_text())
    except FileNotFoundError:
        return False
    return live["live"]["pipeline"]["submitted"] > 0


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_a_device_hangs_ends_it_after_the_devices_deadline(bundle, number):
    hang = ("--device", "model", "--fault", "hang=1", "--device-timeout", "1")
    process = start(RUN, bundle, ("--golden", *hang))
    # The run may even have ended by then, with the same account.
    while process.poll() is None and not is_at_work(process.pid):
        time.sleep(0.01)
    process.send_signal(number)
    report = report_of(process)
    assert process.returncode == 1
    assert "stage 1 'body' at frame 0" in report
    assert account(report)[3] == 1


# ---- memory that runs out


def test_without_memory_at_the_start_it_says_so(bundle):
    for megabytes in (64, 1024, 4096):

        def limit(size: int = megabytes << 20) -> None:
            resource.setrlimit(resource.RLIMIT_AS, (size, size))

        ran = subprocess.run(
            [str(built(RUN)), str(bundle), "--golden"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=limit,
        )
        assert ran.returncode == 1, (megabytes, ran.stderr)
        assert "cannot reserve" in ran.stderr or "memory" in ran.stderr
