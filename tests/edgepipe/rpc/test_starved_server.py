"""An edgepipe-rpcd that finds no memory ends one session, or itself in order, with an error."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import pytest
import starved_programs
from needs import rpcd
from small_networks import build_small_bundle

from edgepipe import rpc
from edgepipe.errors import RpcError
from edgepipe.rpc.server import LocalServer

pytestmark = pytest.mark.sim


class Starvation:
    """Lets an allocation fail in a running program that has the preloaded library."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_bytes(bytes(mmap.PAGESIZE))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), mmap.PAGESIZE)

    def begin(self, process: int, allocation: int) -> None:
        self._memory[8:24] = struct.pack("@ll", allocation, 0)
        self._memory[0:8] = struct.pack("@l", process)

    def end(self) -> bool:
        """Return whether the allocation has failed."""
        self._memory[0:8] = bytes(8)
        return struct.unpack("@l", self._memory[8:16])[0] == 0


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return starved_programs.compile_library(tmp_path_factory.mktemp("starved"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return build_small_bundle(tmp_path_factory.mktemp("starved"))


@pytest.fixture
def starvation(tmp_path):
    return Starvation(tmp_path / "control")


@pytest.fixture
def server(library, starvation, tmp_path):
    command = [
        "env",
        f"LD_PRELOAD={library}",
        f"EDGEPIPE_TEST_STARVING={starvation.file}",
        str(rpcd()),
        "--until-eof",
        "--allow-root",
        "--folder",
        str(tmp_path),
    ]
    with LocalServer(command) as running:
        yield running


def parent_of(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def test_every_allocation_of_the_server_in_turn(server, starvation, tmp_path):
    with rpc.connect(server.port, key=server.key) as session:
        pid = parent_of(session.info()["process"])
    refused = 0
    for allocation in range(1, 200):
        starvation.begin(pid, allocation)
        try:
            with rpc.connect(server.port, key=server.key) as session:
                session.info()
        except RpcError:
            refused += 1
        if not starvation.end():
            break
        assert Path("/proc", str(pid)).exists(), (allocation, server.log)
    assert 10 < allocation < 199
    assert 5 < refused < allocation
    assert "edgepipe-rpcd: out of memory\n" in server.log
    with rpc.connect(server.port, key=server.key) as session:
        assert session.info()["process"] > 0
        assert len(list(tmp_path.glob("edgepipe-rpc-*"))) == 1  # those of failed sessions are gone


def test_a_golden_run_that_finds_no_memory_ends_its_session(server, starvation, bundle):
    for allocation in (30, 300, 1000, 2500):
        with (
            rpc.connect(server.port, key=server.key) as session,
            pytest.raises(RpcError),
        ):
            starvation.begin(session.info()["process"], allocation)
            session.run_golden(bundle)
        assert starvation.end(), allocation
    with rpc.connect(server.port, key=server.key) as session:
        assert session.run_golden(bundle, repeat=1).network == "net"
    assert "terminate" not in server.log


def test_every_allocation_of_a_call_in_turn(server, starvation):
    failed = 0
    for allocation in range(1, 400):
        with rpc.connect(server.port, key=server.key) as session:
            starvation.begin(session.info()["process"], allocation)
            try:
                assert session.info()["process"] > 0
            except RpcError:
                failed += 1
            reached = starvation.end()
        if not reached:
            break
    assert failed > 3
    assert allocation < 399
    assert "terminate" not in server.log
    with rpc.connect(server.port, key=server.key) as session:
        assert session.info()["process"] > 0
