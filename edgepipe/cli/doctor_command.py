"""``edgepipe doctor``: find out what is wrong with a board, and how to fix it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import textwrap
from pathlib import Path
from typing import Any

from edgepipe import boards
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress
from edgepipe.deploy.connection import Target
from edgepipe.doctor import examination, needs
from edgepipe.doctor.examination import Examination
from edgepipe.progress import Silent
from edgepipe.report.table import format_table

DESCRIPTION = (
    "Examine a board over SSH. Each finding is ok, warn or fail and has a remedy. The exit "
    "code is 1 if any finding is fail."
)
EPILOG = """\
Examines kernel, modules, UIO device, buffers, memory, access rights, bitstream, camera, clocks,
temperature, power and versions, and changes nothing on the board. If the accelerator can be opened,
its registers are read, and a small program runs on it to test cache coherency and the interrupt. No
pipeline may use the accelerator at the same time.

examples:
  edgepipe doctor --host xilinx@192.168.2.99 --board ultra96
  edgepipe doctor --host door-camera --bundle net.edgepipe --json
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "doctor", DESCRIPTION, EPILOG)
    parser.add_argument("--host", required=True, metavar="HOST", help="board, as ssh knows it")
    parser.add_argument(
        "--bundle", type=Path, metavar="BUNDLE", help="check what this bundle needs"
    )
    parser.add_argument("--board", metavar="BOARD", help="board type to test for, without a bundle")
    parser.add_argument(
        "--root", default="edgepipe", metavar="DIR", help="deploy folder on the board"
    )
    parser.add_argument("--ssh-config", type=Path, metavar="FILE", help="SSH configuration file")
    parser.add_argument(
        "--program",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="edgepipe-vta-run for the board (default: the one built here)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Examine the board and print the findings; return 1 if any of them is a failure."""
    target = Target(host=options.host, root=options.root, ssh_config=options.ssh_config)
    what = Examination(
        needs=needs.read(options.bundle) if options.bundle else None,
        accelerator=boards.load(options.board).accelerator if options.board else None,
        programs=tuple(options.program),
    )
    progress = Silent() if options.json else ConsoleProgress()
    found = examination.examine(target, what, progress)
    if isinstance(progress, ConsoleProgress):
        progress.finish()
    if options.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in found], indent=1))
    else:
        print(format_table(["", "check", "found"], [[f.state, f.check, f.text] for f in found]))
        for finding in found:
            if finding.remedy:
                text = f"{finding.state}: {finding.check}: {finding.remedy}"
                print("\n" + textwrap.fill(text, 100, subsequent_indent="  "))
    return 1 if any(finding.state == "fail" for finding in found) else 0
