"""``edgepipe rpc offer``: a server for the clients of TVM's tracker."""

from __future__ import annotations

import subprocess
import sys

import pytest
from needs import rpcd
from tvm.rpc.tracker import Tracker

from edgepipe.rpc.link import Link, RpcServer
from edgepipe.rpc.session import Session

pytestmark = pytest.mark.sim


def test_the_command_offers_this_machine_to_a_tracker_until_its_input_ends() -> None:
    rpcd()
    tracker = Tracker(host="127.0.0.1", port=19490, port_end=19590)
    command = [
        sys.executable,
        "-m",
        "edgepipe",
        "rpc",
        "offer",
        "--tracker",
        f"127.0.0.1:{tracker.port}",
    ]
    try:
        with subprocess.Popen(
            [*command, "--key", "u96", "--allow-root"],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said == f"offered as u96 at 127.0.0.1:{tracker.port}\n"
            at = RpcServer(port=tracker.port, key="u96", tracker=True, timeout_s=30)
            with Session(Link(at)) as session:
                assert session.info()["process"] > 0
            process.communicate("")
        assert process.returncode == 0
    finally:
        tracker.terminate()
