"""Predicted frames per second: their bars, and ResNet-18's convolutions in TVM's schedules."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import cast

import pytest

from bench import networks, predicted
from bench.cost_fit import MeasuredBoard
from bench.measured_layers import measured_layers
from bench.model import ACCELERATORS
from edgepipe.forecast import Forecast
from vta_stages.timing.cost_model import CostModel


@pytest.mark.parametrize(
    ("network", "costs", "interval_ms", "passed"),
    [
        ("resnet18", "fitted", 33.0, True),
        ("resnet18", "fitted", 34.0, False),
        ("resnet18", "optimistic", 25.0, True),
        ("resnet18", "optimistic", 26.0, False),
        ("resnet18", "slow ALU", 99.0, None),
        ("NanoDet-g", "fitted", 99.0, None),
    ],
)
def test_only_the_pipelined_rates_of_resnet18_have_limits(
    network: str, costs: str, interval_ms: float, passed: bool | None
) -> None:
    found = cast(Forecast, SimpleNamespace(interval_ms=interval_ms, latency_ms=50.0))
    serial, pipelined = predicted.figures("net", network, costs, found)
    assert (serial.value, serial.passed) == (pytest.approx(20), None)
    assert (pipelined.value, pipelined.passed) == (pytest.approx(1e3 / interval_ms), passed)
    assert pipelined.source.startswith("timing model")


def test_optimistic_costs_are_those_of_the_hls_source() -> None:
    assert predicted.COSTS["optimistic"] == CostModel()
    assert predicted.COSTS["fitted"] == predicted.BOARD.timing


def test_the_measured_layers_are_all_convolutions_of_resnet18() -> None:
    layers = measured_layers("ultra96", "A")
    macs = sum(predicted.LAYER_COUNTS[layer.name] * layer.macs for layer in layers)
    convolutions = networks.body_convolutions(networks.resnet18_body())
    assert macs == sum(map(networks.layer_macs, convolutions))
    assert macs // 256 == 6_623_232  # as published


def test_the_slow_alu_fits_the_measured_layers() -> None:
    layers = measured_layers("ultra96", "A")
    board = MeasuredBoard(ACCELERATORS["ultra96"], layers)
    # TVM's runtime maintained no caches.
    slow = dataclasses.replace(predicted.COSTS["slow ALU"], cache_kib_cycles=0)
    errors = [abs(1 / board.ratio(index, slow) - 1) for index in range(len(layers))]
    assert max(errors) < 0.045
