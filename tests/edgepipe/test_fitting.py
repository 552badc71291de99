"""PictureFitter: results in the pixels of the picture that the input was made from."""

from __future__ import annotations

import numpy as np
import pytest

from edgepipe.fitting import PictureFitter
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.runtime.named import Named
from edgepipe.runtime.results import ClassMap, FrameResult, Point

# Cells of 4x4 over an input of 16x16 pixels, all different.
CLASSES = np.arange(16, dtype=np.uint8).reshape(4, 4)


def fitter(fit: str, **settings: object) -> PictureFitter:
    preprocess = Preprocess(
        width=16,
        height=16,
        order="GRAY",
        mean=(0.0,),
        std=(1.0,),
        fit=fit,
        **settings,  # type: ignore[arg-type]
    )
    return PictureFitter(preprocess)


def result(point: Point) -> FrameResult:
    return FrameResult(0, 1.0, Named((), ()), points=(point,), class_map=ClassMap(CLASSES))


@pytest.mark.parametrize(
    ("align", "rows", "point"),
    [("center", slice(1, 3), (20.0, 0.0)), ("top_left", slice(0, 2), (20.0, 10.0))],
)
def test_a_letterbox_is_taken_off(align: str, rows: slice, point: tuple[float, float]) -> None:
    fit = fitter("letterbox", align=align)  # a picture of 40x20 becomes 16x8
    found = fit.in_picture(result(Point(8, 4, 0.5, "nose")), (20, 40))
    assert found.points == (Point(*point, 0.5, "nose"),)
    assert found.class_map is not None
    np.testing.assert_array_equal(found.class_map.classes, CLASSES[rows])
    whole = fit.picture_map(ClassMap(CLASSES), (20, 40))
    np.testing.assert_array_equal(whole, CLASSES[rows].repeat(10, axis=0).repeat(10, axis=1))


def test_what_a_crop_cuts_off_has_class_0() -> None:
    fit = fitter("center_crop", resize_short_side=16)  # of 32x16, the columns 8 to 23
    found = fit.in_picture(result(Point(2, 3)), (16, 32))
    assert found.points == (Point(10, 3),)
    assert found.class_map is not None
    np.testing.assert_array_equal(found.class_map.classes, CLASSES)
    whole = fit.picture_map(ClassMap(CLASSES + 1), (16, 32))
    assert not whole[:, :8].any()
    assert not whole[:, 24:].any()
    np.testing.assert_array_equal(whole[:, 8:24], (CLASSES + 1).repeat(4, axis=0).repeat(4, axis=1))


def test_areas_are_shares_of_the_cells_that_show_the_picture() -> None:
    classes = np.zeros((4, 4), np.uint8)
    classes[1] = 7
    shown = ClassMap(classes, labels=("road",))
    found = fitter("letterbox").in_picture(
        FrameResult(0, 1.0, Named((), ()), class_map=shown), (20, 40)
    )
    assert found.class_map is not None
    assert [(a.label, a.share) for a in found.class_map.areas()] == [("road", 0.5), ("7", 0.5)]
