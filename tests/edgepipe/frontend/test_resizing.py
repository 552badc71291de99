"""Resizing: the definition, written as a loop, and OpenCV's result within one step."""

from __future__ import annotations

from fractions import Fraction

import cv2
import numpy as np
import pytest

from edgepipe.frontend.resizing import resize

SIZES = [
    ((48, 64), (16, 16)),
    ((31, 57), (16, 9)),
    ((7, 9), (16, 16)),
    ((40, 5), (16, 16)),
    ((16, 33), (16, 16)),
    ((1, 1), (5, 7)),
    ((2, 3), (1, 1)),
]


def axis_weights(source: int, fitted: int, *, area: bool) -> np.ndarray:
    """Return the exact weights of an axis: float64[fitted, source]."""
    weights = np.zeros((fitted, source))
    for out in range(fitted):
        if area:
            begin, end = Fraction(out * source, fitted), Fraction((out + 1) * source, fitted)
            for pixel in range(source):
                covered = min(end, Fraction(pixel + 1)) - max(begin, Fraction(pixel))
                weights[out, pixel] = max(0, covered) / (end - begin)
        else:
            place = Fraction((2 * out + 1) * source, 2 * fitted) - Fraction(1, 2)
            place = min(max(place, Fraction(0)), Fraction(source - 1))
            first = int(place)
            weights[out, first] += 1 - (place - first)
            weights[out, min(first + 1, source - 1)] += place - first
    return weights


@pytest.mark.parametrize(("source", "target"), SIZES)
def test_a_resized_picture_is_the_weighted_mean(
    source: tuple[int, int], target: tuple[int, int]
) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (*source, 3)).astype(np.uint8)
    area = target[0] < source[0] and target[1] < source[1]
    rows, columns = (axis_weights(s, t, area=area) for s, t in zip(source, target, strict=True))
    exact = np.einsum("ir,jc,rcx->ijx", rows, columns, picture.astype(np.float64))
    found = resize(picture, target[1], target[0])
    assert np.abs(found - exact).max() <= 0.5 + 255 * max(source) / 2**11
    how = cv2.INTER_AREA if area else cv2.INTER_LINEAR
    opencv = cv2.resize(picture, target[::-1], interpolation=how)
    assert np.abs(found.astype(int) - opencv).max() <= 1


def test_a_constant_picture_stays_constant() -> None:
    for source, (height, width) in SIZES:
        picture = np.full((*source, 1), 255, np.uint8)
        assert (resize(picture, width, height) == 255).all()
