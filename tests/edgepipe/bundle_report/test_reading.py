"""Reports of bundles: operators, stages, memory and predictions fit each other and the bundle."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from report_bundles import changed

from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.bundle.buffers import aligned
from edgepipe.bundle_report.model import Report
from edgepipe.bundle_report.reading import read_rates, read_report
from edgepipe.errors import BundleError

ULTRA96 = boards.load("ultra96")


def test_every_operator_has_its_place_and_reason(few_stages: Path, report: Report) -> None:
    manifest = storage.read_manifest(few_stages)
    placed = [(o.name, o.kind, o.device, o.stage, o.reason) for o in report.operators]
    assert placed == [(p.operator, p.kind, p.device, p.stage, p.reason) for p in manifest.placement]
    assert report.board_description == ULTRA96.description
    assert report.inputs == (("image", "uint8[1, 16, 16, 3]"),)
    assert [name for name, _ in report.outputs] == ["boxes", "scores"]


def test_what_can_run_an_operator_is_apart_from_what_should(report: Report) -> None:
    by_name = {operator.name: operator for operator in report.operators}
    assert by_name["body_relu"].can == ("arm", "vta")
    assert by_name["body_relu"].device == "vta"
    assert all(operator.device in operator.can for operator in report.operators)
    assert all(("vta" in o.can) == (not o.refusal) for o in report.operators)


def test_the_operators_of_a_vta_stage_take_the_programs_cycles(
    few_stages: Path, report: Report
) -> None:
    program = json.loads(storage.read_member(few_stages, "stages/1_vta/program.json"))
    (stage,) = (stage for stage in report.stages if stage.device == "vta")
    assert stage.cycles == program["modelled_cycles"]
    borders = sum(r["bytes"] for r in program["regions"] if r["kind"] in ("input", "output"))
    assert stage.launch_cycles == ULTRA96.timing.host_cycles(borders)
    layers = [o.layer for o in report.operators if o.layer is not None]
    # FINISH belongs to no layer.
    rest = stage.cycles - stage.launch_cycles - sum(layer.cycles for layer in layers)
    assert 0 <= rest < 500
    assert stage.ms == pytest.approx(1e3 * stage.cycles / ULTRA96.accelerator.clock_hz)


def test_what_is_fused_or_free_says_so(report: Report) -> None:
    by_name = {operator.name: operator for operator in report.operators}
    assert by_name["pool"].computed_with == "body_relu"
    assert by_name["body_relu"].computed_with == ""
    for name in ("pool", "joined"):
        layer = by_name[name].layer
        assert layer is not None
        assert (layer.cycles, layer.ideal_share) == (0, None)
    assert by_name["stem_relu"].layer is None


def test_the_share_of_ideal_counts_the_products_without_padding(report: Report) -> None:
    (right,) = (operator for operator in report.operators if operator.name == "right")
    # 3x3 on 8x8 pixels: the windows at the borders lack a row or column.
    assert right.products == 16 * 32 * (3 * 8 - 2) ** 2
    assert right.layer is not None
    ideal_cycles = right.products / report.macs_per_cycle
    assert right.layer.ideal_share == pytest.approx(ideal_cycles / right.layer.cycles)
    (stage,) = (stage for stage in report.stages if stage.device == "vta")
    products = sum(o.products for o in report.operators if o.stage == stage.name)
    assert stage.ideal_share == pytest.approx(products / report.macs_per_cycle / stage.cycles)


def test_arm_stages_take_the_sum_of_their_operators(report: Report) -> None:
    for stage in report.stages:
        if stage.device == "arm":
            own = [o for o in report.operators if o.stage == stage.name]
            assert stage.ms == pytest.approx(sum(o.arm_ms for o in own) / stage.threads)
            assert stage.ms == pytest.approx(sum(o.ms for o in own))


def test_an_operator_that_the_vta_refuses_has_no_time_there(report: Report) -> None:
    table = report.operators[0]
    assert (table.kind, table.vta_ms) == ("input_table", None)
    assert table.refusal == "camera bytes become int8 through a table"
    assert all(o.vta_ms is not None and not o.refusal for o in report.operators if o.kind == "conv")


def test_the_memory_is_what_the_runtime_allocates(few_stages: Path, report: Report) -> None:
    manifest = storage.read_manifest(few_stages)
    memory = report.memory
    assert memory.slots == manifest.slots
    assert memory.board_bytes == ULTRA96.dma_bytes
    buffers = [region for region in memory.regions if region.kind == "tensor"]
    assert sorted(name for region in buffers for name in region.tensors) == sorted(
        tensor.name for tensor in manifest.tensors
    )
    sizes = {tensor.name: tensor.bytes for tensor in manifest.tensors}
    assert all(region.bytes == aligned(max(map(sizes.get, region.tensors))) for region in buffers)
    assert memory.used_bytes == memory.shared_bytes + memory.slots * memory.slot_bytes
    assert [region.kind for region in memory.regions][:3] == [
        "constants",
        "scratch",
        "instructions",
    ]


def test_the_prediction_lies_between_its_bounds(report: Report) -> None:
    prediction = report.prediction
    assert prediction.bound_ms <= prediction.interval_ms <= prediction.serial_ms
    hops = len(report.stages) * prediction.hop_ms
    assert prediction.serial_ms == pytest.approx(sum(s.ms for s in report.stages) + hops)
    assert prediction.frames_per_second == pytest.approx(1e3 / prediction.interval_ms)


def test_rates_are_those_of_the_report(few_stages: Path, report: Report) -> None:
    rates = read_rates(few_stages)
    assert rates is not None
    assert rates.board == "ultra96"
    assert rates.stage_ms == {stage.name: stage.ms for stage in report.stages}
    assert rates.serial_fps == pytest.approx(1e3 / report.prediction.serial_ms)
    assert rates.pipelined_fps == pytest.approx(report.prediction.frames_per_second)
    assert rates.gain == pytest.approx(rates.pipelined_fps / rates.serial_fps)
    with_hops = [stage.ms + report.prediction.hop_ms for stage in report.stages]
    assert rates.bound == pytest.approx(sum(with_hops) / max(with_hops))
    assert 1 <= rates.gain <= rates.bound * (1 + 1e-9)
    assert rates.limit.gain == pytest.approx(rates.bound)
    assert re.fullmatch(r"stage \d of \d \(\w+\) takes \d+ % of a frame's time", rates.limit.reason)


def test_rates_with_one_frame_in_flight_are_serial(few_stages: Path) -> None:
    rates = read_rates(few_stages, slots=1)
    assert rates is not None
    assert rates.gain == pytest.approx(1)
    assert rates.limit.gain == 1
    assert "with one slot" in rates.limit.reason


def test_stages_that_take_turns_on_the_only_core_limit_the_rates(
    few_stages: Path, tmp_path: Path
) -> None:
    one_core = {"cores": 1, "threads": {"arm": {"cores": [0]}}}
    bundle = changed(few_stages, tmp_path / "one", lambda record: record["board"].update(one_core))
    rates = read_rates(bundle)
    assert rates is not None
    assert rates.limit.gain < rates.bound
    assert rates.limit.reason.startswith("arm0 and arm2 share the ARM core and together take ")


def test_nothing_is_predicted_of_a_machine_whose_cores_are_not_known(
    few_stages: Path, tmp_path: Path
) -> None:
    here = changed(few_stages, tmp_path / "here", lambda record: record["board"].update(cores=0))
    assert read_rates(here) is None


def test_the_same_bundle_gives_the_same_report(few_stages: Path, report: Report) -> None:
    assert read_report(few_stages) == report


def test_crews_share_many_stages(many_stages: Path) -> None:
    found = read_report(many_stages)
    arm = [stage for stage in found.stages if stage.device == "arm"]
    assert len(arm) > ULTRA96.arm_cores
    assert {stage.crew for stage in found.stages} == {"arm", "vta"}
    assert found.prediction.timeline.lanes == ("arm 1", "arm 2", "arm 3", "vta")


def test_too_many_slots_are_refused(few_stages: Path, tmp_path: Path) -> None:
    def more(manifest):
        return dataclasses.replace(manifest, slots=10**9)

    path = changed(few_stages, tmp_path / "more", manifest=more)
    with pytest.raises(BundleError, match="slots is 1000000000, expected 0 to 4096") as error:
        read_report(path)
    assert error.value.hint == "build the bundle again"
