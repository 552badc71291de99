"""A pipeline at work: the C++ Pipeline of an exported folder, called from Python.

    pipeline.set_input("data_0", array)
    pipeline.run()  # never waits; returns the frame's number
    result = pipeline.get_output()  # never waits; None when nothing is ready
    result = pipeline.next(timeout_s=1.0)  # waits
    future = pipeline.submit(data_0=array)
    future.result(timeout_s=1.0)

Any thread may call anything. Frames are delivered in the order of submission.
"""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import DeadlinePassed, PipelineEnded, PipelineError, RuntimeFailure
from edgepipe.names import suggest
from edgepipe.pipeline.hosted import HostedStage, Runner, array_shape, as_port, check_array
from edgepipe.pipeline.ports import Port, dense_port
from edgepipe.pipeline.stages import check_parameters
from edgepipe.runtime.frames import TakenFrame, read_frame
from edgepipe.runtime.handle import Handle
from edgepipe.runtime.library import as_tensor
from edgepipe.runtime.pipeline import TIMEOUT_S, Statistics, statistics_from_json

Array = NDArray[Any]

# Codes of cpp_runtime/include/edgepipe/status.h that are not failures of the pipeline.
_DEADLINE, _CANCELLED, _CLOSED = 6, 7, 8
WAITS: Mapping[int, type[RuntimeFailure]] = {
    _DEADLINE: DeadlinePassed,
    _CANCELLED: PipelineEnded,
    _CLOSED: PipelineEnded,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineResult:
    """A finished frame: its number, its time from ``run`` to the last stage's end, its outputs.

    The arrays are the caller's own: no later frame overwrites them.
    """

    frame: int
    latency_ms: float
    outputs: tuple[Array, ...]


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


class FrameFuture:
    """The result of one frame, to be asked for at any time and in any order."""

    def __init__(self, pipeline: RunningPipeline, frame: int) -> None:
        self._pipeline = pipeline
        self._result: PipelineResult | None = None
        self._dropped = False  # by a restart
        self.frame = frame

    def done(self) -> bool:
        """Tell whether ``result`` would return at once. Never waits."""
        if self._result is None:
            self._pipeline._take_until(self, 0.0)
        return self._result is not None

    def result(self, *, timeout_s: float = TIMEOUT_S) -> PipelineResult:
        """Wait for the frame. Raises DeadlinePassed, PipelineEnded, or the stage's failure."""
        if self._result is None:
            self._pipeline._take_until(self, timeout_s)
        if self._dropped:
            raise PipelineEnded(f"frame {self.frame} was dropped by a restart")
        if self._result is None:
            raise DeadlinePassed(f"frame {self.frame} was not finished in {timeout_s} s")
        return self._result


class RunningPipeline(Handle):
    """Made by ``BuiltPipeline.start``; usable as a context manager, which closes it.

    Frames end as a RuntimeFailure that names stage and frame once a stage has failed; ``restart``
    begins anew after that, after ``stop`` and after ``cancel``.
    """

    _kinds = WAITS

    def __init__(
        self,
        module: Any,
        *,
        hosted: Sequence[HostedStage] = (),
        end: str = "close",
        keep: object = None,
    ) -> None:
        """Take a module of ``load_pipeline`` over, and the stages that it was given."""
        self._runners = {stage.name: stage.runner for stage in hosted}
        self._submitting = threading.Lock()
        self._taking = threading.Lock()
        self._submitted = 0
        self._futures: dict[int, weakref.ref[FrameFuture]] = {}
        self._spare: tuple[Array, ...] | None = None
        self._passed: deque[PipelineResult] = deque()  # taken on the way to a future's frame
        # Finalizers run in the reverse order: connections are cut, the C++ side ends, what is left
        # of the runners goes.
        runners = tuple(self._runners.values())
        self._ended = weakref.finalize(self, _each, runners, methodcaller("close"))
        super().__init__("pipeline", module, end=end, keep=keep)
        self._interrupted = weakref.finalize(self, _each, runners, methodcaller("interrupt"))
        found = json.loads(self._call("describe"))
        self.name: str = found["name"]
        self.device: str = found["device"]
        self.stages: tuple[str, ...] = tuple(found["stages"])
        self.inputs = {entry["name"]: _port(entry) for entry in found["inputs"]}
        self.outputs = tuple(_port(entry) for entry in found["outputs"])
        self.parameter_groups = {
            group: _ParameterGroup.read(entry) for group, entry in found["parameter_groups"].items()
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
                f"input {name!r}: has not been set", hint=suggest(name, list(self.inputs))
            )
        return split_arrays(bytes(self._call("get_input", name)), (self.inputs[name],))[0]

    def run(self, *, timeout_s: float = 0.0, **inputs: Array) -> int:
        """Send one frame on its way and return its number, counted from 0.

        Its inputs are ``inputs``, and what has been set for the others. By default never waits; a
        free slot is waited for as long as ``timeout_s``. Raises DeadlinePassed when none is free,
        PipelineEnded, a stage's failure, and PipelineError for an input that is wrong or missing.
        """
        return self._run(timeout_s, inputs, None)

    def submit(self, *, timeout_s: float = 0.0, **inputs: Array) -> FrameFuture:
        """As ``run``, but the result goes to the future that is returned, not to ``get_output``."""
        future = FrameFuture(self, -1)
        self._run(timeout_s, inputs, future)
        return future

    def _run(self, timeout_s: float, given: Mapping[str, Array], future: FrameFuture | None) -> int:
        for name, array in given.items():
            self._check_input(name, array)
        if missing := [n for n in self.inputs if n not in given and n not in self._set]:
            raise PipelineError(
                f"input {missing[0]!r}: has not been set", hint="set_input() or run(name=array)"
            )
        sent = [self._sent(given[n]) if n in given else None for n in self.inputs]
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
        with _locked(self._submitting, TIMEOUT_S, "another thread waits for a free slot"):
            if runner := self._runners.get(found.stage):
                runner.replace(parameters, self._submitted)
                return
            for name, array in parameters.items():
                self._call("set_parameter", group, name, self._sent(array))

    # ---- results out

    def get_output(self) -> PipelineResult | None:
        """Return the next finished frame, or None when none is ready. Never waits.

        Raises PipelineEnded after the last frame of a stopped pipeline, or a stage's failure.
        """
        if not self._taking.acquire(blocking=False):
            return None  # another thread waits for the next result
        try:
            return self._take_plain(0.0)
        except DeadlinePassed:
            return None
        finally:
            self._taking.release()

    def next(self, *, timeout_s: float = TIMEOUT_S) -> PipelineResult:
        """Wait for the next frame. Raises DeadlinePassed, PipelineEnded, or a stage's failure."""
        deadline = time.monotonic() + timeout_s
        with _locked(self._taking, timeout_s, "another thread waits for the next frame"):
            return self._take_plain(deadline - time.monotonic())

    def _take_plain(self, timeout_s: float) -> PipelineResult:
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
        deadline = time.monotonic() + timeout_s
        try:
            with _locked(self._taking, timeout_s, "another thread waits for the next frame"):
                while wanted._result is None and not wanted._dropped:
                    result, is_future = self._take(deadline - time.monotonic())
                    if not is_future:
                        self._passed.append(result)
        except DeadlinePassed:
            return

    def _take(self, timeout_s: float) -> tuple[PipelineResult, bool]:
        """Take one frame and hand it to its future, if it has one. Needs ``_taking``."""
        found, arrays = self._receive(timeout_s)
        result = PipelineResult(frame=found.frame, latency_ms=found.latency_ms, outputs=arrays)
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
        with (
            _locked(self._submitting, timeout_s, "another thread waits for a free slot"),
            _locked(self._taking, timeout_s, "another thread waits for the next frame"),
        ):
            self._wait("restart", timeout_s)
            for runner in self._runners.values():
                runner.restart()
            for reference in self._futures.values():
                if future := reference():
                    future._dropped = True
            self._futures.clear()
            self._passed.clear()
            self._submitted = 0

    def statistics(self) -> Statistics:
        """Return what has been measured since the start or the last restart."""
        return statistics_from_json(self._call("statistics"))

    def _check_input(self, name: str, array: Array) -> None:
        if name not in self.inputs:
            raise PipelineError(
                f"input {name!r}: the pipeline has no such input",
                hint=suggest(name, list(self.inputs)),
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


def _port(entry: Mapping[str, Any]) -> Port:
    return Port(**{**entry, "shape": tuple(entry["shape"])})


def split_arrays(content: bytes | memoryview, ports: tuple[Port, ...]) -> tuple[Array, ...]:
    """Return one array for each port from their bytes, one after the other."""
    found: list[Array] = []
    offset = 0
    for port in ports:
        memory = np.frombuffer(content, np.uint8, port.bytes, offset)
        found.append(as_port(memory, port).copy())
        offset += port.bytes
    return tuple(found)
