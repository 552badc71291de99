"""The hints of errors in connections to a board, each checked by its text."""

import socket

import pytest

from edgepipe.deploy import deployment
from edgepipe.deploy.connection import Connection, Target
from edgepipe.errors import DeployError


def connect_hint(target):
    with pytest.raises(DeployError) as caught, Connection(target):
        pass
    return caught.value.hint


def test_a_name_that_is_unknown():
    target = Target(host="no-such-board.invalid", root="edgepipe")
    assert connect_hint(target) == "check the name: `ssh no-such-board.invalid` must work"


def test_a_board_that_hangs_up(board):
    board.link.cut()
    assert connect_hint(board.target()) == "`ssh board` must work without a password"


def test_a_board_that_is_off(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    config = tmp_path / "ssh_config"
    config.write_text(f"Host board\n  HostName 127.0.0.1\n  Port {port}\n")
    target = Target(host="board", root="edgepipe", ssh_config=config)
    assert connect_hint(target) == "check that the board is on and that `ssh board` works"


def test_a_machine_without_ssh(board, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert connect_hint(board.target()) == "install the OpenSSH client"


def test_a_tunnel_from_a_port_that_is_taken(board):
    with socket.create_server(("127.0.0.1", 0)) as taken, Connection(board.target()) as connection:
        port = taken.getsockname()[1]
        with pytest.raises(DeployError, match="board: no tunnel to port 9090") as caught:
            connection.forward(port, 9090)
    assert caught.value.hint == (
        f"another program on this machine may have taken port {port}: try again"
    )


def test_an_accelerator_in_use(board, make_bundle, options):
    source = deployment.open_source(make_bundle(verdict="another process uses it"))
    with pytest.raises(DeployError, match="another process uses it") as caught:
        deployment.deploy(board.target(), source, options)
    assert caught.value.hint == (
        "stop the process that uses the accelerator, or let edgepipe's systemd unit run it"
    )
