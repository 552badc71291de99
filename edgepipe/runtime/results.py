"""What a frame's outputs mean: boxes of a detector, classes of a classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """A box in pixels of a picture, left-top to right-bottom, with its class and score.

    The pipeline gives boxes in pixels of the network's input; ``scaled`` takes them to the picture
    that the input was made from.
    """

    left: float
    top: float
    right: float
    bottom: float
    score: float
    label_index: int
    label: str

    def scaled(self, x: float, y: float, *, left: float = 0.0, top: float = 0.0) -> Detection:
        """Return the box with ``(left, top)`` added, then stretched by ``x`` and ``y``."""
        return replace(
            self,
            left=(self.left + left) * x,
            top=(self.top + top) * y,
            right=(self.right + left) * x,
            bottom=(self.bottom + top) * y,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassScore:
    """One of a classifier's best classes: the network's score and its softmax over all classes."""

    score: float
    probability: float
    label_index: int
    label: str
