"""Read the statistics that running pipelines publish (``cpp_runtime/.../live_statistics.h``)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepipe.deploy import board_script
from edgepipe.deploy.connection import Connection
from edgepipe.deploy.session import BEGIN
from edgepipe.runtime.statistics import Statistics, check_types, statistics_from_json

BOARD_SIDE = Path(__file__).with_name("board_side.sh")
FOLDER = "/dev/shm"
VERSION = 1
_STALLED_S = 2.0  # published four times a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The picture source of an edgepipe-cam; ``lost`` counts pictures not taken in time.

    ``silences`` counts the times that it gave no picture within its time limit, ``reconnects`` the
    times that it was opened again. ``outage_s`` is the time since the last picture of a source that
    failed, 0 while it works, and ``fault`` the error that began the last outage, "" if there was
    none.
    """

    description: str
    captured: int
    lost: int
    silences: int
    reconnects: int
    outage_s: float
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Temperature:
    """What a sensor of the kernel measures; ``type`` is its name for people: "cpu-thermal"."""

    sensor: str
    type: str
    celsius: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """How hot and how busy the machine is.

    Loads are shares of the time of all cores, from 0 to 1, in the last second: of everything that
    runs, and of the pipeline's program. None: not known yet.
    """

    cores: int
    processor_load: float | None
    program_load: float | None
    temperatures: tuple[Temperature, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One pipeline at one moment.

    ``key`` identifies it on its machine. ``at_s`` is the machine's uptime at that moment in
    seconds, ``age_s`` the seconds since then, and ``record`` the published JSON object. ``board``
    is None if the runtime is an older one.
    """

    key: str
    pid: int
    program: str
    network: str
    device: str
    at_s: float
    age_s: float
    statistics: Statistics
    source: Source | None
    board: Board | None
    record: Mapping[str, Any]

    @property
    def stalled(self) -> bool:
        """Whether the process is alive but no longer publishes: stopped, or starved of CPU time."""
        return self.age_s > _STALLED_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All pipelines of a machine; ``notes`` say why some of them cannot be shown."""

    snapshots: tuple[Snapshot, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rates: frames delivered per second, and the busy share of each stage (0 to 1)."""

    frames_per_second: float
    busy: tuple[float, ...]


def rates(now: Snapshot, before: Snapshot | None) -> Rates:
    """Return the rates between two snapshots of a pipeline, or over its whole run.

    The whole run is taken if ``before`` is None, if nothing was published in between, or if the
    pipeline was restarted.
    """
    new = now.statistics
    if (
        before is None
        or now.at_s <= before.at_s
        or before.statistics.delivered > new.delivered
        or len(before.statistics.stages) != len(new.stages)
    ):
        return Rates(
            frames_per_second=new.frames_per_second,
            busy=tuple(stage.utilisation for stage in new.stages),
        )
    old = before.statistics
    seconds = now.at_s - before.at_s
    busy = []
    for stage, earlier in zip(new.stages, old.stages, strict=True):
        busy_ms = stage.busy.count * stage.busy.mean_ms - earlier.busy.count * earlier.busy.mean_ms
        busy.append(min(1.0, max(0.0, busy_ms / 1000 / seconds)))
    return Rates(frames_per_second=(new.delivered - old.delivered) / seconds, busy=tuple(busy))


def read_here(folder: str = FOLDER) -> Reading:
    """Read every pipeline of this machine."""
    done = subprocess.run(
        ["sh", "-c", board_script.read(BOARD_SIDE), "edgepipe", "snapshots", "/", folder],
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    )
    return parse(done.stdout.removeprefix(BEGIN + "\n"))


def read_board(connection: Connection, folder: str = FOLDER) -> Reading:
    """Read every pipeline of a board; ``connection`` was made with BOARD_SIDE.

    Raises DeployError if the board cannot be reached.
    """
    return parse(connection.run("snapshots", folder))


def parse(text: str) -> Reading:
    """Parse the output of ``board_side.sh``."""
    uptime, *lines = text.splitlines()
    snapshots, notes = [], []
    for line in lines:
        try:
            record = json.loads(line)
            version = record["version"]
            if version == VERSION:
                snapshots.append(_snapshot(record, float(uptime)))
            else:
                notes.append(
                    f"process {record.get('pid')}: found statistics of version {version}, expected "
                    f"{VERSION}; use the edgepipe version of its runtime"
                )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            notes.append(f"found unreadable statistics: {line[:60]!r}")
    return Reading(snapshots=tuple(snapshots), notes=tuple(notes))


def _snapshot(record: Mapping[str, Any], uptime_s: float) -> Snapshot:
    live = record["live"]
    source = live.get("source")
    board = live.get("board")
    found = Snapshot(
        key=record["id"],
        pid=record["pid"],
        program=record["program"],
        network=live["network"],
        device=live["device"],
        at_s=record["uptime_s"],
        age_s=max(0.0, uptime_s - record["uptime_s"]),
        statistics=statistics_from_json(json.dumps(live["pipeline"]).encode()),
        source=None
        if source is None
        else Source(
            description=source["description"],
            captured=source["captured"],
            lost=source["dropped"] + source["missed"],
            reconnects=source["reconnects"],
            # A board's older runtime does not have these.
            silences=source.get("silences", 0),
            outage_s=source.get("outage_s", 0.0),
            fault=source.get("fault", ""),
        ),
        board=None
        if board is None
        else Board(
            cores=board["cores"],
            processor_load=board["processor_load"],
            program_load=board["program_load"],
            temperatures=tuple(
                Temperature(sensor=one["sensor"], type=one["type"], celsius=one["celsius"])
                for one in board["temperatures"]
            ),
        ),
        record=record,
    )
    check_types(found, Snapshot)
    return found
