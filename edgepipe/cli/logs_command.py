"""``edgepipe logs``: show the journal of the systemd unit on boards."""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgepipe.cli import arguments
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import print_line
from edgepipe.deploy import deployment, fleet, logs
from edgepipe.deploy.connection import Target
from edgepipe.errors import EdgepipeError

DESCRIPTION = "Show the journal of the systemd unit that runs the current release."


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "logs", DESCRIPTION)
    parser.add_argument(
        "--host", action="append", default=[], metavar="HOST", help="board (repeatable)"
    )
    parser.add_argument("--fleet", type=Path, metavar="FILE", help='TOML file: hosts = ["a", "b"]')
    parser.add_argument("--ssh-config", type=Path, metavar="FILE", help="SSH configuration file")
    parser.add_argument(
        "--unit",
        default=deployment.DEFAULT_UNIT,
        metavar="NAME",
        help="unit (default: %(default)s)",
    )
    parser.add_argument(
        "--lines",
        type=arguments.positive,
        default=100,
        metavar="N",
        help="number of lines (default: %(default)s)",
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="keep showing new lines until Ctrl-C"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the logs of all hosts."""
    deployment.check_unit(options.unit)
    loaded = fleet.load(options.fleet) if options.fleet else None
    targets = fleet.make_targets(options.host, loaded, None, options.ssh_config)
    show_logs(targets, options.unit, lines=max(options.lines, 0), follow=options.follow)
    return 0


def show_logs(targets: Sequence[Target], unit: str, *, lines: int, follow: bool) -> None:
    """Print the unit's journal on all boards, line by line as it arrives.

    With several boards, each line begins with the host. Raises the first board's error after all
    have ended.
    """
    errors: list[EdgepipeError] = []

    def show(target: Target) -> None:
        before = f"{target.host}: " if len(targets) > 1 else ""
        try:
            for line in logs.read(target, unit, lines, follow=follow):
                print_line(before + line)
        except EdgepipeError as error:
            errors.append(error)

    threads = [threading.Thread(target=show, args=(t,), daemon=True) for t in targets]
    for thread in threads:
        thread.start()
    # Ctrl-C ends following; the connections end with this process.
    with contextlib.suppress(KeyboardInterrupt):
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
