"""The keys of ranges: what changes them, and what does not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from measured_networks import BOARD, EAGER, gated, ranges_of, write_network

from edgepipe.boards import Board
from edgepipe.partition.measured import ranges
from edgepipe.partition.measured.ranges import OperatorRange


def keys(path: Path, board: Board = BOARD) -> dict[tuple[str, str], str]:
    return {(part.names[0], part.device): part.key(board) for part in ranges_of(path, board)}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_network(tmp_path_factory.mktemp("gated"))


def test_every_operator_is_a_range_on_each_device_that_can_run_it(network: Path) -> None:
    found = keys(network)
    assert {("body", "vta"), ("body", "arm"), ("depth", "vta"), ("swish", "arm")} <= found.keys()
    assert ("swish", "vta") not in found
    assert len({*found.values()}) == len(found)


def test_other_weights_give_the_same_keys(network: Path, tmp_path: Path) -> None:
    """Unless all shifts of a layer become equal: the accelerator then has one instruction less."""
    before, after = keys(network), keys(write_network(tmp_path, gated(seed=4)))
    changed = {each for each in before if before[each] != after[each]}
    assert changed <= {("body", "vta"), ("result", "vta")}


def test_other_shapes_give_other_keys(network: Path, tmp_path: Path) -> None:
    wide, narrow = keys(write_network(tmp_path, gated(channels=32))), keys(network)
    same = {name for name in narrow if wide[name] == narrow[name]}
    assert same.isdisjoint({("stem", "arm"), ("depth", "vta"), ("body", "vta"), ("body", "arm")})
    assert ("swish", "arm") in same


def test_costs_of_the_accelerator_change_the_keys_of_programs_alone(network: Path) -> None:
    slow = dataclasses.replace(BOARD, timing=dataclasses.replace(BOARD.timing, loop_cycles=99))
    before, after = keys(network), keys(network, slow)
    assert {device for name, device in before if before[name, device] != after[name, device]} == {
        "vta"
    }


@pytest.mark.parametrize(
    "change", [{"name": "other"}, {"architecture": "armhf"}, {"cpu": "cortex-a72"}]
)
def test_another_board_changes_keys(network: Path, change: dict[str, str]) -> None:
    part = next(p for p in ranges_of(network, BOARD) if p.device == "arm")
    assert part.key(BOARD) != part.key(dataclasses.replace(BOARD, **change))


def test_cores_layouts_and_versions_change_keys(
    network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = next(p for p in ranges_of(network, EAGER) if p.names == ("body",))

    def changed(**changes: object) -> str:
        return dataclasses.replace(part, **changes).key(EAGER)

    layouts = dict.fromkeys(part.layouts, "nhwc")
    found = {part.key(EAGER), changed(threads=2), changed(layouts=layouts), changed(device="x")}
    assert len(found) == 4
    monkeypatch.setattr(ranges, "__version__", "another")
    assert part.key(EAGER) not in found


def test_a_range_of_several_operators_is_not_the_sum_of_its_parts(network: Path) -> None:
    parts = {p.names[0]: p for p in ranges_of(network, BOARD) if p.device == "arm"}
    one, other = parts["depth"], parts["body"]

    def joined(*operators: object, **layouts: str) -> str:
        return OperatorRange(
            device="arm",
            threads=1,
            operators=operators,
            layouts=layouts,  # type: ignore[arg-type]
        ).key(BOARD)

    first, second = one.operators[0], other.operators[0]
    keys = {joined(first, second), joined(second, first), joined(first, second, body="vta")}
    assert len(keys) == 3
