"""``edgepipe bench`` on the virtual Ultra96, whose accelerator takes the time of known costs."""

from __future__ import annotations

import json

import known_board
import pytest
from small_networks import build_small_bundle

from edgepipe.cli.main import main

pytestmark = pytest.mark.board
FRAMES = 8


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    return build_small_bundle(folder, str(known_board.write(folder)), 64)


@pytest.fixture(scope="module")
def measured(virtual_board, board, bundle, tmp_path_factory):
    """Return the file of a benchmark of the bundle on the board."""
    virtual_board.load_fpga(known_board.fpga(bundle.parent / "known.toml"))
    output = tmp_path_factory.mktemp("written") / "a.json"
    command = ["bench", str(bundle), *board.options, "--frames", str(FRAMES), "-o", str(output)]
    assert main(command) == 0
    return output


@pytest.mark.systems
def test_every_figure_is_measured_on_the_board(measured, bundle):
    found = json.loads(measured.read_text())
    assert found["machine"]["model"] == "Avnet Ultra96 Rev1"
    assert (found["machine"]["machine"], found["board"]) == ("aarch64", "known")
    for mode in ("alone", "serial", "pipelined"):
        run = found[mode]
        statistics = run["statistics"]
        assert run["device"] == "uio"
        assert run["peak_memory_bytes"] > 1 << 20
        assert statistics["delivered"] == FRAMES == statistics["latency"]["count"]
        assert statistics["dropped"] == statistics["failed"] == 0
        latency = [statistics["latency"][f"{each}_ms"] for each in ("median", "p95", "p99")]
        assert 0 < latency[0] <= latency[1] <= latency[2]
        assert statistics["frames_per_second"] > 0
    assert found["contiguous_bytes"] > 0


def test_the_accelerator_alone_is_measured_and_takes_the_time_of_its_costs(measured):
    found = json.loads(measured.read_text())
    modelled = {s["name"]: s for s in found["prediction"]["stages"] if s["device"] == "vta"}
    stages = {s["name"]: s for s in found["serial"]["statistics"]["stages"]}
    assert modelled
    for name, stage in stages.items():
        alone_ms = 1e3 * stage["device_run_s"] / stage["busy"]["count"]
        if name not in modelled:
            assert alone_ms == 0
            continue
        cycles = modelled[name]["cycles"] - modelled[name]["launch_cycles"]
        assert alone_ms > 1e3 * cycles / known_board.CLOCK_HZ
        assert alone_ms < stage["busy"]["mean_ms"]


@pytest.mark.systems
def test_the_tables_show_what_was_measured_and_what_is_readable(board, bundle, measured, capsys):
    assert main(["bench", str(bundle), *board.options, "--frames", "2"]) == 0
    shown = capsys.readouterr().out
    for text in ("Avnet Ultra96 Rev1", "VTA stages ran on: uio", "one frame at a time", "gain "):
        assert text in shown
    (row,) = (line.split() for line in shown.splitlines() if line.startswith("vta") and "," in line)
    assert float(row[1]) > 0
    assert float(row[2]) > 0
    # QEMU's board has no sensor of temperature or power, and what is not there is left out.
    assert "temperature" not in shown
    assert "power" not in shown


def test_two_benchmarks_of_the_board_are_compared(measured, capsys):
    assert main(["bench", "--compare", str(measured), str(measured), "--json"]) == 0
    figures = {each["figure"]: each for each in json.loads(capsys.readouterr().out)}
    (alone,) = (n for n in figures if n.startswith("serial, vta") and "accelerator alone" in n)
    assert figures[alone]["first"] == figures[alone]["second"] > 0
    assert figures[alone]["change_percent"] == 0
