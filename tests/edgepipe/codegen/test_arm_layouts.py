"""The layouts of pictures in memory: an index for every element, and no element twice."""

import itertools

import pytest

from edgepipe.codegen.arm.layouts import NCHW, NHWC, PIXELS, Blocks, FoldedBlocks, View, blocks_of
from vta_stages.accelerator import Accelerator

FOLDED = [
    View(FoldedBlocks(factor=factor, channels=channels, block=block), channels, 8, 12)
    for factor in (2, 4)
    for channels in (1, 3, 4, 5, 8)
    for block in (16, 32)
]
PLAIN = [View(layout, 11, 3, 5) for layout in (NCHW, NHWC, PIXELS, Blocks(), Blocks(batch=2))]


def named(view):
    return f"{view.layout.kind}, {view.channels} channels"


@pytest.mark.parametrize("view", [*PLAIN, *FOLDED], ids=named)
def test_every_lane_of_a_pixel_has_a_place_of_its_own_in_memory(view):
    """Kernels read padding lanes, too, before they multiply them with zero."""
    places = set()
    for c, y, x in itertools.product(range(view.lanes), range(view.height), range(view.width)):
        index = tuple(map(int, view.layout.index(c, y, x)))
        assert all(0 <= at < extent for at, extent in zip(index, view.shape, strict=True))
        assert tuple(map(int, view.layout.element(index))) == (c, y, x)
        places.add(index)
    assert len(places) == view.lanes * view.height * view.width


@pytest.mark.parametrize("view", [*PLAIN, *FOLDED], ids=named)
def test_what_is_computed_for_unused_memory_reads_inside_the_picture(view):
    for index in itertools.product(*map(range, view.shape)):
        c, y, x = map(int, view.layout.element(index))
        assert c < view.lanes
        assert y < view.height
        assert x < view.width
        used = view.layout.is_used(index)
        same = tuple(map(int, view.layout.index(c, y, x))) == index
        assert same == (used is None or bool(used))


def test_layouts_of_the_accelerator_have_the_names_of_manifests():
    accelerator, shape = Accelerator(), (1, 3, 8, 12)
    for name in ("vta", "vta_2x2", "vta_4x4"):
        assert blocks_of(name, shape, accelerator).kind == name
