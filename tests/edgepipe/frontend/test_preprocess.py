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
        ({"fit": "letterbox"}, "preprocess: fit 'letterbox' is unknown"),
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
