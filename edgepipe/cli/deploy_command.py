"""``edgepipe deploy``: deploy a bundle to boards over SSH."""

from __future__ import annotations

import argparse
import dataclasses
import getpass
import json
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from edgepipe.cli import arguments
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress, print_error, print_line
from edgepipe.cli.hints import hint_of
from edgepipe.cli.logs_command import show_logs
from edgepipe.deploy import deployment, fleet
from edgepipe.deploy.connection import Target
from edgepipe.deploy.deployment import DEFAULT_UNIT, DeployOptions, Outcome
from edgepipe.deploy.fleet import HostOutcome
from edgepipe.errors import DeployError
from edgepipe.progress import Progress, Silent
from edgepipe.report.table import format_table

DESCRIPTION = (
    "Copy a bundle to one or several boards, run its golden input there, then switch to it."
)
EPILOG = """\
A release contains the bundle and the edgepipe-run that was built for the board. Files that the
board already has, by digest, are linked instead of sent again. The golden input runs on the board
and must give the golden output bit for bit before the release becomes current. Until then, and
after any loss of connection or power, the previous release stays current. On the board:

  edgepipe/current/bin/edgepipe-run edgepipe/current/bundle ...

If the board has the systemd unit (docs/guides/board.md), the deploy stops it for the golden run,
because the accelerator serves one process at a time, and restarts it after the switch. If the new
release does not start, the board returns to the previous one.

Connections use ssh and its configuration. Logins must work without a password.

examples:
  edgepipe deploy net.edgepipe --host xilinx@192.168.2.99 --follow
  edgepipe deploy net.edgepipe --fleet boards.toml --after 'touch /run/deployed'
  edgepipe deploy --list --host door-camera
  edgepipe deploy --rollback --host door-camera
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "deploy", DESCRIPTION, EPILOG)
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, nargs="?", help="bundle to deploy")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="HOST",
        help="board, as ssh knows it: [USER@]NAME or an alias (repeatable)",
    )
    parser.add_argument("--fleet", type=Path, metavar="FILE", help='TOML file: hosts = ["a", "b"]')
    parser.add_argument("--root", metavar="DIR", help="folder on the board (default: edgepipe)")
    parser.add_argument("--ssh-config", type=Path, metavar="FILE", help="SSH configuration file")
    parser.add_argument(
        "--runtime",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="edgepipe-run for the boards, one per architecture (default: the one built here)",
    )
    parser.add_argument(
        "--unit",
        default=DEFAULT_UNIT,
        metavar="NAME",
        help="systemd unit that runs the current release (default: %(default)s)",
    )
    parser.add_argument("--no-restart", action="store_true", help="leave the unit alone")
    parser.add_argument(
        "--follow", action="store_true", help="afterwards, show the unit's journal until Ctrl-C"
    )
    parser.add_argument(
        "--after",
        default="",
        metavar="COMMAND",
        help="run this on the board after the switch; if it fails, the switch is undone",
    )
    parser.add_argument(
        "--keep",
        type=arguments.positive,
        default=3,
        metavar="N",
        help="releases to keep (default: %(default)s)",
    )
    parser.add_argument(
        "--golden-timeout",
        type=arguments.positive,
        default=120,
        metavar="SECONDS",
        help="time limit of the golden run (default: %(default)s)",
    )
    parser.add_argument(
        "--allow-simulator",
        action="store_true",
        help="accept a board without an accelerator, where VTA stages run on the simulator; "
        "otherwise the deploy fails there",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, change nothing"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--rollback",
        nargs="?",
        type=arguments.positive,
        const=0,
        metavar="N",
        help="make release N current, or the one before the current release",
    )
    action.add_argument("--list", action="store_true", help="list the releases on the boards")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Deploy, roll back or list; return 1 when any host failed.

    Raises DeployError without a bundle to deploy.
    """
    loaded = fleet.load(options.fleet) if options.fleet else None
    targets = fleet.make_targets(options.host, loaded, options.root, options.ssh_config)
    if options.list:
        return print_releases(targets, as_json=options.json)
    settings = DeployOptions(
        operator=f"{getpass.getuser()}@{socket.gethostname()}",
        keep=options.keep,
        dry_run=options.dry_run,
        golden_timeout_s=options.golden_timeout,
        unit="" if options.no_restart else options.unit,
        after=options.after,
        runtimes=tuple(options.runtime),
        allow_simulator=options.allow_simulator,
    )
    console = _Console(len(targets), quiet=options.json)
    if options.rollback is not None:
        outcomes = fleet.for_each(
            targets,
            lambda t: deployment.rollback(t, options.rollback or None, settings, console.of(t)),
        )
    else:
        if options.bundle is None:
            raise DeployError(
                "no bundle to deploy", hint="name a bundle, or use --rollback or --list"
            )
        source = deployment.open_source(options.bundle)
        outcomes = fleet.for_each(
            targets, lambda t: deployment.deploy(t, source, settings, console.of(t))
        )
    console.finish()
    code = print_outcomes(outcomes, options)
    if options.follow and not options.dry_run and code == 0:
        show_logs(targets, options.unit, lines=20, follow=True)
    return code


def print_outcomes(outcomes: tuple[HostOutcome, ...], options: argparse.Namespace) -> int:
    """Print each host's outcome; raise a single host's error, so that it sets the exit code."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if options.json:
        print(json.dumps([_as_json(outcome, options) for outcome in outcomes], indent=1))
    else:
        for outcome in outcomes:
            for line in outcome.outcome.lines if outcome.outcome else ():
                print_line(f"{outcome.host}: {line}")
        if len(outcomes) > len(failed) or len(outcomes) > 1:
            header = ["host", "result", "release", "unit", "files sent", "KiB", "s"]
            print(format_table(header, [_row(outcome) for outcome in outcomes]))
    if len(outcomes) == 1 and outcomes[0].error is not None:
        raise outcomes[0].error
    for outcome in failed:
        if outcome.error:
            print_error(str(outcome.error), hint_of(outcome.error, options))
    return 1 if failed else 0


def print_releases(targets: tuple[Target, ...], *, as_json: bool) -> int:
    """Print the releases of all hosts."""
    rows = []
    for target in targets:
        inventory = deployment.releases(target)
        for release in inventory.releases:
            record = release.record
            rows.append(
                {
                    "host": target.host,
                    "release": str(release.number),
                    "current": "yes" if release.number == inventory.current else "",
                    "name": record.name if record else "?",
                    "built by": record.builder_version if record else "?",
                    "deployed by": record.deployed_by if record else "?",
                    "at": record.deployed_at if record else "?",
                }
            )
    if as_json:
        print(json.dumps(rows, indent=1))
    elif rows:
        print(format_table(list(rows[0]), [list(row.values()) for row in rows]))
    else:
        print("no releases")
    return 0


class _Console:
    """Shows one host's steps like the other commands, and several hosts' steps line by line."""

    def __init__(self, hosts: int, *, quiet: bool) -> None:
        self._single = ConsoleProgress() if hosts == 1 and not quiet else None
        self._quiet = quiet
        self._lock = threading.Lock()

    def of(self, target: Target) -> Progress:
        """Return the progress of one host."""
        if self._quiet:
            return Silent()
        return self._single or _HostLines(target.host, self._lock)

    def finish(self) -> None:
        """End the last step's line."""
        if self._single:
            self._single.finish()


class _HostLines(Silent):
    def __init__(self, host: str, lock: threading.Lock) -> None:
        self._host = host
        self._lock = lock

    def step(self, text: str) -> None:
        """Print the step after the host's name."""
        with self._lock:
            print(f"{self._host}: {text}", file=sys.stderr, flush=True)


def _row(outcome: HostOutcome) -> list[str]:
    done = outcome.outcome or Outcome(result="failed", release=None)
    return [
        outcome.host,
        done.result,
        str(done.release or "-"),
        done.unit or "-",
        str(done.sent_files),
        str(done.sent_bytes >> 10),
        f"{outcome.seconds:.1f}",
    ]


def _as_json(outcome: HostOutcome, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "host": outcome.host,
        "seconds": round(outcome.seconds, 3),
        "outcome": dataclasses.asdict(outcome.outcome) if outcome.outcome else None,
        "error": str(outcome.error) if outcome.error else None,
        "hint": hint_of(outcome.error, options) if outcome.error else None,
    }
