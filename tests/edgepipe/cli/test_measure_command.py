"""``edgepipe measure`` with a real edgepipe-rpcd whose simulator is as slow as a known board."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import known_board
import pytest
from command_line import EDGEPIPE, assert_fails, run
from needs import rpcd

from edgepipe import boards

pytestmark = pytest.mark.sim
# Slow, so that this machine keeps up with it, and with costs that no other board has.
CLOCK_HZ = 20_000_000
LAUNCH_S = 0.5e-3  # the longest time that this machine takes for a launch of its own
BOARD = known_board.text(
    architecture="x86_64", cpu="x86-64-v3", cores=2, clock_hz=CLOCK_HZ, launch_cycles=5000
)


@pytest.fixture(scope="module", autouse=True)
def server():
    return rpcd()


@pytest.fixture
def board(tmp_path):
    path = tmp_path / "known.toml"
    path.write_text(BOARD)
    return path


def arguments(board, output, *more):
    """Return the command line of a trial. Of few runs, all can be late on a busy machine."""
    measure = ("measure", "--timed", "--board", board, "-o", output, "--allow-root")
    return [str(each) for each in (*measure, "--repeat", "6", *more)]


def test_an_interrupted_measurement_goes_on_and_finds_the_costs_of_a_known_board(
    board, tmp_path, capsys
):
    """Steps must be right; all else within 2 cycles or percent of the port, and the launch late by
    less than this machine takes for it."""
    output, record = tmp_path / "measured.toml", tmp_path / "measured.toml.measured"
    with subprocess.Popen(
        [*EDGEPIPE, *arguments(board, output)], stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 120
        while not record.exists() or len(json.loads(record.read_text())["times_us"]) < 5:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "edgepipe: interrupted" in errors
    assert not output.exists()
    before = json.loads(record.read_text())["times_us"]

    assert run(*arguments(board, output, "--json")) == 0
    printed = capsys.readouterr()
    assert (
        f"has the times of {len(before.keys() - {'host'})} probes, which are not measured again"
        in printed.err
    )
    assert f"wrote {output}" in printed.err
    assert not record.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["known.toml", "measured.toml"]

    found, expected = boards.load(str(output)).timing, boards.load(str(board)).timing
    assert found.gemm_step_cycles == expected.gemm_step_cycles
    assert found.alu_step_cycles == expected.alu_step_cycles
    assert found.alu_vector_step_cycles == expected.alu_vector_step_cycles
    assert found.bus_bytes == expected.bus_bytes
    for name in ("loop_cycles", "instruction_cycles", "dma_row_cycles", "store_row_cycles",
                 "tensor_load_cycles", "bus_efficiency_percent",
                 "weight_efficiency_percent"):  # fmt: skip
        assert abs(getattr(found, name) - getattr(expected, name)) <= 2, name
    late = found.launch_cycles - expected.launch_cycles
    assert 0 <= late <= LAUNCH_S * CLOCK_HZ

    written = json.loads(printed.out)
    assert written["device"] == "timed"
    assert written["timing"]["loop_cycles"] == found.loop_cycles
    assert written["arm_timing"]["macs_per_cycle"] > 1
    assert all(us > 0 for us in written["kernels_us"].values())
    assert len(written["kernels_us"]) == 7
    programs = {each["name"]: each["measured_cycles"] for each in written["programs"]}
    host_us = before.pop("host")
    for name, time_us in before.items():
        assert programs[name] == pytest.approx((time_us + host_us) * CLOCK_HZ / 1e6, abs=1)


def test_without_an_accelerator_nothing_is_measured(board, tmp_path, capsys):
    command = [a for a in arguments(board, tmp_path / "out.toml") if a != "--timed"]
    message = "has no accelerator, and the simulator's times say nothing about a board"
    assert_fails(capsys, run(*command), message, "name a board that has one: --host HOST")
    assert not (tmp_path / "out.toml").exists()


def test_the_help_says_what_is_measured_and_how_to_go_on(capsys):
    with pytest.raises(SystemExit):
        run("measure", "--help")
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    for text in ("--board measured.toml", "FILE.measured", "not measured: bus_bytes", "idle"):
        assert text in shown


def test_an_output_that_is_a_folder_is_refused(board, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    assert_fails(capsys, run(*arguments(board, tmp_path / "folder")), "is a folder")
    assert Path(board).read_text() == BOARD
