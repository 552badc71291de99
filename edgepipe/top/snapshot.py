"""Read the figures that running pipelines publish (``cpp_runtime/.../live_statistics.h``)."""

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
from edgepipe.runtime.pipeline import Statistics, statistics_from_json

BOARD_SIDE = Path(__file__).with_name("board_side.sh")
FOLDER = "/dev/shm"
VERSION = 1
_STALLED_S = 2.0  # published four times a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an edgepipe-cam gets its pictures; ``lost`` are those it could not take in time."""

    description: str
    captured: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One pipeline at one moment. ``key`` tells it from others of its machine, ``at_s`` is the
    machine's uptime then, ``age_s`` how long ago that is, ``record`` the published JSON object."""

    key: str
    pid: int
    program: str
    network: str
    device: str
    at_s: float
    age_s: float
    statistics: Statistics
    source: Source | None
    record: Mapping[str, Any]

    @property
    def stalled(self) -> bool:
        """Whether the process has stopped publishing, though it lives: stopped or out of time."""
        return self.age_s > _STALLED_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All pipelines of a machine; ``notes`` say why some of them cannot be shown."""

    snapshots: tuple[Snapshot, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What happened per second: frames delivered, and each stage's share of the time (0 to 1)."""

    frames_per_second: float
    busy: tuple[float, ...]


def rates(now: Snapshot, before: Snapshot | None) -> Rates:
    """Return the rates between two snapshots of a pipeline, or of its whole run without ``before``.

    The same holds when nothing was published in between, or the pipeline was restarted.
    """
    new = now.statistics
    if before is None or now.at_s <= before.at_s or before.statistics.delivered > new.delivered:
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
        check=True,
    )
    return parse(done.stdout.removeprefix(BEGIN + "\n"))


def read_board(connection: Connection, folder: str = FOLDER) -> Reading:
    """Read every pipeline of a board; ``connection`` was made with BOARD_SIDE.

    Raises DeployError when the board cannot be reached.
    """
    return parse(connection.run("snapshots", folder))


def parse(text: str) -> Reading:
    """Read what ``board_side.sh`` prints."""
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
                    f"process {record.get('pid')}: found figures of version {version}, expected "
                    f"{VERSION}; use the edgepipe that its runtime came with"
                )
        except (ValueError, TypeError, KeyError, AttributeError):
            notes.append(f"found figures that cannot be read: {line[:60]!r}")
    return Reading(snapshots=tuple(snapshots), notes=tuple(notes))


def _snapshot(record: Mapping[str, Any], uptime_s: float) -> Snapshot:
    live = record["live"]
    source = live.get("source")
    return Snapshot(
        key=record["id"],
        pid=record["pid"],
        program=record["program"],
        network=live["network"],
        device=live["device"],
        at_s=record["uptime_s"],
        age_s=max(0.0, uptime_s - record["uptime_s"]),
        statistics=statistics_from_json(json.dumps(live["pipeline"]).encode()),
        source=source
        and Source(
            description=source["description"],
            captured=source["captured"],
            lost=source["dropped"] + source["missed"],
        ),
        record=record,
    )
