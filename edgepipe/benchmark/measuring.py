"""Measure a bundle: check its golden output, then run frames alone, serially and pipelined.

edgepipe-run does all of it, so the figures are those of its statistics. Every frame is the golden
input, and every output is compared with the golden one, outside what is timed.
"""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from edgepipe.benchmark.places import Here, OnBoard, Place, Ran
from edgepipe.benchmark.record import (
    FORMAT,
    Benchmark,
    Machine,
    PredictedStage,
    Prediction,
    Run,
    Sensors,
    check_run,
)
from edgepipe.bundle import storage
from edgepipe.bundle.signature import Refusal
from edgepipe.bundle_report.model import Report
from edgepipe.bundle_report.reading import read_report
from edgepipe.deploy.connection import Target
from edgepipe.doctor.survey import Survey
from edgepipe.errors import (
    BundleError,
    DeployError,
    FingerprintError,
    RuntimeFailure,
    SignatureError,
)
from edgepipe.progress import Progress, Silent
from edgepipe.runtime.statistics import check_types, statistics_from_json

_FINGERPRINT_CODES = range(10, 15)  # edgepipe-run: bundle and machine differ
_FRAME_LIMIT_S = 30  # edgepipe-run's own limit for a frame, after which it ends
_START_S = 60
_MODES = {"alone": ("--serial", "--slots", "1"), "serial": ("--serial",), "pipelined": ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """How to measure.

    ``frames`` run in each mode. With ``timed``, stages on this machine take at least as long as the
    model expects of the board. ``slots`` limits the frames in flight of the pipelined run, by
    default to the bundle's number. ``runtimes`` are builds of edgepipe-run. ``allow_simulator``
    accepts a board without an accelerator. ``system`` is a prefix of /proc and /sys, for tests.
    """

    frames: int = 100
    timed: bool = False
    slots: int | None = None
    runtimes: tuple[Path, ...] = ()
    allow_simulator: bool = False
    system: str = ""


def measure(
    bundle: Path,
    options: BenchOptions,
    target: Target | None = None,
    progress: Progress | None = None,
) -> Benchmark:
    """Measure ``bundle`` on a board, or on this machine if ``target`` is None.

    Raises BundleError for a bundle that cannot be read, RuntimeFailure if a run fails or an output
    is not the golden one, FingerprintError and SignatureError if the machine refuses the bundle,
    and DeployError if the board cannot be reached, has no accelerator, or edgepipe-run is missing.
    """
    progress = progress or Silent()
    report = read_report(bundle, options.slots)
    if target is not None:
        progress.step(f"send {bundle.name} to {target.host}")
    with (
        nullcontext(Here(bundle, options.runtimes, options.system))
        if target is None
        else OnBoard(target, bundle, options.runtimes, options.system)
    ) as place:
        before = place.survey()
        progress.step("golden run")
        device = _run(place, "golden", options, 1).device
        if target is not None and device == "simulator" and not options.allow_simulator:
            raise DeployError(
                f"{place.name}: VTA stages ran on the simulator, expected the accelerator",
                hint="`edgepipe doctor` says what is missing; to measure the board's cores all the "
                "same, allow the simulator",
                option="allow_simulator",
            )
        runs = {}
        for mode in _MODES:
            progress.step(f"{mode} run of {options.frames} frames")
            runs[mode] = _run(place, mode, options, options.frames)
        after = place.survey()
    return Benchmark(
        format=FORMAT,
        builder_version=storage.read_manifest(bundle).fingerprint.builder_version,
        network=report.name,
        network_version=report.version,
        board=report.board,
        machine=Machine(
            host="" if target is None else target.host,
            machine=before.machine,
            kernel=before.kernel,
            model=before.model,
        ),
        frames=options.frames,
        contiguous_bytes=report.memory.used_bytes,
        prediction=_prediction(report),
        before=_sensors(before),
        after=_sensors(after),
        **runs,
    )


def _run(place: Place, mode: str, options: BenchOptions, frames: int) -> Run:
    """Run ``frames`` frames and return what was measured."""
    arguments = ["--golden", "--json", "--quiet", "--frames", str(frames), *_MODES.get(mode, ())]
    if options.timed:
        arguments += ["--device", "timed"]
    if options.slots is not None and mode == "pipelined":
        arguments += ["--slots", str(options.slots)]
    ran = place.run(arguments, _START_S + _FRAME_LIMIT_S * frames)
    where = f"{place.name}: {mode} run"
    if ran.code:
        raise _failure(where, ran)
    try:
        record = json.loads(ran.output)
        found = Run(
            mode=mode,
            device=record["device"],
            peak_memory_bytes=record["peak_memory_bytes"],
            statistics=statistics_from_json(json.dumps(record["statistics"])),
        )
        check_types(found, Run)
        if frames > 1:
            check_run(found.statistics, where)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BundleError) as cause:
        raise RuntimeFailure(
            f"{where}: ended with {ran.output[:60]!r}, expected statistics as JSON",
            hint="use the edgepipe-run of this version of edgepipe",
            option="runtime",
            value="FILE",
        ) from cause
    return found


def _failure(where: str, ran: Ran) -> RuntimeFailure | FingerprintError | SignatureError:
    """Return the error that a failed run reported."""
    found = dict(re.findall(r"^(?:edgepipe-run: )?(error|hint): (.*)$", ran.messages, re.MULTILINE))
    text = f"{where}: {found.get('error', f'exit code {ran.code}')}"
    hint = found.get("hint", "")
    if ran.code in _FINGERPRINT_CODES:
        return FingerprintError(text, hint=hint, exit_code=ran.code)
    if ran.code in list(Refusal):
        return SignatureError(text, hint=hint, exit_code=ran.code)
    return RuntimeFailure(text, hint=hint or "run edgepipe-run on the bundle to see more")


def _prediction(report: Report) -> Prediction:
    return Prediction(
        stages=tuple(
            PredictedStage(
                name=stage.name,
                device=stage.device,
                ms=stage.ms,
                cycles=stage.cycles,
                launch_cycles=stage.launch_cycles,
            )
            for stage in report.stages
        ),
        serial_ms=report.prediction.serial_ms,
        interval_ms=report.prediction.interval_ms,
    )


def _sensors(found: Survey) -> Sensors:
    return Sensors(clocks=found.clocks, temperatures=found.temperatures, powers=found.powers)
