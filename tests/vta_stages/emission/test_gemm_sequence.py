"""GEMM instructions compute each product once, with steps on an entry far enough apart."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vta_stages.emission.gemm_sequence import Pairs, gemm_calls
from vta_stages.tiling.patch import Products


@settings(max_examples=60, deadline=None)
@given(
    pixels=st.integers(1, 30), taps=st.integers(1, 9), co=st.integers(1, 6),
    ci=st.integers(1, 6), hazard=st.integers(1, 16), longest=st.sampled_from([64, 500, 4096]),
)  # fmt: skip
def test_gemm_calls_compute_every_product_once_without_hazards(
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
