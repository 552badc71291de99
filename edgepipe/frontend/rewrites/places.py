"""Where the elements of moved tensors come from: every element of every picture has a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
"""The places of a tensor's elements, in its shape."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture [1, c, h, w] or row [1, c] whose elements have places from ``begin``."""

    name: str
    shape: tuple[int, ...]
    begin: int

    @property
    def pixels(self) -> int:
        """The elements of a channel."""
        return int(np.prod(self.shape[2:]))


def channels_of(places: Places, pictures: Sequence[Picture]) -> list[tuple[Picture, int]] | None:
    """Return the channels that places int64[..] are, in order; None if they are not whole.

    ``pictures`` are those that have places, in the order of these.
    """
    flat = places.reshape(-1)
    begins = np.array([picture.begin for picture in pictures])
    first = pictures[int(np.searchsorted(begins, flat[0], side="right")) - 1]
    if flat.size % first.pixels:
        return None
    rows = flat.reshape(-1, first.pixels)
    if not np.array_equal(rows, rows[:, :1] + np.arange(first.pixels)):
        return None
    found = []
    for place, index in zip(
        rows[:, 0], np.searchsorted(begins, rows[:, 0], side="right") - 1, strict=True
    ):
        picture = pictures[int(index)]
        channel, pixel = divmod(int(place) - picture.begin, picture.pixels)
        if pixel or picture.pixels != first.pixels or picture.shape[2:] != first.shape[2:]:
            return None
        found.append((picture, channel))
    return found


def is_run(places: Places) -> bool:
    """Whether places int64[..] follow one another."""
    flat = places.reshape(-1)
    return bool((flat[1:] == flat[:-1] + 1).all())


def of_picture(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return a shape with its last four axes, None if it has more that matter."""
    if any(size > 1 for size in shape[:-4]):
        return None
    return (1,) * (4 - len(shape)) + shape[-4:]
