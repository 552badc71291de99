"""``edgepipe top``: show running pipelines on this machine or on a board."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import print_line, redraw_screen
from edgepipe.deploy.connection import Connection, Target
from edgepipe.errors import RuntimeFailure
from edgepipe.top import snapshot, text
from edgepipe.top.snapshot import Rates, Reading, Snapshot

DESCRIPTION = "Show frames per second, latency, busy times and queue fill of running pipelines."
EPILOG = """\
Every edgepipe-run, edgepipe-cam and Python Pipeline publishes its statistics for this command.
Frames per second and busy shares cover the time since the last refresh (with --once: the whole
run). Times cover the whole run. On a terminal the page is redrawn in place; otherwise each pipeline
is one line. Ctrl-C ends the command.

examples:
  edgepipe top
  edgepipe top --host door-camera --once
  edgepipe top --json | jq .live.pipeline.frames_per_second
"""

Found = list[tuple[Snapshot, Rates]]


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "top", DESCRIPTION, EPILOG)
    parser.add_argument(
        "--host", metavar="HOST", help="board, as ssh knows it (default: this machine)"
    )
    parser.add_argument("--ssh-config", type=Path, metavar="FILE", help="SSH configuration file")
    parser.add_argument(
        "--once", action="store_true", help="print one line per pipeline, then exit"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON per pipeline")
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=1.0,
        metavar="S",
        help="seconds between refreshes (default: 1)",
    )
    # Tests replace this folder.
    parser.set_defaults(run=run, folder=snapshot.FOLDER)


def _seconds(value: str) -> float:
    seconds = float(value)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{value}: expected 0.1 to 3600 seconds")
    return seconds


def run(options: argparse.Namespace) -> int:
    """Show snapshots until interrupted, or once.

    Raises RuntimeFailure if no pipeline is running when it shows them once.
    """
    place = options.host or "this machine"
    with _reader(options) as read:
        if not options.once:
            with contextlib.suppress(KeyboardInterrupt):
                _watch(read, options, place)
            return 0
        reading = read()
        _print_notes(reading.notes)
        if not reading.snapshots:
            raise RuntimeFailure(
                f"{place}: no pipeline is running",
                hint="start one with edgepipe-run, edgepipe-cam or edgepipe run",
            )
        _print_lines([(one, snapshot.rates(one, None)) for one in reading.snapshots], options)
        return 0


@contextlib.contextmanager
def _reader(options: argparse.Namespace) -> Iterator[Callable[[], Reading]]:
    if options.host is None:
        yield lambda: snapshot.read_here(options.folder)
        return
    target = Target(host=options.host, root=".", ssh_config=options.ssh_config)
    with Connection(target, script=snapshot.BOARD_SIDE) as connection:
        yield lambda: snapshot.read_board(connection, options.folder)


def _watch(read: Callable[[], Reading], options: argparse.Namespace, place: str) -> None:
    """Refresh until interrupted; pipelines may start and end meanwhile."""
    draw = sys.stdout.isatty() and not options.json
    before: dict[str, Snapshot] | None = None
    told: tuple[str, ...] = ()
    while True:
        reading = read()
        earlier = before or {}
        found = [(one, snapshot.rates(one, earlier.get(one.key))) for one in reading.snapshots]
        notes = reading.notes
        if not found and (draw or before != {}):
            notes += (f"{place}: no pipeline is running; waiting for one (Ctrl-C exits)",)
        if draw:
            redraw_screen("\n\n".join([place, *text.paragraphs(found), *notes]))
        else:
            _print_notes([note for note in notes if note not in told])
            _print_lines(found, options)
        before, told = {one.key: one for one in reading.snapshots}, reading.notes
        time.sleep(options.interval)


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        print(note, file=sys.stderr)


def _print_lines(found: Found, options: argparse.Namespace) -> None:
    for one, rates in found:
        print_line(json.dumps(one.record) if options.json else text.line(one, rates))
