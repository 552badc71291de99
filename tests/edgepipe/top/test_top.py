"""``edgepipe top`` on files in the format of running pipelines."""

import argparse
import dataclasses
import json
import os
import subprocess
import time
from pathlib import Path

import needs
import pytest

from edgepipe.cli import top_command
from edgepipe.errors import RuntimeFailure
from edgepipe.top import snapshot, text

TIMES = {
    "count": 40,
    "min_ms": 1.0,
    "median_ms": 2.0,
    "p95_ms": 3.0,
    "p99_ms": 4.0,
    "max_ms": 5.0,
    "mean_ms": 2.5,
}
QUIET = {"retries": 0, "fallback_frames": 0, "fault": ""}
PIPELINE = {
    "submitted": 45,
    "delivered": 40,
    "dropped": 1,
    "failed": 0,
    "in_flight": 4,
    "slots": 5,
    "latency": TIMES | {"count": 41},
    "elapsed_s": 2.0,
    "frames_per_second": 20.5,
    "stages": [
        {"name": "arm0", "cores": [0], "busy": TIMES, "utilisation": 0.05, "waiting": 0} | QUIET,
        {"name": "vta1", "cores": [], "busy": TIMES, "utilisation": 0.95, "waiting": 3}
        | {"retries": 2, "fallback_frames": 7, "fault": "stage 1 'vta1' at frame 9: vta: hangs"},
    ],
}
SOURCE = {
    "description": "synthetic 640x480",
    "captured": 90,
    "taken": 50,
    "dropped": 30,
    "missed": 10,
    "silences": 0,
    "reconnects": 0,
    "outage_s": 0.0,
    "fault": "",
}

BOARD = {
    "cores": 4,
    "processor_load": 0.62,
    "program_load": 0.351,
    "temperatures": [
        {"sensor": "thermal_zone0", "type": "cpu-thermal", "celsius": 41.5},
        {"sensor": "hwmon1/temp1", "type": "pmic", "celsius": 39.0},
    ],
}


def uptime_s():
    return float(Path("/proc/uptime").read_text().split()[0])


def publish(folder, *, pid=None, at_s=None, pipeline=PIPELINE, **changes):
    pid = pid or os.getpid()
    record = {
        "version": 1,
        "id": f"{pid}-0",
        "pid": pid,
        "program": "edgepipe-cam",
        "uptime_s": uptime_s() if at_s is None else at_s,
        "live": {"network": "nanodet", "device": "uio", "pipeline": pipeline, "source": SOURCE},
    }
    record |= changes
    (folder / f"edgepipe-{pid}-0.json").write_text(json.dumps(record) + "\n")
    return record


def top(folder, *arguments):
    parser = argparse.ArgumentParser()
    top_command.add_parser(parser.add_subparsers())
    options = parser.parse_args(["top", *arguments])
    options.folder = str(folder)
    return options.run(options)


def test_once_prints_one_line_per_pipeline(tmp_path, capsys):
    publish(tmp_path)
    assert top(tmp_path, "--once") == 0
    assert capsys.readouterr().out == (
        f"edgepipe-cam[{os.getpid()}] nanodet: 40 frames, 20.50/s, latency 2.00 ms (median) "
        "4.00 ms (p99), 4 of 5 in flight; arm0 5% (0 waiting), "
        "vta1 95% (3 waiting, 2 run again, 7 on its fallback)\n"
    )


def test_the_wait_for_a_device_that_others_use_is_shown(tmp_path, capsys):
    first, second = PIPELINE["stages"]
    stages = [first | {"device_wait_s": 0.0}, second | {"device_wait_s": 0.04}]
    publish(tmp_path, pipeline=PIPELINE | {"stages": stages})
    assert top(tmp_path, "--once") == 0
    assert "vta1 95% (3 waiting, 0.0 s for its device, 2 run again" in capsys.readouterr().out
    (found,) = snapshot.read_here(str(tmp_path)).snapshots
    (page,) = text.paragraphs([(found, snapshot.rates(found, None))])
    assert "vta1: 0.0 s of its time it waited for its device\n" in page
    assert "arm0: " not in page


def test_a_source_that_fell_silent_is_shown(tmp_path, capsys):
    fault = {"silences": 2, "reconnects": 1, "outage_s": 12.3, "fault": "cam: no picture for 5 s"}
    record = publish(tmp_path)
    publish(tmp_path, live=record["live"] | {"source": SOURCE | fault})
    assert top(tmp_path, "--once") == 0
    assert capsys.readouterr().out.endswith("; no picture for 12 s (cam: no picture for 5 s)\n")
    (found,) = snapshot.read_here(str(tmp_path)).snapshots
    (page,) = text.paragraphs([(found, snapshot.rates(found, None))])
    assert (
        "source: synthetic 640x480: 90 captured, 40 dropped, 2 silences, 1 reconnects; "
        "no picture for 12 s (cam: no picture for 5 s)\n"
    ) in page


def board_line(tmp_path, board):
    """Return the page's line about the machine, and the end of the only line of ``--once``."""
    record = publish(tmp_path)
    publish(tmp_path, live=record["live"] | {"board": board})
    (found,) = snapshot.read_here(str(tmp_path)).snapshots
    rates = snapshot.rates(found, None)
    (page,) = text.paragraphs([(found, rates)])
    (line,) = (line for line in page.splitlines() if line.startswith("board: "))
    return line, text.line(found, rates).rpartition(")")[2]


def test_the_load_and_the_temperatures_of_the_machine_are_shown(tmp_path):
    assert board_line(tmp_path, BOARD) == (
        "board: CPU 62% with edgepipe-cam 35% of 4 cores, cpu-thermal 41.5 °C, pmic 39.0 °C",
        "; CPU 62%, 41.5 °C",
    )


def test_figures_of_the_machine_that_are_not_known_are_left_out(tmp_path):
    unknown = {"processor_load": None, "program_load": None, "temperatures": []}
    assert board_line(tmp_path, BOARD | unknown) == ("board: 4 cores", "")
    one = {"cores": 1, "program_load": None, "temperatures": []}
    assert board_line(tmp_path, BOARD | one) == ("board: CPU 62% of 1 core", "; CPU 62%")


@pytest.mark.parametrize(
    "wrong",
    [
        5,
        {"processor_load": "high"},
        {"program_load": float("nan")},
        {"cores": None},
        {"temperatures": 3},
        {"temperatures": [{"sensor": "a", "type": "b"}]},
        {"temperatures": [{"sensor": "a", "type": "b", "celsius": "warm"}]},
    ],
)
def test_unreadable_figures_of_the_machine_are_a_note(tmp_path, wrong):
    record = publish(tmp_path)
    board = BOARD | wrong if isinstance(wrong, dict) else wrong
    publish(tmp_path, live=record["live"] | {"board": board})
    reading = snapshot.read_here(str(tmp_path))
    assert reading.snapshots == ()
    assert reading.notes[0].startswith("found unreadable statistics: ")


def test_names_do_not_control_the_terminal(tmp_path, capsys):
    evil = "x\x1b[2J\x9b1A\u202e\nfake: 1 frames\r"
    stages = [stage | {"name": evil} for stage in PIPELINE["stages"]]
    live = {"network": evil, "device": evil, "pipeline": PIPELINE | {"stages": stages}}
    publish(tmp_path, program=evil, live=live | {"source": SOURCE | {"description": evil}})
    assert top(tmp_path, "--once") == 0
    (found,) = snapshot.read_here(str(tmp_path)).snapshots
    (page,) = text.paragraphs([(found, snapshot.rates(found, None))])
    for shown in (capsys.readouterr().out, page):
        assert r"x\u001b[2J\u009b1A\u202e\u000afake: 1 frames\u000d" in shown
        assert not set(shown) & set("\x1b\x9b\u202e\r")
        assert "\nfake" not in shown


def test_json_is_what_was_published(tmp_path, capsys):
    record = publish(tmp_path)
    assert top(tmp_path, "--once", "--json") == 0
    assert json.loads(capsys.readouterr().out) == record


def test_a_process_without_a_home_folder_sees_them_too(tmp_path, monkeypatch):
    publish(tmp_path)
    monkeypatch.delenv("HOME", raising=False)
    assert len(snapshot.read_here(str(tmp_path)).snapshots) == 1


def test_no_pipeline_is_a_clear_error(tmp_path):
    with pytest.raises(RuntimeFailure, match="this machine: no pipeline is running") as error:
        top(tmp_path, "--once")
    assert error.value.hint == "start one with edgepipe-run, edgepipe-cam or edgepipe run"


def test_a_fifo_a_link_and_a_folder_are_skipped_without_waiting(tmp_path):
    publish(tmp_path)
    name = f"edgepipe-{os.getpid()}"
    os.mkfifo(tmp_path / f"{name}-1.json")
    (tmp_path / f"{name}-2.json").symlink_to(tmp_path / f"{name}-0.json")
    (tmp_path / f"{name}-3.json").symlink_to("/dev/zero")
    (tmp_path / f"{name}-4.json").mkdir()
    begun = time.monotonic()
    reading = snapshot.read_here(str(tmp_path))
    assert time.monotonic() - begun < 5
    assert len(reading.snapshots) == 1
    assert reading.notes == ()


def test_a_file_whose_owner_is_not_its_processs_user_is_skipped(tmp_path):
    if os.geteuid() != 0:
        needs.lacking("only root can give a file to another user")
    publish(tmp_path)
    os.chown(tmp_path / f"edgepipe-{os.getpid()}-0.json", 12345, 12345)
    assert snapshot.read_here(str(tmp_path)) == snapshot.Reading(snapshots=(), notes=())


def test_bytes_that_are_not_text_are_noted(tmp_path):
    (tmp_path / f"edgepipe-{os.getpid()}-0.json").write_bytes(b"\xff\n")
    (note,) = snapshot.read_here(str(tmp_path)).notes
    assert note == "found unreadable statistics: '\ufffd'"


def test_a_process_that_is_gone_is_not_shown(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    publish(tmp_path, pid=ended.pid)
    assert snapshot.read_here(str(tmp_path)).snapshots == ()


def test_a_process_that_stopped_publishing_is_marked(tmp_path):
    publish(tmp_path, at_s=uptime_s() - 30)
    (found,) = snapshot.read_here(str(tmp_path)).snapshots
    assert found.stalled
    assert "no news for 30 s" in text.line(found, snapshot.rates(found, None))


def test_figures_of_another_version_are_noted_and_the_others_shown(tmp_path, capsys):
    publish(tmp_path, pid=os.getppid(), version=2)
    publish(tmp_path)
    assert top(tmp_path, "--once") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"edgepipe-cam[{os.getpid()}] nanodet: 40 frames")
    assert printed.err == (
        f"process {os.getppid()}: found statistics of version 2, expected 1; "
        "use the edgepipe version of its runtime\n"
    )


@pytest.mark.parametrize("damage", ["", "{", '{"version": 1}', '{"version": 1, "live": 3}', "[]"])
def test_a_damaged_file_is_noted(tmp_path, damage):
    (tmp_path / f"edgepipe-{os.getpid()}-0.json").write_text(damage + "\n")
    reading = snapshot.read_here(str(tmp_path))
    assert reading.snapshots == ()
    assert reading.notes == (f"found unreadable statistics: {damage!r}",)


@pytest.mark.parametrize(
    "change",
    [
        {"submitted": "many"},
        {"delivered": True},
        {"dropped": 10**400},
        {"elapsed_s": 10**400},
        {"frames_per_second": float("nan")},
        {"latency": TIMES | {"median_ms": None}},
        {"stages": [PIPELINE["stages"][0] | {"name": 5}]},
        {"stages": [PIPELINE["stages"][0] | {"cores": ["0"]}]},
    ],
)
def test_values_of_the_wrong_kind_are_a_note(change):
    # Anybody on the machine can write such a file.
    live = {"network": "n", "device": "d", "pipeline": PIPELINE | change}
    record = {"version": 1, "id": "7-0", "pid": 7, "program": "p", "uptime_s": 80.0, "live": live}
    reading = snapshot.parse("83.5\n" + json.dumps(record))
    assert reading.snapshots == ()
    assert reading.notes[0].startswith("found unreadable statistics: ")
    (shown,) = snapshot.parse(
        "83.5\n" + json.dumps(record | {"live": live | {"pipeline": PIPELINE}})
    ).snapshots
    assert snapshot.rates(shown, shown).frames_per_second == 20.5


def test_deeply_nested_statistics_and_an_empty_source_are_notes():
    live = {"network": "n", "device": "d", "pipeline": PIPELINE, "source": {}}
    record = {"version": 1, "id": "7-0", "pid": 7, "program": "p", "uptime_s": 80.0, "live": live}
    reading = snapshot.parse("83.5\n" + "[" * 100_000 + "\n" + json.dumps(record))
    assert len(reading.notes) == 2


def test_a_pipeline_whose_number_of_stages_changes_was_restarted():
    live = {"network": "n", "device": "d", "pipeline": PIPELINE}
    record = {"version": 1, "id": "7-0", "pid": 7, "program": "p", "uptime_s": 80.0, "live": live}
    (before,) = snapshot.parse("83.5\n" + json.dumps(record)).snapshots
    live["pipeline"] = PIPELINE | {"stages": PIPELINE["stages"][:1]}
    (now,) = snapshot.parse("83.5\n" + json.dumps(record | {"uptime_s": 81.0})).snapshots
    assert snapshot.rates(now, before).busy == (0.05,)


def test_rates_are_those_between_two_snapshots(tmp_path):
    publish(tmp_path, at_s=100.0)
    (before,) = snapshot.read_here(str(tmp_path)).snapshots
    stages = [stage | {"busy": TIMES | {"count": 80}} for stage in PIPELINE["stages"]]
    publish(tmp_path, at_s=102.0, pipeline=PIPELINE | {"delivered": 70, "stages": stages})
    (now,) = snapshot.read_here(str(tmp_path)).snapshots
    found = snapshot.rates(now, before)
    assert found.frames_per_second == pytest.approx(15.0)
    assert found.busy == pytest.approx((0.05, 0.05))  # 40 more runs of 2.5 ms in 2 s


def test_without_a_new_snapshot_or_after_a_restart_rates_are_those_of_the_whole_run(tmp_path):
    publish(tmp_path, at_s=100.0)
    (one,) = snapshot.read_here(str(tmp_path)).snapshots
    restarted = dataclasses.replace(one, at_s=101.0)
    more = dataclasses.replace(
        one, statistics=dataclasses.replace(one.statistics, delivered=50), at_s=99.0
    )
    for now, before in ((one, None), (one, one), (restarted, more)):
        assert snapshot.rates(now, before).frames_per_second == 20.5


def test_the_page_has_accounts_source_and_a_row_per_stage(tmp_path):
    publish(tmp_path)
    (found,) = snapshot.read_here(str(tmp_path)).snapshots
    page = "\n".join(text.paragraphs([(found, snapshot.rates(found, None))]))
    assert page.splitlines()[1:3] == [
        "45 submitted = 40 delivered + 1 dropped + 0 failed + 4 in flight (of at most 5)",
        "source: synthetic 640x480: 90 captured, 40 dropped",
    ]
    rows = [line.split() for line in page.splitlines()[-4:-1]]
    assert rows[0] == ["arm0", "0", "40", "1.000", "2.000", "3.000", "4.000", "5%", "0"]
    assert rows[1] == ["vta1", "-", "40", "1.000", "2.000", "3.000", "4.000", "95%", "3"]
    assert rows[2][:4] == ["submit", "to", "result", "41"]
    assert page.endswith("vta1: 2 frames run again, 7 on its fallback")


def test_it_continues_when_pipelines_end_and_begin(tmp_path, capsys, monkeypatch):
    steps = iter(
        [
            lambda: publish(tmp_path),
            lambda: (tmp_path / f"edgepipe-{os.getpid()}-0.json").unlink(),
            lambda: None,
            lambda: publish(tmp_path),
        ]
    )

    def sleep(_seconds):
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(top_command.time, "sleep", sleep)
    assert top(tmp_path) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 2
    assert (
        printed.err.splitlines()
        == ["this machine: no pipeline is running; waiting for one (Ctrl-C exits)"] * 2
    )


def test_a_terminal_is_redrawn_in_place(tmp_path, capsys, monkeypatch):
    publish(tmp_path)

    def interrupt(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(top_command.time, "sleep", interrupt)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert top(tmp_path) == 0
    assert capsys.readouterr().out.startswith("\x1b[H\x1b[Jthis machine\n\nnanodet  20.50 frames/s")


@pytest.mark.parametrize("interval", ["0", "-1", "soon"])
def test_an_impossible_interval_is_wrong_use(tmp_path, interval):
    with pytest.raises(SystemExit) as error:
        top(tmp_path, "--interval", interval)
    assert error.value.code == 2
