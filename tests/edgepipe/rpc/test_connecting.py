"""Finding the socket of a session that TVM's client has opened."""

from __future__ import annotations

import threading

import pytest
from needs import rpcd

from edgepipe import rpc
from edgepipe.rpc.connecting import open_session

pytestmark = pytest.mark.sim


class _FinishedAtOnce(threading.Thread):
    """A thread that ends before its starter goes on, as may happen on a loaded machine."""

    def start(self) -> None:
        super().start()
        self.join()


def test_a_session_that_opens_at_once_has_its_socket(monkeypatch):
    with rpc.LocalServer.start(rpcd(), allow_root=True) as server:
        monkeypatch.setattr(threading, "Thread", _FinishedAtOnce)
        opened = open_session("127.0.0.1", server.port, server.key)
        monkeypatch.undo()
        assert opened.socket is not None
        assert opened.socket.getpeername()[1] == server.port
        assert opened.descriptor >= 0
        opened.socket.close()
