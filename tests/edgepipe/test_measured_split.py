"""A split by measured costs: it follows them, says what was measured, and gives the same bits."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_networks
from measured_networks import EAGER, check_of, entry, gated, rehearsed, write_costs, write_network

import edgepipe
from edgepipe import arrangement
from edgepipe.bundle import storage
from edgepipe.cli.network_inspection import print_forecast
from edgepipe.errors import BoardError
from edgepipe.forecast import Forecast, ForecastOptions, forecast
from edgepipe.partition.measured.cost_file import CostFile
from edgepipe.partition.measured.costs import measured_costs
from edgepipe.partition.wishes import Wishes
from edgepipe.progress import Silent


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_network(tmp_path_factory.mktemp("gated"))


def foreseen(network: Path, costs: Path | None = None, **options: Any) -> Forecast:
    given = {"model": network, "board": EAGER, "objective": "throughput", **options}
    return forecast(ForecastOptions(costs=costs, **given))


def device_of(found: Forecast, name: str) -> str:
    return next(o.device for o in found.operators if o.name == name)


def test_an_operator_goes_where_it_was_measured_to_be_faster(network: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here.toml", tmp_path / "there.toml"
    slow = {("body", "vta"): 9000.0, ("body", "arm"): 1.0}
    write_costs(here, network, EAGER, lambda p: slow.get((p.names[0], p.device)))
    write_costs(there, network, EAGER, lambda p: 9000.0 if p.names == ("body",) and
                p.device == "arm" else None)  # fmt: skip
    assert device_of(foreseen(network, here), "body") == "arm"
    assert device_of(foreseen(network, there), "body") == "vta"


def test_what_was_measured_is_told_apart_from_the_model(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = foreseen(network, objective="rule")
    costs = tmp_path / "costs.toml"
    made = write_costs(costs, network, EAGER, lambda p: 2500.0 if p.names == ("stem",) else None)
    part = next(p for p in made.entries.values() if p.device == "vta")
    made.add(dataclasses.replace(part, us=0.0, failure="the accelerator hangs"))
    found = foreseen(network, costs, objective="rule")
    of = {o.name: o for o in found.operators}
    assert {name for name, o in of.items() if o.measured} == {"stem"}
    assert of["stem"].ms == 2.5
    assert found.arm_ms > plain.arm_ms
    assert found.failures == (("stem", "vta", "the accelerator hangs"),)
    print_forecast(found)
    shown = capsys.readouterr().out
    total = len(found.operators)
    assert (
        f"{costs}: 1 of {total} operators and 0 of {len(found.stages)} stages were measured where "
        "they run; the model has the other costs"
    ) in shown
    assert "not measured: stem on vta: the accelerator hangs" in shown
    print_forecast(plain)
    assert "measured" not in capsys.readouterr().out


def test_a_stage_that_was_measured_as_a_whole_has_that_time(network: Path, tmp_path: Path) -> None:
    check, quantized = check_of(network, EAGER), rehearsed(network).quantized

    def arranged(costs: CostFile) -> arrangement.Arrangement:
        measured = measured_costs(costs, check, quantized.input_name, EAGER)
        wishes = Wishes(objective="rule")
        return arrangement.arrange(quantized, check, EAGER, wishes, Silent(), measured)

    made = CostFile.open(tmp_path / "costs.toml", EAGER.name, trial=False)
    before = arranged(made)
    stage = max(before.stages, key=lambda s: len(s.segment.operators))
    assert len(stage.segment.operators) > 1
    made.add(entry(before.range_of(stage), EAGER, 7000.0))
    after = arranged(made)
    assert [after.measured_ms(s) for s in after.stages if s.name == stage.name] == [7.0]
    assert after.stage_ms(stage, EAGER) == 7.0
    assert foreseen(network, made.path, objective="rule").interval_ms > 6.999


def test_a_program_takes_what_its_operators_were_measured_to_take(
    network: Path, tmp_path: Path
) -> None:
    """The model's cycles are scaled by what it was wrong by for an operator alone."""
    plain = foreseen(network, objective="rule")
    costs = tmp_path / "costs.toml"
    write_costs(costs, network, EAGER, lambda p: 30.0 if p.device == "vta" else None)
    found = foreseen(network, costs, objective="rule")
    assert found.vta_ms > 2 * plain.vta_ms
    assert found.arm_ms == plain.arm_ms


def test_a_half_takes_its_part_of_what_the_operator_was_measured_to_take(tmp_path: Path) -> None:
    path, costs = write_network(tmp_path, gated(channels=48)), tmp_path / "costs.toml"
    write_costs(costs, path, EAGER, lambda p: 600.0 if p.names == ("stem",) else None)
    options = {"objective": "rule", "placement": {"stem": "vta+arm:16"}}
    plain, found = (foreseen(path, given, **options) for given in (None, costs))
    of = {o.name: o for o in found.operators}
    assert of["stem.arm"].ms == pytest.approx(0.2)
    modelled = next(o.ms for o in plain.operators if o.name == "stem.vta")
    assert of["stem.vta"].ms > 2 * modelled
    assert not any(of[name].measured for name in ("stem", "stem.vta", "stem.arm"))
    # The concatenation has the operator's name, but not the time that it was measured to take.
    assert of["stem"].ms < 0.1


def test_a_build_by_measured_costs_gives_the_golden_bits(network: Path, tmp_path: Path) -> None:
    frames = list(small_networks.frames(2))
    np.savez(tmp_path / "frames.npz", np.concatenate(frames))
    costs = tmp_path / "costs.toml"
    slow = {("body", "vta"): 9000.0, ("body", "arm"): 1.0}
    write_costs(costs, network, EAGER, lambda p: slow.get((p.names[0], p.device)))
    bundle = edgepipe.build(
        network, board=EAGER, objective="throughput", costs=costs,
        calibration=tmp_path / "frames.npz", output=tmp_path / "out.edgepipe",
    )  # fmt: skip
    manifest = storage.read_manifest(bundle)
    assert {p.device for p in manifest.placement if p.operator == "body"} == {"arm"}
    with edgepipe.load(bundle) as pipeline:
        found = pipeline.submit(frames[0]).result().outputs[manifest.outputs[0]]
    golden = next(e for e in manifest.files if e.path == manifest.golden.outputs[0].file)
    assert found.tobytes() == storage.read_file(bundle, golden)


def test_costs_of_another_board_are_refused_before_the_network_is_read(tmp_path: Path) -> None:
    costs = CostFile.open(tmp_path / "costs.toml", "door", trial=False)
    costs.path.write_text(costs.to_toml())
    options = ForecastOptions(model=tmp_path / "none.onnx", board=EAGER, costs=costs.path)
    with pytest.raises(BoardError, match="has the costs of board door, not of ultra96") as caught:
        forecast(options)
    assert caught.value.hint == "name the board that was measured, or its file"
