"""Tilings: they fit, cover everything once, and the cost that chose them is close to the timing."""

from __future__ import annotations

import numpy as np
import pytest
from compiler_support import ACCELERATORS, STOCK, conv, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.emission.gemm_sequence import Pairs, gemm_calls
from vta_stages.lowering.lower import lower
from vta_stages.tiling.choice import choose_tiling
from vta_stages.tiling.patch import Products
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
    ("extent", "channels", "outputs", "kernel", "stride"),
    [(56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1)],
)
def test_cost_is_close_to_the_timing(
    extent: int, channels: int, outputs: int, kernel: int, stride: int
) -> None:
    rng = np.random.default_rng(0)
    source = tensor("x", channels, extent, extent)
    layer = conv(rng, "c", source, outputs, kernel, pad=kernel // 2, stride=stride, low=0)
    estimate = choose_tiling(STOCK, lower(layer, STOCK), CostModel()).cycles
    cycles = time_program(compile_program(STOCK, [layer], ["x"], ["c.out"])).cycles
    assert abs(estimate - cycles) < 0.04 * cycles


@settings(max_examples=60, deadline=None)
@given(
    pixels=st.integers(1, 30), taps=st.integers(1, 9), co=st.integers(1, 6),
    ci=st.integers(1, 6), hazard=st.integers(1, 16), longest=st.sampled_from([64, 500, 4096]),
)  # fmt: skip
def test_gemm_calls_do_every_product_once_without_hazards(
    pixels: int, taps: int, co: int, ci: int, hazard: int, longest: int
) -> None:
    tap, pixel = (grid.ravel() for grid in np.mgrid[:taps, :pixels])
    products = Products(pixel + 100, pixel + tap, tap)
    pairs = Pairs(co=co, ci=ci, co_dst=pixels, ci_src=pixels + taps, co_wgt=ci * taps, ci_wgt=taps)
    done = []
    for call in gemm_calls(products, pairs, hazard=hazard, longest=longest, spare=0):
        assert len(call.uops) <= longest
        o, i = (g.reshape(-1, 1) for g in np.mgrid[: call.loops[0], : call.loops[1]])
        steps = np.stack(
            [
                (field + o * outer + i * inner).ravel()
                for field, (outer, inner) in (
                    (call.uops.dst, call.dst_factors),
                    (call.uops.src, call.src_factors),
                    (call.uops.wgt, call.wgt_factors),
                )
            ],
            axis=1,
        )
        for entry in np.unique(steps[:, 0]):
            gaps = np.diff(np.flatnonzero(steps[:, 0] == entry))
            assert gaps.min(initial=hazard) >= hazard
        done.append(steps[steps[:, 0] >= 100])
    found = np.concatenate(done)
    wanted = [
        (d + o * pixels, s + i * (pixels + taps), w + (o * ci + i) * taps)
        for d, s, w in zip(products.dst, products.src, products.wgt, strict=True)
        for o in range(co)
        for i in range(ci)
    ]
    assert sorted(map(tuple, found.tolist())) == sorted(
        (int(a), int(b), int(c)) for a, b, c in wanted
    )
