"""``edgepipe measure --network`` with real edgepipe-rpcds in timed mode, and TVM's tracker.

The times of the cores are in the files beforehand, because compiling kernels takes long.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import EDGEPIPE, assert_fails, run
from measured_networks import check_of, entry, ranges_of, rehearsed, write_network
from needs import rpcd
from small_networks import Builder
from tvm.rpc.tracker import Tracker

from edgepipe import boards, rpc
from edgepipe.board_costs.network_ranges import MeasuredNetwork
from edgepipe.bundle import storage
from edgepipe.cli import network_measurement
from edgepipe.partition.measured.cost_file import CostFile, read
from edgepipe.rpc.link import Link, RpcServer
from edgepipe.rpc.session import Session

pytestmark = pytest.mark.sim
KEY = "slow-board"
SLOW_US = 1e7
BOARD = """\
name = "known"
description = "a board whose costs are known"
part = ""
architecture = "{architecture}"
cpu = "x86-64-v3"
cores = 2
bitstream = ""

[accelerator]
clock_hz = {clock_hz}
"""


@pytest.fixture(scope="module", autouse=True)
def program() -> Path:
    return rpcd()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    b = Builder(5)
    x = b.conv("image", "stem", (16, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    for number, channels in enumerate((32, 48, 64)):
        x = b.conv(x, f"conv{number}", (channels, [16, 32, 48][number], 1, 1))
    b.conv(x, "result", (8, 64, 1, 1))
    return write_network(tmp_path_factory.mktemp("net"), b.model([1, 3, 16, 16], {"result": 4}))


def board_file(folder: Path, clock_hz: int, architecture: str = "x86_64") -> Path:
    path = folder / "known.toml"
    path.write_text(BOARD.format(clock_hz=clock_hz, architecture=architecture))
    return path


def ranges_on(network: Path, board: boards.Board) -> MeasuredNetwork:
    return MeasuredNetwork(
        quantized=rehearsed(network).quantized,
        check=check_of(network, board),
        board=board,
        architecture="x86_64",
    )


def with_times(folder: Path, network: Path, board: Path, *left: str) -> Path:
    """Write a file that lacks only the times of the VTA, or of its operators ``left``.

    By this file the cores are so slow that the split has the same stages on them whatever the
    accelerator takes.
    """
    known = boards.load(str(board))
    made = CostFile.open(folder / "costs.toml", known.name, trial=True)
    for part in ranges_of(network, known):
        if part.device == "arm":
            made.add(entry(part, known, SLOW_US))
        elif left and part.names[0] not in left:
            made.add(entry(part, known, 1.0))
    ranges = ranges_on(network, known)
    for work in ranges.stages(made):
        if work.part.device == "arm":
            made.add(entry(work.part, known, SLOW_US))
        elif left:
            made.add(entry(work.part, known, 1.0))
    return made.path


def arguments(network: Path, board: Path, costs: Path, *more: str) -> list[str]:
    measure = ("measure", "--timed", "--allow-root", "--network", network, "--board", board)
    return [str(each) for each in (*measure, "-o", costs, "--repeat", "2", *more)]


def measured(costs: Path) -> dict[str, float]:
    """Return the times of the accelerator's single operators so far, and of its stages."""
    entries = read(costs).entries.values()
    return {e.key: e.us for e in entries if e.device == "vta" and e.us != 1.0}


def wait_for(process: subprocess.Popen[str], costs: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while len(measured(costs)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def tracker() -> Iterator[str]:
    running = Tracker(host="127.0.0.1", port=19390, port_end=19490)
    try:
        yield f"127.0.0.1:{running.port}"
    finally:
        running.terminate()


def offered(tracker: str) -> rpc.LocalServer:
    return rpc.LocalServer.start(options=["--tracker", tracker, "--key", KEY], allow_root=True)


def test_an_interrupted_measurement_goes_on_and_inspect_says_what_was_measured(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = board_file(tmp_path, 200_000)
    costs = with_times(tmp_path, network, board)
    command = arguments(network, board, costs)
    with subprocess.Popen([*EDGEPIPE, *command], stderr=subprocess.PIPE, text=True) as process:
        wait_for(process, costs, 2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "edgepipe: interrupted" in errors
    before = measured(costs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["costs.toml", "known.toml"]

    assert run(*command, "--json") == 0
    written = json.loads(capsys.readouterr().out)
    after = measured(costs)
    assert before.items() < after.items()
    assert sum(written["measured"].values()) >= len(after) - len(before)
    assert written["known"] >= len(before)
    singles = [e for e in written["ranges"] if e["device"] == "vta" and len(e["operators"]) == 1]
    assert {e["operators"][0] for e in singles} >= {"stem", "conv0", "conv1", "conv2"}
    for each in singles:  # the simulator takes what the model says, and this machine's own time
        assert 0 <= each["us"] - each["modelled_us"] < 3000

    assert run(*command) == 0
    assert "0 measured now, " in capsys.readouterr().out
    inspected = ("inspect", network, "--board", board, "--costs", costs)
    assert run(*inspected) == 0
    assert f"{costs}: 7 of 7 operators and " in capsys.readouterr().out
    assert run(*inspected, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert all(each["measured"] for each in (*found["operators"], *found["stages"]))
    assert {each["device"] for each in found["stages"]} == {"arm", "vta"}


def test_a_failure_is_remembered_and_tried_again_only_when_asked(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At 100 Hz a program takes many seconds."""
    board = board_file(tmp_path, 100)
    costs = with_times(tmp_path, network, board, "conv0")
    left = [e for e in ranges_of(network, boards.load(str(board))) if e.names == ("conv0",)]
    command = arguments(network, board, costs, "--limit", "1")
    began = time.monotonic()
    assert run(*command) == 0
    took = time.monotonic() - began
    shown = capsys.readouterr().out
    assert "no answer within 1 s" in shown
    failed = {e.key: e for e in read(costs).entries.values() if e.failure}
    key = next(e for e in left if e.device == "vta").key(boards.load(str(board)))
    assert failed[key].failure == "no answer within 1 s"
    text = costs.read_text()
    assert run(*command) == 0
    assert costs.read_text() == text
    assert "0 measured now, " in capsys.readouterr().out
    assert took > 2  # two sessions were lost


def test_a_farm_shares_the_work_and_a_board_that_dies_loses_nothing(
    network: Path, tmp_path: Path, tracker: str
) -> None:
    board = board_file(tmp_path, 50_000)
    costs = with_times(tmp_path, network, board)
    command = arguments(network, board, costs, "--tracker", tracker, "--key", KEY)
    with (
        offered(tracker) as first,
        offered(tracker) as second,
        subprocess.Popen(
            [*EDGEPIPE, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        wait_for(process, costs, 2)
        while not (first.log.count("session") and second.log.count("session")):
            assert process.poll() is None, "one of them got no work"
            time.sleep(0.01)
        first._process.kill()
        shown, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert ", 0 failed" in shown
    assert len(measured(costs)) >= 4


@pytest.mark.systems
def test_without_a_board_that_is_left_what_was_measured_stays(
    network: Path, tmp_path: Path, tracker: str
) -> None:
    board = board_file(tmp_path, 50_000)
    costs = with_times(tmp_path, network, board)
    command = arguments(network, board, costs, "--tracker", tracker, "--key", KEY, "--wait", "5")
    with (
        offered(tracker) as only,
        subprocess.Popen([*EDGEPIPE, *command], stderr=subprocess.PIPE, text=True) as process,
    ):
        wait_for(process, costs, 1)
        only._process.kill()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "no board is left to measure on" in errors
    hint = "measure again: what costs.toml holds is not measured again"
    assert hint in errors
    assert measured(costs)


@pytest.mark.systems
def test_a_client_that_is_killed_frees_its_board(
    network: Path, tmp_path: Path, tracker: str
) -> None:
    board = board_file(tmp_path, 50_000)
    costs = with_times(tmp_path, network, board)
    command = arguments(network, board, costs, "--tracker", tracker, "--key", KEY)
    with offered(tracker):
        with subprocess.Popen([*EDGEPIPE, *command], stderr=subprocess.DEVNULL) as process:
            wait_for(process, costs, 1)  # type: ignore[arg-type]
            process.kill()
        port = int(tracker.rpartition(":")[2])
        at = RpcServer(port=port, key=KEY, tracker=True, timeout_s=60)
        with Session(Link(at)) as session:
            assert session.info()["process"] > 0
    assert measured(costs)


def test_a_tracker_that_cannot_be_used_is_named(
    network: Path, tmp_path: Path, tracker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    board, costs = board_file(tmp_path, 200_000), tmp_path / "costs.toml"

    def refused(*more: str) -> int:
        return run(*arguments(network, board, costs, *more, "--wait", "1"))

    assert_fails(
        capsys, refused("--tracker", tracker, "--key", "none"),
        f"RPC tracker {tracker}: no board offers itself as 'none'; it has no boards at all",
        "offer boards with `edgepipe rpc offer`, or correct the name",
    )  # fmt: skip
    assert_fails(
        capsys, refused("--tracker", "127.0.0.1:1", "--key", KEY), "does not answer",
        "start one there with `edgepipe rpc tracker`, or correct its address",
    )  # fmt: skip
    assert_fails(
        capsys, refused("--tracker", "lab", "--key", KEY), "found 'lab', expected HOST:PORT",
        "give the address that the tracker prints, such as 127.0.0.1:9190",
    )  # fmt: skip
    assert_fails(
        capsys, refused("--tracker", tracker),
        "boards at a tracker: expected --tracker with --key, and no --host",
        "add --tracker HOST:PORT --key NAME, or name one board with --host",
    )  # fmt: skip
    plain = ("measure", "--board", str(board), "-o", str(costs), "--tracker", tracker)
    assert_fails(
        capsys, run(*plain),
        "--tracker, --key and --dask share the operators of a network among boards",
        "name the network: --network MODEL",
    )  # fmt: skip
    assert not costs.exists()


def test_a_trial_measures_for_a_board_with_another_processor(network: Path, tmp_path: Path) -> None:
    board = board_file(tmp_path, 200_000, "aarch64")
    costs = with_times(tmp_path, network, board, "conv1")
    assert run(*arguments(network, board, costs)) == 0
    assert measured(costs)


def test_kernels_of_a_trial_are_for_this_machine_and_take_the_boards_time(
    network: Path, tmp_path: Path
) -> None:
    known = boards.load(str(board_file(tmp_path, 200_000, "aarch64")))
    ranges = ranges_on(network, known)
    work = next(w for w in ranges.singles() if w.part.device == "arm" and w.part.names == ("stem",))
    manifest = storage.read_manifest(ranges.write(ranges.compiled(work), tmp_path / "range"))
    assert manifest.architectures == ("x86_64",)
    (stage,) = manifest.stages
    assert stage.modelled_us == round(ranges.modelled_us(work)) > 0


def test_a_trial_on_machines_of_another_architecture_is_refused(
    network: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_measurement, "this_architecture", lambda: "armhf")
    code = run(*arguments(network, board_file(tmp_path, 200_000), tmp_path / "costs.toml"))
    message = "is x86_64, but the kernels of this trial are for armhf"
    assert_fails(capsys, code, message, "offer only machines with the architecture of this one")
