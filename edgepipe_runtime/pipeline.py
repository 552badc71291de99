"""A running bundle, with the interface of ``edgepipe.load`` on the host.

    with edgepipe_runtime.load("net.edgepipe") as pipeline:
        print(pipeline("street.jpg").detections)
        pipeline.run(frame)  # never waits; returns the frame's number
        result = pipeline.next(timeout_s=1.0)  # waits
        for result in pipeline.map(frames):  # keeps every stage busy
            print(result.frame, result.outputs[0])

Any thread may call any function. Frames are delivered in the order in which they were run.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
import warnings
import weakref
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import (
    Any,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)

import numpy as np

from edgepipe_runtime import library
from edgepipe_runtime.errors import (
    DeadlinePassed,
    EdgepipeError,
    PipelineError,
    RuntimeFailure,
)
from edgepipe_runtime.frame_map import Frame, FrameMap, split
from edgepipe_runtime.futures import TIMEOUT_S, FrameFuture
from edgepipe_runtime.library import OpenPipeline, Taken
from edgepipe_runtime.pictures import Picture, fill, picture_map
from edgepipe_runtime.ports import Port, array_over, check_array
from edgepipe_runtime.result_bytes import read_results
from edgepipe_runtime.results import FrameResult, Named, label_of
from edgepipe_runtime.statistics import Statistics, statistics_from_json

CLOSE_TIMEOUT_S = 5.0
TRACE_SPANS = 32768  # kTraceSpans of pipeline_statistics.h
_MOST_WAITING = 1024  # values of set_input


class Pipeline:
    """Returned by ``load``; a context manager.

    ``inputs`` and ``outputs`` are its ports, by index and by name. Once a stage or the bundle's own
    decoder has failed, calls raise a RuntimeFailure that names stage and frame. ``restart`` starts
    the pipeline again after a failure, ``stop`` or ``cancel``.
    """

    def __init__(self, opened: OpenPipeline, *, keep: object = None) -> None:
        """Take over an open pipeline of the library; ``keep`` lives as long."""
        self._opened = opened
        self._keep = keep
        self._finalizer = weakref.finalize(self, _end, opened)
        found = json.loads(opened.text("ep_describe").decode())
        self.name: str = found["name"]
        self.device: str = found["device"]
        self.stages: tuple[str, ...] = tuple(found["stages"])
        self.labels: tuple[str, ...] = tuple(found["labels"])
        self.inputs = _ports(found["inputs"])
        self.outputs = _ports(found["outputs"])
        self._slots = int(found["slots"])
        self._input_size: tuple[int, int] = tuple(found["input_size"])
        self._sending = threading.Lock()  # held while a frame is filled and submitted
        self._taking = threading.Lock()  # held while results are taken
        self._is_lent = False  # whether a frame is borrowed
        self._submitted = 0
        self._received = 0  # frames 0..received-1 have been delivered
        self._owners: dict[int, weakref.ref[FrameFuture]] = {}  # by frame
        self._ready: deque[FrameResult] = deque()  # for anyone
        self._set: dict[str, deque[Any]] = {}  # what set_input has queued; the last one stays
        self._watching = threading.Lock()
        self._watched: list[FrameFuture] = []

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self.close()
        except RuntimeFailure:
            if error is None:
                raise

    def close(self, *, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Drop results that have not been taken and free everything, within ``timeout_s``.

        Waits for running stages. Arrays of ``next_inputs`` and ``borrow`` are invalid afterwards.
        RuntimeFailure names a stage that does not return in time; close may then be called again.
        """
        error = self._opened.end(timeout_s)
        if error is not None:
            raise RuntimeFailure(
                str(error), hint="make the stage return in time: set a timeout on what it waits for"
            )
        self._finalizer.detach()

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

    def set_input(self, name: str, array: Any) -> None:
        """Queue a copy of an array for later runs. Never waits.

        Each run without this input takes the oldest queued value; the last one remains for all
        later runs. Raises PipelineError for an unknown name and for a wrong dtype, rank or shape,
        DeadlinePassed if 1024 values are queued.
        """
        self._check_input(name, array)
        with self._sending:
            queued = self._set.setdefault(name, deque())
            if len(queued) > _MOST_WAITING:
                raise DeadlinePassed(f"input {name!r}: {_MOST_WAITING} values are queued")
            queued.append((array.copy(), False))

    def get_input(self, name: str) -> Any:
        """Return a copy of the value that ``set_input`` set last.

        The array has the input's dtype and shape. Raises PipelineError for an unknown input and for
        one that has not been set.
        """
        if name not in self._set:
            known = ", ".join(self.inputs.names)
            raise PipelineError(f"input {name!r}: has not been set", hint=f"known names: {known}")
        return self._set[name][-1][0].copy()

    def next_inputs(self, *, timeout_s: float = TIMEOUT_S) -> Named[Any]:
        """Return arrays over the memory of the next frame's inputs, to be filled in place.

        They have the inputs' dtypes and shapes. ``run`` then copies nothing if it gets these
        arrays. For one thread that submits; raises DeadlinePassed if no slot becomes free.
        """
        deadline = time.monotonic() + timeout_s
        with self._sending:
            return Named(self.inputs.names, self._acquire(deadline))

    def run(self, *arrays: Any, timeout_s: float = 0.0, **inputs: Any) -> int:
        """Submit one frame and return its number, counted from 0.

        ``arrays`` are inputs in order, ``inputs`` by name; missing ones take their values from
        ``set_input``. An array that is the next frame's own memory (``next_inputs``, or a buffer
        given to ``load``) is not copied. Waits up to ``timeout_s`` for a free slot; by default
        never waits. Raises DeadlinePassed if no slot is free, PipelineEnded, a stage's failure, and
        PipelineError for an input that is wrong or missing.
        """
        return self._send(timeout_s, arrays, inputs, None)

    def submit(self, *arrays: Any, timeout_s: float = 0.0, **inputs: Any) -> FrameFuture:
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
        futures = []
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

    def __call__(self, picture: Picture, *, timeout_s: float = TIMEOUT_S) -> FrameResult:
        """Run one picture and wait for its result; ``detections`` are in the picture's pixels.

        ``picture`` is uint8[height, width, 3] of any size with its channels in the order blue,
        green, red, as OpenCV reads it, or the path of a picture file. It is read where it is, also
        in a buffer of pynq.allocate, and fitted to the input as the bundle's description says.
        Raises MediaError for another array or an unreadable file, and PipelineError for a bundle
        whose input is not one picture.
        """
        deadline = time.monotonic() + timeout_s
        future = FrameFuture(self)

        def fit(arrays: Sequence[Any]) -> None:
            fill(self._opened, self.name, picture)

        self._submit(deadline, fit, future)
        left = max(0.0, deadline - time.monotonic())
        result = future.result(timeout_s=left)
        if result.class_map is None:
            return result
        placement = future.placement
        classes = picture_map(result.class_map.classes, placement, self._input_size)
        return replace(result, class_map=replace(result.class_map, classes=classes))

    def _send(
        self,
        timeout_s: float,
        arrays: Sequence[Any],
        named: Mapping[str, Any],
        future: FrameFuture | None,
    ) -> int:
        given = self._given(arrays, named)

        def copy(memory: Sequence[Any]) -> None:
            taken = []
            for name, target in zip(self.inputs.names, memory):
                if name in given:
                    source = given[name]
                else:
                    queued = self._set[name]
                    source = queued[0][0]
                    taken.append(queued)
                if source.ctypes.data != target.ctypes.data or not source.flags.c_contiguous:
                    np.copyto(target, source)
            for queued in taken:
                if len(queued) > 1:
                    queued.popleft()

        return self._submit(time.monotonic() + timeout_s, copy, future)

    def _acquire(self, deadline: float) -> list[Any]:
        """Return the memory of the next frame's inputs. Needs ``_sending``."""
        pointers = (ctypes.c_void_p * len(self.inputs))()
        while True:
            code, error = self._opened.attempt("ep_acquire", ctypes.c_double(0.0), pointers)
            if error is None:
                return [array_over(at, port) for at, port in zip(pointers, self.inputs)]
            if code != library.DEADLINE:
                raise error
            if self._collect_owned():
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                raise error
            with suppress(DeadlinePassed):
                is_owned = self._received in self._owners
                end = time.monotonic() + min(left, library.SLICE_S)
                self._opened.wait("ep_await_slot", end, ctypes.c_int(is_owned))

    def _submit(self, deadline: float, fill_inputs: Any, future: FrameFuture | None) -> int:
        with self._sending:
            fill_inputs(self._acquire(deadline))
            number = self._submitted
            if future is not None:  # known before its frame can be finished
                future.frame = number
                self._owners[number] = weakref.ref(future)
            frame = ctypes.c_uint64()
            try:
                self._opened.call("ep_submit", ctypes.byref(frame))
            except BaseException:
                self._owners.pop(number, None)
                raise
            self._submitted = number + 1
            return number

    def _given(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return checked inputs by name; raise PipelineError for a wrong or missing one."""
        names = self.inputs.names
        if len(arrays) > len(names):
            raise PipelineError(
                f"pipeline {self.name!r}: found {len(arrays)} inputs, expected {len(names)}",
                hint=f"its inputs: {', '.join(names)}",
            )
        given = dict(zip(names, arrays))
        for name in named:
            if name in given:
                raise PipelineError(
                    f"input {name!r}: is given twice", hint="give it by position or by name"
                )
        given.update(named)
        for name, array in given.items():
            self._check_input(name, array)
        for name in names:
            if name not in given and name not in self._set:
                raise PipelineError(
                    f"input {name!r}: has not been set", hint="set_input() or run(name=array)"
                )
        return given

    # ---- results out

    def get_output(self) -> FrameResult | None:
        """Return the next finished frame, or None if none is ready. Never waits.

        Raises PipelineEnded after the last frame of a stopped pipeline, or a stage's failure.
        """
        with self._taking:
            while not self._ready and self._take() is not None:
                pass
            return self._ready.popleft() if self._ready else None

    def next(self, *, timeout_s: float = TIMEOUT_S) -> FrameResult:
        """Wait for the next frame; may be called again, even after an interrupt.

        Raises DeadlinePassed, PipelineEnded, or a stage's failure.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            result = self.get_output()
            if result is not None:
                return result
            self._await_frame(self._received, deadline)

    @contextmanager
    def borrow(self, *, timeout_s: float = TIMEOUT_S) -> Iterator[FrameResult]:
        """Wait for the next frame; within the ``with`` block its arrays are the stages' own memory.

        Nothing is copied: ``outputs`` are read-only arrays over the slot, or over the buffer that
        was given to ``load``. Their slot is free at the end of the block, and no later frame is
        delivered before. Raises DeadlinePassed, PipelineEnded, or a stage's failure.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            with self._taking:
                if self._ready:  # its outputs have been copied already
                    result, is_lent = self._ready.popleft(), False
                    break
                found = self._take(copies=False)
                if self._ready:
                    result, is_lent = self._ready.popleft(), True
                    self._is_lent = True
                    break
            if found is None:
                self._await_frame(self._received, deadline)
        try:
            yield result
        finally:
            if is_lent:
                with self._taking:
                    self._is_lent = False
                    self._opened.release()

    def _await_frame(self, frame: int, deadline: float) -> None:
        """Wait until a frame is finished, or until a borrowed one may have been returned."""
        if not self._is_lent:
            self._opened.wait("ep_await_frame", deadline, ctypes.c_uint64(frame))
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeadlinePassed(
                f"frame {frame} cannot be taken: the one before is borrowed",
                hint="end the block of `with pipeline.borrow()` first",
            )
        time.sleep(min(left, library.SLICE_S))

    def _collect_owned(self) -> bool:
        """Deliver finished frames to futures, up to the first without one; whether any were."""
        found = False
        with self._taking:
            while self._received in self._owners and self._take() is not None:
                found = True
        return found

    def _settle(self, future: FrameFuture, deadline: float | None) -> None:
        """Wait until a future has its result; without a deadline only check."""
        while not future.is_settled:
            with self._taking:
                while not future.is_settled and self._take() is not None:
                    pass
            if future.is_settled or deadline is None:
                return
            self._await_frame(future.frame, deadline)

    def _take(self, *, copies: bool = True) -> FrameResult | None:
        """Deliver the next finished frame, if there is one, and return it. Needs ``_taking``.

        The frame of a future always gets copies; without ``copies``, the lease of another remains.
        """
        if self._is_lent:
            return None
        taken = Taken()
        pointers = (ctypes.c_void_p * len(self.outputs))()
        code, error = self._opened.attempt("ep_take", ctypes.byref(taken), pointers)
        if code == library.DEADLINE:
            return None
        if error is not None:
            raise error
        owner = self._owners.pop(taken.frame, None)
        copies = copies or owner is not None
        arrays = []
        for at, port in zip(pointers, self.outputs):
            view = array_over(at, port)
            view.flags.writeable = False
            arrays.append(view.copy() if copies else view)
        outputs = Named(self.outputs.names, arrays)
        result = FrameResult(taken.frame, taken.latency_ns / 1e6, outputs)
        content = ctypes.string_at(taken.results, taken.result_bytes)
        if copies:
            self._opened.release()
        read_results(content, self.labels, result)
        future = owner() if owner is not None else None
        if future is not None:
            future.placement = taken.placement
            future.receive(result)
        elif owner is None:
            self._ready.append(result)
        self._received = taken.frame + 1
        return result

    # ---- end and statistics

    def drain(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until every frame is finished (not: taken); the pipeline keeps running.

        Raises DeadlinePassed that names the running stage, or a stage's failure.
        """
        deadline = time.monotonic() + timeout_s
        self._opened.wait("ep_drain", deadline, ctypes.c_uint64(self._submitted))

    def stop(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Accept no more frames and wait until all are finished; they can still be taken."""
        self._opened.wait("ep_stop", time.monotonic() + timeout_s)

    def cancel(self) -> None:
        """Drop every frame that has not been taken; waiting callers get PipelineEnded."""
        self._opened.cancel()

    def restart(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Run again after ``stop``, ``cancel`` or a failure; frames count from 0.

        Results that were not taken are dropped. Raises RuntimeFailure while the pipeline is
        running, DeadlinePassed if a stage does not end.
        """
        deadline = time.monotonic() + timeout_s
        with self._sending:
            self._opened.abandon()
        self._opened.wait("ep_await_end", deadline)
        with self._sending, self._taking:
            self._opened.call("ep_restart", ctypes.c_double(max(0.0, deadline - time.monotonic())))
            lost = [reference() for reference in self._owners.values()]
            self._owners.clear()
            self._ready.clear()
            self._submitted = self._received = 0
        for future in lost:
            if future is not None:
                future.lose()
                future._call_back()

    def statistics(self) -> Statistics:
        """Return what was measured since the start or the last restart."""
        with suppress(RuntimeFailure):  # statistics do not report the end
            self._collect_owned()
        return statistics_from_json(self._opened.text("ep_statistics").decode("utf-8", "replace"))

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write when each stage ran on each frame as Trace Event JSON, for Perfetto or Chrome.

        Contains spans only if the pipeline was started with ``trace=True``. Raises RuntimeFailure
        if the file cannot be written.
        """
        self._opened.call("ep_write_trace", os.fsencode(path))

    def label(self, label_index: int) -> str:
        """Return a class's name, or its number if the bundle has no name for it."""
        return label_of(self.labels, label_index)

    def _check_input(self, name: str, array: Any) -> None:
        if name not in self.inputs:
            known = ", ".join(self.inputs.names)
            raise PipelineError(
                f"input {name!r}: the pipeline has no such input", hint=f"known names: {known}"
            )
        check_array(f"input {name!r}", array, self.inputs[name])

    # ---- callbacks of futures

    def _watch(self, future: FrameFuture) -> None:
        """Call a future's callbacks when it is settled, even if nothing waits for it."""
        with self._watching:
            self._watched.append(future)
            if len(self._watched) > 1:
                return  # its thread runs
        threading.Thread(target=self._call_back, name="edgepipe-futures", daemon=True).start()

    def _call_back(self) -> None:
        while True:
            with self._watching:
                watched = list(self._watched)
            for future in watched:
                try:
                    self._settle(future, time.monotonic() + library.SLICE_S)
                except DeadlinePassed:
                    continue
                except EdgepipeError as error:
                    future._error = error
                future._call_back()
            with self._watching:
                self._watched = [each for each in self._watched if not each.is_settled]
                if not self._watched:
                    return


def _end(opened: OpenPipeline) -> None:
    """End a pipeline that was not closed."""
    error = opened.end(CLOSE_TIMEOUT_S)
    if error is not None:
        warnings.warn(f"{error}; its thread was left behind", RuntimeWarning, stacklevel=2)


def _ports(entries: Sequence[Mapping[str, Any]]) -> Named[Port]:
    ports = tuple(Port(**{**entry, "shape": tuple(entry["shape"])}) for entry in entries)
    return Named(tuple(port.name for port in ports), ports)
