"""The results of many frames in order, while every stage is kept busy: ``Pipeline.map``."""

from __future__ import annotations

from collections import deque
from typing import (
    TYPE_CHECKING,
    Any,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Union,
)

import numpy as np

from edgepipe_runtime.futures import FrameFuture
from edgepipe_runtime.results import FrameResult

if TYPE_CHECKING:
    from edgepipe_runtime.pipeline import Pipeline

Frame = Union[Any, Sequence[Any], Mapping[str, Any]]


class FrameMap(Iterator[FrameResult]):
    """Gives the results of ``frames`` to a ``for`` loop; another can continue after an interrupt.

    At most as many frames as the pipeline has slots are taken ahead of the results.
    """

    def __init__(self, pipeline: Pipeline, frames: Iterable[Frame], timeout_s: float) -> None:
        self._pipeline = pipeline
        self._frames = iter(frames)
        self._timeout_s = timeout_s
        self._frame: tuple[Frame] | None = None  # taken from the frames, not submitted yet
        self._is_exhausted = False
        self._under_way: deque[FrameFuture] = deque()

    def __iter__(self) -> FrameMap:
        return self

    def __next__(self) -> FrameResult:
        """Wait for the next result. Raises the errors of ``submit`` and ``FrameFuture.result``."""
        while not self._is_exhausted and len(self._under_way) < self._pipeline.slots:
            if self._frame is None:
                try:
                    self._frame = (next(self._frames),)
                except StopIteration:
                    self._is_exhausted = True
                    break
            arrays, inputs = split(self._frame[0])
            self._under_way.append(
                self._pipeline.submit(*arrays, timeout_s=self._timeout_s, **inputs)
            )
            self._frame = None
        if not self._under_way:
            raise StopIteration
        result = self._under_way[0].result(timeout_s=self._timeout_s)
        self._under_way.popleft()
        return result


def split(frame: Frame) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return a frame's arrays by position and by name.

    The arrays have the dtypes and shapes of the pipeline's inputs.
    """
    if isinstance(frame, np.ndarray):
        return (frame,), {}
    if isinstance(frame, Mapping):
        return (), frame
    return (frame if isinstance(frame, (tuple, list)) else (frame,)), {}
