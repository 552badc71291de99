"""RPC sessions through a real sshd: start, tunnel, and end with the connection."""

import time
from pathlib import Path

import pytest
from needs import BUILD, rpcd

from edgepipe import rpc
from edgepipe.cli.main import main


@pytest.fixture
def program():
    return str(rpcd())


def test_a_session_through_the_tunnel_sees_the_board(board, program):
    opened = rpc.open_board(board.name, ssh_config=board.ssh_config, program=program)
    with opened as port, rpc.connect(port) as session:
        assert session.info()["machine"]


def test_a_link_that_is_cut_ends_the_session_s_process_on_the_board(board, program):
    opened = rpc.open_board(board.name, ssh_config=board.ssh_config, program=program)
    with opened as port, rpc.connect(port) as session:
        process = session.info()["process"]
        board.link.cut()
        end = time.monotonic() + 20
        while _is_alive(process) and time.monotonic() < end:
            time.sleep(0.05)
        assert not _is_alive(process)


def test_a_board_without_the_server_is_an_error(board, capsys):
    arguments = ["--host", board.name, "--ssh-config", str(board.ssh_config)]
    assert main(["rpc", "open", *arguments, "--server", "/nowhere/edgepipe-rpcd"]) == 1
    assert "the RPC server did not start" in capsys.readouterr().err


def test_a_board_for_which_no_server_was_built_is_an_error(board, program, capsys):
    assert not (BUILD / "tvm-x86_64").exists()  # boards are aarch64 and armhf
    assert main(["rpc", "open", "--host", board.name, "--ssh-config", str(board.ssh_config)]) == 1
    said = capsys.readouterr().err
    assert "libtvm_runtime.so: not found for x86_64 boards" in said
    assert "hint: `make board` fetches it" in said


def _is_alive(process):
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] != "Z"
