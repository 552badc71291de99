"""edgepipe-cam and edgepipe-run as systemd services: their messages on NOTIFY_SOCKET."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import cam_programs
import pytest
from needs import built

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return cam_programs.make_bundle(tmp_path_factory.mktemp("service"))


@pytest.fixture
def manager(tmp_path):
    """Yield a service manager's end of the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        yield listener


def environment(listener):
    notify = {"NOTIFY_SOCKET": listener.getsockname(), "WATCHDOG_USEC": "400000"}
    return {k: v for k, v in os.environ.items() if k != "WATCHDOG_PID"} | notify


def test_a_camera_reports_ready_alive_its_frames_and_its_end(bundle, manager):
    options = ["--source", "synthetic", "--headless", "--no-pin", "--device", "simulator"]
    process = subprocess.Popen(
        [built("edgepipe-cam"), bundle, *options],
        env=environment(manager),
        stderr=subprocess.DEVNULL,
    )
    try:
        assert manager.recv(512) == b"READY=1\nSTATUS=tiny: 0 frames, 0 failed"
        heard = set()
        while len(heard) < 2:
            heard.add(manager.recv(512).split(b"=")[0])
        assert heard == {b"WATCHDOG", b"STATUS"}
        process.send_signal(signal.SIGTERM)
        while manager.recv(512) != b"STOPPING=1":
            pass
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_a_run_reports_too(bundle, manager):
    options = ["--golden", "--quiet", "--no-pin", "--device", "simulator"]
    ran = subprocess.run(
        [built("edgepipe-run"), bundle, *options],
        env=environment(manager),
        capture_output=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert manager.recv(512).startswith(b"READY=1\n")


def is_fed_while_silent(manager, program, options, expected):
    """Return whether the watchdog is fed three times while the program gets no frame.

    Waits two seconds for that, or much longer if it is ``expected``.
    """
    process = subprocess.Popen(
        [built(program), *options, "--no-pin", "--device", "simulator"],
        env=environment(manager),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert manager.recv(512).startswith(b"READY=1")
        manager.recv(512)  # the frames that were in flight then
        end = time.monotonic() + (60 if expected else 2)
        fed = 0
        while fed < 3 and (left := end - time.monotonic()) > 0:
            manager.settimeout(left)
            with contextlib.suppress(TimeoutError):
                fed += manager.recv(512) == b"WATCHDOG=1"
        return fed == 3
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("program", "options", "fed"),
    [
        ("edgepipe-cam", ["--source", "-", "--headless", "--source-timeout", "60"], False),
        ("edgepipe-cam", ["--source", "-", "--headless", "--source-timeout", "0"], True),
        ("edgepipe-run", ["--input", "-", "--input-timeout", "60"], False),
        ("edgepipe-run", ["--input", "-", "--input-timeout", "0"], True),
        ("edgepipe-cam", ["--source", "pictures", "--rate", "0.01", "--loop", "--headless"], True),
        ("edgepipe-cam", ["--source", "fifo", "--headless", "--source-timeout", "60"], False),
        ("edgepipe-cam", ["--source", "fifo", "--headless", "--source-timeout", "0.1"], True),
    ],
)
def test_a_silent_source_feeds_no_watchdog_unless_silence_is_allowed(
    bundle, manager, tmp_path, monkeypatch, program, options, fed
):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    Path("pictures").mkdir()
    for number in range(2):
        Path(f"pictures/{number}.pgm").write_bytes(b"P5 1 1 255 \0")
    assert is_fed_while_silent(manager, program, [bundle, *options], fed) == fed


@pytest.mark.parametrize("program", ["edgepipe-run", "edgepipe-cam"])
def test_a_socket_without_a_listener_is_an_error_before_anything_runs(bundle, tmp_path, program):
    options = ["--golden"] if program == "edgepipe-run" else ["--source", "synthetic"]
    ran = subprocess.run(
        [built(program), bundle, *options],
        env=os.environ | {"NOTIFY_SOCKET": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 1
    error, hint = ran.stderr.splitlines()
    assert error == f"{program}: error: NOTIFY_SOCKET: {tmp_path}/none: No such file or directory"
    assert hint == "hint: start it as a unit of systemd, or unset NOTIFY_SOCKET"
