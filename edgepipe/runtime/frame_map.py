"""The results of many frames in order, while every stage is kept busy: ``Pipeline.map``."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import DeadlinePassed, PipelineEnded, RuntimeFailure
from edgepipe.runtime.delivery import Owner
from edgepipe.runtime.library import StatusError
from edgepipe.runtime.results import FrameResult
from edgepipe.runtime.transport import COUNT_BITS

if TYPE_CHECKING:
    from edgepipe.runtime.pipeline import Pipeline

Array = NDArray[Any]
Frame = Array | Sequence[Array] | Mapping[str, Array]
Unsent = tuple[int, Sequence[object]]  # its id and its inputs

_BURST_S = 0.001  # how long frames and results wait for more, to be sent or taken together


class FrameMap(Iterator[FrameResult]):
    """Gives the results of ``frames`` to a ``for`` loop; another can continue after an interrupt.

    Several frames are sent, and several results taken, at once, which wakes the stages less often.
    At most as many frames as the pipeline has slots are taken ahead of the results.
    """

    def __init__(self, pipeline: Pipeline, frames: Iterable[Frame], timeout_s: float) -> None:
        self._pipeline = pipeline
        self._delivery = pipeline._delivery
        self._transport = pipeline._transport
        self._frames = iter(frames)
        self._timeout_s = timeout_s
        self._frame: Frame | None = None  # taken from the frames
        self._is_exhausted = False
        self._reference: weakref.ref[Owner] = weakref.ref(self)
        self._unsent: list[Unsent] = []
        self._sent: tuple[int, list[Unsent]] = (0, [])  # the number of the first, and what was sent
        self._under_way: deque[tuple[int, int]] = deque()  # id and number
        self._results: dict[int, FrameResult] = {}  # by id
        self._is_lost = False

    def __iter__(self) -> FrameMap:
        return self

    def __next__(self) -> FrameResult:
        """Wait for the next result. Raises the errors of ``submit`` and ``FrameFuture.result``."""
        while True:
            if self._under_way and not self._sent[1]:
                id = self._under_way[0][0]
                if id in self._results:
                    result = self._results[id]
                    del self._results[id]
                    del self._under_way[0]
                    return result
            self._note_sent()
            self._send_ahead()
            if not self._under_way:
                raise StopIteration
            self._await_some()

    def receive(self, id: int, result: FrameResult) -> None:
        """Take a result; the pipeline calls this."""
        self._results[id] = result

    def lose(self) -> None:
        """Note that a restart dropped the frames in flight; the pipeline calls this."""
        self._is_lost = True

    # Below, an interrupt cannot separate statements without a call between them: see delivery.py.

    def _send_ahead(self) -> None:
        """Send frames as long as there are frames and free slots."""
        end = time.monotonic() + self._timeout_s
        while True:
            if not self._unsent:
                self._fetch()
            unsent = self._unsent
            if not unsent:
                return
            try:
                for code in self._transport.send_many(unsent):
                    count = code & ((1 << COUNT_BITS) - 1)
                    self._sent = (code >> COUNT_BITS, unsent[:count])
                    self._unsent = unsent[count:]
            except StatusError as cause:
                self._transport.functions.fail(cause)
            self._note_sent()
            if not self._unsent:
                continue
            if self._under_way:  # their slots are the next to become free
                return
            if not self._delivery.collect_owned():
                self._transport.wait("await_slot", end)

    def _fetch(self) -> None:
        """Take frames as long as there are slots for them and none has waited for long."""
        pipeline = self._pipeline
        room = min(pipeline.slots - len(self._under_way), self._transport.most_sent)
        end = time.monotonic() + _BURST_S
        while not self._is_exhausted and len(self._unsent) < room:
            if self._frame is None:
                for frame in self._frames:
                    self._frame = frame
                    break
                else:
                    self._is_exhausted = True
                    return
            packed = pipeline._pack(*split(self._frame))
            self._unsent += [(self._delivery.begin(packed, self._reference), packed)]
            self._frame = None
            if time.monotonic() > end:
                return

    def _note_sent(self) -> None:
        """Remember the numbers of what was sent."""
        number, sent = self._sent
        if sent:
            numbered = [(id, number + index) for index, (id, _) in enumerate(sent)]
            self._under_way += numbered
            self._sent = (0, [])

    def _await_some(self) -> None:
        """Wait briefly for most of the frames, then longer for the first."""
        under_way = self._under_way
        id, number = under_way[0]
        most = under_way[len(under_way) * 3 // 4][1]
        with suppress(RuntimeFailure):  # the frame that it concerns reports it
            self._transport.wait_briefly("await_frame", _BURST_S, most)
            self._delivery.collect(most)
        if id in self._results:
            return
        if self._is_lost:
            raise PipelineEnded(
                f"frame {number} was dropped by a restart", hint="submit the frame again"
            )
        try:
            self._delivery.settle_frames(number, self._timeout_s)
        except DeadlinePassed as cause:
            raise DeadlinePassed(
                f"frame {number} was not finished in {self._timeout_s:g} s: {cause}",
                hint=cause.hint,
            ) from cause


def split(frame: Frame) -> tuple[Sequence[Array], Mapping[str, Array]]:
    """Return a frame's arrays by position and by name.

    The arrays have the dtypes and shapes of the pipeline's inputs.
    """
    if type(frame) is np.ndarray:
        return (frame,), {}
    if isinstance(frame, Mapping):
        return (), frame
    return (frame if isinstance(frame, tuple | list) else (frame,)), {}
