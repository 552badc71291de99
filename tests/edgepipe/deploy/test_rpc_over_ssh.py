"""RPC sessions through a real sshd: start, tunnel, and end with the connection."""

import contextlib
import os
import time
from pathlib import Path

import pytest
from needs import BUILD, rpcd
from tvm.rpc.tracker import Tracker

from edgepipe import rpc
from edgepipe.cli.main import main
from edgepipe.deploy.connection import Connection, Target
from edgepipe.errors import DeployError, RpcError
from edgepipe.rpc.link import Link, RpcServer


@pytest.fixture
def program():
    return str(rpcd())


def test_a_session_through_the_tunnel_sees_the_board(board, program):
    opened = rpc.open_board(
        board.name, ssh_config=board.ssh_config, program=program, allow_root=True
    )
    with opened as server, rpc.connect(server.port, key=server.key) as session:
        assert session.info()["machine"]


def test_a_link_that_is_cut_ends_the_session_s_process_on_the_board(board, program):
    opened = rpc.open_board(
        board.name, ssh_config=board.ssh_config, program=program, allow_root=True
    )
    with opened as server, rpc.connect(server.port, key=server.key) as session:
        process = session.info()["process"]
        board.link.cut()
        end = time.monotonic() + 20
        while _is_alive(process) and time.monotonic() < end:
            time.sleep(0.05)
        assert not _is_alive(process)


def test_a_board_behind_ssh_serves_the_clients_of_a_tracker_one_after_another(board, program):
    tracker = Tracker(host="127.0.0.1", port=19590, port_end=19690)
    at = RpcServer(port=tracker.port, key="slow-board", tracker=True, timeout_s=30)
    try:
        with rpc.offer_board(
            board.name, ("127.0.0.1", tracker.port), at.key, ssh_config=board.ssh_config,
            program=program, allow_root=True,
        ):  # fmt: skip
            for _ in range(2):
                with rpc.Session(Link(at)) as session:
                    assert session.info()["machine"]
    finally:
        tracker.terminate()


def test_a_board_that_refuses_a_tunnel_cannot_be_offered(board, program):
    with pytest.raises(DeployError, match="no tunnel from the board to none:1") as caught:
        connection = Connection(Target(host=board.name, root="r", ssh_config=board.ssh_config))
        with connection:
            connection._control_path += ".gone"
            connection.forward_back("none", 1)
    assert caught.value.hint == "let sshd on the board forward ports: AllowTcpForwarding yes"


def test_only_the_one_who_opened_the_tunnel_has_the_key(board, program):
    opened = rpc.open_board(
        board.name, ssh_config=board.ssh_config, program=program, allow_root=True
    )
    with opened as server:
        for guess in ("", "edgepipe"):
            with pytest.raises(RpcError, match="no RPC session"):
                rpc.connect(server.port, key=guess)
        assert server.key not in repr(server) + str(server)
        commands = list(_commands())
        assert any(b"pytest" in command or b"python" in command for command in commands)
        assert not any(server.key.encode() in command for command in commands)
        with rpc.connect(server.port, key=server.key) as session:
            assert session.info()["process"] > 0


def test_a_login_as_root_is_refused(board, program, capsys):
    if os.geteuid() != 0:
        pytest.skip("the test's sshd logs in as the user who runs it, who is not root")
    arguments = ["--host", board.name, "--ssh-config", str(board.ssh_config)]
    assert main(["rpc", "open", *arguments, "--server", program]) == 1
    said = capsys.readouterr().err
    assert "the RPC server does not run as root" in said
    assert "hint: log in as the user to whom setup.sh gave access" in said
    assert "--allow-root" in said


def test_a_board_without_the_server_is_an_error(board, capsys):
    arguments = ["--host", board.name, "--ssh-config", str(board.ssh_config)]
    assert main(["rpc", "open", *arguments, "--server", "/nowhere/edgepipe-rpcd"]) == 1
    assert "the RPC server did not start" in capsys.readouterr().err


def test_a_board_for_which_no_server_was_built_is_an_error(board, program, capsys):
    for folder in ("tvm-x86_64", "x86_64"):
        assert not (BUILD / folder).exists()  # boards are aarch64 and armhf
    assert main(["rpc", "open", "--host", board.name, "--ssh-config", str(board.ssh_config)]) == 1
    said = capsys.readouterr().err
    assert "libtvm_runtime.so: not found for x86_64 boards" in said
    assert "hint: install edgepipe-boards, or build it with `make board`" in said


def _commands():
    """Yield the command lines of all processes of this machine."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended since
            yield (process / "cmdline").read_bytes()


def _is_alive(process):
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] != "Z"
