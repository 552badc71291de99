"""The whole command line: a small network from ONNX to results."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import cv2
import numpy as np
import pytest
from command_line import build, run
from report_bundles import changed

from edgepipe.bundle.network import FILE
from edgepipe.bundle_report.reading import read_rates
from edgepipe.cli.main import main
from edgepipe.resources import folder


def test_a_fallback_is_in_the_bundle_and_inspect_shows_it(project, capsys):
    assert build(project, "--fallback") == 0
    assert "vta, else arm" in capsys.readouterr().out
    folder = project / "out" / "stages" / "1_fallback"
    assert {"plan.json", "weights.bin", "kernels-aarch64.so"} <= {p.name for p in folder.iterdir()}
    assert run("inspect", project / "out", "--json") == 0
    stages = json.loads(capsys.readouterr().out)["stages"]
    assert [stage["fallback"] for stage in stages] == ["", "stages/1_fallback", ""]
    assert [stage["cores"] for stage in stages] == [[1, 2], [0], [3]]
    assert [stage["threads"] for stage in stages] == [2, 1, 1]


def test_timing_is_by_the_costs_that_a_bundle_was_built_with(project, capsys):
    text = (folder("board") / "ultra96.toml").read_text()
    mine = project / "mine.toml"
    mine.write_text(text.replace("dma_row_cycles = 100", "dma_row_cycles = 900"))
    assert build(project, board=str(mine)) == 0
    program = json.loads((project / "out/stages/1_vta/program.json").read_text())
    assert program["costs"]["dma_row_cycles"] == 900
    capsys.readouterr()
    assert run("inspect", project / "out", "--timing") == 0
    assert f"vta1: {program['modelled_cycles']} cycles, " in capsys.readouterr().out


def test_build_inspect_and_run(project, capsys):
    assert build(project) == 0
    table = capsys.readouterr().out
    assert re.search(r"arm0 +arm .* 2, on cores 1,2 ", table)
    assert re.search(r"vta1 +vta .* 1, on core 0 ", table)
    assert run("inspect", project / "out", "--operators") == 0
    assert "fits the accelerator" in capsys.readouterr().out
    assert run("inspect", project / "out", "--json") == 0
    assert json.loads(capsys.readouterr().out)["board"] == "ultra96"
    assert run("inspect", project / "out", "--disassemble", "vta1") == 0
    assert "gemm" in capsys.readouterr().out.lower()
    assert run("inspect", project / "out", "--timing") == 0
    timing = capsys.readouterr().out
    # The launch takes 20,000, the caches 133 for each KiB.
    assert re.search(r" cycles, 2\d{4} of them for the launch and caches; ", timing)
    assert "ms at 333 MHz; ideal " in timing
    shares = re.search(r"\(real products in ([\d.]+) %\), GEMM steps in ([\d.]+) %", timing)
    assert shares is not None
    assert float(shares[1]) <= float(shares[2]) < 100
    assert "wait port" in timing
    results = project / "results"
    assert (
        run(
            *("run", project / "out", "--input", project / "pictures"),
            *("--output", results, "--compare", 2),
            *("--trace", project / "trace.json"),
        )
        == 0
    )
    events = json.loads((project / "trace.json").read_text())["traceEvents"]
    ran = [event["args"]["frame"] for event in events if event["name"] == "vta1"]
    assert ran == [0, 1, 2, 3]
    table = capsys.readouterr().out
    assert re.search(r"^stage +ms serial +ms pipelined +ms on ultra96, predicted$", table, re.M)
    assert re.search(r"^frames per second +this machine +ultra96, predicted$", table, re.M)
    rates = read_rates(project / "out")
    assert re.search(rf"^vta1 .* {rates.stage_ms['vta1']:.2f}$", table, re.M)
    assert re.search(rf"^serial .* {rates.serial_fps:.2f}$", table, re.M)
    assert re.search(rf"^pipelined .* {rates.pipelined_fps:.2f}$", table, re.M)
    assert re.search(rf"^gain .* {rates.gain:.3f}x$", table, re.M)
    assert re.search(rf"^bound .* {rates.bound:.3f}x$", table, re.M)
    lines = [json.loads(line) for line in (results / "results.jsonl").read_text().splitlines()]
    assert [line["source"] for line in lines] == ["0.png", "1.png", "2.png", "3.png"]
    assert all(len(line["classes"]) == 2 for line in lines)
    assert sorted(p.name for p in results.iterdir()) == [
        "annotated.jpg",
        "annotated.mp4",
        "results.jsonl",
    ]


def test_results_go_to_standard_output_without_an_output_folder(built, project, capsys):
    source = project / "pictures" / "0.png"
    assert run("run", built, "--input", source, "--compare", 0) == 0
    assert json.loads(capsys.readouterr().out)["frame"] == 0


@pytest.mark.parametrize(
    ("files", "note"),
    [
        ({}, ""),
        (
            {FILE: None},
            "note: no figures for the board: {bundle}: network.json is missing, expected the costs "
            "of its operators\n",
        ),
    ],
    ids=["for this machine", "without costs"],
)
def test_a_run_of_a_bundle_that_predicts_nothing_shows_this_machine_alone(
    built, project, tmp_path, capsys, files, note
):
    bundle = changed(built, tmp_path / "other.edgepipe", files=files)
    assert run("run", bundle, "--input", project / "pictures", "--compare", 2) == 0
    err = capsys.readouterr().err
    assert re.search(r"^stage +ms serial +ms pipelined$", err, re.M)
    assert re.search(r"^frames per second +this machine$", err, re.M)
    assert "predicted" not in err
    assert note.format(bundle=bundle) in err
    assert ("no figures for the board" in err) == bool(note)


def test_a_run_that_cannot_gain_says_why_here_and_on_the_board(project, capsys):
    assert build(project) == 0
    source = project / "pictures"
    capsys.readouterr()
    assert run("run", project / "out", "--input", source, "--compare", 2, "--slots", 1) == 0
    why = "with one slot, only one stage has a frame at a time, so pipelining gains at most 1.00x"
    said = capsys.readouterr().err  # a busy machine has a further note
    assert f"\nthis machine: {why}\nultra96, predicted: {why}\n" in said


def test_a_run_names_the_stage_that_limits_the_gain(project, capsys):
    assert build(project) == 0
    rates = read_rates(project / "out")
    limit = rates.limit.sentence("ultra96, predicted")
    capsys.readouterr()
    assert run("run", project / "out", "--input", project / "pictures", "--compare", 2) == 0
    assert (limit in capsys.readouterr().err) == rates.limit.is_little
    longest = max(rates.stage_ms, key=rates.stage_ms.get)
    assert f"({longest}) takes " in rates.limit.reason


def test_boards_are_listed(capsys):
    assert run("boards") == 0
    assert "1x16_i8w8a32_15_15_18_17" in capsys.readouterr().out
    assert run("boards", "--json") == 0
    names = [board["name"] for board in json.loads(capsys.readouterr().out)]
    assert names == ["host", "kv260", "pynq-z2", "ultra96", "zcu104"]


def test_pictures_of_mixed_sizes_are_all_in_the_video(built, project):
    cv2.imwrite(str(project / "pictures" / "1.png"), np.full((40, 20, 3), 90, np.uint8))
    arguments = ("--input", project / "pictures", "--output", project / "results", "--compare", 0)
    assert run("run", built, *arguments) == 0
    video = cv2.VideoCapture(str(project / "results" / "annotated.mp4"))
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == 4


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "required: COMMAND"),
        (["build"], "required: MODEL"),
        (["fly"], "invalid choice: 'fly'"),
        (["run", "x"], "required: --input"),
        (["run", "x", "--input", "y", "--frames", "0"], "--frames: found '0', expected a number"),
        (["run", "x", "--input", "y", "--frames", "9" * 30], "--frames: found '999"),
        (["run", "x", "--input", "y", "--compare", "-1"], "--compare: found '-1'"),
        (["run", "x", "--input", "y", "--cores", "a"], "edgepipe run: error: argument --cores"),
        (["run", "x", "--input", "y", "--cores", "0,"], "--cores: found ''"),
        (["build", "m", "--board", "b", "--calib", "c", "-o", "o", "--calib-frames", "-5"], "'-5'"),
        (["build", "m", "--board", "b", "--calib", "c", "-o", "o", "--calib-frames", "x"], "'x'"),
        (["deploy", "x", "--keep", "0"], "--keep: found '0'"),
        (["deploy", "x", "--golden-timeout", "-1"], "--golden-timeout: found '-1'"),
        (["deploy", "x", "--rollback", "-2"], "--rollback: found '-2'"),
        (["rpc", "run", "x", "--repeat", "0"], "--repeat: found '0'"),
        (["virtual-board", "up", "--port", "70000"], "--port: found '70000'"),
    ],
)
def test_wrong_use_exits_with_2(arguments, text, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert text in capsys.readouterr().err


def test_the_module_runs_as_a_program():
    ran = subprocess.run(
        [sys.executable, "-m", "edgepipe", "--help"], capture_output=True, text=True, check=True
    )
    assert "a first example" in ran.stdout
