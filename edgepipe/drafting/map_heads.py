"""Outputs with a value, or one for each class, for every pixel or every cell of some pixels."""

from __future__ import annotations

from edgepipe.drafting.head import Head, Seen
from edgepipe.drafting.probe import Output
from edgepipe.drafting.settings import Setting

_CELLS = (1, 2, 4, 8)  # pixels of a side of a cell of usual maps


def chosen_classes(seen: Seen) -> Head | None:
    """The number of a class for each pixel, or for each cell of some pixels."""
    if len(seen.outputs) != 1 or seen.outputs[0].maker != "ArgMax":
        return None
    (output,) = seen.outputs
    sizes = [size for size in output.shape if size != 1]
    if len(sizes) != 2 or sizes[0] * seen.width != sizes[1] * seen.height:
        return None
    return Head(family="class map", text=f"{output}: the class of each pixel, chosen by ArgMax")


def maps(seen: Seen) -> Head | None:
    """Segmentation and other maps: [1, c, h, w] at the picture's size or a part of it.

    Other outputs of the same shape are those that helped the training.
    """
    shapes = set(seen.shapes(4))
    if len(shapes) != 1 or any(len(output.shape) != 4 for output in seen.outputs):
        return None
    main = [output for output in seen.outputs if "aux" not in output.name.lower()]
    output = (main or seen.outputs)[0]
    _, channels, height, width = output.shape
    is_whole = (height, width) == (seen.height, seen.width)
    has_others = len(seen.outputs) > 1
    if has_others and not is_whole and len(main) == len(seen.outputs):
        return None
    if channels == 1 and is_whole:
        return _single(output, has_others=has_others)
    if channels == 3 and height >= seen.height and not height % seen.height and not has_others:
        return Head(family="picture", text=f"{output}: a picture")
    part = seen.height // height if height else 0
    if channels > 1 and part in _CELLS and part == seen.width // max(width, 1):
        return _segmentation(output, channels, has_others=has_others)
    return None


def _single(output: Output, *, has_others: bool) -> Head | None:
    """One map: from 0 to 1, or of both signs as a mask is before its sigmoid."""
    if output.are_shares:
        return Head(family="text map", text=f"{output}: one map from 0 to 1 (text, a mask)")
    if output.least >= 0:
        return None
    return Head(
        family="segmentation",
        text=f"{output}: one map of values of both signs (a mask without its sigmoid); "
        'kind = "none" if they are depths or other quantities',
        kind="segmentation",
        is_guess=True,
        classes=2,
        settings=(
            _named(output, has_others=has_others),
            Setting(
                key="activation",
                value="sigmoid",
                reason="the values are not from 0 to 1",
                is_guess=True,
            ),
            Setting(
                key="score_threshold",
                value=0.5,
                reason="lowest score of class 1; the rest of the picture is class 0",
            ),
        ),
    )


def _segmentation(output: Output, channels: int, *, has_others: bool) -> Head:
    return Head(
        family="segmentation",
        text=f"{output}: a map of {channels} classes (segmentation); "
        'kind = "keypoints" if they are heat maps of points',
        kind="segmentation",
        is_guess=True,
        classes=channels,
        settings=(_named(output, has_others=has_others),),
    )


def _named(output: Output, *, has_others: bool) -> Setting:
    reason = "the first output that is not auxiliary" if has_others else "the output"
    return Setting(key="outputs", value=(output.name,), reason=reason, is_guess=has_others)
