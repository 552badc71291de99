"""Benchmarks as text: each figure measured beside modelled."""

from __future__ import annotations

import dataclasses

import pytest
from benchmark_records import benchmark, run

from edgepipe.benchmark.record import PredictedStage, Prediction, Sensors
from edgepipe.benchmark.text import to_text

ALL = """\
net for ultra96 on door (aarch64, Avnet Ultra96), 50 frames in each mode, all outputs bit-equal to \
the golden ones; VTA stages ran on: uio

run                      frames/s  latency ms p50    p95    p99  dropped  failed  memory MiB
-----------------------  --------  --------------  -----  -----  -------  ------  ----------
one frame at a time         90.00           1.000  1.000  1.000        0       0           8
serial                     100.00           1.000  1.000  1.000        0       0           8
pipelined                  150.00           1.000  1.000  1.000        2       0           8
serial, by the model       100.00               -      -      -        -       -           -
pipelined, by the model    200.00               -      -      -        -       -           -
gain 1.500x, bound 1.667x (sum of the stages / the longest)

stage (ms)  serial p50    p95    p99  pipelined p50    p95    p99   busy  by the model
----------  ----------  -----  -----  -------------  -----  -----  -----  ------------
arm0             1.000  1.000  1.000          1.000  1.000  1.000  50.0%         2.500
vta1             1.000  1.000  1.000          1.000  1.000  1.000  50.0%         5.000
arm2             1.000  1.000  1.000          1.000  1.000  1.000  50.0%             -

accelerator alone (ms)  serial mean  rest of the stage  by the model     cycles  of launch
----------------------  -----------  -----------------  ------------  ---------  ---------
vta1                          4.500              1.500         5.000  1,665,000     20,000

contiguous memory: 3.0 MiB
temperature of ps-thermal: 45.0 C before, 47.3 C after
power of ina226: 4.0 W before, 4.2 W after
clock of cpu0: 1200 MHz before, 1100 MHz after, at most 1200 MHz
"""


def test_everything_that_was_measured_is_shown() -> None:
    assert to_text(benchmark()) == ALL


def test_what_cannot_be_read_is_left_out() -> None:
    made = benchmark()
    bare = dataclasses.replace(
        made,
        before=Sensors(),
        after=Sensors(),
        contiguous_bytes=0,
        serial=dataclasses.replace(made.serial, peak_memory_bytes=0),
        prediction=dataclasses.replace(made.prediction, stages=()),
        machine=dataclasses.replace(made.machine, host="", model=""),
    )
    shown = to_text(bare)
    assert shown.startswith("net for ultra96 on this machine (aarch64), 50 frames")
    assert "accelerator alone" not in shown
    assert "temperature" not in shown
    assert "contiguous" not in shown
    (serial,) = (line for line in shown.splitlines() if line.startswith("serial  "))
    assert serial.split()[-1] == "-"
    assert shown.endswith("-\n")


def test_a_program_that_does_not_say_how_long_the_accelerator_took_shows_the_model() -> None:
    made = benchmark()
    stages = [dataclasses.replace(s, device_run_s=0.0) for s in made.serial.statistics.stages]
    statistics = dataclasses.replace(made.serial.statistics, stages=tuple(stages))
    shown = to_text(
        dataclasses.replace(made, serial=dataclasses.replace(made.serial, statistics=statistics))
    )
    (row,) = (line.split() for line in shown.splitlines() if "1,665,000" in line)
    assert row == ["vta1", "-", "-", "5.000", "1,665,000", "20,000"]


def test_a_bundle_without_vta_stages_names_no_device() -> None:
    made = benchmark()
    bare = dataclasses.replace(made, pipelined=dataclasses.replace(made.pipelined, device="none"))
    assert "VTA stages ran on" not in to_text(bare)


def test_a_pipeline_that_cannot_gain_says_why_as_measured_and_by_the_model() -> None:
    predicted = Prediction(
        stages=tuple(
            PredictedStage(name=name, device=device, ms=ms, cycles=0, launch_cycles=0)
            for name, device, ms in (("arm0", "arm", 3.0), ("vta1", "vta", 95), ("arm2", "arm", 2))
        ),
        serial_ms=100.0,
        interval_ms=95.0,
    )
    slow = run("serial", frames_per_second=50.0)
    stages = [
        dataclasses.replace(each, busy=dataclasses.replace(each.busy, mean_ms=mean_ms))
        for each, mean_ms in zip(slow.statistics.stages, (3.0, 94.0, 3.0), strict=True)
    ]
    statistics = dataclasses.replace(slow.statistics, stages=tuple(stages))
    shown = to_text(
        benchmark(prediction=predicted, serial=dataclasses.replace(slow, statistics=statistics))
    )
    assert (
        "bound 1.064x (sum of the stages / the longest)\n"
        "measured: stage 2 of 3 (vta1) takes 94 % of a frame's time, so pipelining gains at most "
        "1.06x\n"
        "by the model: stage 2 of 3 (vta1) takes 95 % of a frame's time, so pipelining gains at "
        "most 1.05x\n\n" in shown
    )


@pytest.mark.parametrize(
    ("device", "share"), [("simulator", True), ("uio", False), ("driver:lib.so", False)]
)
def test_stages_pinned_to_one_core_share_it_if_they_compute_there(device: str, share: bool) -> None:
    made = benchmark()
    shown = to_text(
        dataclasses.replace(made, pipelined=dataclasses.replace(made.pipelined, device=device))
    )
    line = (
        "measured: arm0, vta1 and arm2 share core 0 and together take 100 % of a frame's time, so "
        "pipelining gains at most 1.00x\n"
    )
    assert (line in shown) == share


def test_timed_stages_sleep_and_leave_their_core_to_others() -> None:
    made = benchmark()
    timed = dataclasses.replace(made, pipelined=dataclasses.replace(made.pipelined, device="timed"))
    assert "share core" not in to_text(timed)
