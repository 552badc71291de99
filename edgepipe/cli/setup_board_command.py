"""``edgepipe setup-board``: everything that a fresh board needs once, over SSH."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from edgepipe import boards
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress, print_line
from edgepipe.deploy import setting_up
from edgepipe.deploy.connection import Target

DESCRIPTION = (
    "Set up a board once: users and rights, udev rules, kernel modules, overlay and systemd units."
)
EPILOG = """\
Runs board/setup.sh on the board, as root or through `sudo -n`. Every step changes only what
differs, so a second run changes nothing. The exit code is 1 if the board's image lacks something,
which is named with a remedy.

examples:
  edgepipe setup-board --host xilinx@192.168.2.99 --board ultra96 --dry-run
  edgepipe setup-board --host xilinx@192.168.2.99 --board ultra96
  edgepipe setup-board --host root@door-camera --board pynq-z2 --user xilinx
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "setup-board", DESCRIPTION, EPILOG)
    parser.add_argument("--host", required=True, metavar="HOST", help="board, as ssh knows it")
    parser.add_argument("--board", required=True, metavar="BOARD", help="type of the host's board")
    parser.add_argument(
        "--user", metavar="USER", help="user who deploys (default: the one who logs in, or xilinx)"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change")
    parser.add_argument("--ssh-config", type=Path, metavar="FILE", help="SSH configuration file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Set the board up and print what changed; return 1 if it lacks something."""
    board = boards.load(options.board)
    folder = setting_up.files_for(board)
    target = Target(host=options.host, root="edgepipe", ssh_config=options.ssh_config)
    more = [*(["--user", options.user] if options.user else [])]
    more += ["--dry-run"] if options.dry_run else []
    progress = ConsoleProgress()
    done = setting_up.set_up(target, board, folder, options=more, progress=progress)
    progress.finish()
    for line in done.lines:
        print_line(line)
    if not done.changes and not done.missing:
        print_line(f"{options.host}: already set up, nothing was changed")
    return 1 if done.missing else 0
