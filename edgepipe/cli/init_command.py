"""``edgepipe init``: write a network's description by looking at the network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from edgepipe import description
from edgepipe.cli import arguments
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress, print_line
from edgepipe.drafting.draft import Draft, draft, write

DESCRIPTION = "Look at an ONNX network and write its description; guesses are marked in the file."
EPILOG = """\
The network runs once on a random picture. The size of the input, the form of the outputs and the
class names in the file's metadata are known after that. What the file does not say is guessed: the
order of the channels, mean and std, how pictures are fitted.

examples:
  edgepipe init net.onnx                 writes net.toml, and net.labels.txt if it names classes
  edgepipe init net.onnx -o other.toml
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "init", DESCRIPTION, EPILOG)
    parser.add_argument("model", metavar="MODEL", type=Path, help="float ONNX network")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="description to write (default: MODEL with the ending .toml)",
    )
    parser.add_argument(
        "--size",
        type=arguments.size,
        metavar="WIDTHxHEIGHT",
        help="size of the pictures, for a network that reads any (default: tried out)",
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Draft the description, write it, and print what to check."""
    output = options.output or description.beside(options.model)
    progress = ConsoleProgress()
    progress.step("running the network once")
    made = draft(options.model, f"{output.stem}.labels.txt", options.size)
    progress.finish()
    written = write(made, output, overwrite=options.force)
    print_line(f"written: {', '.join(map(str, written))}")
    print_draft(made)
    print()
    print_line(f"next: edgepipe inspect {options.model}, which says what would run where")
    return 0


def print_draft(made: Draft) -> None:
    """Print what was recognised, and what is only a guess."""
    preprocess = made.description.preprocess
    print_line(f"input    {made.picture}")
    print_line(f"picture  {preprocess.width}x{preprocess.height} {preprocess.order}")
    print_line(f"outputs  {made.head.text}")
    if made.labels:
        print_line(f"classes  {len(made.labels)} names, from {made.labels[0]} to {made.labels[-1]}")
    print()
    if made.guesses:
        print_line("check these guesses:")
    for setting in made.guesses:
        print_line(f"  {setting.assignment}  # {setting.reason}")
