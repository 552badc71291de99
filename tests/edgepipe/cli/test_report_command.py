"""``edgepipe report``: forms, files, and wrong arguments."""

from __future__ import annotations

import json

import pytest
from command_line import assert_fails, run, run_cpp

from edgepipe.bundle.network import FILE


def test_the_report_is_printed_as_text(built, capsys):
    assert run("report", built) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("net for host: VTA ")
    assert "fits the accelerator" in printed


def test_a_file_gets_the_page(built, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert run("report", built, "-o", page) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert f"wrote {page}" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_json_can_be_printed_and_written(built, tmp_path, capsys):
    assert run("report", built, "--format", "json") == 0
    printed = capsys.readouterr().out
    assert run("report", built, "--format", "json", "-o", tmp_path / "r.json") == 0
    assert json.loads(printed) == json.loads((tmp_path / "r.json").read_text())


def test_a_run_of_the_program_is_shown_beside_the_prediction(built, tmp_path, capsys):
    ran = run_cpp("edgepipe-run", built, "--golden", "--frames", "20", "--json")
    assert ran.returncode == 0, ran.stderr
    (tmp_path / "run.jsonl").write_text(ran.stdout)
    assert run("report", built, "--run", tmp_path / "run.jsonl") == 0
    printed = capsys.readouterr().out
    assert "measured (run.jsonl on simulator): " in printed
    assert "20 frames delivered" in printed


def test_a_trace_of_the_program_is_shown_beside_the_prediction(built, tmp_path, capsys):
    recorded = tmp_path / "trace.json"
    ran = run_cpp(
        "edgepipe-run", built, "--golden", "--frames", "20", "--json", "--trace", recorded
    )
    assert ran.returncode == 0, ran.stderr
    (tmp_path / "run.jsonl").write_text(ran.stdout)
    assert run("report", built, "--run", recorded) == 0
    alone = capsys.readouterr().out
    assert "measured (trace.json): " in alone
    assert "20 frames delivered, 0 failed" in alone
    assert "timeline measured (trace.json), frames as they ran, " in alone
    assert run("report", built, "--run", tmp_path / "run.jsonl", "--trace", recorded) == 0
    both = capsys.readouterr().out
    assert "20 frames delivered, 0 dropped, 0 failed" in both
    timeline = "timeline measured (trace.json)"
    assert alone.split(timeline)[1] == both.split(timeline)[1]
    assert run("report", built, "--trace", recorded, "--format", "json") == 0
    table = json.loads(capsys.readouterr().out)
    assert {run["stage"] for run in table["measurement"]["timeline"]["runs"]} == {
        *range(len(table["stages"]))
    }


def test_two_bundles_are_compared(built, capsys):
    assert run("report", built, "--compare", built) == 0
    assert "compared with another bundle:" in capsys.readouterr().out


def test_two_runs_of_a_bundle_are_compared(built, tmp_path, capsys):
    runs = []
    for name, frames in (("before.jsonl", "10"), ("after.jsonl", "20")):
        ran = run_cpp("edgepipe-run", built, "--golden", "--frames", frames, "--json")
        assert ran.returncode == 0, ran.stderr
        (tmp_path / name).write_text(ran.stdout)
        runs.append(tmp_path / name)
    assert run("report", built, "--run", runs[1], "--compare-run", runs[0]) == 0
    printed = capsys.readouterr().out
    assert "net, before.jsonl (host)" in printed
    assert "measured: frames per second (1/s)" in printed
    assert "measured: stage vta1, mean (ms)" in printed
    code = run("report", built, "--compare-run", runs[0])
    assert_fails(
        capsys,
        code,
        "before.jsonl: there is no run to compare it with",
        "give the run of the bundle, too: --run RUN",
    )


def test_a_bundle_that_does_not_exist(tmp_path, capsys):
    code = run("report", tmp_path / "none.edgepipe")
    assert_fails(capsys, code, "none.edgepipe: no such bundle", "create one with `edgepipe build`")


@pytest.mark.parametrize("name", ["bundle", "run", "folder"])
def test_a_report_replaces_nothing_that_it_is_made_from(built, tmp_path, capsys, name):
    given = tmp_path / "run.json"
    given.write_text("{}")
    output = {"bundle": built, "run": given, "folder": tmp_path}[name]
    before = built.read_bytes()
    code = run("report", built, "--run", given, "-o", output)
    message = "is a folder or what the report is made from, expected another file"
    assert_fails(capsys, code, message, "choose another name: --output FILE")
    assert built.read_bytes() == before
    assert given.read_text() == "{}"


def test_a_folder_that_does_not_exist(built, tmp_path, capsys):
    code = run("report", built, "-o", tmp_path / "none" / "report.html")
    message = "report.html: cannot be written (No such file or directory)"
    assert_fails(
        capsys,
        code,
        message,
        "free some space, fix the permissions, or choose another file: --output FILE",
    )


def test_a_failed_report_leaves_no_file(built, tmp_path, capsys):
    code = run("report", built, "--run", tmp_path / "none.json", "-o", tmp_path / "report.html")
    assert_fails(capsys, code, "none.json: cannot be read")
    assert list(tmp_path.iterdir()) == []


def test_the_records_file_is_in_the_bundle(built, capsys):
    assert run("inspect", built, "--json") == 0
    assert FILE in [entry["path"] for entry in json.loads(capsys.readouterr().out)["files"]]
