"""Draw results on a picture: one colour per class, labels that stay inside the picture."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from edgepipe.runtime.results import Detection, Point

Picture = NDArray[np.uint8]


def colour(label_index: int) -> tuple[int, int, int]:
    """Return the class's colour as (blue, green, red); golden-ratio hues keep neighbours apart."""
    red, green, blue = colorsys.hsv_to_rgb((label_index * 0.618034) % 1.0, 0.85, 0.95)
    return int(blue * 255), int(green * 255), int(red * 255)


def draw_detections(picture: Picture, detections: Sequence[Detection]) -> Picture:
    """Return a copy of ``picture`` (uint8[h, w, 3], BGR) with boxes and labels."""
    canvas = picture.copy()
    height, width = canvas.shape[:2]
    thickness = max(1, round(min(height, width) / 300))
    scale = max(0.4, min(height, width) / 1100)
    for detection in sorted(detections, key=lambda d: d.score):
        paint = colour(detection.label_index)
        corner = (max(0, round(detection.left)), max(0, round(detection.top)))
        opposite = (
            min(width - 1, round(detection.right)),
            min(height - 1, round(detection.bottom)),
        )
        cv2.rectangle(canvas, corner, opposite, paint, thickness, cv2.LINE_AA)
        text = f"{detection.label} {detection.score:.2f}"
        (text_width, text_height), base = cv2.getTextSize(
            text, cv2.FONT_HERSHEY_SIMPLEX, scale, thickness
        )
        left = max(0, min(corner[0], width - text_width - 2))
        bottom = corner[1] if corner[1] > text_height + base else corner[1] + text_height + base
        cv2.rectangle(
            canvas, (left, bottom - text_height - base), (left + text_width, bottom), paint, -1
        )
        ink = (0, 0, 0) if sum(paint) > 380 else (255, 255, 255)
        cv2.putText(
            canvas,
            text,
            (left, bottom - base // 2),
            cv2.FONT_HERSHEY_SIMPLEX,
            scale,
            ink,
            thickness,
            cv2.LINE_AA,
        )
    return canvas


def draw_points(picture: Picture, points: Sequence[Point]) -> Picture:
    """Return a copy of ``picture`` (uint8[h, w, 3], BGR) with a dot at each keypoint."""
    canvas = picture.copy()
    radius = max(2, round(min(canvas.shape[:2]) / 150))
    for index, point in enumerate(points):
        place = (round(point.x), round(point.y))
        cv2.circle(canvas, place, radius, colour(index), cv2.FILLED, cv2.LINE_AA)
    return canvas


def draw_classes(picture: Picture, classes: NDArray[np.uint8]) -> Picture:
    """Return a picture half as bright, mixed with the colour of each pixel's class.

    ``picture`` is uint8[h, w, 3] in BGR and ``classes`` uint8[h, w]. Class 0, which usually is the
    background, keeps its pixels.
    """
    table = np.array([colour(index) for index in range(256)], np.uint16)
    mixed = ((picture.astype(np.uint16) + table[classes]) // 2).astype(np.uint8)
    return np.where((classes == 0)[:, :, None], picture, mixed)


def draw_caption(picture: Picture, text: str) -> Picture:
    """Return a copy of ``picture`` with one line of text on a dark band at the top left.

    Pictures are uint8[height, width, 3] in BGR.
    """
    canvas = picture.copy()
    scale = max(0.5, min(canvas.shape[:2]) / 800)
    (width, height), base = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    cv2.rectangle(canvas, (0, 0), (width + 12, height + base + 8), (32, 32, 32), -1)
    cv2.putText(
        canvas,
        text,
        (6, height + 4),
        cv2.FONT_HERSHEY_SIMPLEX,
        scale,
        (240, 240, 240),
        1,
        cv2.LINE_AA,
    )
    return canvas
