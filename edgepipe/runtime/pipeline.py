"""Run a bundle in the C++ pipeline: submit frames, take results in order, read statistics.

    with Pipeline.open("nanodet.edgepipe") as pipeline:
        pipeline.submit(picture)  # uint8[1, height, width, channels]
        result = pipeline.next()
        print(result.detections, pipeline.statistics().frames_per_second)

One thread may submit while another takes results; calls release the interpreter lock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.frames import read_frame
from edgepipe.runtime.handle import Handle
from edgepipe.runtime.library import as_tensor, call
from edgepipe.runtime.results import ClassScore, Detection

Array = NDArray[Any]

TIMEOUT_S = 60.0
_TRACE_SPANS = 32768  # kTraceSpans of pipeline_trace.h


class Pinning(StrEnum):
    """What happens when a stage's thread cannot be pinned to its core."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class BorderTensor:
    """An input or output of the bundle; ``bytes`` is its size in ``layout``."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameResult:
    """A finished frame. ``outputs`` are copies; an output in the VTA layout is flat int8 bytes.

    ``detections`` are in pixels of the network's input, ``classes`` best first; which of the two is
    filled depends on the bundle's postprocess. ``latency_ms`` is from submit to the last stage's
    end.
    """

    frame: int
    latency_ms: float
    outputs: Mapping[str, Array]
    detections: tuple[Detection, ...]
    classes: tuple[ClassScore, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """A distribution of times in milliseconds, percentiles within 1.6 %; all 0 without samples."""

    count: int
    min_ms: float
    median_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    mean_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatistics:
    """One stage: the cores it may run on (none: any), its run times, its share of the time.

    ``waiting`` frames wait for it now, ``retries`` frames were run once more because the device had
    hung, ``fallback_frames`` were run by the stage's fallback; ``fault`` is what the device did
    last.
    """

    name: str
    cores: tuple[int, ...]
    busy: Durations
    utilisation: float
    waiting: int
    retries: int
    fallback_frames: int
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """A snapshot; ``submitted == delivered + dropped + failed + in_flight``.

    ``frames_per_second`` counts from the first to the last completion, so filling the pipeline is
    not part of it.
    """

    submitted: int
    delivered: int
    dropped: int
    failed: int
    in_flight: int
    slots: int
    latency: Durations
    elapsed_s: float
    frames_per_second: float
    stages: tuple[StageStatistics, ...]


class Pipeline(Handle):
    """A running bundle, made by ``open``. Usable as a context manager, which closes it.

    Every failure of the C++ side is a RuntimeFailure with its text.
    """

    def __init__(self, module: Any) -> None:
        super().__init__("pipeline", module, end="close")
        found = json.loads(self._call("describe"))
        self.name: str = found["name"]
        self.inputs = tuple(_tensor(entry) for entry in found["inputs"])
        self.outputs = tuple(_tensor(entry) for entry in found["outputs"])
        self.slots: int = found["slots"]
        self.stages: tuple[str, ...] = tuple(found["stages"])
        self.labels: tuple[str, ...] = tuple(found["labels"])

    @classmethod
    def open(
        cls,
        bundle: str | os.PathLike[str],
        *,
        serial: bool = False,
        cores: Sequence[int] | None = None,
        slots: int | None = None,
        pinning: Pinning = Pinning.REQUIRED,
        trace: bool = False,
        timed: bool = False,
    ) -> Self:
        """Open and check a bundle, load its stages, start their threads.

        ``serial`` runs all stages on one thread. Stage k runs on ``cores[k % len(cores)]``, by
        default on the process's own cores. ``slots`` is how many frames are under way at once, by
        default one per stage and two more. With ``trace`` the last spans are kept for
        ``write_trace``. With ``timed`` VTA stages run on the simulator and take at least what the
        board's accelerator would by its timing model. Raises RuntimeFailure for a damaged bundle or
        a core that does not exist.
        """
        options = {
            "device": "timed" if timed else "auto",
            "serial": serial,
            "pinning": pinning,
            "slots": slots or 0,
            "cores": [*(cores or ())],
            "trace_spans": _TRACE_SPANS if trace else 0,
        }
        return cls(call("load_pipeline", os.fsencode(bundle), json.dumps(options)))

    # ---- frames --------------------------------------------------------------------------------

    def submit(self, *frame: Array, timeout_s: float = TIMEOUT_S) -> int:
        """Copy one array per input in and return the frame's number, counted from 0.

        Waits while all slots are in use; a thread that also takes the results must not have more
        frames under way than there are slots. Raises RuntimeFailure for a wrong dtype or size.
        """
        arrays = [np.ascontiguousarray(array) for array in frame]
        for array, tensor in zip(arrays, self.inputs, strict=False):
            if array.dtype != tensor.dtype:
                raise RuntimeFailure(
                    f"input {tensor.name!r}: found {array.dtype}{list(array.shape)}, "
                    f"expected {tensor.dtype}{list(tensor.shape)}"
                )
        return int(self._call("run", timeout_s, *map(as_tensor, arrays)))

    def next(self, *, timeout_s: float = TIMEOUT_S) -> FrameResult:
        """Wait for the next frame, in the order of submission, and return copies of its outputs.

        Raises RuntimeFailure when none finishes in time, after ``stop`` when all have been taken,
        and with stage and frame when a stage has failed.
        """
        outputs = {tensor.name: _empty(tensor) for tensor in self.outputs}
        tensors = map(as_tensor, outputs.values())
        found = read_frame(self._call("get_output", timeout_s, *tensors))
        return FrameResult(
            frame=found.frame,
            latency_ms=found.latency_ms,
            outputs=outputs,
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

    def run(
        self, frames: Iterable[Array], *, timeout_s: float = TIMEOUT_S
    ) -> Iterator[FrameResult]:
        """Yield the results of ``frames``, one array each, keeping every stage busy meanwhile."""
        under_way = 0
        for frame in frames:
            if under_way == self.slots:
                yield self.next(timeout_s=timeout_s)
                under_way -= 1
            self.submit(frame, timeout_s=timeout_s)
            under_way += 1
        for _ in range(under_way):
            yield self.next(timeout_s=timeout_s)

    # ---- end and numbers -----------------------------------------------------------------------

    def stop(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Take no more frames and wait until those submitted are finished; ``next`` gives them.

        Raises RuntimeFailure when a stage has failed or does not finish in time.
        """
        self._call("stop", timeout_s)

    def cancel(self) -> None:
        """Drop every frame that has not been taken; threads that wait get a RuntimeFailure."""
        self._call("cancel")

    def statistics(self) -> Statistics:
        """Return what has been measured so far."""
        return statistics_from_json(self._call("statistics"))

    def write_trace(self, path: Path) -> None:
        """Write when each stage ran on each frame as Trace Event JSON, for Perfetto or Chrome.

        Raises RuntimeFailure when the file cannot be written.
        """
        self._call("write_trace", os.fsencode(path))

    def label(self, label_index: int) -> str:
        """Return a class's name, or its number where the bundle has none."""
        if 0 <= label_index < len(self.labels):
            return self.labels[label_index]
        return str(label_index)


def statistics_from_json(text: str | bytes) -> Statistics:
    """Read what a pipeline's ``statistics`` function returns."""
    found = json.loads(text)
    stages = tuple(
        StageStatistics(
            **(stage | {"busy": Durations(**stage["busy"]), "cores": tuple(stage["cores"])})
        )
        for stage in found["stages"]
    )
    return Statistics(**(found | {"latency": Durations(**found["latency"]), "stages": stages}))


def _tensor(entry: dict[str, Any]) -> BorderTensor:
    return BorderTensor(**(entry | {"shape": tuple(entry["shape"])}))


def _empty(tensor: BorderTensor) -> Array:
    if tensor.layout == "vta":
        return np.empty(tensor.bytes, np.dtype(tensor.dtype))
    return np.empty(tensor.shape, np.dtype(tensor.dtype))
