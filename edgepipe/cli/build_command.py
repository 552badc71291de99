"""``edgepipe build``: from an ONNX network to a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from edgepipe import boards
from edgepipe.beside import neighbours
from edgepipe.cli import arguments
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress
from edgepipe.cli.inspect_command import print_summary
from edgepipe.interrupts import remembered
from edgepipe.recipe import BuildOptions, build_bundle

DESCRIPTION = "Quantise an ONNX network to int8, split it into stages and compile them."
EPILOG = """\
The network's description (its preprocessing and the meaning of its outputs) is read from the TOML
file next to MODEL with the same name, or from the file given with --description. OUT is a folder,
or a single archive if it ends in .edgepipe. It appears only when it is complete. Ctrl-C or SIGTERM
ends the command with exit code 130 and leaves OUT as it was, or comes too late: while the complete
bundle is moved to OUT and after that, it is ignored and the exit code is 0.

examples:
  edgepipe build net.onnx --board ultra96 --calib pictures/ -o net.edgepipe
  edgepipe build net.onnx --board ultra96 --calib pictures/ -o net --cut layer3_out --place pool=arm
  edgepipe build net.onnx --board ultra96 --calib pictures/ -o net --export-scheme net.scheme.toml
  edgepipe build net.onnx --board ultra96 --scheme net.scheme.toml -o net
  edgepipe build net.onnx --board ultra96 --calib pictures/ -o net --objective latency
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "build", DESCRIPTION, EPILOG)
    parser.add_argument("model", metavar="MODEL", type=Path, help="float ONNX network")
    parser.add_argument(
        "--board",
        required=True,
        metavar="BOARD",
        help="name of a known board, or a board's .toml file",
    )
    parser.add_argument(
        "--calib",
        type=Path,
        metavar="DIR",
        help="calibration: a folder of pictures, or an .npz file of frames uint8[n, h, w, c]; "
        "needed unless --scheme is given",
    )
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="OUT", help="bundle to write"
    )
    arguments.add_arrangement(parser)
    parser.add_argument(
        "--fallback",
        action="store_true",
        help="add ARM kernels for the VTA stages, which take over if the accelerator fails",
    )
    parser.add_argument(
        "--bundle-version",
        type=arguments.positive,
        default=0,
        metavar="N",
        help="version of the bundle; a board can refuse older ones than it has run (default: none)",
    )
    parser.add_argument(
        "--sign", type=Path, metavar="KEY", help="sign the bundle with this OpenSSH key"
    )
    parser.add_argument(
        "--calib-frames",
        type=arguments.positive,
        default=64,
        metavar="N",
        help="use at most N calibration pictures (default: %(default)s)",
    )
    arguments.add_scheme(parser)
    parser.add_argument(
        "--export-scheme",
        type=Path,
        metavar="FILE",
        help="also write the quantisation scheme, TOML that can be edited, for --scheme",
    )
    parser.add_argument(
        "--seed",
        type=arguments.seed,
        metavar="N",
        help="decides what is drawn at random, such as the pictures of a folder with more than "
        "--calib-frames; the same seed gives the same bundle byte for byte (default: that of the "
        "scheme, or 0)",
    )
    arguments.add_float(parser)
    arguments.add_int16(parser)
    arguments.add_max_pixels(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Build and print the summary.

    An interrupt ends the command with 130 and without a bundle, or comes too late: once the bundle
    is being put in its place, the command ends with 0.
    """
    progress = ConsoleProgress()
    with remembered(late="ignored") as interrupts:
        manifest = build_bundle(_build_options(options), progress, interrupts)
    progress.finish()
    print_summary(options.output, manifest)
    return 0


def _build_options(options: argparse.Namespace) -> BuildOptions:
    return BuildOptions(
        model=options.model,
        board=boards.load(options.board),
        calibration=options.calib,
        output=options.output,
        cuts=tuple(options.cut),
        placement=arguments.placement(options.place),
        depthwise=options.depthwise or "auto",
        objective=options.objective or "",
        max_latency_ms=options.max_latency_ms,
        stages=options.stages,
        slots=options.slots,
        description=options.description,
        calibration_frames=options.calib_frames,
        fallback=options.fallback,
        version=options.bundle_version,
        sign=options.sign,
        most_pixels=options.max_pixels,
        scheme=options.scheme,
        export_scheme=options.export_scheme,
        float_layers=tuple(options.float),
        int16_layers=tuple(options.int16),
        rounding=options.rounding,
        seed=options.seed,
        rules=tuple(options.rules),
        placement_file=options.placement,
        export_placement=options.export_placement,
        costs=options.costs,
        beside=neighbours(options.beside),
    )
