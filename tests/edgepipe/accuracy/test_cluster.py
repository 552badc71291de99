"""``edgepipe accuracy --dask``: a real scheduler and real workers, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import small_networks

import edgepipe
from edgepipe import cluster as dask_cluster
from edgepipe.accuracy import cluster
from edgepipe.accuracy.data import Sample, read_pictures
from edgepipe.accuracy.devices import Simulated
from edgepipe.bundle import storage
from edgepipe.cli.main import main
from edgepipe.errors import ClusterError

pytestmark = pytest.mark.sim

PICTURES = 3 * cluster.BATCH + 5
ROOT = Path(__file__).parents[3]


class Dask:
    """A scheduler on a free port of this machine, and its workers."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._environment = os.environ | settings | {"PYTHONPATH": str(ROOT)}
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        self.address = self._read_address().removeprefix("tcp://")
        self.workers: list[subprocess.Popen[bytes]] = []

    def add_worker(self) -> None:
        """Start a worker that is not started again when it dies."""
        self.workers.append(self._start("worker", "--nthreads", "1", "--no-nanny"))

    def wait_for_workers(self) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(len(self.workers), timeout=60)

    def _read_address(self) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            # The scheduler makes its file first, and writes it then.
            with suppress(FileNotFoundError, json.JSONDecodeError):
                return json.loads(self._file.read_text())["address"]
            time.sleep(0.05)
        raise TimeoutError(f"Dask's scheduler has not written {self._file} within 60 s")

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", what, "--scheduler-file", str(self._file)]
        return subprocess.Popen(
            [*command, "--no-dashboard", *options],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def end(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()


@contextmanager
def dask(folder: Path, *, workers: int, **settings: str) -> Iterator[Dask]:
    folder.mkdir(exist_ok=True)
    running = Dask(folder, **settings)
    try:
        for _ in range(workers):
            running.add_worker()
        if workers:
            running.wait_for_workers()
        yield running
    finally:
        running.end()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle, with its network and pictures beside it."""
    folder = tmp_path_factory.mktemp("bundle")
    bundle = small_networks.build_small_bundle(folder, "ultra96", 16)
    random = np.random.default_rng(3)
    frames = random.integers(0, 256, (PICTURES, 1, 16, 16, 3)).astype(np.uint8)
    np.savez(folder / "test.npz", frames=frames[:, 0])
    return bundle


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    with dask(tmp_path_factory.mktemp("dask"), workers=2) as running:
        yield running


def pictures(built: Path):
    return list(read_pictures(built.parent / "test.npz", storage.read_manifest(built).preprocess))


def content(answers) -> list[tuple[str, dict[str, bytes]]]:
    return [(p.name, {k: v.tobytes() for k, v in out.items()}) for p, out in answers]


def test_every_picture_has_the_bits_of_this_machine_in_order(built: Path, two: Dask) -> None:
    given = pictures(built)
    assert len(given) == PICTURES
    with cluster.connected(two.address, built) as workers:
        found = content(workers.run(given))
        assert workers.name == "simulator"
    assert found == content(Simulated(built).run(given))


@pytest.mark.systems
def test_work_of_a_worker_that_dies_is_done_by_another(built: Path, tmp_path: Path) -> None:
    given = pictures(built)
    with (
        dask(tmp_path / "dask", workers=2) as running,
        cluster.connected(running.address, built) as workers,
    ):
        answers = workers.run(given)
        first = next(answers)
        running.workers[0].kill()
        found = content([first, *answers])
    assert found == content(Simulated(built).run(given))


def failure(built: Path, running: Dask, victim: subprocess.Popen[bytes]) -> str:
    """Return the error of a run during which a process is killed."""
    with cluster.connected(running.address, built) as workers:
        answers = workers.run(pictures(built) * 20)
        next(answers)
        victim.kill()
        with pytest.raises(ClusterError) as caught:
            list(answers)
    return f"{caught.value}: {caught.value.hint}"


@pytest.mark.systems
def test_a_batch_that_every_worker_died_of_is_an_error(built: Path, tmp_path: Path) -> None:
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with dask(tmp_path / "dask", workers=2, **settings) as running:
        said = failure(built, running, running.workers[0])
    assert f"Dask at {running.address}: every worker that ran a batch of pictures died" in said
    assert "a worker's log says why; one with less memory than it needs is killed" in said


class Unknown:
    """A class that no worker can import."""


def test_a_batch_that_a_worker_cannot_run_is_an_error(built: Path, two: Dask) -> None:
    picture = Sample(name="0", frame=np.array([Unknown()], object), size=(1, 1))
    with cluster.connected(two.address, built) as workers, pytest.raises(ClusterError) as caught:
        list(workers.run([picture]))
    assert f"Dask at {two.address}: a batch of pictures failed: " in str(caught.value)
    assert caught.value.hint == "a worker's log says more"


@pytest.mark.systems
def test_a_cluster_that_loses_all_workers_is_an_error(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "PATIENCE_S", 2.0)
    with dask(tmp_path / "dask", workers=1) as running:
        said = failure(built, running, running.workers[0])
    assert f"Dask at {running.address}: the scheduler has no workers" in said
    assert f"start one on each machine: dask worker {running.address}" in said


def test_a_scheduler_that_dies_is_an_error(built: Path, tmp_path: Path) -> None:
    with dask(tmp_path / "dask", workers=1) as running:
        said = failure(built, running, running.scheduler)
    assert f"Dask at {running.address}: the connection to the scheduler was lost" in said
    assert "start the scheduler and its workers again, and repeat the command" in said


def refused(address: str, built: Path) -> str:
    with pytest.raises(ClusterError) as caught, cluster.connected(address, built) as workers:
        list(workers.run(pictures(built)))
    return f"{caught.value}: {caught.value.hint}"


@pytest.mark.parametrize("address", ["", "board", "board:port", "tcp://", ":8786"])
def test_what_is_no_address_is_refused(built: Path, address: str) -> None:
    said = refused(address, built)
    assert f"Dask at {address!r}: expected HOST:PORT, as the scheduler prints it" in said
    assert "give the address of a scheduler, such as 192.168.2.1:8786" in said


def test_a_port_where_nothing_listens_is_an_error(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    said = refused(address, built)
    assert f"Dask at {address}: no scheduler answers within 1 s" in said
    assert "start it on that machine with `dask scheduler`, and let its port through" in said


def test_a_server_that_says_nothing_is_an_error_in_time(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        begun = time.monotonic()
        assert "no scheduler answers within 1 s" in refused(address, built)
    assert time.monotonic() - begun < 60


def test_a_scheduler_without_workers_is_an_error(built: Path, tmp_path: Path) -> None:
    with dask(tmp_path / "dask", workers=0) as running:
        said = refused(running.address, built)
    assert f"Dask at {running.address}: the scheduler has no workers" in said
    assert f"start one on each machine: dask worker {running.address}" in said


def test_another_version_on_a_worker_is_refused(
    built: Path, two: Dask, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = edgepipe.__version__
    monkeypatch.setattr(dask_cluster, "__version__", "9.9")
    said = refused(two.address, built)
    assert f"has edgepipe {theirs}, expected 9.9" in said
    assert "install edgepipe 9.9 there, and start the worker again" in said


def test_a_worker_without_edgepipe_is_refused(built: Path, tmp_path: Path) -> None:
    (tmp_path / "dask").mkdir()
    (tmp_path / "dask" / "edgepipe").mkdir()  # found first, because the worker runs beside it
    (tmp_path / "dask" / "edgepipe" / "__init__.py").write_text("raise ImportError('not here')\n")
    with dask(tmp_path / "dask", workers=1) as running:
        said = refused(running.address, built)
    assert f"Dask at {running.address}: a worker cannot import edgepipe" in said
    assert f"install edgepipe {edgepipe.__version__} there, and start the worker again" in said


def test_without_dask_the_error_says_what_to_install(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = refused("127.0.0.1:8786", built)
    assert "Dask at 127.0.0.1:8786: distributed is not installed here" in said
    assert "pip install 'edgepipe[dask]', here and on every worker" in said


def accuracy(built: Path, *arguments: str) -> int:
    folder = built.parent
    files = ["--network", str(folder / "net.onnx"), "--data", str(folder / "test.npz")]
    files += ["--calib", str(folder / "frames.npz")]
    return main(["accuracy", str(built), *files, *arguments])


def test_the_command_prints_the_same_report(
    built: Path, two: Dask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("".join(f"{number},{number % 3}\n" for number in range(PICTURES)))
    options = ("--labels", str(labels), "--layer-pictures", "2", "--json")
    assert accuracy(built, *options) == 0
    here = capsys.readouterr().out
    assert accuracy(built, *options, "--dask", two.address) == 0
    assert capsys.readouterr().out == here
    assert json.loads(here)["pictures"] == PICTURES


def test_workers_and_a_board_exclude_each_other(
    built: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accuracy(built, "--dask", "127.0.0.1:1", "--host", "door") == 1
    said = capsys.readouterr().err
    assert "Dask at 127.0.0.1:1: its workers have simulators, and no board" in said
    assert "omit --host and --device, or --dask" in said


def test_an_interrupt_ends_the_command_and_its_tasks(
    built: Path, two: Dask, tmp_path: Path
) -> None:
    module = tmp_path / "slow.py"
    module.write_text(
        "import time\ndef peak(name, outputs):\n    print('picture', flush=True)\n"
        "    time.sleep(0.2)\n    return 1.0\n"
    )
    folder = built.parent
    command = [sys.executable, "-m", "edgepipe", "accuracy", str(built), "--metric", "slow:peak"]
    command += ["--network", str(folder / "net.onnx"), "--calib", str(folder / "frames.npz")]
    command += ["--data", str(folder / "test.npz"), "--dask", two.address, "--layer-pictures", "0"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "picture\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
