"""Measuring on this machine: the figures of edgepipe-run, and its failures."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import needs
import pytest
from report_bundles import changed, statistics

from edgepipe.benchmark import measuring, places
from edgepipe.benchmark.measuring import BenchOptions, measure
from edgepipe.benchmark.places import Ran
from edgepipe.benchmark.record import Benchmark
from edgepipe.bundle import storage
from edgepipe.bundle_report.reading import read_report
from edgepipe.errors import (
    DeployError,
    EdgepipeError,
    FingerprintError,
    RuntimeFailure,
    SignatureError,
)

SENSORS = {
    "proc/device-tree/model": "Avnet Ultra96 Rev1\0",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1199999",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq": "1199999",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/class/thermal/thermal_zone0/temp": "51250",
    "sys/class/thermal/thermal_zone0/type": "ps-thermal",
    "sys/class/hwmon/hwmon1/name": "ina226",
    "sys/class/hwmon/hwmon1/power1_input": "4250000",
}


def options(**changes: Any) -> BenchOptions:
    return BenchOptions(frames=5, runtimes=(needs.built("edgepipe-run"),), **changes)


@pytest.fixture(scope="module")
def measured(bundle: Path) -> Benchmark:
    return measure(bundle, options())


def test_every_run_has_its_frames_and_its_device(measured: Benchmark) -> None:
    assert [run.mode for run in measured.runs] == ["alone", "serial", "pipelined"]
    for run in measured.runs:
        assert run.statistics.delivered == 5
        assert run.device == "simulator"
        assert run.peak_memory_bytes > 1 << 20
        assert [stage.name for stage in run.statistics.stages] == ["arm0", "vta1", "arm2"]


def test_a_frame_alone_finds_no_other_frame_in_the_pipeline(measured: Benchmark) -> None:
    assert measured.alone.statistics.slots == 1
    assert measured.serial.statistics.slots > 1


def test_the_prediction_is_the_reports(measured: Benchmark, bundle: Path) -> None:
    report = read_report(bundle)
    assert measured.prediction.interval_ms == report.prediction.interval_ms
    assert measured.contiguous_bytes == report.memory.used_bytes
    (vta,) = (stage for stage in measured.prediction.stages if stage.device == "vta")
    (expected,) = (stage for stage in report.stages if stage.device == "vta")
    assert (vta.cycles, vta.launch_cycles) == (expected.cycles, expected.launch_cycles)
    assert vta.ms == pytest.approx(1e3 * vta.cycles / report.clock_hz)


def test_a_timed_run_takes_the_boards_time(bundle: Path) -> None:
    """Stages on ARM have theirs in whole microseconds."""
    found = measure(bundle, options(timed=True))
    predicted = {stage.name: stage.ms for stage in found.prediction.stages}
    assert {stage.device for stage in found.prediction.stages} == {"arm", "vta"}
    for run in found.runs:
        assert run.device == "timed"
        for stage in run.statistics.stages:
            assert stage.busy.min_ms >= predicted[stage.name] - 1e-3


def test_sensors_are_read_where_there_are_any(bundle: Path, tmp_path: Path) -> None:
    for name, content in SENSORS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    found = measure(bundle, options(system=str(tmp_path)))
    assert found.machine.model == "Avnet Ultra96 Rev1"
    for sensors in (found.before, found.after):
        assert [(each.sensor, each.value) for each in sensors.temperatures] == [
            ("ps-thermal", 51250)
        ]
        assert [each.value for each in sensors.powers] == [4_250_000]
        assert [each.now_khz for each in sensors.clocks] == [1_199_999]


def test_other_bits_are_an_error_before_anything_is_timed(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = storage.read_manifest(bundle)
    (golden, *_) = (file for file in manifest.files if file.path == manifest.golden.outputs[0].file)
    content = bytearray(storage.read_file(bundle, golden))
    content[0] ^= 1
    path = changed(bundle, tmp_path / "net.edgepipe", files={golden.path: bytes(content)})
    modes = []
    run = measuring._run
    monkeypatch.setattr(
        measuring, "_run", lambda place, mode, *rest: modes.append(mode) or run(place, mode, *rest)
    )
    with pytest.raises(RuntimeFailure, match=r"golden run: .* differs from") as error:
        measure(path, options())
    assert "run the bundle on the simulator" in error.value.hint
    assert modes == ["golden"]


def failure_of(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, ran: Ran, **changes: Any
) -> EdgepipeError:
    monkeypatch.setattr(places.Here, "run", lambda *_: ran)
    with pytest.raises(EdgepipeError) as error:
        measure(bundle, options(**changes))
    return error.value


SAID = "edgepipe-run: error: vta: another clock\nhint: build again\n"


@pytest.mark.parametrize(
    ("code", "kind"),
    [(1, RuntimeFailure), (12, FingerprintError), (15, SignatureError)],
)
def test_a_failed_run_keeps_its_message_and_its_exit_code(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[EdgepipeError]
) -> None:
    error = failure_of(bundle, monkeypatch, Ran(code=code, output="", messages=SAID))
    assert type(error) is kind
    assert str(error) == "this machine: golden run: vta: another clock"
    assert error.hint == "build again"
    assert getattr(error, "exit_code", 1) == code


def test_a_run_that_was_killed_says_so(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = failure_of(bundle, monkeypatch, Ran(code=137, output="", messages=""))
    assert str(error) == "this machine: golden run: exit code 137"
    assert error.hint == "run edgepipe-run on the bundle to see more"


RECORD = {"statistics": statistics({"arm0": 1.0}), "device": "uio", "peak_memory_bytes": 1}


@pytest.mark.parametrize(
    "output",
    [
        "",
        "boxes",
        "[1]",
        '{"statistics": 3}',
        json.dumps({"statistics": RECORD["statistics"]}),
        json.dumps(RECORD | {"device": 3}),
        json.dumps(RECORD | {"statistics": statistics({"arm0": 1.0}, delivered="no")}),
    ],
)
def test_output_of_another_program_is_refused(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    error = failure_of(bundle, monkeypatch, Ran(code=0, output=output, messages=""))
    assert f"golden run: ended with {output[:60]!r}, expected statistics as JSON" in str(error)
    assert error.hint == "use the edgepipe-run of this version of edgepipe"
    assert error.option == "runtime"


def test_a_run_without_frames_is_refused(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = statistics({"arm0": 0.0})
    output = json.dumps(RECORD | {"statistics": none})
    error = failure_of(bundle, monkeypatch, Ran(code=0, output=output, messages=""))
    assert "alone run: ended with" in str(error)


def test_a_run_that_does_not_end_is_killed(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(arguments: Sequence[object], **_: object) -> None:
        raise subprocess.TimeoutExpired(["edgepipe-run"], 90)

    here = places.Here(bundle, options().runtimes)
    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(RuntimeFailure, match="the run did not end after 90 s") as error:
        here.run([], 90)
    assert error.value.hint == "run fewer frames"


def test_a_program_for_boards_only_is_an_error(bundle: Path, tmp_path: Path) -> None:
    script = tmp_path / "edgepipe-run"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(DeployError, match="not a program for"):
        measure(bundle, BenchOptions(runtimes=(script,)))


def test_ctrl_c_ends_the_run_and_writes_nothing(bundle: Path, tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    command = [sys.executable, "-m", "edgepipe", "bench", bundle, "--frames", "100000"]
    process = subprocess.Popen(
        [*command, "-o", output], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    process.stderr.readline()  # the golden run has ended
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert out == ""
    assert "interrupted" in said
    assert list(tmp_path.iterdir()) == []
