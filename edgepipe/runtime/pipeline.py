"""A running pipeline: a bundle, or a graph of stages, run by the C++ pipeline.

    with edgepipe.load("net.edgepipe") as pipeline:
        pipeline.run(frame)  # never waits; returns the frame's number
        result = pipeline.get_output()  # never waits; None when nothing is ready
        result = pipeline.next(timeout_s=1.0)  # waits
        future = pipeline.submit(frame)
        future.result(timeout_s=1.0)
        for result in pipeline.map(frames):  # keeps every stage busy
            print(result.frame, result.outputs[0])

Any thread may call any function. Frames are delivered in the order in which they were run.
"""

from __future__ import annotations

import json
import os
import re
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from operator import methodcaller
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import DeadlinePassed, PipelineEnded, PipelineError, RpcError, RuntimeFailure
from edgepipe.names import suggest
from edgepipe.runtime.delivery import Delivery
from edgepipe.runtime.frame_map import Frame, FrameMap, split
from edgepipe.runtime.futures import TIMEOUT_S, FrameFuture
from edgepipe.runtime.handle import Functions, Handle
from edgepipe.runtime.named import Named
from edgepipe.runtime.own_decoder import DecoderSettings, OwnDecoder
from edgepipe.runtime.ports import (
    Port,
    array_shape,
    check_array,
    check_parameters,
    dense_port,
    split_arrays,
)
from edgepipe.runtime.results import ClassMap, FrameResult
from edgepipe.runtime.statistics import Statistics, statistics_from_json
from edgepipe.runtime.transport import Transport

Array = NDArray[Any]

# Codes of cpp_runtime/include/edgepipe/status.h that are not failures of the pipeline.
_DEADLINE, _CANCELLED, _CLOSED = 6, 7, 8
WAITS: Mapping[int, type[RuntimeFailure]] = {
    _DEADLINE: DeadlinePassed,
    _CANCELLED: PipelineEnded,
    _CLOSED: PipelineEnded,
}


CLOSE_TIMEOUT_S = 5.0
_ABANDON_S = 0.5  # for a Python function to end with an exception
# How the pipeline's C++ side names the stage of a frame that failed.
_PICTURE_HINT = "pipeline(picture) takes a file, or a BGR picture uint8[h, w, 3] of any size"
_FAILED_STAGE = re.compile(r"stage \d+ '([^']+)' at frame \d+")
TRACE_SPANS = 32768  # kTraceSpans of pipeline_statistics.h


class Pinning(StrEnum):
    """What happens when a stage's thread cannot be pinned to its core."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    OFF = "off"


class Fitter(Protocol):
    """Turns a picture into a frame of a pipeline, and boxes in the frame into the picture's."""

    def frame(self, picture: Array | str | os.PathLike[str]) -> tuple[Array, tuple[int, int]]:
        """Return the input array, and the picture's height and width in pixels.

        ``picture`` is uint8[height, width, 3] in BGR, or a file's path. The array has the input's
        dtype and shape.
        """

    def in_picture(self, result: FrameResult, size: tuple[int, int]) -> FrameResult:
        """Return a result with boxes and points in pixels of a picture of ``size``.

        ``size`` is (height, width).
        """

    def picture_map(self, class_map: ClassMap, size: tuple[int, int]) -> NDArray[np.uint8]:
        """Return uint8[height, width]: the class of every pixel of a picture of ``size``."""


class Runner(Protocol):
    """What a Python stage does besides running frames; see ``edgepipe.pipeline.hosted``."""

    failure: BaseException | None
    """The exception that ended the last failed run."""

    def replace(self, parameters: Mapping[str, Array], first_frame: int) -> None:
        """Use ``parameters`` from frame ``first_frame`` on.

        Each array has the dtype and shape of its parameter.
        """

    def restart(self) -> None:
        """Prepare for frame 0; nothing runs meanwhile."""

    def interrupt(self) -> None:
        """Make a ``run`` that waits for something outside this process end soon. Any thread."""

    def abandon(self) -> None:
        """Make a ``run`` that does not return end with an exception, if that is possible."""

    def close(self) -> None:
        """Release resources outside this process, after the last run."""


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
    """Returned by ``edgepipe.load``, ``BuiltPipeline.start`` or ``load_on``; a context manager.

    ``inputs`` and ``outputs`` are its ports, by index and by name. ``input_map`` gives, for each
    input, the stages' inputs that it feeds, as pairs of a stage's name and its input's name.

    Once a stage or the user's own decoder has failed, calls raise a RuntimeFailure that names stage
    and frame; the exception of a Python function is its ``__cause__``. ``restart`` starts the
    pipeline again after a failure, ``stop`` or ``cancel``.
    """

    def __init__(
        self,
        module: Any,
        *,
        runners: Mapping[str, Runner] | None = None,
        fitter: Fitter | None = None,
        transport: type[Transport] = Transport,
        functions: type[Functions] = Functions,
        keep: object = None,
    ) -> None:
        """Take over a module of ``load_pipeline`` and the runners of its Python stages, by name.

        ``transport`` and ``functions`` call it if it is in another process.
        """
        self._runners = dict(runners or {})
        self._fitter = fitter
        # Finalizers run in reverse order: connections are cut, the C++ side ends, the remaining
        # runners are closed.
        every = tuple(self._runners.values())
        self._ended = weakref.finalize(self, _each, every, methodcaller("close"))
        origin = partial(_origin, self._runners)
        calls = functions("pipeline", module, kinds=WAITS, origin=origin)
        super().__init__(calls, end=partial(_end, transport, self._runners), keep=keep)
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
        self._input_types = [(np.dtype(port.dtype), array_shape(port)) for port in self.inputs]
        self._slots = int(found["slots"])
        self._set: set[str] = set()  # inputs set by set_input
        self._transport = transport(self._functions, self.inputs, self.outputs)
        try:
            decoder = _own_decoder(found["decoder"], self.labels)
        except RuntimeFailure:
            self._finalizer()
            raise
        self._delivery = Delivery(self._transport, self.outputs.names, self.labels, decoder)
        self._delivered = weakref.finalize(self, self._delivery.end)

    def close(self, *, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Drop results that have not been taken and free everything, within ``timeout_s``.

        Waits for running stages. RuntimeFailure names a stage that does not return in time. If it
        is a Python function, an exception ends it; otherwise it is abandoned with its thread and
        memory. May be called again after an interrupt.
        """
        if not self._finalizer.alive or not self._functions.is_here:
            return
        self._interrupted()
        stuck = _stuck(self._transport, self._runners, time.monotonic() + timeout_s)
        self._finalizer.detach()
        self._delivered()
        self._functions.end()
        if stuck:
            raise RuntimeFailure(
                stuck, hint="make the stage return in time: set a timeout on whatever it waits for"
            )
        self._ended()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except RuntimeFailure as failure:
            if error is None:
                raise
            error.add_note(str(failure))

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
        """Return how many frames may be in flight, including results that have not been taken."""
        return self._slots

    @property
    def num_executing(self) -> int:
        """Return how many frames have been run but not taken."""
        return self.statistics().in_flight

    def set_input(self, name: str, array: Array) -> None:
        """Queue a copy of an array for later runs. Never waits.

        Each run without this input takes the oldest queued value; the last one remains for all
        later runs. So set 1, run, set 2, set 3, run, run gives frames of 1, 2 and 3. Inputs queue
        independently of each other. Raises PipelineError for an unknown name and for a wrong dtype,
        rank or shape, DeadlinePassed if 1024 values are queued.
        """
        self._check_input(name, array)
        self._call("set_input", name, self._transport.pack(array))
        self._set.add(name)

    def get_input(self, name: str) -> Array:
        """Return a copy of the value that ``set_input`` set last.

        The array has the input's dtype and shape. Raises PipelineError for an unknown input and for
        one that has not been set.
        """
        if name not in self._set:
            raise PipelineError(
                f"input {name!r}: has not been set", hint=suggest(name, self.inputs.names)
            )
        return split_arrays(bytes(self._call("get_input", name)), (self.inputs[name],))[0]

    def run(self, *arrays: Array, timeout_s: float = 0.0, **inputs: Array) -> int:
        """Submit one frame and return its number, counted from 0.

        ``arrays`` are inputs in order, ``inputs`` by name; missing ones take their values from
        ``set_input``. Waits up to ``timeout_s`` for a free slot; by default never waits. Raises
        DeadlinePassed if no slot is free, PipelineEnded, a stage's failure, and PipelineError for
        an input that is wrong or missing.
        """
        return self._send(timeout_s, arrays, inputs, None)

    def submit(self, *arrays: Array, timeout_s: float = 0.0, **inputs: Array) -> FrameFuture:
        """Like ``run``, but the result goes to the returned future, not to ``next``."""
        future = FrameFuture(self)
        self._send(timeout_s, arrays, inputs, future)
        return future

    def submit_many(
        self, frames: Iterable[Frame], *, timeout_s: float = TIMEOUT_S
    ) -> list[FrameFuture]:
        """Submit every frame, waiting ``timeout_s`` for each slot; return a future for each.

        A frame is an array, a sequence of arrays in the order of the inputs, or arrays by name.
        Each array has the dtype and shape of its input.
        """
        futures: list[FrameFuture] = []
        for frame in frames:
            arrays, inputs = split(frame)
            futures.append(self.submit(*arrays, timeout_s=timeout_s, **inputs))
        return futures

    def map(
        self, frames: Iterable[Frame], *, timeout_s: float = TIMEOUT_S
    ) -> Iterator[FrameResult]:
        """Return an iterator over the results of ``frames`` in order; it keeps every stage busy.

        Frames are those of ``submit_many``; at most ``slots`` of them are taken ahead of the
        results. ``timeout_s`` bounds each wait. Each array has the dtype and shape of its input or
        output.
        """
        return FrameMap(self, frames, timeout_s)

    def __call__(
        self, picture: Array | str | os.PathLike[str], *, timeout_s: float = TIMEOUT_S
    ) -> FrameResult:
        """Run one picture and wait for its result; ``detections`` are in the picture's pixels.

        ``picture`` is uint8[height, width, 3] of any size with its channels in the order blue,
        green, red, as OpenCV reads it, or the path of a picture file. It is fitted to the input as
        the bundle's description says. Raises MediaError for another array or an unreadable file,
        and PipelineError for a pipeline without a description of how a picture becomes its input.
        """
        if self._fitter is None:
            raise PipelineError(
                f"pipeline {self.name!r}: does not say how a picture becomes its input",
                hint="give run() or submit() the input arrays",
            )
        frame, size = self._fitter.frame(picture)
        result = self.submit(frame, timeout_s=timeout_s).result(timeout_s=timeout_s)
        found = self._fitter.in_picture(result, size)
        if result.class_map is None:
            return found
        classes = self._fitter.picture_map(result.class_map, size)
        return replace(found, class_map=replace(result.class_map, classes=classes))

    def _send(
        self,
        timeout_s: float,
        arrays: Sequence[Array],
        named: Mapping[str, Array],
        future: FrameFuture | None,
    ) -> int:
        return self._delivery.send(self._pack(arrays, named), timeout_s, future)

    def _pack(self, arrays: Sequence[Array], named: Mapping[str, Array]) -> list[object]:
        """Return checked inputs as the transport takes them, None for those from ``set_input``."""
        pack = self._transport.pack
        if not named and len(arrays) == len(self._input_types):
            packed: list[object] = []
            for array, (dtype, shape) in zip(arrays, self._input_types, strict=True):
                # NumPy has one object for each of its own dtypes.
                if type(array) is not np.ndarray or array.dtype is not dtype:
                    break
                if array.shape != shape:
                    break
                packed.append(pack(array))
            else:
                return packed
        given = self._given(arrays, named)  # raises if anything is wrong
        return [pack(given[n]) if n in given else None for n in self.inputs.names]

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

        Frames in flight keep the old ones. Raises PipelineError for an unknown group, no
        parameters, an unknown parameter or a wrong dtype or shape.
        """
        found = self.parameter_groups.get(group)
        if found is None:
            raise PipelineError(
                f"parameter group {group!r} is unknown",
                hint=suggest(group, list(self.parameter_groups)),
            )
        found.check(parameters)
        if runner := self._runners.get(found.stage):
            runner.replace(parameters, self._call("submitted"))
            return
        pack = self._transport.pack
        arguments = [part for name, array in parameters.items() for part in (name, pack(array))]
        self._call("set_parameters", group, *arguments)

    # ---- results out

    def get_output(self) -> FrameResult | None:
        """Return the next finished frame, or None if none is ready. Never waits.

        Raises PipelineEnded after the last frame of a stopped pipeline, or a stage's failure.
        """
        return self._delivery.poll()

    def next(self, *, timeout_s: float = TIMEOUT_S) -> FrameResult:
        """Wait for the next frame; may be called again, even after an interrupt.

        Raises DeadlinePassed, PipelineEnded, or a stage's failure.
        """
        return self._delivery.next(timeout_s)

    # ---- end and statistics

    def drain(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until every frame is finished (not: taken); the pipeline keeps running.

        Raises DeadlinePassed that names the running stage, or a stage's failure.
        """
        deadline = time.monotonic() + timeout_s
        self._transport.wait("drain", deadline, self._call("submitted"))

    def stop(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Accept no more frames and wait until all are finished; they can still be taken."""
        self._transport.wait("stop", time.monotonic() + timeout_s)

    def cancel(self) -> None:
        """Drop every frame that has not been taken; waiting callers get PipelineEnded."""
        self._call("cancel")

    def restart(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Run again after ``stop``, ``cancel`` or a failure; frames count from 0.

        Results that were not taken are dropped, parameters keep their last values. Raises
        RuntimeFailure while the pipeline is running, DeadlinePassed if a stage does not end.
        """
        deadline = time.monotonic() + timeout_s
        self._transport.wait("await_end", deadline, self._delivery.generation + 1)
        for runner in self._runners.values():
            runner.restart()
            runner.failure = None
        self._delivery.restart(deadline)

    def statistics(self) -> Statistics:
        """Return what was measured since the start or the last restart."""
        with suppress(RuntimeFailure):  # statistics do not report the end
            self._delivery.collect_owned()
        return statistics_from_json(self._call("statistics"))

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write when each stage ran on each frame as Trace Event JSON, for Perfetto or Chrome.

        Contains spans only if the pipeline was started with ``trace=True``. Raises RuntimeFailure
        if the file cannot be written.
        """
        self._call("write_trace", os.fsencode(path))

    def label(self, label_index: int) -> str:
        """Return a class's name, or its number if the bundle has no name for it."""
        return self._delivery.label(label_index)

    def _check_input(self, name: str, array: Array) -> None:
        if name not in self.inputs:
            raise PipelineError(
                f"input {name!r}: the pipeline has no such input",
                hint=suggest(name, self.inputs.names),
            )
        check_array(
            f"input {name!r}",
            array,
            self.inputs[name],
            otherwise=_PICTURE_HINT if self._fitter is not None else None,
        )


def _stuck(transport: Transport, runners: Mapping[str, Runner], deadline: float) -> str:
    """End the C++ side; return what has not ended by the deadline, otherwise an empty text."""
    try:
        transport.wait("close", deadline)
    except DeadlinePassed as cause:
        for runner in runners.values():
            runner.abandon()
        try:
            transport.wait("close", time.monotonic() + _ABANDON_S)
        except DeadlinePassed:
            transport.call("leave")
            return f"{cause}; its thread was left behind"
        return f"{cause}; an exception has ended it"
    except RpcError:  # it has ended with its session
        pass
    return ""


def _end(transport: type[Transport], runners: Mapping[str, Runner], functions: Functions) -> None:
    """End a pipeline that was not closed."""
    calls = transport(functions, _ports([]), _ports([]))
    if stuck := _stuck(calls, runners, time.monotonic() + CLOSE_TIMEOUT_S):
        warnings.warn(stuck, RuntimeWarning, stacklevel=2)


def _origin(runners: Mapping[str, Runner], text: str) -> BaseException | None:
    """Return the exception of a Python stage if the text reports its failure."""
    found = _FAILED_STAGE.search(text)
    runner = runners.get(found[1]) if found else None
    return runner.failure if runner else None


def _each(runners: Sequence[Runner], action: Callable[[Runner], None]) -> None:
    for runner in runners:
        action(runner)


def _own_decoder(entry: Mapping[str, Any] | None, labels: tuple[str, ...]) -> OwnDecoder | None:
    if entry is None:
        return None
    return OwnDecoder(DecoderSettings(**{**entry, "outputs": tuple(entry["outputs"])}), labels)


def _ports(entries: Sequence[Mapping[str, Any]]) -> Named[Port]:
    ports = tuple(Port(**{**entry, "shape": tuple(entry["shape"])}) for entry in entries)
    return Named(tuple(port.name for port in ports), ports)
