"""``edgepipe accuracy``: what int8 costs a network, layer by layer and in the task's measure."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepipe import scratch
from edgepipe.cli import arguments
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress
from edgepipe.cli.rpc_command import add_where, server_of
from edgepipe.errors import AccuracyError

if TYPE_CHECKING:
    from edgepipe.accuracy.devices import Device

DESCRIPTION = "Measure what int8 costs a network."
EPILOG = """\
MODEL and the pictures of --calib, or the --scheme in their place, are those that the bundle was
built from; its golden output proves it. Without these options, net.onnx and net.scheme.toml beside
net.edgepipe are used. Each layer is compared with onnxruntime's float values in two modes: "so far"
reads what the integer layers before it computed, "alone" reads the float values. The task's measure
compares the answers of both networks with the truth: labels, boxes, masks, or a function of your
own.

With --host, every picture also runs on a board (docs/guides/virtual-board.md has a virtual one).
Every tensor between stages must be bit-equal to the simulator's; the first layer and element that
differ are an error with exit code 20.

With --dask, the pictures run on all workers of a Dask cluster that have edgepipe, too.

examples:
  edgepipe accuracy net.edgepipe --data test/
  edgepipe accuracy net.edgepipe --network net.onnx --calib calib/ --data test/ --labels test.csv
  edgepipe accuracy net.edgepipe --network net.onnx --calib calib/ --data val/ \\
      --boxes instances_val.json --chart layers.svg --json
  edgepipe accuracy net.edgepipe --network net.onnx --calib calib/ --data test/ --host door-camera
  edgepipe accuracy net.edgepipe --data test/ --labels test.csv --dask 192.168.2.1:8786
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "accuracy", DESCRIPTION, EPILOG)
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="bundle folder or archive")
    parser.add_argument(
        "--network",
        type=Path,
        metavar="MODEL",
        help="the bundle's ONNX network (default: NAME.onnx beside the bundle NAME.edgepipe)",
    )
    parser.add_argument(
        "--calib",
        type=Path,
        metavar="DIR",
        help="the calibration pictures of the build: a folder, or an .npz file of frames; needed "
        "unless --scheme is given, or NAME.scheme.toml is beside the bundle NAME.edgepipe",
    )
    parser.add_argument(
        "--calib-frames",
        type=arguments.positive,
        default=64,
        metavar="N",
        help="calibration pictures of the build at most (default: %(default)s)",
    )
    parser.add_argument(
        "--data",
        required=True,
        type=Path,
        metavar="DIR",
        help="pictures to measure with: a folder, a video, or an .npz file of frames",
    )
    truth = parser.add_mutually_exclusive_group()
    truth.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="lines of a picture's name and its class: top-1 and top-5",
    )
    truth.add_argument(
        "--boxes", type=Path, metavar="FILE", help="boxes as COCO's JSON: AP50 and AP50:95"
    )
    truth.add_argument(
        "--masks",
        type=Path,
        metavar="DIR",
        help="a greyscale PNG for each picture, with the class of every pixel: mIoU",
    )
    truth.add_argument(
        "--metric",
        default="",
        metavar="MODULE:FUNCTION",
        help="a function of a picture's name and a dict of outputs; its figures are averaged",
    )
    parser.add_argument(
        "--pictures", type=arguments.positive, metavar="N", help="use at most N pictures"
    )
    parser.add_argument(
        "--layer-pictures",
        type=arguments.whole,
        default=16,
        metavar="N",
        help="compare layers on the first N pictures (0: skip; default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--chart", type=Path, metavar="FILE", help="write a chart of all layers, as SVG"
    )
    arguments.add_scheme(parser)
    arguments.add_float(parser)
    arguments.add_int16(parser)
    arguments.add_max_pixels(parser)
    parser.add_argument(
        "--device",
        choices=("simulator", "auto", "uio"),
        help="device for the VTA stages (default: simulator, with --host auto)",
    )
    add_where(parser)
    parser.add_argument(
        "--dask",
        default="",
        metavar="HOST:PORT",
        help="run the pictures on the workers of this Dask scheduler; same figures",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure and print the report.

    Raises AccuracyError if the chart's folder does not exist, or if the network, or calibration
    pictures and scheme, are neither given nor beside the bundle.
    """
    from edgepipe.accuracy import measurement, report  # they load TVM
    from edgepipe.accuracy.networks import Origin

    if options.chart is not None and not options.chart.parent.is_dir():
        raise AccuracyError(
            f"{options.chart}: its folder does not exist", hint="create the folder first"
        )
    network = _network(options)
    scheme = _scheme(options)
    sys.path.insert(0, str(Path.cwd()))  # for --metric, as `python -m` does
    progress = ConsoleProgress()
    with _device(options) as device:
        found = measurement.measure(
            measurement.AccuracyOptions(
                bundle=options.bundle,
                origin=Origin(
                    network=network,
                    calibration=options.calib,
                    calibration_frames=options.calib_frames,
                    most_pixels=options.max_pixels,
                    scheme=scheme,
                    float_layers=tuple(options.float),
                    int16_layers=tuple(options.int16),
                    rounding=options.rounding,
                ),
                data=options.data,
                pictures=options.pictures,
                layer_pictures=options.layer_pictures,
                labels=options.labels,
                boxes=options.boxes,
                masks=options.masks,
                metric=options.metric,
                most_pixels=options.max_pixels,
            ),
            device,
            progress,
        )
    progress.finish()
    print(report.to_json(found) if options.json else report.to_text(found))
    if options.chart is not None:
        with scratch.folder_beside(options.chart, ".edgepipe.") as waiting:
            (waiting / "chart").write_text(report.to_svg(found), encoding="utf-8")
            (waiting / "chart").replace(options.chart)
        print(f"wrote {options.chart}", file=sys.stderr)
    return 0


def _network(options: argparse.Namespace) -> Path:
    """Return the network that is given, or else the one beside the bundle."""
    if options.network is not None:
        return Path(options.network)
    near = _beside(options.bundle, ".onnx")
    if not near.is_file():
        raise AccuracyError(
            f"{options.bundle}: no network is given, and {near} does not exist",
            hint="give the network that the bundle was built from",
            option="network",
            value="MODEL",
        )
    return near


def _scheme(options: argparse.Namespace) -> Path | None:
    """Return the scheme that is given, or without pictures, too, the one beside the bundle."""
    if options.scheme is not None or options.calib is not None:
        return None if options.scheme is None else Path(options.scheme)
    near = _beside(options.bundle, ".scheme.toml")
    if not near.is_file():
        raise AccuracyError(
            f"{options.bundle}: neither calibration pictures nor a scheme are given, and {near} "
            "does not exist",
            hint="give the scheme of the build (--scheme FILE), or the pictures that it was "
            "calibrated with",
            option="calibration",
            value="DIR",
        )
    return near


def _beside(bundle: Path, suffix: str) -> Path:
    """Return the file beside a bundle that has the bundle's name, with another suffix."""
    return bundle.parent / f"{bundle.name.removesuffix('.edgepipe')}{suffix}"


@contextlib.contextmanager
def _device(options: argparse.Namespace) -> Iterator[Device]:
    """Yield the device that the options name; a board's server or a cluster runs meanwhile."""
    from edgepipe import rpc
    from edgepipe.accuracy import cluster
    from edgepipe.accuracy.devices import OnBoard, Simulated

    if options.dask:
        if options.host or options.device not in (None, "simulator"):
            raise AccuracyError(
                f"Dask at {options.dask}: its workers have simulators, and no board",
                hint="omit --host and --device, or --dask",
            )
        with cluster.connected(options.dask, options.bundle) as workers:
            yield workers
        return
    if not options.host and options.device in (None, "simulator"):
        yield Simulated(options.bundle)
        return
    device = options.device or "auto"
    with server_of(options) as server, rpc.connect(server.port, key=server.key) as session:
        yield OnBoard.open(session, options.bundle, device=device, host=options.host or "")
