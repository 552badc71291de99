"""Which probes are run, and what happens to one that has a fault."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgepipe import boards
from edgepipe.board_costs import measuring
from edgepipe.board_costs.measuring import MeasureOptions
from edgepipe.board_costs.probes import probe_programs
from edgepipe.board_costs.record import Record
from edgepipe.board_costs.runner import check_machine
from edgepipe.errors import BoardError, RpcError
from edgepipe.progress import Silent

BOARD = boards.load("ultra96")


class FakeSession:
    """A session with a board whose stages take 7 us, 6 of them on the accelerator.

    With ``fault``, they have it.
    """

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.runs = 0
        self.is_open = False

    @contextlib.contextmanager
    def opened(self, path: Path, device: str) -> Iterator[str]:
        assert (path.name, device) == ("a.edgepipe", "auto")
        self.is_open = True
        yield "runner"
        self.is_open = False

    def function(self, module: Any, name: str) -> Any:
        def run_stage(index: int) -> None:
            assert self.is_open
            self.runs += 1

        stage = {"min_us": 7.0, "device_min_us": 6.0, "fault": self.fault}
        return {
            "run_stage": run_stage,
            "statistics": lambda: json.dumps([stage, stage]),
            "describe": lambda: json.dumps({"device": "uio"}),
            "set_threads": lambda threads: None,
        }[name]


def time_stages(session: Any, record: Record) -> str:
    programs = probe_programs(BOARD.accelerator, BOARD.timing)
    chosen = {name: programs[name] for name in ("nothing", "gemm_steps")}
    options = MeasureOptions(record=record.path, host="door", repeat=3)
    return measuring._time_stages(session, Path("a.edgepipe"), chosen, options, record, Silent())


def test_only_what_has_no_time_yet_is_measured(tmp_path: Path) -> None:
    session, record = FakeSession(), Record(tmp_path / "a", "x", {"nothing": 5.0})
    assert time_stages(session, record) == "uio"
    assert record.times_us == {"nothing": 5.0, "gemm_steps": 6.0}
    assert session.runs == 1 + 2 * 3  # once more, because the first three may all be late
    assert not session.is_open  # so that the next bundle has the accelerator


def test_the_empty_program_shows_what_the_host_takes_for_a_launch(tmp_path: Path) -> None:
    record = Record(tmp_path / "a", "x")
    time_stages(FakeSession(), record)
    assert record.times_us == {"host": 1.0, "nothing": 6.0, "gemm_steps": 6.0}


def test_a_probe_with_a_fault_is_an_error(tmp_path: Path) -> None:
    record = Record(tmp_path / "a", "x")
    with pytest.raises(BoardError, match="'nothing' did not run without a fault: hung") as caught:
        time_stages(FakeSession("hung"), record)
    assert caught.value.hint == "examine the board"
    assert (caught.value.option, caught.value.value) == ("examination", "door")
    assert record.times_us == {}


@pytest.mark.parametrize("broken", ["", "connection lost"])
def test_a_lost_session_leaves_what_was_measured(broken: str, tmp_path: Path) -> None:
    session: Any = SimpleNamespace(exchange=SimpleNamespace(broken=broken))
    with (
        pytest.raises(RpcError) as caught,
        measuring._repeatable(session, tmp_path / "a.toml.measured"),
    ):
        raise RpcError("RPC: code=kShutdown", hint="of the call")
    if not broken:
        assert (str(caught.value), caught.value.hint) == ("RPC: code=kShutdown", "of the call")
        return
    assert str(caught.value) == "the session with the board has ended: RPC: code=kShutdown"
    assert caught.value.hint == "measure again: what a.toml.measured holds is not measured again"


def test_another_architecture_is_refused() -> None:
    machine = {"host": "door", "machine": "armv7l", "has_accelerator": True}
    with pytest.raises(BoardError) as caught:
        check_machine(machine, BOARD, trial=False)
    assert str(caught.value) == "door is armhf, but board ultra96 is aarch64"
    assert caught.value.hint == "name the board that is measured, or its file"
    assert caught.value.option == "board"
    assert check_machine(machine, BOARD, trial=True) == "armhf"
