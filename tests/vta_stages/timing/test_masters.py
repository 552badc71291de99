"""The ports of edgepipe's own hardware, one for each module, and the memory behind them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from vta_stages.isa.instructions import Module
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.port import Burst, Masters, Transfer

LATENCY = 50
COST = CostModel(
    bus_bytes=16, bus_efficiency_percent=100, burst_bytes=256, reads_in_flight=5,
    dma_row_cycles=LATENCY,
)  # fmt: skip


def served(transfers: Mapping[Module, Transfer], at: Mapping[Module, int]) -> list[Burst]:
    port = Masters(COST)
    for user, transfer in transfers.items():
        port.start(user, at[user], transfer)
    bursts = []
    while (burst := port.serve()) is not None:
        bursts.append(burst)
    return bursts


def rows(count: int, row_bytes: int) -> Transfer:
    return Transfer(rows=count, row_bytes=row_bytes, row_cycles=LATENCY)


def test_the_latency_shows_once_if_enough_requests_are_on_their_way() -> None:
    bursts = served({Module.LOAD: rows(8, 256)}, {Module.LOAD: 0})
    assert [burst.begin for burst in bursts] == [LATENCY + 16 * n for n in range(8)]
    assert [burst.last for burst in bursts] == [False] * 7 + [True]


def test_short_rows_wait_for_the_answers_of_those_before() -> None:
    bursts = served({Module.LOAD: rows(8, 16)}, {Module.LOAD: 0})
    assert bursts[4].end <= LATENCY + 5
    assert bursts[5].begin == bursts[0].end + LATENCY


def test_a_short_transfer_does_not_wait_for_the_rest_of_a_long_one() -> None:
    at = {Module.LOAD: 0, Module.COMPUTE: 100}
    bursts = served({Module.LOAD: rows(100, 256), Module.COMPUTE: rows(1, 64)}, at)
    (short,) = (burst for burst in bursts if burst.user == Module.COMPUTE)
    assert LATENCY <= short.begin - 100 <= LATENCY + 16
    assert short.port_cycles == short.begin - 100 - LATENCY


def test_two_long_transfers_share_the_memory() -> None:
    both = {module: rows(20, 256) for module in (Module.LOAD, Module.STORE)}
    bursts = served(both, dict.fromkeys(both, 0))
    first = [burst.user for burst in bursts[:10]]
    assert first.count(Module.LOAD) == pytest.approx(5, abs=1)
    assert bursts[-1].end == LATENCY + 40 * 16


def test_load_also_takes_the_turns_of_store_and_fetch_while_they_are_idle() -> None:
    both = {module: rows(40, 256) for module in (Module.LOAD, Module.COMPUTE)}
    first = [burst.user for burst in served(both, dict.fromkeys(both, 0))[:40]]
    assert first.count(Module.COMPUTE) == pytest.approx(10, abs=1)
    assert max(len(run) for run in "".join("cl"[user == 0] for user in first).split("c")) <= 4


def test_turns_that_a_port_did_not_use_are_lost() -> None:
    at = {Module.LOAD: 0, Module.COMPUTE: 400}
    bursts = served({Module.LOAD: rows(100, 256), Module.COMPUTE: rows(8, 256)}, at)
    ends = [burst.end for burst in bursts if burst.user == Module.COMPUTE]
    assert ends[-1] - ends[0] == pytest.approx(7 * 4 * 16, abs=32)


def test_nothing_is_left_in_the_end() -> None:
    assert Masters(COST).serve() is None
