"""Who gets which frame: results that are for anyone, in order, and those that a future owns.

Three rules let any thread call anything, and let a signal handler raise anywhere:

* A wait changes nothing and holds no lock, so no waiting thread keeps another from its frame.
* What changes something never waits. It names the frame that it expects, so the C++ side answers a
  call that is repeated after an interrupt as it did before.
* The last step, which hands a frame over, is no call of Python's: CPython runs signal handlers and
  changes threads only at calls, at the start of functions and at backward jumps.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from itertools import repeat, starmap

from edgepipe.errors import DeadlinePassed, PipelineEnded
from edgepipe.runtime.frames import TakenFrame
from edgepipe.runtime.futures import FrameFuture
from edgepipe.runtime.library import StatusError
from edgepipe.runtime.named import Named
from edgepipe.runtime.results import ClassScore, Detection, FrameResult
from edgepipe.runtime.transport import Array, Taken, Transport

_DISPATCH_S = 0.1  # how long the dispatcher may overlook a future that has come since
_ALL = 1 << 62


class Delivery:
    """Sends a pipeline's frames and hands their results over; does not keep the pipeline alive."""

    def __init__(
        self, transport: Transport, output_names: tuple[str, ...], labels: tuple[str, ...]
    ) -> None:
        self._transport = transport
        self._output_names = output_names
        self._labels = labels
        self._collecting = threading.Lock()
        self._received = 0  # frames 0..received-1 have been handed over
        self._batch: tuple[int, Sequence[Taken]] = (0, ())  # its first frame, and what was taken
        self._ready: deque[FrameResult] = deque()  # for anyone
        self._next_ready = starmap(self._ready.popleft, repeat(()))  # steps without Python code
        self._futures: dict[int, weakref.ref[FrameFuture]] = {}  # by the id of their frame
        self._settled: deque[FrameFuture] = deque()  # whose callbacks are to be called
        self._generation = 0
        self._starting = threading.Lock()
        self._watched: queue.SimpleQueue[FrameFuture | None] | None = None

    # ---- frames in

    def send(
        self, packed: Sequence[object], deadline: float, future: FrameFuture | None = None
    ) -> int:
        """Send a frame and return its number; wait for a slot until ``deadline``."""
        id = self.begin(packed, future)
        try:
            while True:
                for number in self._transport.send(id, packed):
                    if number >= 0:
                        if future is not None:
                            future.frame = number
                        return number
                if not self.collect_owned():
                    self._transport.wait("await_slot", deadline)
        except BaseException as cause:
            self._futures.pop(id, None)
            if not isinstance(cause, StatusError):
                raise
            self._transport.functions.fail(cause)

    def begin(self, packed: Sequence[object], future: FrameFuture | None) -> int:
        """Return the id to send a frame with; its result will go to the future."""
        id = self._transport.begin(packed, future is not None)
        if future is not None:  # known before its frame can be finished
            self._futures[id] = weakref.ref(future)
        return id

    # ---- results out

    def poll(self) -> FrameResult | None:
        """Return the next result that is for anyone, or None. Never waits."""
        self._collect(None)
        if self._ready:
            try:
                for result in self._next_ready:
                    return result
            except IndexError:  # another thread was first
                pass
        return None

    def next(self, deadline: float) -> FrameResult:
        """Wait for the next result that is for anyone."""
        while True:
            self._collect(None)
            if self._ready:
                try:
                    for result in self._next_ready:
                        return result
                except IndexError:  # another thread was first
                    continue
            self._transport.wait("await_frame", deadline, self._received)

    def settle(self, future: FrameFuture, deadline: float | None) -> None:
        """Wait until a future has its result; without a deadline only look. Raises as ``next``."""
        while not future.is_settled:
            self._collect(future.frame)
            if future.is_settled or deadline is None:
                return
            self._transport.wait("await_frame", deadline, future.frame)

    def cancel(self, future: FrameFuture) -> bool:
        """Mark a future as cancelled unless it has its result."""
        with self._collecting:
            if not future.is_settled:
                future._cancelled = True
                self._settled.append(future)
        self._call_back()
        return future._cancelled

    def collect_owned(self) -> bool:
        """Hand finished frames to their futures as far as the first of no future's. Never waits.

        Returns whether there were any; their slots are free.
        """
        before = self._received
        self._collect(_ALL, owned_only=True)
        return self._received != before

    def _collect(self, until: int | None, *, owned_only: bool = False) -> None:
        """Take finished frames up to number ``until``, or to the first that is for anyone."""
        self._transport.functions.check_process()
        with self._collecting:
            while not self._ready if until is None else self._received <= until:
                first, batch = self._batch
                index = self._received - first
                if index == len(batch):
                    most = 1 if until is None else until - self._received + 1
                    taken = self._transport.take(self._received, most, owned_only)
                    if not taken:
                        break
                    self._batch = (self._received, taken)
                else:
                    self._hand_over(*batch[index])
        if self._settled:
            self._call_back()

    def _hand_over(self, found: TakenFrame, arrays: Sequence[Array]) -> None:
        """Give a result to its owner. Needs ``_collecting``."""
        result = self._result(found, arrays)
        following = found.frame + 1
        if found.id & 1:
            reference = self._futures.get(found.id)
            future = reference() if reference is not None else None
            if future is not None and not future._cancelled and future._error is None:
                future._result = result
                if future._callbacks:
                    self._settled.append(future)
            self._received = following
            self._futures.pop(found.id, None)
        else:
            # Without a call in between: both or neither.
            self._ready += (result,)
            self._received = following

    def _result(self, found: TakenFrame, arrays: Sequence[Array]) -> FrameResult:
        return FrameResult(
            frame=found.frame,
            latency_ms=found.latency_ns / 1e6,
            outputs=Named(self._output_names, arrays),
            detections=()
            if not found.box_count
            else tuple(
                Detection(
                    left=left,
                    top=top,
                    right=right,
                    bottom=bottom,
                    score=score,
                    label_index=label_index,
                    label=self.label(label_index),
                )
                for left, top, right, bottom, score, label_index in found.boxes()
            ),
            classes=()
            if not found.class_count
            else tuple(
                ClassScore(
                    score=score,
                    probability=probability,
                    label_index=label_index,
                    label=self.label(label_index),
                )
                for label_index, score, probability in found.classes()
            ),
        )

    def label(self, label_index: int) -> str:
        """Return a class's name, or its number where the bundle has none."""
        if 0 <= label_index < len(self._labels):
            return self._labels[label_index]
        return str(label_index)

    # ---- a new start

    def restart(self, deadline: float) -> None:
        """Let the ended C++ pipeline begin anew; may be repeated when interrupted."""
        generation = self._generation + 1
        while True:
            with self._collecting:
                try:
                    end = time.monotonic() + self._transport.slice_s
                    self._transport.wait("restart", end, generation)
                    break
                except DeadlinePassed:
                    if time.monotonic() >= deadline:
                        raise
        with self._collecting:
            for reference in list(self._futures.values()):
                future = reference()
                if future is not None and not future.is_settled:
                    future._error = PipelineEnded(f"frame {future.frame} was dropped by a restart")
                    self._settled.append(future)
            self._futures.clear()
            self._ready.clear()
            self._transport.reset()
            self._batch = (0, ())
            self._received = 0
        self._call_back()
        self._generation = generation  # last: an interrupted restart is repeated as a whole

    @property
    def generation(self) -> int:
        """How often it has been restarted."""
        return self._generation

    # ---- callbacks

    def watch(self, future: FrameFuture) -> None:
        """Call a future's callbacks when its frame is finished, whoever waits for it or nobody."""
        with self._starting:
            if self._watched is None:
                self._watched = queue.SimpleQueue()
                threading.Thread(
                    target=_dispatch,
                    args=(self, self._watched),
                    name="edgepipe-futures",
                    daemon=True,
                ).start()
        self._watched.put(future)

    def end(self) -> None:
        """Let the thread that calls callbacks end."""
        if self._watched is not None:
            self._watched.put(None)

    def _call_back(self) -> None:
        while self._settled:
            try:
                future = self._settled.popleft()
            except IndexError:
                return
            future._call_back()

    def serve(self, watched: list[FrameFuture]) -> None:
        """Wait a little for the frames of futures; fail the futures when no frame will come."""
        try:
            self._collect(max(future.frame for future in watched))
            if not all(future.is_settled for future in watched):
                end = time.monotonic() + _DISPATCH_S
                self._transport.wait("await_frame", end, self._received)
        except DeadlinePassed:
            pass
        except Exception as cause:
            for future in watched:
                with self._collecting:
                    if not future.is_settled:
                        future._error = cause
                future._call_back()


def _dispatch(delivery: Delivery, queued: queue.SimpleQueue[FrameFuture | None]) -> None:
    """Serve the futures that have callbacks until None comes."""
    watched: list[FrameFuture] = []
    while True:
        while not watched or not queued.empty():
            future = queued.get()
            if future is None:
                return
            watched.append(future)
            del future
        delivery.serve(watched)
        watched = [future for future in watched if not future.is_settled]
