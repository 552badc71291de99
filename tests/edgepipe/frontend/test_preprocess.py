"""Preprocess: fitting a picture, channel order, and the table of input values."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from edgepipe.errors import FrontendError, MediaError
from edgepipe.frontend.preprocess import Preprocess

NANODET = Preprocess(
    width=8,
    height=6,
    order="BGR",
    mean=(103.53, 116.28, 123.675),
    std=(57.375, 57.12, 58.395),
)


def picture(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)


def test_a_picture_of_the_right_size_is_unchanged() -> None:
    source = picture(6, 8)
    np.testing.assert_array_equal(NANODET.frame(source)[0], source)


def test_stretch_ignores_the_aspect_ratio() -> None:
    assert NANODET.frame(picture(40, 11)).shape == (1, 6, 8, 3)


def test_rgb_reverses_the_channels_and_gray_has_one() -> None:
    source = picture(6, 8)
    rgb = dataclasses.replace(NANODET, order="RGB").frame(source)
    np.testing.assert_array_equal(rgb[0], source[:, :, ::-1])
    gray = dataclasses.replace(NANODET, order="GRAY", mean=(0.0,), std=(1.0,))
    assert (
        gray.frame(np.full((6, 8, 3), 77, np.uint8)).tolist() == np.full((1, 6, 8, 1), 77).tolist()
    )


def test_center_crop_keeps_the_middle() -> None:
    crop = dataclasses.replace(NANODET, fit="center_crop", width=4, height=4, resize_short_side=6)
    source = picture(6, 10)
    np.testing.assert_array_equal(crop.frame(source)[0], source[1:5, 3:7])


def test_a_letterbox_fills_what_the_picture_leaves_free() -> None:
    fit = dataclasses.replace(NANODET, fit="letterbox", padding=7)
    source = picture(2, 8)
    frame = fit.frame(source)[0]
    np.testing.assert_array_equal(frame[2:4], source)
    assert (np.delete(frame, [2, 3], axis=0) == 7).all()
    corner = dataclasses.replace(fit, align="top_left").frame(source)[0]
    np.testing.assert_array_equal(corner[:2], source)
    assert (corner[2:] == 7).all()


@pytest.mark.parametrize(
    ("fit", "align", "size", "fitted"),
    [
        ("stretch", "center", (640, 480), (416, 320, 0, 0)),
        ("letterbox", "center", (640, 480), (416, 312, 0, -4)),
        ("letterbox", "center", (333, 1000), (107, 320, -154, 0)),
        ("letterbox", "center", (1, 5000), (1, 320, -207, 0)),
        ("letterbox", "top_left", (333, 1000), (107, 320, 0, 0)),
        ("center_crop", "center", (640, 480), (640, 480, 112, 80)),
    ],
)
def test_placements_are_those_of_the_cpp_side(fit, align, size, fitted) -> None:
    # The same pictures as in cpp_runtime/tests/media/pictures/picture_fitter_test.cc.
    placed = dataclasses.replace(
        NANODET, width=416, height=320, fit=fit, align=align, resize_short_side=480
    )
    scale_x, scale_y, left, top = placed.placement(*size)
    assert (round(scale_x * size[0]), round(scale_y * size[1]), left, top) == fitted


def test_values_and_normalise_are_one_formula() -> None:
    frame = NANODET.frame(picture(6, 8))
    expected = (frame[0].astype(np.float64) - NANODET.mean) / NANODET.std
    np.testing.assert_allclose(NANODET.normalise(frame)[0], expected.transpose(2, 0, 1), rtol=1e-6)
    scaled = dataclasses.replace(NANODET, order="GRAY", scale=1 / 255, mean=(0.286,), std=(0.353,))
    assert scaled.values()[0, 255] == pytest.approx((1 - 0.286) / 0.353)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": "YUV"}, "preprocess: order 'YUV' is unknown"),
        ({"fit": "squeeze"}, "preprocess: fit 'squeeze' is unknown"),
        ({"align": "left"}, "preprocess: align 'left' is unknown"),
        ({"padding": 256}, "preprocess: padding is 256, expected 0 to 255"),
        ({"mean": (0.0,)}, "preprocess: mean has 1 values, expected 3 for BGR"),
        (
            {"std": (0.0, 1.0, 1.0)},
            "std is [0.0, 1.0, 1.0] and scale 1, expected positive numbers",
        ),
        ({"width": 0}, "preprocess: size is 0x6"),
        ({"fit": "center_crop"}, "resize_short_side is 0, expected at least 8"),
    ],
)
def test_impossible_descriptions_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(FrontendError, match=re.escape(message)):
        dataclasses.replace(NANODET, **change)  # type: ignore[arg-type]


def test_anything_but_a_picture_is_refused() -> None:
    with pytest.raises(MediaError, match=r"picture is float64\[6, 8, 3\], expected uint8"):
        NANODET.frame(np.zeros((6, 8, 3)))  # type: ignore[arg-type]
