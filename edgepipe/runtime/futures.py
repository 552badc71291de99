"""The result of one frame, to be asked for at any time and in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgepipe.errors import DeadlinePassed, PipelineEnded
from edgepipe.runtime.results import FrameResult

if TYPE_CHECKING:
    from edgepipe.runtime.pipeline import Pipeline

TIMEOUT_S = 60.0


class FrameFuture:
    """Made by ``Pipeline.submit``."""

    def __init__(self, pipeline: Pipeline, frame: int) -> None:
        self._pipeline = pipeline
        self._result: FrameResult | None = None
        self._dropped = False  # by a restart
        self.frame = frame

    def done(self) -> bool:
        """Tell whether ``result`` would return at once. Never waits."""
        if self._result is None:
            self._pipeline._take_until(self, 0.0)
        return self._result is not None

    def result(self, *, timeout_s: float = TIMEOUT_S) -> FrameResult:
        """Wait for the frame. Raises DeadlinePassed, PipelineEnded, or the stage's failure."""
        if self._result is None:
            self._pipeline._take_until(self, timeout_s)
        if self._dropped:
            raise PipelineEnded(f"frame {self.frame} was dropped by a restart")
        if self._result is None:
            raise DeadlinePassed(f"frame {self.frame} was not finished in {timeout_s} s")
        return self._result
