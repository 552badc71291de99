"""A network is split by a search: with other placements, the same bits, and what it found."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import small_networks
from small_networks import DESCRIPTION, Builder, squeeze_excite

import edgepipe
from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.cli import arguments
from edgepipe.errors import PartitionError
from edgepipe.forecast import Forecast, ForecastOptions, forecast

BOARD = boards.load("ultra96")
# Hops, launches, caches and pictures that cost nothing, so that a small network is worth stages,
# and kernels for one architecture.
EAGER = dataclasses.replace(
    BOARD,
    architecture="x86_64",
    timing=dataclasses.replace(BOARD.timing, launch_cycles=0, cache_kib_cycles=0),
    arm_timing=dataclasses.replace(BOARD.arm_timing, handover_us=0.0, fit_cycles=0.0),
)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    onnx.save(squeeze_excite(), tmp_path / "net.onnx")
    (tmp_path / "net.toml").write_text(DESCRIPTION)
    np.savez(tmp_path / "frames.npz", np.concatenate(list(small_networks.frames(2))))
    return tmp_path / "net.onnx"


def foreseen(network: Path, **options: Any) -> Forecast:
    return forecast(ForecastOptions(**{"model": network, "board": BOARD, **options}))


def gated() -> onnx.ModelProto:
    """Return convolutions with a depthwise one and a table between them."""
    b = Builder(3)
    x = b.conv("image", "stem", (16, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = b.conv(x, "depth", (16, 1, 3, 3), group=16, pads=[1] * 4)
    x = b.node("HardSwish", [b.conv(x, "body", (16, 16, 1, 1))], "swish")
    b.conv(x, "result", (8, 16, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4}, opset=14)


def test_every_objective_gives_the_same_bits(tmp_path: Path) -> None:
    onnx.save(gated(), tmp_path / "net.onnx")
    (tmp_path / "net.toml").write_text(DESCRIPTION)
    np.savez(tmp_path / "frames.npz", np.concatenate(list(small_networks.frames(2))))
    frames = list(small_networks.frames(3))
    outputs, placements = [], []
    for objective in ("throughput", "latency", "energy-proxy"):
        bundle = edgepipe.build(
            tmp_path / "net.onnx",
            board=EAGER,
            objective=objective,
            calibration=tmp_path / "frames.npz",
            output=tmp_path / f"{objective}.edgepipe",
        )
        manifest = storage.read_manifest(bundle)
        placements.append(tuple(p.device for p in manifest.placement))
        with edgepipe.load(bundle) as pipeline:
            results = [pipeline.submit(frame).result().outputs for frame in frames]
        outputs.append([result[manifest.outputs[0]] for result in results])
        golden = next(e for e in manifest.files if e.path == manifest.golden.outputs[0].file)
        assert outputs[-1][0].tobytes() == storage.read_file(bundle, golden)
    assert placements[0] != placements[1]
    for other in outputs[1:]:
        np.testing.assert_array_equal(outputs[0], other)


def test_a_search_is_as_good_as_the_rule_and_reported(network: Path) -> None:
    rule = foreseen(network, board=EAGER, objective="rule")
    found = foreseen(network, board=EAGER, objective="throughput")
    assert rule.split is None
    assert found.split is not None
    assert found.split.chosen.stages == len(found.stages)
    assert found.split.bound_ms <= found.split.chosen.interval_ms
    assert found.split.chosen.bound_ms <= found.split.chosen.interval_ms
    assert found.interval_ms <= 1.02 * rule.interval_ms
    assert found.notices[-len(found.split.lines()) :] == found.split.lines()
    assert found.split.lines()[0].startswith("split for throughput: ")
    assert "the busier device alone allows" in found.split.lines()[0]


def test_without_an_objective_the_rule_stays_unless_it_is_beaten_clearly(network: Path) -> None:
    rule, found = foreseen(network, objective="rule"), foreseen(network)
    assert found.split is not None
    assert found.split.chosen.latency_ms <= 1.15 * rule.latency_ms
    assert any(stage.device == "vta" for stage in found.stages)
    same = [s.device for s in found.stages] == [s.device for s in rule.stages]
    assert same or found.interval_ms < rule.interval_ms
    assert foreseen(network, depthwise="vta").split is None
    assert foreseen(network, board=boards.load("host")).split is None


def test_latency_is_shorter_than_by_the_rule(network: Path) -> None:
    rule, found = foreseen(network, objective="rule"), foreseen(network, objective="latency")
    assert found.latency_ms <= rule.latency_ms
    assert found.live_slots == 1


def test_limits_are_kept(network: Path) -> None:
    assert len(foreseen(network, stages=1).stages) == 1
    assert foreseen(network, slots=2).memory.slots == 2
    # Fitting a camera's picture to this small network takes most of that.
    found = foreseen(network, max_latency_ms=2.0)
    assert found.memory.slots * found.interval_ms <= 2.05


def test_what_is_asked_for_by_name_stays(network: Path) -> None:
    free = foreseen(network, stages=1)
    name = next(o.name for o in free.operators if o.kind == "conv")
    placed = foreseen(network, objective="latency", placement={name: "vta"})
    assert {o.name: o.reason for o in placed.operators}[name] == "placed there on request"
    with pytest.raises(PartitionError, match="no split has at most 1 stages"):
        foreseen(network, stages=1, placement={name: "vta"})


def test_cuts_exclude_a_search(network: Path) -> None:
    with pytest.raises(PartitionError, match="cuts are given, and a search that would") as cut:
        foreseen(network, cuts=(foreseen(network).operators[1].name,), objective="latency")
    assert cut.value.hint == "leave out one of them"
    with pytest.raises(PartitionError, match="the split by rule is asked for, and a search"):
        foreseen(network, objective="rule", stages=3)


@pytest.mark.parametrize("text", ["0", "-1", "1e3", "nan", "2000000", ""])
def test_milliseconds_are_parsed_strictly(text: str) -> None:
    with pytest.raises(Exception, match="expected milliseconds, more than 0"):
        arguments.milliseconds(text)
    assert arguments.milliseconds("33.3") == 33.3
