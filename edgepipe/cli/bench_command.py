"""``edgepipe bench``: measure a bundle here or on a board, and compare two measurements."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from edgepipe.benchmark import comparison, record, text
from edgepipe.benchmark.measuring import BenchOptions, measure
from edgepipe.cli import arguments, output_file
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress
from edgepipe.deploy.connection import Target

DESCRIPTION = """\
Measure a bundle: frames per second, latency, the time of every stage, memory, and where they are
readable temperature, power and clocks, in a serial and a pipelined run, beside what the timing
model expects of the accelerator and the board."""
EPILOG = """\
edgepipe-run runs the bundle's golden input and compares every output with the golden one, bit for
bit, first in a run of a single frame. With --host it is sent to the board with the bundle, into a
temporary folder that is removed at the end. No pipeline may use the accelerator at the same time.
Without an accelerator, VTA stages run on the simulator. --timed gives all stages at least the time
that they take on the board by the timing model.

examples:
  edgepipe bench net.edgepipe --timed
  edgepipe bench net.edgepipe --host xilinx@192.168.2.99 -o before.json
  edgepipe bench --compare before.json after.json
  edgepipe report net.edgepipe --run before.json -o report.html
"""
_MOST_FRAMES = 100_000


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "bench", DESCRIPTION, EPILOG)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "bundle", metavar="BUNDLE", type=Path, nargs="?", help="bundle folder or archive"
    )
    what.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        type=Path,
        help="measure nothing: compare two files that --output wrote",
    )
    parser.add_argument(
        "--frames",
        type=_frames,
        default=100,
        metavar="N",
        help="frames in each run (default: %(default)s)",
    )
    parser.add_argument(
        "--slots",
        type=arguments.slots,
        metavar="N",
        help="frames in flight in the pipelined run (default: the bundle's setting)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--timed",
        action="store_true",
        help="slow all stages down to their modelled time on the board",
    )
    where.add_argument(
        "--host", metavar="HOST", help="board, as ssh knows it (default: this machine)"
    )
    parser.add_argument("--ssh-config", type=Path, metavar="FILE", help="SSH configuration file")
    parser.add_argument(
        "--runtime",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="edgepipe-run to use (default: the one built here)",
    )
    parser.add_argument(
        "--allow-simulator",
        action="store_true",
        help="measure a board without an accelerator, too",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="also write JSON to this file"
    )
    parser.set_defaults(run=run)


def _frames(value: str) -> int:
    return arguments.whole(value, least=2, most=_MOST_FRAMES)


def run(options: argparse.Namespace) -> int:
    """Measure or compare; print the result and write it."""
    if options.output is not None:
        output_file.check(options.output, options.compare or [options.bundle])
    if options.compare:
        first, second = (record.read(path) for path in options.compare)
        found = comparison.compare(first, second)
        names = tuple(str(path) for path in options.compare)
        shown = comparison.to_text((names[0], names[1]), (first, second), found)
        as_json = comparison.to_json(found)
    else:
        measured = _measure(options)
        shown, as_json = text.to_text(measured), record.to_json(measured)
    sys.stdout.write(as_json if options.json else shown)
    if options.output is not None:
        output_file.write(options.output, as_json)
        print(f"wrote {options.output}", file=sys.stderr)
    return 0


def _measure(options: argparse.Namespace) -> record.Benchmark:
    target = None
    if options.host is not None:
        target = Target(host=options.host, root=".", ssh_config=options.ssh_config)
    progress = ConsoleProgress()
    measured = measure(
        options.bundle,
        BenchOptions(
            frames=options.frames,
            timed=options.timed,
            slots=options.slots,
            runtimes=tuple(options.runtime),
            allow_simulator=options.allow_simulator,
        ),
        target,
        progress,
    )
    progress.finish()
    return measured
