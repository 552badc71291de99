"""A benchmark as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgepipe.benchmark.record import Benchmark, Run, accelerator_ms
from edgepipe.doctor.survey import Reading
from edgepipe.report.pipelining_limit import (
    Limit,
    accelerator,
    measured_limit,
    pipelining_limit,
)
from edgepipe.report.table import format_table
from edgepipe.runtime.statistics import Durations

_MIB = 1 << 20
_SLEEPS = "timed"  # the device whose stages sleep until the modelled time is over
_WAITED_FOR = ("uio", "driver")  # how names of devices begin that compute without a core
_RUNS = {"alone": "one frame at a time", "serial": "serial", "pipelined": "pipelined"}


def to_text(benchmark: Benchmark) -> str:
    """Return tables of the rates, the stages and the accelerator, each measured and modelled."""
    parts = [_title(benchmark), _rates(benchmark), _stages(benchmark), _accelerator(benchmark)]
    return "\n\n".join(part for part in (*parts, "\n".join(_conditions(benchmark))) if part) + "\n"


def _title(benchmark: Benchmark) -> str:
    machine = benchmark.machine
    where = machine.host or "this machine"
    model = f", {machine.model}" if machine.model else ""
    device = benchmark.pipelined.device
    ran = "" if device == "none" else f"; VTA stages ran on: {device}"
    return (
        f"{benchmark.network} for {benchmark.board} on {where} ({machine.machine}{model}), "
        f"{benchmark.frames} frames in each mode, all outputs bit-equal to the golden ones{ran}"
    )


def _rates(benchmark: Benchmark) -> str:
    predicted = benchmark.prediction
    rows = [_rate_row(run) for run in benchmark.runs]
    rows += [
        ["serial, by the model", f"{1e3 / predicted.serial_ms:.2f}", *["-"] * 6],
        ["pipelined, by the model", f"{1e3 / predicted.interval_ms:.2f}", *["-"] * 6],
    ]
    table = format_table(
        ["run", "frames/s", "latency ms p50", "p95", "p99", "dropped", "failed", "memory MiB"], rows
    )
    lines = [
        table,
        f"gain {benchmark.gain:.3f}x, bound {benchmark.bound:.3f}x (sum of the stages / "
        "the longest)",
        *(limit.sentence(where) for where, limit in _limits(benchmark)),
    ]
    return "\n".join(line for line in lines if line)


def _limits(benchmark: Benchmark) -> Iterator[tuple[str, Limit]]:
    """Yield what limits the gain of the runs, and that of the model if it has all stages."""
    serial, pipelined = benchmark.serial.statistics, benchmark.pipelined
    vta_stages = [stage.name for stage in benchmark.prediction.stages if stage.device == "vta"]
    stage_ms = {stage.name: stage.busy.mean_ms for stage in serial.stages}
    computing = () if pipelined.device == _SLEEPS else set(stage_ms)
    if pipelined.device.startswith(_WAITED_FOR):
        computing = set(stage_ms) - set(vta_stages)
    yield "measured", measured_limit(stage_ms, pipelined.statistics, vta_stages, computing)
    predicted_ms = {stage.name: stage.ms for stage in benchmark.prediction.stages}
    if predicted_ms.keys() == stage_ms.keys() and any(predicted_ms.values()):
        slots = pipelined.statistics.slots
        yield "by the model", pipelining_limit(predicted_ms, [accelerator(vta_stages)], slots=slots)


def _rate_row(run: Run) -> list[str]:
    found = run.statistics
    memory = f"{run.peak_memory_bytes / _MIB:.0f}" if run.peak_memory_bytes else "-"
    return [
        _RUNS[run.mode],
        f"{found.frames_per_second:.2f}",
        *_percentiles(found.latency),
        str(found.dropped),
        str(found.failed),
        memory,
    ]


def _percentiles(times: Durations) -> list[str]:
    return [f"{ms:.3f}" for ms in (times.median_ms, times.p95_ms, times.p99_ms)]


def _stages(benchmark: Benchmark) -> str:
    modelled = {stage.name: f"{stage.ms:.3f}" for stage in benchmark.prediction.stages}
    rows = [
        [
            serial.name,
            *_percentiles(serial.busy),
            *_percentiles(pipelined.busy),
            f"{100 * pipelined.utilisation:.1f}%",
            modelled.get(serial.name, "-"),
        ]
        for serial, pipelined in zip(
            benchmark.serial.statistics.stages, benchmark.pipelined.statistics.stages, strict=True
        )
    ]
    header = ["stage (ms)", "serial p50", "p95", "p99", "pipelined p50", "p95", "p99", "busy"]
    return format_table([*header, "by the model"], rows)


def _accelerator(benchmark: Benchmark) -> str:
    measured = {stage.name: stage for stage in benchmark.serial.statistics.stages}
    rows = []
    for stage in benchmark.prediction.stages:
        if stage.device != "vta":
            continue
        found = measured.get(stage.name)
        alone_ms = accelerator_ms(found) if found else None
        times = ["-", "-"]
        if found and alone_ms is not None:
            times = [f"{alone_ms:.3f}", f"{found.busy.mean_ms - alone_ms:.3f}"]
        cycles = [f"{stage.cycles:,}", f"{stage.launch_cycles:,}"]
        rows.append([stage.name, *times, f"{stage.ms:.3f}", *cycles])
    if not rows:
        return ""
    header = ["accelerator alone (ms)", "serial mean", "rest of the stage", "by the model"]
    return format_table([*header, "cycles", "of launch"], rows)


def _conditions(benchmark: Benchmark) -> Iterator[str]:
    before, after = benchmark.before, benchmark.after
    if benchmark.contiguous_bytes:
        yield f"contiguous memory: {benchmark.contiguous_bytes / _MIB:.1f} MiB"
    yield from _readings("temperature", "C", 1e3, before.temperatures, after.temperatures)
    yield from _readings("power", "W", 1e6, before.powers, after.powers)
    for first, last in zip(before.clocks, after.clocks, strict=False):
        if first.core == last.core:
            yield (
                f"clock of {first.core}: {first.now_khz / 1e3:.0f} MHz before, "
                f"{last.now_khz / 1e3:.0f} MHz after, at most {last.most_khz / 1e3:.0f} MHz"
            )


def _readings(
    what: str, unit: str, scale: float, before: Sequence[Reading], after: Sequence[Reading]
) -> Iterator[str]:
    for first, last in zip(before, after, strict=False):
        if first.sensor == last.sensor:
            yield (
                f"{what} of {first.sensor or 'a sensor'}: {first.value / scale:.1f} {unit} before, "
                f"{last.value / scale:.1f} {unit} after"
            )
