"""The result of one frame, available at any time and in any order.

    future = pipeline.submit(frame)
    result = future.result(timeout_s=1.0)
    result = await future  # in a coroutine

When a future is garbage-collected, its result is dropped and its slot is free again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable, Generator

from edgepipe_runtime.errors import DeadlinePassed, FrameCancelled, PipelineEnded, RuntimeFailure
from edgepipe_runtime.results import FrameResult

if TYPE_CHECKING:
    from edgepipe_runtime.pipeline import Pipeline

TIMEOUT_S = 60.0


class FrameFuture:
    """Returned by ``Pipeline.submit``; keeps the pipeline alive. Any thread may use it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._result: FrameResult | None = None
        self._error: Exception | None = None
        self._cancelled = False
        self._callbacks: list[Callable[[FrameFuture], object]] = []
        self.frame = -1
        self.placement: Any = None  # of its picture, if it was made of one

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is known here, without asking the pipeline."""
        return self._result is not None or self._error is not None or self._cancelled

    def receive(self, result: FrameResult) -> None:
        """Take the result; the pipeline calls this."""
        if not self.is_settled:
            self._result = result

    def lose(self) -> None:
        """Take a restart's error instead of the result; the pipeline calls this."""
        if not self.is_settled:
            self._error = PipelineEnded(
                f"frame {self.frame} was dropped by a restart", hint="submit the frame again"
            )

    def done(self) -> bool:
        """Return whether ``result`` would return or raise at once. Never waits."""
        try:
            self._pipeline._settle(self, None)
        except RuntimeFailure:
            return True
        return self.is_settled

    def cancelled(self) -> bool:
        """Return whether ``cancel`` has been called in time."""
        return self._cancelled

    def result(self, *, timeout_s: float = TIMEOUT_S) -> FrameResult:
        """Wait for the frame; may be called again, even after an interrupt.

        Raises DeadlinePassed, PipelineEnded, FrameCancelled, or the stage's failure.
        """
        self._await(timeout_s)
        if self._cancelled:
            raise self._cancelled_error()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def exception(self, *, timeout_s: float = TIMEOUT_S) -> Exception | None:
        """Wait for the frame and return the exception of ``result``, None if there is a result.

        Raises DeadlinePassed if the frame is not finished in time.
        """
        try:
            self._await(timeout_s)
        except DeadlinePassed:
            raise
        except RuntimeFailure as error:
            return error
        return self._cancelled_error() if self._cancelled else self._error

    def cancel(self) -> bool:
        """Drop the result and free the slot as soon as the frame is finished.

        The stages still run the frame. ``result`` then raises FrameCancelled. Returns False if the
        result has already arrived, or the pipeline has ended.
        """
        if self.done():
            return False
        self._cancelled = True
        self._call_back()
        return True

    def add_done_callback(self, callback: Callable[[FrameFuture], object]) -> None:
        """Call ``callback(future)`` once when it is done: now, or on a thread of the pipeline.

        An exception in the callback is logged.
        """
        self._callbacks.append(callback)
        if self.done():
            self._call_back()
        else:
            self._pipeline._watch(self)

    def __await__(self) -> Generator[Any, None, FrameResult]:
        """Wait in a coroutine. Cancelling the task leaves the frame in flight."""
        if not self.done():
            loop = asyncio.get_event_loop()
            waiter = loop.create_future()

            def settle() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            def wake(_: FrameFuture) -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(settle)

            self.add_done_callback(wake)
            yield from waiter
        return self.result(timeout_s=0.0)

    def _cancelled_error(self) -> FrameCancelled:
        return FrameCancelled(f"frame {self.frame} was cancelled", hint="submit the frame again")

    def _await(self, timeout_s: float) -> None:
        if not self.is_settled:
            try:
                self._pipeline._settle(self, time.monotonic() + timeout_s)
            except DeadlinePassed as cause:
                raise DeadlinePassed(
                    f"frame {self.frame} was not finished in {timeout_s:g} s: {cause}",
                    hint=cause.hint,
                ) from cause

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:  # another thread was first
                return
            try:
                callback(self)
            except Exception:
                logging.getLogger("edgepipe").exception("frame %d: callback failed", self.frame)
