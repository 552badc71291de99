"""The stage of each class of kernels: its time by a board's table gives that table's costs."""

from __future__ import annotations

import dataclasses

import pytest

from edgepipe import boards
from edgepipe.board_costs.arm_probes import KEPT, arm_probes, hop_stages
from edgepipe.partition.arm_cost import operators_ms
from edgepipe.partition.operators import match_operators
from edgepipe.tvm_adapter import read_main

BOARD = dataclasses.replace(
    boards.load("ultra96"),
    arm_timing=boards.ArmTiming(
        clock_hz=1_000_000_000, macs_per_cycle=3.25, depthwise_macs_per_cycle=0.75,
        table_cycles=1.5, product_cycles=2.5, element_cycles=3.5, exponential_cycles=44.0,
    ),
)  # fmt: skip
MEASURED = {field.name for field in dataclasses.fields(boards.ArmTiming)} - {
    *(*KEPT, "handover_us"),
}


def test_every_cost_of_kernels_has_a_stage() -> None:
    assert {probe.cost for probe in arm_probes().values()} == MEASURED


@pytest.mark.parametrize("name", [f"arm_{cost}" for cost in sorted(MEASURED)])
def test_the_time_by_a_table_gives_the_costs_of_the_table(name: str) -> None:
    probe = arm_probes()[name]
    predicted_ms = operators_ms(match_operators(probe.module), BOARD)
    expected = getattr(BOARD.arm_timing, probe.cost)
    assert probe.cost_of(predicted_ms, BOARD) == pytest.approx(expected)
    assert predicted_ms > 0.1  # long beside the call of a stage


@pytest.mark.parametrize("name", ["arm_element_cycles", "arm_table_cycles"])
def test_a_stage_has_the_tensors_that_its_module_has(name: str) -> None:
    probe = arm_probes()[name]
    main = read_main(probe.module)
    assert {p.name: p.dtype for p in main.params} == probe.inputs
    assert main.outputs == (probe.output[0],)


def test_short_stages_form_a_chain() -> None:
    first, second = hop_stages(2)
    assert list(second.inputs) == [first.output[0]]
