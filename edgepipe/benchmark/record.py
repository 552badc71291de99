"""A benchmark as values, and as the JSON that ``edgepipe bench`` writes and reads."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from edgepipe import schema
from edgepipe.doctor.survey import CpuClock, Reading
from edgepipe.errors import BundleError
from edgepipe.runtime.statistics import StageStatistics, Statistics, check_types

FORMAT = 1
MODES = ("alone", "serial", "pipelined")
_REMEDY = "give a file that `edgepipe bench` wrote"
_MOST_BYTES = 1 << 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where the bundle ran; ``host`` is empty for this machine, ``model`` if it is not known."""

    host: str
    machine: str
    kernel: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors:
    """Clocks in kHz, temperatures in millidegrees Celsius, power in microwatts, if readable."""

    clocks: tuple[CpuClock, ...] = ()
    temperatures: tuple[Reading, ...] = ()
    powers: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedStage:
    """A stage's time for a frame by the timing model.

    On the VTA, ``ms`` are the ``cycles`` of the program alone on the accelerator at the board's
    clock, ``launch_cycles`` included. Both counts are 0 on ARM.
    """

    name: str
    device: str
    ms: float
    cycles: int
    launch_cycles: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the model expects on the board: see ``bundle_report.model.Prediction``."""

    stages: tuple[PredictedStage, ...]
    serial_ms: float
    interval_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run measured.

    ``mode`` is ``alone`` (one frame in the pipeline at a time), ``serial`` (one stage at a time,
    while other frames wait) or ``pipelined``.
    ``device`` ran the VTA stages. ``peak_memory_bytes`` is the most memory that the program had
    resident, 0 if it did not say.
    """

    mode: str
    device: str
    peak_memory_bytes: int
    statistics: Statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A bundle that was run for ``frames`` frames in each mode; all outputs were the golden ones.

    ``board`` is the one that the bundle was built for, ``contiguous_bytes`` the memory that CPU
    and accelerator share there. ``before`` and ``after`` are the sensors around the runs.
    """

    format: int
    builder_version: str
    network: str
    network_version: int
    board: str
    machine: Machine
    frames: int
    contiguous_bytes: int
    prediction: Prediction
    alone: Run
    serial: Run
    pipelined: Run
    before: Sensors
    after: Sensors

    @property
    def runs(self) -> tuple[Run, Run, Run]:
        """The runs, in their order."""
        return self.alone, self.serial, self.pipelined

    @property
    def gain(self) -> float:
        """Pipelined over serial frames per second."""
        serial = self.serial.statistics.frames_per_second
        return self.pipelined.statistics.frames_per_second / serial

    @property
    def bound(self) -> float:
        """The gain that the stage times of the serial run allow."""
        return self.serial.statistics.pipelining_bound


def accelerator_ms(stage: StageStatistics) -> float | None:
    """Return how long the accelerator took for a run of a stage: from its start to its end, on
    average, in milliseconds.

    None for a stage without one, and from programs of before 2026-11-28, which do not say.
    """
    if not stage.device_run_s or not stage.busy.count:
        return None
    return 1e3 * stage.device_run_s / stage.busy.count


def to_json(benchmark: Benchmark) -> str:
    """Return a benchmark as JSON; :func:`read` reads it."""
    return json.dumps(dataclasses.asdict(benchmark), indent=1) + "\n"


def read(path: Path) -> Benchmark:
    """Read the benchmark in the file at ``path``; raise BundleError if it contains none."""
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise BundleError(f"{path}: {size} bytes, expected at most {_MOST_BYTES}", hint=_REMEDY)
        found = json.loads(path.read_bytes())
    except OSError as cause:
        raise BundleError(f"{path}: cannot be read ({cause.strerror})", hint=_REMEDY) from cause
    except (ValueError, RecursionError) as cause:
        raise BundleError(f"{path}: not JSON, expected a benchmark", hint=_REMEDY) from cause
    return of_json(found, str(path))


def is_benchmark(found: object) -> bool:
    """Return whether a value read from JSON is meant as a benchmark."""
    return isinstance(found, dict) and {"format", "alone", "serial", "pipelined"} <= found.keys()


def of_json(found: object, where: str) -> Benchmark:
    """Return the benchmark in a value read from JSON; raise BundleError if it is none.

    ``where`` names the value in errors.
    """
    if not is_benchmark(found) or not isinstance(found, dict):
        raise BundleError(f"{where}: found other JSON, expected a benchmark", hint=_REMEDY)
    if found["format"] != FORMAT:
        raise BundleError(
            f"{where}: a benchmark of format {found['format']!r}, expected {FORMAT}",
            hint="measure again, or read it with the version of edgepipe that wrote it",
        )
    try:
        benchmark = schema.from_table(Benchmark, found, where, BundleError)
        check_types(benchmark, Benchmark)
    except BundleError as error:
        error.hint = _REMEDY
        raise
    except (TypeError, RecursionError) as cause:
        raise BundleError(f"{where}: a number of the benchmark is none", hint=_REMEDY) from cause
    for run, mode in zip(benchmark.runs, MODES, strict=True):
        check_run(run.statistics, where)
        if run.mode != mode:
            raise BundleError(f"{where}: a run {run.mode!r}, expected {mode!r}", hint=_REMEDY)
    if not (benchmark.prediction.serial_ms > 0 and benchmark.prediction.interval_ms > 0):
        raise BundleError(f"{where}: a predicted time is not above 0", hint=_REMEDY)
    if len({tuple(stage.name for stage in run.statistics.stages) for run in benchmark.runs}) > 1:
        raise BundleError(f"{where}: its runs have different stages", hint=_REMEDY)
    return benchmark


def check_run(statistics: Statistics, where: str) -> None:
    """Raise BundleError unless a run delivered frames at some rate, by stages that took time."""
    times = [stage.busy.mean_ms for stage in statistics.stages]
    if (
        not statistics.delivered
        or not statistics.frames_per_second > 0
        or min(times, default=0) < 0
        or not max(times, default=0)
    ):
        raise BundleError(f"{where}: statistics of a run without frames", hint=_REMEDY)
