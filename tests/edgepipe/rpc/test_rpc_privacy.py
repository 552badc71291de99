"""Who gets a session of the real edgepipe-rpcd, how long others keep it busy, and how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lateness import LateError, in_time_half_of
from needs import rpcd

from edgepipe import rpc
from edgepipe.cli.main import main
from edgepipe.errors import RpcError

pytestmark = pytest.mark.sim

MAGIC = struct.pack("<i", 0xFF271)
MISMATCH = struct.pack("<i", 0xFF271 + 2)
GREETING_S = 5.0
LATEST_GREETING_S = GREETING_S + 3.0
STOP_S = 1.0


def greeting(key: str) -> bytes:
    text = f"client:{key}".encode()
    return MAGIC + struct.pack("<i", len(text)) + text


@contextlib.contextmanager
def running(*options: str) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """Yield a server's process, port and key."""
    command = [str(rpcd()), "--allow-root", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            words = server.stdout.readline().split()
            yield server, int(words[2].split(":")[1]), words[-1]
        finally:
            server.kill()


def stop_in_time(server: subprocess.Popen[str]) -> None:
    """Send SIGTERM; the server must end with exit code 0."""
    begin = time.monotonic()
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=60) == 0
    if (took_s := time.monotonic() - begin) >= STOP_S:
        raise LateError(f"it ended after {took_s:.1f} s, expected {STOP_S} s")


def test_every_server_has_its_own_key() -> None:
    with running() as (_, _, one), running() as (_, _, other):
        assert one != other
        assert len(one) == 32
        assert int(one, 16) > 0


def test_the_key_is_not_in_the_list_of_processes() -> None:
    with running() as (server, _, key):
        assert key not in Path(f"/proc/{server.pid}/cmdline").read_text()
        assert key not in Path(f"/proc/{server.pid}/environ").read_text()


@pytest.mark.parametrize("guess", ["", "edgepipe", "server", "0" * 32])
def test_a_client_that_guesses_the_key_is_refused(guess: str) -> None:
    with running() as (_, port, key):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(greeting(guess))
            assert client.recv(100) == MISMATCH, "and nothing more, such as the key"
        with pytest.raises(RpcError, match="no RPC session"):
            rpc.connect(port, key=guess)
        with rpc.connect(port, key=key) as session:
            assert session.info()["process"] > 0


def refusal(*options: str) -> str:
    """Return the message of a server that ends because its options are wrong."""
    command = [str(rpcd()), "--allow-root", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    return ended.stderr


def test_a_short_key_is_refused() -> None:
    assert "--key: found 8 characters, expected 16 or more" in refusal("--key", "edgepipe")
    with running("--key", "kept-in-a-safe-place") as (_, port, key):
        assert key == "kept-in-a-safe-place"
        with rpc.connect(port, key=key) as session:
            assert session.info()["process"] > 0


def test_a_tracker_needs_a_name_to_offer() -> None:
    said = refusal("--tracker", "127.0.0.1:9190")
    assert "--tracker needs --key, the name to offer there" in said


@in_time_half_of(2)
def test_a_greeting_has_a_deadline_even_if_bytes_keep_coming() -> None:
    with running() as (_, port, key):
        begin = time.monotonic()
        # A server that drops a client whose last byte it has not read resets the connection.
        with (
            socket.create_connection(("127.0.0.1", port)) as slow,
            contextlib.suppress(ConnectionError),
        ):
            slow.settimeout(0.5)
            for byte in greeting("x" * 4000):
                with contextlib.suppress(TimeoutError):
                    slow.sendall(bytes([byte]))
                    if slow.recv(1) == b"":
                        break
        took_s = time.monotonic() - begin
        assert took_s > GREETING_S - 1  # all bytes would take half an hour
        with rpc.connect(port, key=key) as session:
            assert session.info()["process"] > 0
        if took_s > LATEST_GREETING_S:
            raise LateError(f"dropped after {took_s:.1f} s, expected {LATEST_GREETING_S} s")


@in_time_half_of(6)
def test_sigterm_ends_an_idle_server_in_time() -> None:
    with running() as (server, _, _):
        stop_in_time(server)


@pytest.mark.parametrize("sent", [b"", MAGIC, greeting("x")[:-1]], ids=len)
@in_time_half_of(6)
def test_sigterm_ends_a_server_in_the_middle_of_a_greeting_in_time(sent: bytes) -> None:
    with (
        running() as (server, port, _),
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        client.sendall(sent)
        time.sleep(0.3)
        stop_in_time(server)


@in_time_half_of(6)
def test_sigterm_ends_a_server_whose_tracker_is_silent_in_time() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as tracker,
        running("--tracker", f"127.0.0.1:{tracker.getsockname()[1]}", "--key", "u96") as (
            server,
            _,
            _,
        ),
    ):
        connection, _ = tracker.accept()
        with connection:
            time.sleep(0.3)
            stop_in_time(server)


@in_time_half_of(6)
def test_sigterm_ends_a_server_and_its_session_in_time(tmp_path: Path) -> None:
    with running("--folder", str(tmp_path)) as (server, port, key):
        session = rpc.connect(port, key=key)
        process = session.info()["process"]
        os.kill(process, signal.SIGSTOP)  # like a call that does not return
        stop_in_time(server)
        assert not Path(f"/proc/{process}").exists()
        assert not list(tmp_path.iterdir())
        session.close()


@in_time_half_of(6)
def test_no_repeated_signal_delays_the_end() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as tracker,
        running("--tracker", f"127.0.0.1:{tracker.getsockname()[1]}", "--key", "u96") as (
            server,
            _,
            _,
        ),
    ):
        for _ in range(5):
            server.send_signal(signal.SIGTERM)
        stop_in_time(server)


def as_root_only() -> None:
    if os.geteuid() != 0:
        pytest.skip("the test needs to be root")


def test_the_server_does_not_run_as_root() -> None:
    as_root_only()
    with pytest.raises(RpcError, match="the RPC server does not run as root") as caught:
        rpc.LocalServer.start(rpcd())
    assert caught.value.hint == (
        "log in as the user to whom setup.sh gave access to the accelerator, or, if only root "
        "has access, allow root"
    )
    assert caught.value.option == "allow_root"
    ran = subprocess.run([rpcd()], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert ran.stderr == (
        "edgepipe-rpcd: error: refuses to run as root, because sessions run native code\n"
        "hint: run it as the user to whom setup.sh gave access to the accelerator, or with "
        "--allow-root\n"
    )


def test_the_command_names_its_flag_for_root(capsys: pytest.CaptureFixture[str]) -> None:
    as_root_only()
    assert main(["rpc", "open"]) == 1
    errors = capsys.readouterr().err
    assert "does not run as root" in errors
    assert "hint: log in as the user to whom setup.sh gave access" in errors
    assert "allow root: --allow-root" in errors


def test_another_user_runs_the_server() -> None:
    as_root_only()
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(rpcd())]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # pytest's own are for root alone
        Path(folder).chmod(0o777)
        with (
            rpc.LocalServer([*command, "--until-eof", "--folder", folder]) as server,
            rpc.connect(server.port, key=server.key) as session,
        ):
            status = Path(f"/proc/{session.info()['process']}/status").read_text()
    assert "Uid:\t65534" in status
