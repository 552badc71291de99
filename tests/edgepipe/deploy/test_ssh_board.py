"""The link to the boards of deploy tests, which must not take connections of the links after it."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest
from ssh_board import Link


def test_a_closed_link_accepts_nothing():
    with socket.create_server(("127.0.0.1", 0)) as board:
        link = Link(board.getsockname()[1])
        link.close()
        link.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", link.port))


def test_closed_links_take_no_connection_of_another_after_the_process_was_stopped():
    with socket.create_server(("127.0.0.1", 0)) as board:
        for _ in range(8):
            Link(board.getsockname()[1]).close()
        link = Link(board.getsockname()[1])  # has a descriptor that one of them had
        stop = f"kill -STOP {os.getpid()}; sleep 0.05; kill -CONT {os.getpid()}"
        subprocess.run(["sh", "-c", stop], check=True)
        for _ in range(8):
            with socket.create_connection(("127.0.0.1", link.port)) as client:
                near, _ = board.accept()
                with near:
                    near.sendall(b"hello")
                    assert client.recv(5) == b"hello"
        link.close()
