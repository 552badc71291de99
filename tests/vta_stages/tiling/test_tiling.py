"""Tilings fit, cover the output once, and their estimated cycles are close to the timing."""

from __future__ import annotations

import numpy as np
import pytest
from compiler_support import ACCELERATORS, STOCK, conv, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.lowering.lower import lower
from vta_stages.tiling.choice import choose_tiling
from vta_stages.tiling.tiling import (
    AccLayout,
    acc_capacity,
    channel_chunks,
    inp_capacity,
    output_areas,
    wgt_capacity,
)
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import time_program
from vta_stages.whole_blocks import whole_blocks


@settings(max_examples=40, deadline=None)
@given(
    accelerator=st.sampled_from(ACCELERATORS),
    extent=st.integers(1, 60),
    channels=st.integers(1, 300),
    outputs=st.integers(1, 300),
    kernel=st.sampled_from([1, 3, 5]),
    leaky=st.booleans(),
)
def test_tiles_fit_and_cover_the_output(
    accelerator: Accelerator, extent: int, channels: int, outputs: int, kernel: int, leaky: bool
) -> None:
    rng = np.random.default_rng(0)
    source = tensor("x", channels, extent, extent)
    layer = conv(rng, "c", source, outputs, kernel, pad=kernel // 2, leaky=leaky)
    accelerator = whole_blocks(accelerator)
    kernel_ir = lower(layer, accelerator)
    tiling = choose_tiling(accelerator, kernel_ir, CostModel())
    assert tiling.inp_slot * tiling.inp_slots <= inp_capacity(accelerator)
    weights = wgt_capacity(accelerator, kernel_ir, tiling.co, channels_outer=tiling.channels_outer)
    assert tiling.wgt_slot * tiling.wgt_slots <= weights
    layout = AccLayout.of(accelerator, kernel_ir, tiling)
    assert layout.end <= acc_capacity(accelerator, kernel_ir)
    covered = np.zeros((kernel_ir.co_blocks, extent, extent), np.int64)
    for area in output_areas(kernel_ir, tiling):
        for first, count in channel_chunks(kernel_ir, tiling.co):
            covered[first : first + count, slice(*area.rows), slice(*area.cols)] += 1
    assert (covered == 1).all()


@pytest.mark.parametrize(
    "cost", [CostModel(), CostModel(weight_efficiency_percent=50)], ids=["plain", "slow weights"]
)
@pytest.mark.parametrize(
    ("extent", "channels", "outputs", "kernel", "stride"),
    [(56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1)],
)
def test_the_estimate_is_close_to_the_timing(
    extent: int, channels: int, outputs: int, kernel: int, stride: int, cost: CostModel
) -> None:
    rng = np.random.default_rng(0)
    source = tensor("x", channels, extent, extent)
    layer = conv(rng, "c", source, outputs, kernel, pad=kernel // 2, stride=stride, low=0)
    estimate = choose_tiling(STOCK, lower(layer, STOCK), cost).cycles
    program = compile_program(STOCK, [layer], ["x"], ["c.out"], cost=cost)
    cycles = time_program(program, cost).cycles
    assert abs(estimate - cycles) < 0.04 * cycles
