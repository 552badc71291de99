"""Benchmarks as values, without a run."""

from __future__ import annotations

import dataclasses
from typing import Any

from report_bundles import statistics

from edgepipe import schema
from edgepipe.benchmark.record import (
    FORMAT,
    Benchmark,
    Machine,
    PredictedStage,
    Prediction,
    Run,
    Sensors,
)
from edgepipe.doctor.survey import CpuClock, Reading
from edgepipe.errors import BundleError
from edgepipe.runtime.statistics import Statistics

TIMES = {"arm0": 2.0, "vta1": 6.0, "arm2": 2.0}


def measured(**changes: Any) -> Statistics:
    """Return statistics of stages with the mean times of ``TIMES``, in ms."""
    return schema.from_table(Statistics, statistics(TIMES, **changes), "test", BundleError)


def run(mode: str, **changes: Any) -> Run:
    """Return a run, in which the accelerator took 4.5 ms of each run of ``vta1``."""
    found = measured(**changes)
    stages = tuple(
        dataclasses.replace(stage, device_run_s=4.5e-3 * stage.busy.count)
        if stage.name == "vta1"
        else stage
        for stage in found.stages
    )
    found = dataclasses.replace(found, stages=stages)
    return Run(mode=mode, device="uio", peak_memory_bytes=8 << 20, statistics=found)


def benchmark(**changes: Any) -> Benchmark:
    """Return a benchmark of three stages on a board, pipelined 1.5 times as fast as serially."""
    predicted = [("arm0", "arm", 2.5, 0, 0), ("vta1", "vta", 5.0, 1_665_000, 20_000)]
    names = [field.name for field in dataclasses.fields(PredictedStage)]
    stages = [dict(zip(names, values, strict=True)) for values in predicted]
    made = Benchmark(
        format=FORMAT,
        builder_version="0.1.0",
        network="net",
        network_version=3,
        board="ultra96",
        machine=Machine(host="door", machine="aarch64", kernel="6.1", model="Avnet Ultra96"),
        frames=50,
        contiguous_bytes=3 << 20,
        prediction=Prediction(
            stages=tuple(PredictedStage(**stage) for stage in stages),
            serial_ms=10.0,
            interval_ms=5.0,
        ),
        alone=run("alone", frames_per_second=90.0),
        serial=run("serial", frames_per_second=100.0),
        pipelined=run("pipelined", frames_per_second=150.0, dropped=2),
        before=sensors(45_000, 4_000_000, 1_200_000),
        after=sensors(47_300, 4_250_000, 1_100_000),
    )
    return dataclasses.replace(made, **changes)


def sensors(temperature: int, power: int, clock: int) -> Sensors:
    """Return one sensor of each kind."""
    return Sensors(
        clocks=(CpuClock(core="cpu0", now_khz=clock, most_khz=1_200_000, governor="ondemand"),),
        temperatures=(Reading(sensor="ps-thermal", value=temperature),),
        powers=(Reading(sensor="ina226", value=power),),
    )
