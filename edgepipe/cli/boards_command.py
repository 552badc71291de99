"""``edgepipe boards``: the boards that edgepipe knows."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from edgepipe import boards
from edgepipe.cli.arguments import add_command
from edgepipe.report.table import format_table

DESCRIPTION = "List the known boards, their accelerators and encoding revisions."


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "boards", DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the boards."""
    known = [boards.load(name) for name in boards.names()]
    if options.json:
        print(json.dumps([dataclasses.asdict(board) for board in known], indent=1))
        return 0
    rows = [
        [
            board.name,
            board.architecture,
            str(board.cores or "all"),
            board.accelerator.configuration,
            board.accelerator.revision,
            f"{board.accelerator.clock_hz / 1e6:.0f}",
            board.description,
        ]
        for board in known
    ]
    header = ["board", "CPU", "cores", "accelerator", "revision", "MHz", "description"]
    print(format_table(header, rows))
    return 0
