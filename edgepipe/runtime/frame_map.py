"""The results of many frames in order, while every stage is kept busy: ``Pipeline.map``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from edgepipe.runtime.futures import FrameFuture
from edgepipe.runtime.results import FrameResult

if TYPE_CHECKING:
    from edgepipe.runtime.pipeline import Pipeline

Array = NDArray[Any]
Frame = Array | Sequence[Array] | Mapping[str, Array]


class FrameMap(Iterator[FrameResult]):
    """Gives the results of ``frames`` to a ``for`` loop; after an interrupt another one goes on.

    No more than the pipeline's slots are taken from ``frames`` ahead of the results.
    """

    def __init__(self, pipeline: Pipeline, frames: Iterable[Frame], timeout_s: float) -> None:
        self._pipeline = pipeline
        self._frames = iter(frames)
        self._timeout_s = timeout_s
        self._frame: Frame | None = None  # taken from the frames and not sent yet
        self._is_exhausted = False
        self._under_way: deque[FrameFuture] = deque()

    def __iter__(self) -> FrameMap:
        return self

    def __next__(self) -> FrameResult:
        """Wait for the next result. Raises what ``submit`` and ``FrameFuture.result`` raise."""
        while not self._is_exhausted and len(self._under_way) < self._pipeline.slots:
            if self._frame is None:
                for frame in self._frames:
                    self._frame = frame
                    break
                else:
                    self._is_exhausted = True
                    break
            arrays, inputs = split(self._frame)
            future = FrameFuture(self._pipeline)
            self._pipeline._send(self._timeout_s, arrays, inputs, future)
            self._under_way += (future,)  # no call between the frame's start and its note
            self._frame = None
        if not self._under_way:
            raise StopIteration
        result = self._under_way[0].result(timeout_s=self._timeout_s)
        del self._under_way[0]
        return result


def split(frame: Frame) -> tuple[Sequence[Array], Mapping[str, Array]]:
    """Return a frame's arrays by position and by name."""
    if isinstance(frame, Mapping):
        return (), frame
    return (frame if isinstance(frame, tuple | list) else (frame,)), {}
