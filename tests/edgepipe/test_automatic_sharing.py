"""A search also shares operators between both devices where that is worth it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import small_networks
from measured_networks import EAGER, write_costs
from small_networks import DESCRIPTION, Builder

import edgepipe
from edgepipe import sharing
from edgepipe.bundle import storage
from edgepipe.forecast import Forecast, ForecastOptions, forecast
from edgepipe.partition.search.shares import Shares, find_shares

FAST = dataclasses.replace(
    EAGER,
    arm_timing=dataclasses.replace(
        EAGER.arm_timing, macs_per_cycle=4 * EAGER.arm_timing.macs_per_cycle
    ),
)
"""A board whose cores are slower than the accelerator, but not by far."""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a network with one long convolution, which takes ARM longer than all else together."""
    b = Builder(5)
    x = b.conv("image", "stem", (64, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = b.node("Relu", [b.conv(x, "long", (128, 64, 3, 3), pads=[1] * 4)], "body")
    b.conv(x, "result", (8, 128, 1, 1))
    folder = tmp_path_factory.mktemp("long")
    onnx.save(b.model([1, 3, 16, 16], {"result": 4}), folder / "net.onnx")
    (folder / "net.toml").write_text(DESCRIPTION)
    np.savez(folder / "frames.npz", np.concatenate(list(small_networks.frames(2))))
    return folder / "net.onnx"


def foreseen(network: Path, **options: Any) -> Forecast:
    given = {"model": network, "board": FAST, "objective": "throughput", **options}
    return forecast(ForecastOptions(**given))


@pytest.fixture(scope="module")
def found(network: Path) -> Forecast:
    return foreseen(network)


def test_an_operator_is_shared_where_that_gains_frames(network: Path, found: Forecast) -> None:
    assert found.split is not None
    report = found.split.sharing
    assert report is not None
    (each,) = report.operators
    assert (each.name, each.channels) == ("body", 128)
    assert report.interval_ms == found.interval_ms < report.without_ms / 1.1
    of = {o.name: o for o in found.operators}
    assert [of[f"body{half}"].device for half in (".vta", ".arm", "")] == ["vta", "arm", "arm"]
    first = 128 - each.arm_channels
    assert of["body.arm"].reason == f"channels {first} to 127 of body; vta has its other {first}"
    assert of["stem"].reason == (
        "runs while the VTA has other frames: more frames a second, by the model"
    )
    assert found.notices[-1] == report.line() == found.split.lines()[-1]
    assert report.line() == (
        f"shared by arm and vta: body with {each.arm_channels} of 128 channels on arm: a frame "
        f"every {report.interval_ms:.2f} ms in place of {report.without_ms:.2f}"
    )


def test_halves_run_side_by_side(found: Forecast) -> None:
    """Neither half reads what the other one computes."""
    stage = {o.name: o.stage for o in found.operators}
    reads = {s.name: s.inputs for s in found.stages}
    assert "body.vta" not in reads[stage["body.arm"]]
    assert "body.arm" not in reads[stage["body.vta"]]
    assert {"body.arm", "body.vta"} <= {*reads[stage["body"]]}


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "rule"},
        {"objective": "latency"},
        {"objective": "energy-proxy"},
        {"objective": ""},  # a frame alone would take more than 15 % longer
        {"placement": {"body": "vta"}},
        {"stages": 1},
        {"objective": "", "cuts": ("stem",)},
    ],
)
def test_nothing_is_shared_that_was_not_asked_for(network: Path, options: dict[str, Any]) -> None:
    found = foreseen(network, **options)
    assert found.split is None or found.split.sharing is None
    assert "body.arm" not in {o.name for o in found.operators}


def test_how_much_a_share_must_gain(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_shared(**options: Any) -> bool:
        return "body.arm" in {o.name for o in foreseen(network, **options).operators}

    assert (sharing.THROUGHPUT_GAIN, sharing.LEAST_GAIN) == (1.005, 1.02)
    monkeypatch.setattr(sharing, "THROUGHPUT_GAIN", 1.5)
    assert not is_shared()
    monkeypatch.setattr(sharing, "MOST_LATENCY", 9.0)
    assert is_shared(objective="")
    monkeypatch.setattr(sharing, "LEAST_GAIN", 1.5)
    assert not is_shared(objective="")


def test_a_share_that_cannot_be_built_leaves_the_split(
    network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*given: Any) -> Shares | None:
        made = find_shares(*given)
        assert made is not None
        return dataclasses.replace(made, channels={"body": 8})

    monkeypatch.setattr(sharing, "find_shares", find)
    found = foreseen(network)
    assert found.split is not None
    assert found.split.sharing is None
    assert {o.stage for o in found.operators if o.name == "body"} == {"vta1"}


def test_measured_costs_decide(network: Path, tmp_path: Path) -> None:
    """ARM was measured to be far slower than the model says, so a half takes too long there."""
    slow, plain = tmp_path / "slow.toml", tmp_path / "plain.toml"
    for path, us in ((slow, 9000.0), (plain, 450.0)):
        write_costs(
            path, network, FAST,
            lambda p, us=us: us if p.names == ("body",) and p.device == "arm" else None,
        )  # fmt: skip
    for path, shared in ((slow, False), (plain, True)):
        operators = foreseen(network, costs=path).operators
        assert ("body.arm" in {o.name for o in operators}) == shared


def test_a_build_shares_too_and_exports_it(network: Path, tmp_path: Path) -> None:
    file = tmp_path / "net.placement.toml"
    options = {"board": FAST, "calibration": network.parent / "frames.npz"}
    bundle = edgepipe.build(
        network, output=tmp_path / "net", objective="throughput", export_placement=file, **options
    )
    manifest = storage.read_manifest(bundle)
    stages = [(p.operator, p.device, p.stage) for p in manifest.placement]
    arm_channels = manifest.tensor("body.arm").shape[1]
    assert f'"body" = "vta+arm:{arm_channels}"  # conv: ' in file.read_text()
    again = edgepipe.build(network, output=tmp_path / "again", placement_file=file, **options)
    placement = storage.read_manifest(again).placement
    assert [(p.operator, p.device, p.stage) for p in placement] == stages
    golden = next(e for e in manifest.files if e.path == manifest.golden.outputs[0].file)
    expected = storage.read_file(bundle, golden)
    frame = next(small_networks.frames(1))
    for each in (bundle, again):
        with edgepipe.load(each) as pipeline:
            result = pipeline.submit(frame).result().outputs[manifest.outputs[0]]
            assert result.tobytes() == expected
