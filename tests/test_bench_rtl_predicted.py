"""Frames per second follow from the layers that a split gives to the accelerator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench import networks
from bench.rtl_layers import LayerCycles
from bench.rtl_predicted import _vta_stages_ms
from bitstreams.board_text import own_board
from vta_stages.accelerator import Accelerator

BOARD = own_board("ultra96", Accelerator(clock_hz=300_000_000), 16)
NAMES = [layer.name for layer in networks.resnet18_body().layers]
LAYERS = [LayerCycles(layers=(name,), found=300_000, modelled=0) for name in NAMES]


def split(*stages: tuple[str, int, float]) -> Any:
    """Return a forecast whose stages have so many operators, and take so long."""
    names = [name for name, count, _ in stages for _ in range(count)]
    return SimpleNamespace(
        operators=[SimpleNamespace(stage=name, ms=0.5) for name in names],
        stages=[SimpleNamespace(name=name, device=name[:3], ms=ms) for name, _, ms in stages],
    )


def test_a_stage_takes_the_cycles_of_its_layers_and_what_the_host_does() -> None:
    body = networks.resnet18_body().layers
    found = split(("arm0", 2, 9.0), ("vta1", len(NAMES), 1.0), ("arm2", 1, 0.1))
    (alone,) = _vta_stages_ms(found, LAYERS, BOARD)
    ends = (body[0].input, body[-1].output)
    moved = sum(spec.channels * spec.height * spec.width for spec in ends)
    hop_ms = BOARD.arm_timing.handover_us / 1e3
    assert alone == pytest.approx(len(NAMES) * 1.0 + BOARD.vta_stage_ms(0, moved) + hop_ms)


def test_layers_on_arm_do_not_count() -> None:
    whole = split(("arm0", 2, 9.0), ("vta1", len(NAMES), 1.0), ("arm2", 1, 0.1))
    less = split(("arm0", 3, 9.0), ("vta1", len(NAMES) - 3, 1.0), ("arm2", 3, 0.1))
    (more,), (fewer,) = (list(_vta_stages_ms(each, LAYERS, BOARD)) for each in (whole, less))
    assert 3.0 < more - fewer < 3.3  # three layers of a millisecond, and a smaller tensor


def test_a_group_of_layers_counts_if_one_of_them_is_on_the_accelerator() -> None:
    grouped = [*LAYERS[:-2], LayerCycles(layers=tuple(NAMES[-2:]), found=600_000, modelled=0)]
    found = split(("arm0", 2, 9.0), ("vta1", len(NAMES) - 1, 1.0), ("arm2", 2, 0.1))
    (alone,), (together,) = (list(_vta_stages_ms(found, each, BOARD)) for each in (LAYERS, grouped))
    assert together - alone == pytest.approx(1.0)


def test_a_first_convolution_on_the_accelerator_has_the_time_of_the_forecast() -> None:
    found = split(
        ("arm0", 1, 5.0), ("vta1", 1, 3.5), ("arm2", 1, 1.0), ("vta3", len(NAMES) - 1, 1.0)
    )
    stem, _ = _vta_stages_ms(found, LAYERS, BOARD)
    assert stem == 3.5 + BOARD.arm_timing.handover_us / 1e3
