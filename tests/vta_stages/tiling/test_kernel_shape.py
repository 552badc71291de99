"""The sizes that the tiling search uses agree with what is emitted for each area."""

from __future__ import annotations

import numpy as np
import pytest
from compiler_support import STOCK, conv, tensor

from vta_stages.layers.records import MaxPool
from vta_stages.lowering.kernel import Kernel
from vta_stages.lowering.lower import lower
from vta_stages.tiling.kernel_shape import KernelShape, TileSize
from vta_stages.tiling.loop_nest import LoopNest
from vta_stages.tiling.patch import OutputArea, patch_of
from vta_stages.tiling.slot_options import inp_options, slot_needs, wgt_options


def kernel_of(extent: int, kernel: int, stride: int) -> Kernel:
    rng = np.random.default_rng(0)
    layer = conv(
        rng, "c", tensor("x", 40, extent, extent), 70, kernel, stride=stride, pad=kernel // 2
    )
    return lower(layer, STOCK)


def pooling() -> Kernel:
    layer = MaxPool(
        name="p",
        input=tensor("x", 32, 15, 15),
        output=tensor("y", 32, 7, 7),
        kernel=(3, 3),
        stride=(2, 2),
    )
    return lower(layer, STOCK)


KERNELS = [kernel_of(14, 3, 1), kernel_of(15, 5, 2), kernel_of(16, 1, 2), pooling()]


@pytest.mark.parametrize("kernel", KERNELS, ids=["3x3", "5x5/2", "1x1/2", "pooling"])
def test_a_patch_is_as_large_as_the_largest_of_all_areas(kernel: Kernel) -> None:
    shape = KernelShape(kernel)
    height, width = kernel.output.height, kernel.output.width
    for rows in (1, 2, 3, height):
        for cols in (1, 4, width):
            areas = [
                OutputArea((y, min(y + rows, height)), (x, min(x + cols, width)))
                for y in range(0, height, rows)
                for x in range(0, width, cols)
            ]
            largest = max(patch_of(kernel.sources[0], area).pixels for area in areas)
            assert shape.patch(0, rows, cols).pixels >= largest
            if cols == width:
                assert shape.patch(0, rows, cols).pixels == largest
            assert shape.areas(TileSize(rows, cols, 1, 1))[0] == len(areas)


def test_candidates_start_with_the_whole_output_and_are_never_empty() -> None:
    shape = KernelShape(kernel_of(14, 3, 1))
    assert shape.widths()[0] == 14
    sizes = list(shape.sizes(14))
    assert sizes[0] == TileSize(14, 14, 5, 3)
    assert all(min(size) >= 1 for size in sizes)
    assert len(sizes) == len(set(sizes))


@pytest.mark.parametrize("channels_outer", [True, False])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 7, 100])
def test_slots_never_exceed_the_buffer(depth: int, channels_outer: bool) -> None:
    shape = KernelShape(kernel_of(14, 3, 1))
    for size in shape.sizes(14):
        needs = slot_needs(shape, size)
        areas, across = shape.areas(size)
        loops = LoopNest(
            areas=areas,
            areas_across=across,
            channel_chunks=shape.channel_chunks(size),
            chunks=((0, 64),) * needs.chunks,
            parts=(1,),
            folded=(),
            bias_slots=0,
        )
        for options in (inp_options, wgt_options):
            found = options(needs, loops, depth, channels_outer=channels_outer)
            assert found
            assert all(1 <= slots <= depth for slots, _ in found)
