"""``edgepipe report``: a bundle's network, costs, memory and timing as a page, text or JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from edgepipe.bundle_report import page_file, text
from edgepipe.bundle_report.comparison import compare
from edgepipe.bundle_report.measured import with_measurement, with_trace
from edgepipe.bundle_report.reading import read_report
from edgepipe.cli import output_file
from edgepipe.cli.arguments import add_command
from edgepipe.errors import BundleError

DESCRIPTION = """\
Show a bundle: its network with the device of every operator and the reason, what operators and
stages take by the timing model, memory, the pipeline's timeline, and what other cuts would give."""
EPILOG = """\
The page is one file that loads nothing. RUN is the output of `edgepipe-run BUNDLE --json`, or of
`edgepipe top --json` while the bundle runs, or what `edgepipe-run BUNDLE --trace FILE` writes.

examples:
  edgepipe report net.edgepipe -o report.html
  edgepipe-run net.edgepipe --device timed --golden --json > run.jsonl
  edgepipe report net.edgepipe --run run.jsonl -o report.html
  edgepipe-run net.edgepipe --golden --json --trace trace.json > run.jsonl
  edgepipe report net.edgepipe --run run.jsonl --trace trace.json -o report.html
  edgepipe report net.edgepipe --compare other.edgepipe --format text
  edgepipe report net.edgepipe --run after.jsonl --compare-run before.jsonl
"""

_WRITERS = {"html": page_file.to_page, "text": text.to_text, "json": text.to_json}


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "report", DESCRIPTION, EPILOG)
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="bundle folder or archive")
    parser.add_argument(
        "--run",
        dest="measured",
        metavar="RUN",
        type=Path,
        help="show what this run measured beside what the model predicts",
    )
    parser.add_argument(
        "--trace",
        metavar="TRACE",
        type=Path,
        help="show single frames of this trace in the timeline: of --run, or alone",
    )
    parser.add_argument(
        "--compare", metavar="OTHER", type=Path, help="compare with this bundle, too"
    )
    parser.add_argument(
        "--compare-run",
        metavar="RUN",
        type=Path,
        help="compare --run with this run, too: one of --compare, or without it another of BUNDLE",
    )
    parser.add_argument(
        "--format",
        choices=sorted(_WRITERS),
        help="form of the report (default: html with --output, otherwise text)",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="file to write (default: print it)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print or write the report; raise ``BundleError`` for a run without one to compare."""
    if options.output is not None:
        read = (
            options.bundle,
            options.measured,
            options.trace,
            options.compare,
            options.compare_run,
        )
        output_file.check(options.output, [each for each in read if each is not None])
    if options.compare_run is not None and options.measured is None and options.trace is None:
        raise BundleError(
            f"--compare-run {options.compare_run}: there is no run to compare it with",
            hint="give the run of the bundle, too: --run RUN",
        )
    plain = report = read_report(options.bundle)
    if options.measured is not None:
        report = with_measurement(report, options.measured, options.trace)
    elif options.trace is not None:
        report = with_trace(report, options.trace)
    other = plain if options.compare is None else read_report(options.compare)
    if options.compare_run is not None:
        other = with_measurement(other, options.compare_run)
    comparison = None
    if options.compare is not None or options.compare_run is not None:
        comparison = compare(report, other)
    form = options.format or ("text" if options.output is None else "html")
    made = _WRITERS[form](report, comparison)
    if options.output is None:
        sys.stdout.write(made)
    else:
        output_file.write(options.output, made)
        print(f"wrote {options.output}", file=sys.stderr)
    return 0
