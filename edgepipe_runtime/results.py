"""The results of a finished frame: its arrays, and what the description makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Iterator, Sequence, TypeVar

import numpy as np

from edgepipe_runtime.errors import PipelineError

T = TypeVar("T")


class Named(Generic[T]):
    """Items by index, by slice and by name; iteration yields the items, ``in`` tests for a name.

    Raises PipelineError for a name or an index that does not exist.
    """

    def __init__(self, names: tuple[str, ...], items: Sequence[T]) -> None:
        self.names = names
        self._items = items

    def __getitem__(self, key: int | str) -> T:
        known = ", ".join(self.names)
        if isinstance(key, str):
            if key not in self.names:
                raise PipelineError(f"{key!r} is unknown", hint=f"known names: {known}")
            return self._items[self.names.index(key)]
        try:
            return self._items[key]
        except IndexError:
            raise PipelineError(
                f"index {key} is out of range", hint=f"there are {len(self.names)}: {known}"
            ) from None

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def items(self) -> Iterator[tuple[str, T]]:
        """Yield each name with its item."""
        return zip(self.names, self._items)

    def __repr__(self) -> str:
        return f"Named({', '.join(f'{name}={item!r}' for name, item in self.items())})"


@dataclass(frozen=True)
class Point:
    """A landmark or keypoint in pixels, with its score (1.0 if the network gives none).

    ``label`` names a keypoint; points of a box have none.
    """

    x: float
    y: float
    score: float = 1.0
    label: str = ""

    def scaled(self, x: float, y: float, *, left: float = 0.0, top: float = 0.0) -> Point:
        """Return the point with ``(left, top)`` added, then stretched by ``x`` and ``y``."""
        return replace(self, x=(self.x + left) * x, y=(self.y + top) * y)


@dataclass(frozen=True)
class Detection:
    """A box in pixels of a picture, left-top to right-bottom, with its class, score and points.

    ``scaled`` converts a box in pixels of the network's input to another picture.
    """

    left: float
    top: float
    right: float
    bottom: float
    score: float
    label_index: int
    label: str = ""
    points: tuple[Point, ...] = ()

    def scaled(self, x: float, y: float, *, left: float = 0.0, top: float = 0.0) -> Detection:
        """Return the box with ``(left, top)`` added, then stretched by ``x`` and ``y``."""
        return replace(
            self,
            left=(self.left + left) * x,
            top=(self.top + top) * y,
            right=(self.right + left) * x,
            bottom=(self.bottom + top) * y,
            points=tuple(point.scaled(x, y, left=left, top=top) for point in self.points),
        )


@dataclass(frozen=True)
class ClassScore:
    """One of a classifier's best classes: the network's score and its probability."""

    score: float
    probability: float
    label_index: int
    label: str = ""


@dataclass(frozen=True)
class ClassArea:
    """The share of a picture, from 0 to 1, that a class covers."""

    share: float
    label_index: int
    label: str


@dataclass(frozen=True, eq=False)
class ClassMap:
    """The class of every cell: ``classes: uint8[rows, columns]``, which cover the input evenly."""

    classes: Any
    labels: tuple[str, ...] = ()

    def areas(self) -> tuple[ClassArea, ...]:
        """Return the classes that occur, with their shares of the cells, largest first."""
        cells = np.bincount(self.classes.reshape(-1), minlength=256)
        order = [int(index) for index in np.argsort(-cells, kind="stable") if cells[index]]
        return tuple(
            ClassArea(float(cells[index]) / self.classes.size, index, label_of(self.labels, index))
            for index in order
        )


def label_of(labels: tuple[str, ...], label_index: int) -> str:
    """Return a class's name, or its number if there is no name for it."""
    return labels[label_index] if 0 <= label_index < len(labels) else str(label_index)


@dataclass(eq=False)  # not frozen: one is created for each frame
class FrameResult:
    """A finished frame, the same for every pipeline.

    ``outputs`` are the arrays by index and by name, as ``outputs[0]`` or ``outputs["scores"]``, of
    the shapes and dtypes of ``Pipeline.outputs``; they belong to the caller, except within
    ``Pipeline.borrow``. A bundle's postprocessing fills ``detections`` (best first), ``classes``
    (best first), ``points``, ``class_map``, or ``text`` and ``text_score``, the mean probability of
    its characters. Boxes and points are in pixels of the network's input, or of the picture if the
    pipeline was called with one; then the map has a cell for each pixel of the picture.
    ``latency_ms`` is the time from ``run`` to the last stage's end.
    """

    frame: int
    latency_ms: float
    outputs: Named[Any]
    detections: tuple[Detection, ...] = ()
    classes: tuple[ClassScore, ...] = ()
    points: tuple[Point, ...] = ()
    class_map: ClassMap | None = None
    text: str = ""
    text_score: float = 0.0
