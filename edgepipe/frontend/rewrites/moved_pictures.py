"""Values whose elements are those of a picture, moved by reshapes and transpositions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TO_LAST = (0, 2, 3, 1)
"""From [1, c, h, w] to [1, h, w, c]."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A value whose elements are those of a picture [1, c, h, w], in another order and shape.

    ``order`` has the value's shape, and for each element its place in the flat picture. ``source``
    is a value [1, h, w, c] that the picture is transposed from, empty if it exists already.
    """

    picture: str
    shape: tuple[int, ...]
    order: NDArray[np.int64]
    source: str = ""

    @property
    def is_flat(self) -> bool:
        """Whether the elements are in the picture's order."""
        return bool((self.order.reshape(-1) == np.arange(self.order.size)).all())

    @property
    def is_tokens(self) -> bool:
        """Whether the last axis is the picture's channels, and the others its pixels in order."""
        if self.order.shape[-1:] != self.shape[1:2]:
            return False
        return bool((self.order.reshape(-1) == tokens_of(self.shape).reshape(-1)).all())

    def constant(self, array: NDArray[np.generic]) -> NDArray[np.generic] | None:
        """Return a constant for the value in the picture's layout.

        It is a number, [1, c, 1, 1], or [1, c, h, w] if it differs within a channel; None if it has
        another shape.
        """
        if array.size == 1:
            return array.reshape(()) if array.ndim <= len(self.order.shape) else None
        try:
            full = np.broadcast_to(array, self.order.shape)
        except ValueError:
            return None
        laid = np.empty(self.order.size, array.dtype)
        laid[self.order.reshape(-1)] = full.reshape(-1)
        laid = laid.reshape(self.shape)
        channels = laid[:, :, :1, :1]
        return np.ascontiguousarray(channels) if (laid == channels).all() else laid


def tokens_of(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the flat places of a picture [1, c, h, w], as int64[1, h, w, c]."""
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape).transpose(TO_LAST)
