"""``edgepipe bench``: forms, files, wrong arguments, and reports of what it writes."""

from __future__ import annotations

import json

import pytest
from command_line import assert_fails, run


@pytest.fixture(scope="module")
def written(built, tmp_path_factory):
    """Return the file of a benchmark of the bundle."""
    path = tmp_path_factory.mktemp("bench") / "a.json"
    assert run("bench", built, "--frames", "4", "-o", path) == 0
    return path


def test_a_bundle_is_measured_and_shown(built, capsys):
    assert run("bench", built, "--frames", "4") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("net for host on this machine")
    assert "4 frames in each mode, all outputs bit-equal to the golden ones" in printed.out
    assert "golden run" in printed.err


def test_json_is_what_is_written(built, tmp_path, capsys):
    assert run("bench", built, "--frames", "4", "--json", "-o", tmp_path / "b.json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads((tmp_path / "b.json").read_text())
    assert f"wrote {tmp_path / 'b.json'}" in printed.err


def test_frames_in_flight_are_limited(built, capsys):
    assert run("bench", built, "--frames", "4", "--slots", "1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pipelined"]["statistics"]["slots"] == 1
    assert found["prediction"]["interval_ms"] == pytest.approx(found["prediction"]["serial_ms"])


def test_a_bundle_that_cannot_gain_is_shown_with_the_reason(built, capsys):
    assert run("bench", built, "--frames", "4", "--slots", "1") == 0
    printed = capsys.readouterr().out
    why = "with one slot, only one stage has a frame at a time, so pipelining gains at most 1.00x"
    assert f"\nmeasured: {why}\nby the model: {why}\n" in printed


def test_two_files_are_compared(written, tmp_path, capsys):
    assert run("bench", "--compare", written, written) == 0
    assert f"a: {written}: net for host on" in capsys.readouterr().out
    output = tmp_path / "c.json"
    assert run("bench", "--compare", written, written, "--json", "-o", output) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["change_percent"] for each in found} <= {0, None}
    assert json.loads(output.read_text()) == found


def test_a_benchmark_is_shown_in_a_report(built, written, capsys):
    assert run("report", built, "--run", written) == 0
    printed = capsys.readouterr().out
    assert "measured (a.json on simulator): " in printed
    assert "4 frames delivered" in printed


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("net.edgepipe", "--compare", "a", "b"),
        ("net.edgepipe", "--timed", "--host", "board"),
        ("net.edgepipe", "--frames", "1"),
        ("net.edgepipe", "--frames", "100001"),
        ("--compare", "a"),
    ],
)
def test_wrong_use(arguments):
    with pytest.raises(SystemExit) as error:
        run("bench", *arguments)
    assert error.value.code == 2


def test_a_bundle_that_does_not_exist(tmp_path, capsys):
    code = run("bench", tmp_path / "none.edgepipe")
    assert_fails(capsys, code, "none.edgepipe: no such bundle", "create one with `edgepipe build`")


def test_a_file_that_is_no_benchmark(written, tmp_path, capsys):
    (tmp_path / "b.json").write_text("{}")
    code = run("bench", "--compare", written, tmp_path / "b.json")
    assert_fails(
        capsys,
        code,
        "b.json: found other JSON, expected a benchmark",
        "give a file that `edgepipe bench` wrote",
    )


@pytest.mark.parametrize("name", ["bundle", "folder"])
def test_the_bundle_is_not_replaced(built, tmp_path, capsys, name):
    before = built.read_bytes()
    code = run("bench", built, "-o", {"bundle": built, "folder": tmp_path}[name])
    message = "is a folder or what the report is made from, expected another file"
    assert_fails(capsys, code, message, "choose another name: --output FILE")
    assert built.read_bytes() == before


def test_a_compared_file_is_not_replaced(written, capsys):
    before = written.read_bytes()
    code = run("bench", "--compare", written, written, "-o", written)
    assert_fails(capsys, code, "is a folder or what the report is made from", "--output FILE")
    assert written.read_bytes() == before


def test_a_board_that_is_no_name(built, capsys):
    code = run("bench", built, "--host=-x")
    assert_fails(capsys, code, "host '-x': expected [USER@]HOST or an ssh alias", "--host HOST")
