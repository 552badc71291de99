"""``edgepipe doctor``: what is wrong with a board, and what to do about it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import textwrap
from pathlib import Path
from typing import Any

from edgepipe import boards
from edgepipe.cli.console import ConsoleProgress
from edgepipe.deploy.connection import Target
from edgepipe.doctor import examination, needs
from edgepipe.doctor.examination import Examination
from edgepipe.progress import Silent
from edgepipe.report.table import format_table

EPILOG = """\
Looks at kernel, modules, UIO device, buffers, memory, rights, bitstream, camera, clocks,
temperature, power and versions; nothing on the board is changed. Where the accelerator can be
opened, a small program runs on it to test cache coherency and the interrupt; no pipeline may use it
meanwhile.

examples:
  edgepipe doctor --host xilinx@192.168.2.99 --board ultra96
  edgepipe doctor --host door-camera --bundle net.edgepipe --json
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "doctor",
        help="examine a board over SSH",
        description="Examine a board over SSH: each finding is ok, warn or fail, with a remedy. "
        "The exit code is 1 when something fails.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", required=True, metavar="HOST", help="board, as ssh knows it")
    parser.add_argument("--bundle", type=Path, metavar="BUNDLE", help="compare with what it needs")
    parser.add_argument("--board", metavar="BOARD", help="accelerator to test, without a bundle")
    parser.add_argument("--root", default="edgepipe", metavar="DIR", help="folder of the deploys")
    parser.add_argument("--ssh-config", type=Path, metavar="FILE", help="instead of ssh's own")
    parser.add_argument(
        "--program",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="edgepipe-vta-run for the board (default: as built here)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Examine and print; return 1 when a finding fails."""
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
