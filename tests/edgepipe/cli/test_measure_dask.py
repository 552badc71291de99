"""``edgepipe measure --network --dask``: workers of a local cluster, and boards of a tracker.

The boards are edgepipe-rpcds in timed mode. The times of the cores are in the files beforehand.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import EDGEPIPE, assert_fails, run
from needs import rpcd
from test_measure_network import KEY, arguments, board_file, measured, wait_for, with_times
from test_measure_network import network as network  # a fixture
from tvm.rpc.tracker import Tracker

from edgepipe import cluster, rpc
from edgepipe.errors import ClusterError
from edgepipe.partition.measured.cost_file import Entry, read

pytestmark = pytest.mark.sim

BOARDS = 2


@pytest.fixture(scope="module")
def tracker() -> Iterator[str]:
    running = Tracker(host="127.0.0.1", port=19910, port_end=19990)
    yield f"127.0.0.1:{running.port}"
    running.terminate()


@pytest.fixture
def boards(tracker: str) -> Iterator[list[rpc.LocalServer]]:
    options = ["--tracker", tracker, "--key", KEY]
    servers = [rpc.LocalServer.start(rpcd(), options, allow_root=True) for _ in range(BOARDS)]
    end = time.monotonic() + 60
    at = rpc.Tracker.at(tracker)
    while len(servers) != getattr(at.kinds().get(KEY), "free", 0):
        assert time.monotonic() < end
        time.sleep(0.05)
    yield servers
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory):
    """Return a cluster of two workers, each with a nanny that starts it again."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        local_directory=str(tmp_path_factory.mktemp("dask")),
    ) as running:
        yield running


def address(dask: object) -> str:
    return str(dask.scheduler_address).removeprefix("tcp://")  # type: ignore[attr-defined]


def figures(costs: Path) -> dict[str, Entry]:
    """Return all that a measurement wrote but the times that a clock gave."""
    return {
        key: dataclasses.replace(entry, us=0.0, date="")
        for key, entry in read(costs).entries.items()
    }


def farm(network: Path, board: Path, costs: Path, tracker: str, *more: str) -> list[str]:
    where = ("--tracker", tracker, "--key", KEY, "--wait", "30")
    return arguments(network, board, costs, *where, *more)


def test_the_workers_measure_what_one_machine_measures(
    network: Path, tmp_path: Path, tracker: str, boards: list[rpc.LocalServer], dask: object,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    board = board_file(tmp_path, 200_000)
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    here = with_times(tmp_path / "here", network, board)
    there = with_times(tmp_path / "there", network, board)
    assert here.read_bytes() == there.read_bytes()
    assert run(*farm(network, board, here, tracker)) == 0
    assert run(*farm(network, board, there, tracker, "--dask", address(dask))) == 0
    assert figures(there) == figures(here)
    assert all(entry.us > 0 for entry in read(there).entries.values())
    assert all("begins" in each.log for each in boards)
    capsys.readouterr()

    text = there.read_bytes()
    assert run(*farm(network, board, there, tracker, "--dask", address(dask))) == 0
    assert "0 measured now" in capsys.readouterr().out
    assert there.read_bytes() == text


@pytest.mark.systems
def test_what_takes_too_long_fails_with_the_words_of_one_machine(
    network: Path, tmp_path: Path, tracker: str, boards: list[rpc.LocalServer], dask: object
) -> None:
    """At 100 Hz a program takes many seconds; these records are the same to the bit."""
    board = board_file(tmp_path, 100)
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    here = with_times(tmp_path / "here", network, board, "conv0")
    there = with_times(tmp_path / "there", network, board, "conv0")
    assert run(*farm(network, board, here, tracker, "--limit", "1")) == 0
    command = farm(network, board, there, tracker, "--limit", "1", "--dask", address(dask))
    assert run(*command) == 0
    assert "no answer within 1 s" in there.read_text()
    assert read(there).entries == read(here).entries


@pytest.mark.systems
def test_work_of_a_worker_that_dies_is_repeated_and_its_board_is_free_again(
    network: Path, tmp_path: Path, tracker: str, boards: list[rpc.LocalServer], dask: object
) -> None:
    from distributed import Client

    board = board_file(tmp_path, 50_000)
    costs = with_times(tmp_path, network, board)
    command = farm(network, board, costs, tracker, "--dask", address(dask))
    with (
        Client(dask, set_as_default=False) as client,
        subprocess.Popen(
            [*EDGEPIPE, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        wait_for(process, costs, 1)
        while not any(busy(each) for each in boards):
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        os.kill(victim, signal.SIGKILL)
        shown, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert ", 0 failed" in shown
    assert len(measured(costs)) >= 4
    end = time.monotonic() + 60
    while rpc.Tracker.at(tracker).kinds()[KEY].free != BOARDS:
        assert time.monotonic() < end
        time.sleep(0.05)


def busy(board: rpc.LocalServer) -> bool:
    return board.log.count(" begins") > board.log.count(" ended")


def test_workers_without_such_boards_are_refused(
    network: Path, tmp_path: Path, tracker: str, dask: object, capsys: pytest.CaptureFixture[str]
) -> None:
    board = board_file(tmp_path, 200_000)
    costs = tmp_path / "costs.toml"
    at = ("--dask", address(dask))
    command = arguments(network, board, costs, "--tracker", tracker, "--key", "none", *at)
    hint = "offer boards with `edgepipe rpc offer`, or correct the name"
    assert_fails(
        capsys, run(*command), f"RPC tracker {tracker}: no board offers itself as 'none'", hint
    )
    assert_fails(
        capsys, run(*arguments(network, board, costs, *at)),
        "boards at a tracker: expected --tracker with --key, and no --host",
        "add --tracker HOST:PORT --key NAME, or name one board with --host",
    )  # fmt: skip
    assert_fails(
        capsys, run("measure", "--board", board, "-o", costs, *at),
        "--tracker, --key and --dask share the operators of a network among boards",
        "name the network: --network MODEL",
    )  # fmt: skip
    assert not costs.exists()


def test_a_task_that_workers_cannot_run_is_an_error(dask: object) -> None:
    with cluster.connected(address(dask)) as workers:
        with pytest.raises(ClusterError, match="a worker failed: ZeroDivisionError") as caught:
            workers.everywhere(divmod, 1, 0)
        assert caught.value.hint == "a worker's log says more"
