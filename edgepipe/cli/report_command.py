"""``edgepipe report``: a bundle's network, costs, memory and timing as a page, text or JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from edgepipe import scratch
from edgepipe.bundle_report import page_file, text
from edgepipe.bundle_report.comparison import compare
from edgepipe.bundle_report.measured import with_measurement
from edgepipe.bundle_report.reading import read_report
from edgepipe.cli.arguments import add_command
from edgepipe.errors import BundleError

DESCRIPTION = """\
Show a bundle: its network with the device of every operator and the reason, what operators and
stages take by the timing model, memory, the pipeline's timeline, and what other cuts would give."""
EPILOG = """\
The page is one file that loads nothing. RUN is the output of `edgepipe-run BUNDLE --json`, or of
`edgepipe top --json` while the bundle runs.

examples:
  edgepipe report net.edgepipe -o report.html
  edgepipe-run net.edgepipe --device timed --golden --json > run.jsonl
  edgepipe report net.edgepipe --run run.jsonl -o report.html
  edgepipe report net.edgepipe --compare other.edgepipe --format text
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
        "--compare", metavar="OTHER", type=Path, help="compare with this bundle, too"
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
    """Print or write the report."""
    if options.output is not None:
        _check_output(options.output, options)
    report = read_report(options.bundle)
    if options.measured is not None:
        report = with_measurement(report, options.measured)
    comparison = None
    if options.compare is not None:
        comparison = compare(report, read_report(options.compare))
    form = options.format or ("text" if options.output is None else "html")
    made = _WRITERS[form](report, comparison)
    if options.output is None:
        sys.stdout.write(made)
    else:
        _write(options.output, made)
        print(f"wrote {options.output}", file=sys.stderr)
    return 0


def _check_output(path: Path, options: argparse.Namespace) -> None:
    """Raise BundleError if the report would replace a folder or one of the files it is made of."""
    read = [each for each in (options.bundle, options.measured, options.compare) if each]
    if path.is_dir() or any(
        path.exists() and each.exists() and path.samefile(each) for each in read
    ):
        raise BundleError(
            f"{path}: is a folder or what the report is made from, expected another file",
            hint="choose another name",
            option="output",
            value="FILE",
        )


def _write(path: Path, made: str) -> None:
    """Write a file completely or not at all."""
    waiting = scratch.name_beside(path, ".edgepipe.")
    try:
        with scratch.removed_if_killed(waiting):
            waiting.write_text(made, encoding="utf-8")
            waiting.replace(path)
    except OSError as cause:
        raise BundleError(
            f"{path}: cannot be written ({cause.strerror})",
            hint="free some space, fix the permissions, or choose another file",
            option="output",
            value="FILE",
        ) from cause
    finally:
        waiting.unlink(missing_ok=True)
