"""A small farm as ``make bench-farm`` has it: requests by key, killed clients, a queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from needs import rpcd

from bench.farm import clients, ground

pytestmark = pytest.mark.sim

KINDS = {"u96": 12, "pynq": 8}
BOARDS = sum(KINDS.values())


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ground.Farm]:
    rpcd()
    with ground.running(KINDS, tmp_path_factory.mktemp("farm")) as running:
        yield running


def test_every_client_of_a_queue_gets_a_board_of_its_kind(farm: ground.Farm) -> None:
    clients_at_once = 4 * BOARDS
    found = clients.at_once(farm.address, farm.ports, clients_at_once, patience_s=60, hold_s=0.1)
    assert not found.failures
    assert len(found.seconds) == clients_at_once
    assert found.wrong_kind == 0
    farm.wait_until_free()
    assert farm.refused() == 0


def test_killed_clients_free_their_boards(farm: ground.Farm) -> None:
    clients.killed(farm.tracker, "u96", KINDS["u96"])
    assert farm.wait_until_free() < 60
    assert farm.refused() == 0


def test_clients_that_stop_waiting_are_counted_and_hold_up_nobody(farm: ground.Farm) -> None:
    found = clients.at_once(farm.address, farm.ports, 2 * BOARDS, patience_s=8, hold_s=10)
    assert found.failures["no answer within 8 s: waiting at the tracker for a free board"]
    assert len(found.seconds) + found.failures.total() == 2 * BOARDS
    assert len(found.seconds) <= BOARDS
    farm.wait_until_free()
    again = clients.at_once(farm.address, farm.ports, BOARDS, patience_s=60, hold_s=0)
    assert not again.failures
