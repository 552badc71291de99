"""What the outputs of a network are: the record that the rules of every family make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from edgepipe.drafting.metadata import Metadata
from edgepipe.drafting.probe import Output
from edgepipe.drafting.settings import Setting

STRIDES = (4, 8, 16, 32, 64, 128)
"""Pixels per cell of the heads of usual networks."""

COCO_CLASSES = 80
"""What most detectors are trained with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What the outputs are: a family of networks, and how a description would name it.

    ``kind`` is the post-processing's, "none" where edgepipe has none for the family; ``is_guess``
    marks it. ``settings`` are the other keys of the description's table. ``remedy`` says what to do
    about a family whose form is not decoded, "" for what is usual for the family.
    """

    family: str
    text: str
    kind: str = "none"
    is_guess: bool = False
    classes: int = 0
    settings: tuple[Setting, ...] = field(default=())
    remedy: str = ""


THRESHOLDS = (
    Setting(key="score_threshold", value=0.4, reason="lower gives more boxes, and more wrong ones"),
    Setting(
        key="iou_threshold",
        value=0.5,
        reason="overlap from which the weaker of two boxes is dropped",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The outputs of a network for a picture of ``height`` x ``width`` pixels."""

    outputs: Sequence[Output]
    height: int
    width: int
    metadata: Metadata

    def cells(self, stride: int) -> int:
        """Return how many cells a picture has at a stride."""
        return -(-self.height // stride) * -(-self.width // stride)

    def pyramid(self, strides: Sequence[int]) -> int:
        """Return how many cells a picture has at all ``strides``."""
        return sum(self.cells(stride) for stride in strides)

    def shapes(self, rank: int) -> list[tuple[int, ...]]:
        """Return the shapes of the outputs of this rank."""
        return [output.shape for output in self.outputs if len(output.shape) == rank]


def listed(numbers: Iterable[object]) -> str:
    """Return the numbers with commas between them."""
    return ", ".join(map(str, numbers))
