"""Heads with a grid of cells for each stride and one box in a cell: YOLOv8, YOLO11 and YOLOX."""

from __future__ import annotations

from collections.abc import Sequence

from edgepipe.drafting.head import COCO_CLASSES, STRIDES, THRESHOLDS, Head, Seen, listed
from edgepipe.drafting.probe import Output
from edgepipe.drafting.settings import Setting

_BINS = 16
_SIDES = 4 * _BINS  # the channels of a box's distances
_BEFORE_SCORES = 5  # box, objectness
_FROM_SIZES = "by the sizes"
_WORDS_FOR_SCORES = ("cls", "class", "score", "conf")


def yolov8_grids(seen: Seen) -> Head | None:
    """YOLOv8 and YOLO11 without decoding: for each stride ``[1, 64 + classes, h, w]``."""
    found = alike(seen)
    if found is None or found[1]:
        return None
    strides, _, channels = found
    classes = channels - _SIDES
    if classes != (len(seen.metadata.labels) or COCO_CLASSES):
        return None
    names = tuple(output.name for output in seen.outputs)
    return _distances(
        strides,
        classes,
        Setting(key="bins", value=_BINS, reason=f"{channels} channels: 4 distances, scores"),
        Setting(key="outputs", value=names, reason="one output for each stride"),
    )


def yolov8_pairs(seen: Seen) -> Head | None:
    """The same in two outputs for each stride: ``[1, 64, h, w]`` and ``[1, classes, h, w]``."""
    pairs = _pairs(seen)
    if pairs is None:
        return None
    by_stride, classes = pairs
    strides = sorted(by_stride)
    scores = [_scores(by_stride[stride]) for stride in strides]
    distances = [
        next(output for _, output in by_stride[stride] if output is not taken)
        for stride, taken in zip(strides, scores, strict=True)
    ]
    ended = all(output.are_shares for output in scores)
    is_guess = classes == _SIDES and not ended
    activation = Setting(
        key="activation",
        value="none" if ended else "sigmoid",
        reason=f"the scores are {'' if ended else 'not '}from 0 to 1",
    )
    return _distances(
        strides,
        classes,
        Setting(key="bins", value=_BINS, reason=f"{_SIDES} distances for 4 sides"),
        _named("scores", scores, f"the outputs of {classes} scores for each stride", is_guess),
        _named("distances", distances, "the outputs of distances for each stride", is_guess),
        activation,
    )


def _pairs(seen: Seen) -> tuple[dict[int, list[tuple[int, Output]]], int] | None:
    """Return two outputs for each stride with their channels, and the channels of the scores.

    None if the outputs are not such pairs.
    """
    by_stride: dict[int, list[tuple[int, Output]]] = {}
    for output in seen.outputs:
        grid = grid_of(output.shape, seen)
        if grid is None or grid[1]:
            return None
        by_stride.setdefault(grid[0], []).append((grid[2], output))
    widths = {tuple(sorted(width for width, _ in pair)) for pair in by_stride.values()}
    if len(by_stride) < 2 or len(widths) != 1:
        return None
    both = list(widths.pop())
    if len(both) != 2 or _SIDES not in both:
        return None
    both.remove(_SIDES)
    return by_stride, both[0]


def _scores(pair: Sequence[tuple[int, Output]]) -> Output:
    """Return the scores: they have another width, values from 0 to 1, or a name that says so."""

    def is_less_likely_scores(entry: tuple[int, Output]) -> tuple[bool, bool, bool]:
        width, output = entry
        named = any(word in output.name.lower() for word in _WORDS_FOR_SCORES)
        return width == _SIDES, not output.are_shares, not named

    return min(reversed(pair), key=is_less_likely_scores)[1]


def _named(key: str, outputs: Sequence[Output], reason: str, is_guess: bool) -> Setting:
    names = tuple(output.name for output in outputs)
    return Setting(key=key, value=names, reason=reason, is_guess=is_guess)


def _distances(strides: Sequence[int], classes: int, *settings: Setting) -> Head:
    return Head(
        family="YOLOv8",
        text=f"for each of the strides {listed(strides)}: distances of {_BINS} bins, and scores of "
        f"{classes} classes (YOLOv8, YOLO11)",
        kind="distances",
        is_guess=True,
        classes=classes,
        settings=(_strides(strides), *settings, *THRESHOLDS),
    )


def yolox_grids(seen: Seen) -> Head | None:
    """YOLOX without decoding: for each stride ``[1, 5 + classes, h, w]``."""
    found = alike(seen)
    if found is None or found[1] or not _has_one_objectness(seen, found[2]):
        return None
    strides, _, channels = found
    classes = channels - _BEFORE_SCORES
    # What computes the first part of a joined output says nothing of the scores in the last part.
    ended = 'its usual exporters end the scores in Sigmoid; "sigmoid" if this network does not'
    settings = (
        _strides(strides),
        _named("outputs", seen.outputs, "one output for each stride", False),
        Setting(key="activation", value="none", reason=ended, is_guess=True),
    )
    return Head(
        family="YOLOX",
        text=f"for each of the strides {listed(strides)}: a box in each cell, objectness and "
        f"scores of {classes} classes (YOLOX)",
        kind="yolox",
        is_guess=True,
        classes=classes,
        settings=(*settings, *THRESHOLDS),
    )


def _has_one_objectness(seen: Seen, channels: int) -> bool:
    """Return whether ``channels`` are one box, its objectness, and as many scores as expected.

    Maps of features are grids, too, so that the number of classes must be known or usual.
    """
    return channels == _BEFORE_SCORES + (len(seen.metadata.labels) or COCO_CLASSES)


def alike(seen: Seen) -> tuple[list[int], int, int] | None:
    """Return the strides of the outputs, and the boxes of a cell and the values of a box of each.

    None if the outputs are not a grid for each of some strides. The boxes are 0 where one axis
    holds them together with their values.
    """
    grids = [grid_of(output.shape, seen) for output in seen.outputs]
    found = [grid for grid in grids if grid is not None]
    strides = [stride for stride, _, _ in found]
    if len(grids) < 2 or len(found) != len(grids) or len(set(strides)) != len(strides):
        return None
    if len({grid[1:] for grid in found}) != 1:
        return None
    return strides, *found[0][1:]


def grid_of(shape: Sequence[int], seen: Seen) -> tuple[int, int, int] | None:
    """Return the stride of a head, the boxes of a cell and the values of a box, None if unknown.

    The boxes are 0 where one axis holds them together with their values.
    """
    if len(shape) not in (4, 5) or shape[0] != 1:
        return None
    for stride in STRIDES:
        cells = (-(-seen.height // stride), -(-seen.width // stride))
        for first in range(1, len(shape) - 1):
            if tuple(shape[first : first + 2]) != cells:
                continue
            others = [*shape[1:first], *shape[first + 2 :]]
            if len(others) == 2:
                return stride, others[0], others[1]
            return stride, 0, others[0]
    return None


def _strides(strides: Sequence[int]) -> Setting:
    reason = f"pixels per cell, {_FROM_SIZES}"
    return Setting(key="strides", value=tuple(strides), reason=reason)
