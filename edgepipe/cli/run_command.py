"""``edgepipe run``: run a bundle on pictures or a video, on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from edgepipe.bundle import storage
from edgepipe.bundle_report.model import PredictedRates
from edgepipe.bundle_report.reading import read_rates
from edgepipe.cli import arguments
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress
from edgepipe.errors import EdgepipeError
from edgepipe.report.pipelining_limit import Limit, measured_limit
from edgepipe.report.table import format_table
from edgepipe.run import Comparison, RunOptions, compare, read_frames, run_bundle
from edgepipe.runtime.statistics import Statistics

DESCRIPTION = "Run a bundle's pipeline on this machine."
EPILOG = """\
Pictures are resized to the network's input as its description says. Boxes are in pixels of the
picture. VTA stages run on the simulator and ARM stages as kernels for this machine; both compute
the same bits as the board. DIR receives results.jsonl, annotated.mp4 and annotated.jpg (the picture
with the most detections). All pictures in annotated.mp4 have the size of the first one, with black
bars if their shape differs. It is H.264, which browsers play, if the program ffmpeg is installed,
and otherwise MPEG-4. Without --output, results go to stdout, one JSON object per line.

The comparison of serial and pipelined runs shows this machine's times, and beside them what the
timing model predicts of the bundle's board, as `edgepipe report` does. Where pipelining can gain
only little, a line says which stage, or which unit that stages share, limits it.
"""


DISTURBED = (
    "other programs used the cores during the measurement, so a gain above the bound is not real"
)


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "run", DESCRIPTION, EPILOG)
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="bundle folder or archive")
    parser.add_argument(
        "--input", required=True, type=Path, metavar="SOURCE", help="video, picture or folder"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder for the results")
    parser.add_argument(
        "--frames", type=arguments.positive, metavar="N", help="stop after N pictures"
    )
    arguments.add_max_pixels(parser)
    parser.add_argument("--serial", action="store_true", help="run the stages one after another")
    parser.add_argument(
        "--cores",
        type=arguments.cores,
        metavar="LIST",
        help="pin the stages to these cores, e.g. 0,1 (default: all)",
    )
    parser.add_argument(
        "--slots",
        type=arguments.slots,
        metavar="N",
        help="frames in flight (default: the bundle's setting)",
    )
    parser.add_argument(
        "--timed",
        action="store_true",
        help="slow all stages down to their modelled time on the board",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="write a trace of all stages and frames, as JSON for https://ui.perfetto.dev",
    )
    parser.add_argument(
        "--compare",
        type=arguments.whole,
        default=30,
        metavar="N",
        help="afterwards, time the first N pictures in serial and pipelined runs (0: skip; "
        "default: 30)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the bundle, then compare serial and pipelined runs."""
    progress = ConsoleProgress()
    progress.step(f"running {options.bundle.name} on {options.input.name}")
    report = run_bundle(
        RunOptions(
            bundle=options.bundle,
            source=options.input,
            output=options.output,
            frames=options.frames,
            serial=options.serial,
            cores=options.cores,
            slots=options.slots,
            trace=options.trace,
            timed=options.timed,
            most_pixels=options.max_pixels,
        ),
        lines=None if options.output else sys.stdout,
        progress=progress,
    )
    progress.finish()
    print(_accounting(report.statistics), file=sys.stderr)
    for path in report.written:
        print(f"wrote {path}", file=sys.stderr)
    frames = read_frames(
        options.bundle, options.input, options.compare, most_pixels=options.max_pixels
    )
    if len(frames) > 1 and not options.serial:
        progress.step(f"comparing serial and pipelined runs of {len(frames)} frames")
        comparison = compare(options.bundle, frames, timed=options.timed, slots=options.slots)
        progress.finish()
        rates = _rates(options.bundle, options.slots, progress)
        limit = _limit(options.bundle, comparison, options.timed)
        shown = _comparison(comparison, rates, limit)
        print(shown, file=sys.stdout if options.output else sys.stderr)
    return 0


def _accounting(statistics: Statistics) -> str:
    return (
        f"{statistics.submitted} frames submitted = {statistics.delivered} delivered + "
        f"{statistics.dropped} dropped + {statistics.failed} failed; "
        f"latency {statistics.latency.median_ms:.1f} ms (median), "
        f"{statistics.latency.p99_ms:.1f} ms (p99)"
    )


def _rates(bundle: Path, slots: int | None, progress: ConsoleProgress) -> PredictedRates | None:
    """Return what is predicted of the bundle's board; None, with a notice, if it does not say."""
    try:
        return read_rates(bundle, slots)
    except EdgepipeError as error:
        progress.notice(f"no figures for the board: {error}")
        return None


def _limit(bundle: Path, comparison: Comparison, timed: bool) -> Limit:
    """Return what limits the gain on this machine, where simulated VTA stages compute, too.

    Timed stages sleep most of the time.
    """
    stage_ms = dict(zip(comparison.stage_names, comparison.stage_ms, strict=True))
    stages = storage.read_manifest(bundle).stages
    vta_stages = [stage.name for stage in stages if stage.kind == "vta"]
    pipelined = comparison.rounds[0].pipelined
    return measured_limit(stage_ms, pipelined, vta_stages, () if timed else stage_ms)


def _comparison(comparison: Comparison, predicted: PredictedRates | None, limit: Limit) -> str:
    """Return the tables, and why pipelining gains little where it does.

    Tables of a bundle for a board end with what is predicted of it.
    """
    times = [
        [name, f"{alone:.2f}", f"{together:.2f}"]
        for name, alone, together in zip(
            comparison.stage_names,
            comparison.stage_ms,
            comparison.pipelined_stage_ms,
            strict=True,
        )
    ]
    header = ["stage", "ms serial", "ms pipelined"]
    rates = [
        ["serial", f"{comparison.serial_fps:.2f}"],
        ["pipelined", f"{comparison.pipelined_fps:.2f}"],
        ["gain", f"{comparison.gain:.3f}x"],
        ["bound (sum / longest stage)", f"{comparison.bound:.3f}x"],
    ]
    head = ["frames per second", "this machine"]
    if predicted is not None:
        board = f"{predicted.board}, predicted"
        header.append(f"ms on {board}")
        times = [[*row, f"{predicted.stage_ms[row[0]]:.2f}"] for row in times]
        head.append(board)
        values = [f"{fps:.2f}" for fps in (predicted.serial_fps, predicted.pipelined_fps)]
        values += [f"{ratio:.3f}x" for ratio in (predicted.gain, predicted.bound)]
        rates = [[*row, value] for row, value in zip(rates, values, strict=True)]
    notes = [limit.sentence("this machine")]
    if predicted is not None:
        notes.append(predicted.limit.sentence(f"{predicted.board}, predicted"))
    if comparison.was_disturbed:
        notes.append(DISTURBED)
    tables = f"\n{format_table(header, times)}\n\n{format_table(head, rates)}"
    return "\n".join([tables, *(note for note in notes if note)])
