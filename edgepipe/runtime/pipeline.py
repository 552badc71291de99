"""A pipeline at work: a bundle, or a graph of stages, run by the C++ pipeline.

    with edgepipe.load("net.edgepipe") as pipeline:
        pipeline.run(frame)  # never waits; returns the frame's number
        result = pipeline.get_output()  # never waits; None when nothing is ready
        result = pipeline.next(timeout_s=1.0)  # waits
        future = pipeline.submit(frame)
        future.result(timeout_s=1.0)
        for result in pipeline.map(frames):  # keeps every stage busy
            print(result.frame, result.outputs[0])

Any thread may call anything. Frames are delivered in the order in which they were run.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import methodcaller
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import DeadlinePassed, PipelineEnded, PipelineError, RuntimeFailure
from edgepipe.names import suggest
from edgepipe.runtime.frames import TakenFrame, read_frame
from edgepipe.runtime.futures import TIMEOUT_S, FrameFuture
from edgepipe.runtime.handle import Handle
from edgepipe.runtime.library import as_tensor
from edgepipe.runtime.named import Named
from edgepipe.runtime.ports import (
    Port,
    array_shape,
    as_port,
    check_array,
    check_parameters,
    dense_port,
)
from edgepipe.runtime.results import ClassScore, Detection, FrameResult
from edgepipe.runtime.statistics import Statistics, statistics_from_json

Array = NDArray[Any]
Frame = Array | Sequence[Array] | Mapping[str, Array]

# Codes of cpp_runtime/include/edgepipe/status.h that are not failures of the pipeline.
_DEADLINE, _CANCELLED, _CLOSED = 6, 7, 8
WAITS: Mapping[int, type[RuntimeFailure]] = {
    _DEADLINE: DeadlinePassed,
    _CANCELLED: PipelineEnded,
    _CLOSED: PipelineEnded,
}


# How the pipeline's C++ side names the stage of a frame that failed.
_FAILED_STAGE = re.compile(r"stage \d+ '([^']+)' at frame \d+")

TRACE_SPANS = 32768  # kTraceSpans of pipeline_trace.h


class Pinning(StrEnum):
    """What happens when a stage's thread cannot be pinned to its core."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    OFF = "off"


class Fitter(Protocol):
    """Turns a picture into a frame of a pipeline, and boxes in the frame into the picture's."""

    def frame(self, picture: Array | str | os.PathLike[str]) -> tuple[Array, tuple[int, int]]:
        """Return the input array, and the picture's height and width in pixels."""

    def boxes(
        self, detections: Sequence[Detection], size: tuple[int, int]
    ) -> tuple[Detection, ...]:
        """Return detections in pixels of a picture of ``size`` (height, width)."""


class Runner(Protocol):
    """What a stage that runs in Python does beside its frames; see ``edgepipe.pipeline.hosted``."""

    failure: BaseException | None
    """What has ended the last run that failed."""

    def replace(self, parameters: Mapping[str, Array], first_frame: int) -> None:
        """Use ``parameters`` from frame ``first_frame`` on."""

    def restart(self) -> None:
        """Prepare for frame 0; nothing runs meanwhile."""

    def interrupt(self) -> None:
        """Make a ``run`` that waits for something outside this process end soon. Any thread."""

    def close(self) -> None:
        """Let go of what is outside this process; nothing runs any more."""


@dataclass(frozen=True, slots=True)
class _ParameterGroup:
    """A Relax stage whose parameters can be replaced."""

    stage: str
    ports: Mapping[str, Port]

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> _ParameterGroup:
        ports = [dense_port(p["name"], p["dtype"], p["shape"]) for p in entry["parameters"]]
        return cls(entry["stage"], {port.name: port for port in ports})

    def check(self, parameters: Mapping[str, Array]) -> None:
        """Raise PipelineError unless these are some of the group's parameters."""
        if not parameters:
            raise PipelineError(
                f"stage {self.stage!r}: no parameters are given",
                hint=f"it has: {', '.join(self.ports)}",
            )
        check_parameters(f"stage {self.stage!r}", parameters, self.ports)


class Pipeline(Handle):
    """Made by ``edgepipe.load``, ``BuiltPipeline.start`` or ``load_on``; a context manager.

    ``inputs`` and ``outputs`` are its ports, by index and by name. ``input_map`` gives, for each
    input, the stages' inputs that it feeds, as pairs of a stage's name and an input's there.

    Once a stage has failed, frames end as a RuntimeFailure that names stage and frame; what a
    Python stage raised is its ``__cause__``. ``restart`` begins anew after that, after ``stop`` and
    after ``cancel``.
    """

    _kinds = WAITS

    def __init__(
        self,
        module: Any,
        *,
        runners: Mapping[str, Runner] | None = None,
        fitter: Fitter | None = None,
        end: str = "close",
        keep: object = None,
    ) -> None:
        """Take a module of ``load_pipeline`` over, and what runs its Python stages, by name."""
        self._runners = dict(runners or {})
        self._fitter = fitter
        self._submitting = threading.Lock()
        self._taking = threading.Lock()
        self._submitted = 0
        self._futures: dict[int, weakref.ref[FrameFuture]] = {}
        self._spare: tuple[Array, ...] | None = None
        self._passed: deque[FrameResult] = deque()  # taken on the way to a future's frame
        # Finalizers run in the reverse order: connections are cut, the C++ side ends, what is left
        # of the runners goes.
        every = tuple(self._runners.values())
        self._ended = weakref.finalize(self, _each, every, methodcaller("close"))
        super().__init__("pipeline", module, end=end, keep=keep)
        self._interrupted = weakref.finalize(self, _each, every, methodcaller("interrupt"))
        found = json.loads(self._call("describe"))
        self.name: str = found["name"]
        self.device: str = found["device"]
        self.stages: tuple[str, ...] = tuple(found["stages"])
        self.labels: tuple[str, ...] = tuple(found["labels"])
        self.inputs = _ports(found["inputs"])
        self.outputs = _ports(found["outputs"])
        self.parameter_groups = {
            group: _ParameterGroup.read(entry) for group, entry in found["parameter_groups"].items()
        }
        self.input_map: dict[str, tuple[tuple[str, str], ...]] = {
            name: tuple((stage, port) for stage, port in ends)
            for name, ends in found["input_map"].items()
        }
        self._slots = int(found["slots"])
        self._set: set[str] = set()  # inputs that set_input has set

    def close(self) -> None:
        """Drop what has not been taken and free everything; waits for stages that are running."""
        self._interrupted()
        super().close()
        self._ended()

    # ---- frames in

    @property
    def num_inputs(self) -> int:
        """Return how many arrays a frame has."""
        return len(self.inputs)

    @property
    def num_outputs(self) -> int:
        """Return how many arrays a result has."""
        return len(self.outputs)

    @property
    def slots(self) -> int:
        """Return how many frames may be under way, results that were not taken included."""
        return self._slots

    @property
    def num_executing(self) -> int:
        """Return how many frames have been run and not been taken."""
        return self.statistics().in_flight

    def set_input(self, name: str, array: Array) -> None:
        """Keep a copy of an array for the next runs, until it is set again. Never waits.

        Raises PipelineError for an unknown name and for a wrong dtype, rank or shape.
        """
        self._check_input(name, array)
        self._call("set_input", name, self._sent(array))
        self._set.add(name)

    def get_input(self, name: str) -> Array:
        """Return a copy of what ``set_input`` has set."""
        if name not in self._set:
            raise PipelineError(
                f"input {name!r}: has not been set", hint=suggest(name, self.inputs.names)
            )
        return split_arrays(bytes(self._call("get_input", name)), (self.inputs[name],))[0]

    def run(self, *arrays: Array, timeout_s: float = 0.0, **inputs: Array) -> int:
        """Send one frame on its way and return its number, counted from 0.

        ``arrays`` are inputs in order, ``inputs`` by name; what ``set_input`` has set stands for
        those that are missing. By default never waits; a free slot is waited for as long as
        ``timeout_s``. Raises DeadlinePassed when none is free, PipelineEnded, a stage's failure,
        and PipelineError for an input that is wrong or missing.
        """
        return self._run(timeout_s, arrays, inputs, None)

    def submit(self, *arrays: Array, timeout_s: float = 0.0, **inputs: Array) -> FrameFuture:
        """As ``run``, but the result goes to the future that is returned, not to ``next``."""
        future = FrameFuture(self, -1)
        self._run(timeout_s, arrays, inputs, future)
        return future

    def submit_many(
        self, frames: Iterable[Frame], *, timeout_s: float = TIMEOUT_S
    ) -> list[FrameFuture]:
        """Submit every frame, waiting ``timeout_s`` for each slot; return a future for each.

        A frame is an array, a sequence of arrays in the order of the inputs, or arrays by name.
        """
        futures: list[FrameFuture] = []
        for frame in frames:
            arrays, inputs = _split(frame)
            futures.append(self.submit(*arrays, timeout_s=timeout_s, **inputs))
        return futures

    def map(
        self, frames: Iterable[Frame], *, timeout_s: float = TIMEOUT_S
    ) -> Iterator[FrameResult]:
        """Yield the results of ``frames`` in order, keeping every stage busy meanwhile.

        Frames are those of ``submit_many``; no more than ``slots`` of them are taken ahead of the
        results. ``timeout_s`` bounds each wait.
        """
        under_way: deque[FrameFuture] = deque()
        for frame in frames:
            if len(under_way) == self._slots:
                yield under_way.popleft().result(timeout_s=timeout_s)
            arrays, inputs = _split(frame)
            under_way.append(self.submit(*arrays, timeout_s=timeout_s, **inputs))
        while under_way:
            yield under_way.popleft().result(timeout_s=timeout_s)

    def __call__(
        self, picture: Array | str | os.PathLike[str], *, timeout_s: float = TIMEOUT_S
    ) -> FrameResult:
        """Run one picture and wait for its result; ``detections`` are in the picture's pixels.

        ``picture`` is uint8[height, width, 3] of any size with its channels in the order blue,
        green, red, as OpenCV reads it, or the path of a picture file. It is fitted to the input as
        the bundle's description says. Raises MediaError for another array or an unreadable file,
        and PipelineError for a pipeline that does not say how a picture becomes its input.
        """
        if self._fitter is None:
            raise PipelineError(
                f"pipeline {self.name!r}: does not say how a picture becomes its input",
                hint="give run() or submit() the input arrays",
            )
        frame, size = self._fitter.frame(picture)
        result = self.submit(frame, timeout_s=timeout_s).result(timeout_s=timeout_s)
        return replace(result, detections=self._fitter.boxes(result.detections, size))

    def _run(
        self,
        timeout_s: float,
        arrays: Sequence[Array],
        named: Mapping[str, Array],
        future: FrameFuture | None,
    ) -> int:
        self._check_open()  # first without a lock, which a forked child may never get
        given = self._given(arrays, named)
        sent = [self._sent(given[n]) if n in given else None for n in self.inputs.names]
        deadline = time.monotonic() + timeout_s
        with _locked(self._submitting, timeout_s, "another thread waits for a free slot"):
            if future is not None:  # known before its frame can be finished
                future.frame = self._submitted
                self._futures[future.frame] = weakref.ref(future)
            try:
                number = self._send(deadline - time.monotonic(), sent)
            except BaseException:
                if future is not None:
                    self._futures.pop(future.frame, None)
                raise
            self._submitted = number + 1
        return number

    def _given(self, arrays: Sequence[Array], named: Mapping[str, Array]) -> dict[str, Array]:
        """Return checked inputs by name; raise PipelineError for a wrong or missing one."""
        if len(arrays) > len(self.inputs):
            raise PipelineError(
                f"pipeline {self.name!r}: found {len(arrays)} inputs, expected {len(self.inputs)}",
                hint=f"its inputs: {', '.join(self.inputs.names)}",
            )
        given = dict(zip(self.inputs.names, arrays, strict=False))
        if twice := next((name for name in named if name in given), None):
            raise PipelineError(
                f"input {twice!r}: is given twice", hint="give it by position or by name"
            )
        given |= named
        for name, array in given.items():
            self._check_input(name, array)
        if missing := [n for n in self.inputs.names if n not in given and n not in self._set]:
            raise PipelineError(
                f"input {missing[0]!r}: has not been set", hint="set_input() or run(name=array)"
            )
        return given

    def set_parameters(self, group: str, parameters: Mapping[str, Array]) -> None:
        """Replace parameters of a group for every frame that is run after this call.

        Frames that are under way keep the old ones. Raises PipelineError for an unknown group, no
        parameters, an unknown parameter or a wrong dtype or shape.
        """
        found = self.parameter_groups.get(group)
        if found is None:
            raise PipelineError(
                f"parameter group {group!r} is unknown",
                hint=suggest(group, list(self.parameter_groups)),
            )
        found.check(parameters)
        self._check_open()
        with _locked(self._submitting, TIMEOUT_S, "another thread waits for a free slot"):
            if runner := self._runners.get(found.stage):
                runner.replace(parameters, self._submitted)
                return
            for name, array in parameters.items():
                self._call("set_parameter", group, name, self._sent(array))

    # ---- results out

    def get_output(self) -> FrameResult | None:
        """Return the next finished frame, or None when none is ready. Never waits.

        Raises PipelineEnded after the last frame of a stopped pipeline, or a stage's failure.
        """
        self._check_open()
        if not self._taking.acquire(blocking=False):
            return None  # another thread waits for the next result
        try:
            return self._take_plain(0.0)
        except DeadlinePassed:
            return None
        finally:
            self._taking.release()

    def next(self, *, timeout_s: float = TIMEOUT_S) -> FrameResult:
        """Wait for the next frame. Raises DeadlinePassed, PipelineEnded, or a stage's failure."""
        self._check_open()
        deadline = time.monotonic() + timeout_s
        with _locked(self._taking, timeout_s, "another thread waits for the next frame"):
            return self._take_plain(deadline - time.monotonic())

    def _take_plain(self, timeout_s: float) -> FrameResult:
        """Return the first frame that is no future's. Needs ``_taking``."""
        if self._passed:
            return self._passed.popleft()
        deadline = time.monotonic() + timeout_s
        while True:
            result, is_future = self._take(deadline - time.monotonic())
            if not is_future:
                return result

    def _take_until(self, wanted: FrameFuture, timeout_s: float) -> None:
        """Take frames up to the wanted future's; keep those before it that are for ``next``."""
        self._check_open()
        deadline = time.monotonic() + timeout_s
        try:
            with _locked(self._taking, timeout_s, "another thread waits for the next frame"):
                while wanted._result is None and not wanted._dropped:
                    result, is_future = self._take(deadline - time.monotonic())
                    if not is_future:
                        self._passed.append(result)
        except DeadlinePassed:
            return

    def _take(self, timeout_s: float) -> tuple[FrameResult, bool]:
        """Take one frame and hand it to its future, if it has one. Needs ``_taking``."""
        found, arrays = self._receive(timeout_s)
        result = FrameResult(
            frame=found.frame,
            latency_ms=found.latency_ms,
            outputs=Named(self.outputs.names, arrays),
            detections=tuple(
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
            classes=tuple(
                ClassScore(
                    score=score,
                    probability=probability,
                    label_index=label_index,
                    label=self.label(label_index),
                )
                for label_index, score, probability in found.classes()
            ),
        )
        reference = self._futures.pop(found.frame, None)
        future = reference() if reference is not None else None
        if future is not None:
            future._result = result
        return result, reference is not None

    # ---- the way to C++, which is another one for a pipeline elsewhere

    def _sent(self, array: Array) -> Any:
        """Return an input as the functions take it."""
        return as_tensor(np.ascontiguousarray(array))

    def _send(self, timeout_s: float, sent: Sequence[Any]) -> int:
        """Wait for a free slot and send a frame on its way. Needs ``_submitting``."""
        return int(self._call("run", timeout_s, *sent))

    def _receive(self, timeout_s: float) -> tuple[TakenFrame, tuple[Array, ...]]:
        """Wait for the next frame and return it with its outputs. Needs ``_taking``."""
        arrays = self._spare or tuple(
            np.empty(array_shape(port), np.dtype(port.dtype)) for port in self.outputs
        )
        self._spare = arrays  # used again when no frame comes
        found = read_frame(self._wait("get_output", timeout_s, *map(as_tensor, arrays)))
        self._spare = None
        return found, arrays

    def _wait(self, function: str, timeout_s: float, *arguments: object) -> Any:
        """Call a function that may wait."""
        return self._call(function, timeout_s, *arguments)

    # ---- end and numbers

    def drain(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until every frame that was run is finished, not taken; goes on running.

        Raises DeadlinePassed that names the stage at work, or a stage's failure.
        """
        self._wait("drain", timeout_s)

    def stop(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Take no more frames and wait until those run are finished; they can still be taken."""
        self._wait("stop", timeout_s)

    def cancel(self) -> None:
        """Drop every frame that has not been taken; whoever waits gets PipelineEnded."""
        self._call("cancel")

    def restart(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Run again after ``stop``, ``cancel`` or a failure; frames count from 0.

        Results that were not taken are dropped, parameters stay as they were set last. Raises
        RuntimeFailure while the pipeline is running, DeadlinePassed when a stage does not end.
        """
        self._check_open()
        with (
            _locked(self._submitting, timeout_s, "another thread waits for a free slot"),
            _locked(self._taking, timeout_s, "another thread waits for the next frame"),
        ):
            self._wait("restart", timeout_s)
            for runner in self._runners.values():
                runner.restart()
                runner.failure = None
            for reference in self._futures.values():
                if future := reference():
                    future._dropped = True
            self._futures.clear()
            self._passed.clear()
            self._submitted = 0

    def statistics(self) -> Statistics:
        """Return what has been measured since the start or the last restart."""
        return statistics_from_json(self._call("statistics"))

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write when each stage ran on each frame as Trace Event JSON, for Perfetto or Chrome.

        Holds spans only where the pipeline was started with ``trace=True``. Raises RuntimeFailure
        when the file cannot be written.
        """
        self._call("write_trace", os.fsencode(path))

    def label(self, label_index: int) -> str:
        """Return a class's name, or its number where the bundle has none."""
        if 0 <= label_index < len(self.labels):
            return self.labels[label_index]
        return str(label_index)

    def _origin(self, text: str) -> BaseException | None:
        """Return what a Python stage raised, if the text is that of its failure."""
        found = _FAILED_STAGE.search(text)
        runner = self._runners.get(found[1]) if found else None
        return runner.failure if runner else None

    def _check_input(self, name: str, array: Array) -> None:
        if name not in self.inputs:
            raise PipelineError(
                f"input {name!r}: the pipeline has no such input",
                hint=suggest(name, self.inputs.names),
            )
        check_array(f"input {name!r}", array, self.inputs[name])


@contextmanager
def _locked(lock: threading.Lock, timeout_s: float, otherwise: str) -> Iterator[None]:
    """Hold a lock; DeadlinePassed when another thread keeps it for longer than ``timeout_s``."""
    if not lock.acquire(timeout=min(max(timeout_s, 0.0), threading.TIMEOUT_MAX)):
        raise DeadlinePassed(otherwise)
    try:
        yield
    finally:
        lock.release()


def _each(runners: Sequence[Runner], action: Callable[[Runner], None]) -> None:
    for runner in runners:
        action(runner)


def _ports(entries: Sequence[Mapping[str, Any]]) -> Named[Port]:
    ports = tuple(Port(**{**entry, "shape": tuple(entry["shape"])}) for entry in entries)
    return Named(tuple(port.name for port in ports), ports)


def _split(frame: Frame) -> tuple[Sequence[Array], Mapping[str, Array]]:
    """Return a frame's arrays by position and by name."""
    if isinstance(frame, Mapping):
        return (), frame
    return (frame if isinstance(frame, tuple | list) else (frame,)), {}


def split_arrays(content: bytes | memoryview, ports: Iterable[Port]) -> tuple[Array, ...]:
    """Return one array for each port from their bytes, one after the other."""
    found: list[Array] = []
    offset = 0
    for port in ports:
        memory = np.frombuffer(content, np.uint8, port.bytes, offset)
        found.append(as_port(memory, port).copy())
        offset += port.bytes
    return tuple(found)
