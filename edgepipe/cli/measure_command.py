"""``edgepipe measure``: measure what a board's accelerator and cores cost, for its file."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from edgepipe import boards
from edgepipe.cli import arguments, output_file
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress
from edgepipe.cli.rpc_command import add_where, server_of
from edgepipe.errors import BoardError

DESCRIPTION = """\
Measure what the work of a board's accelerator and cores costs, and write the board's file with
these costs. Tilings and placements of later builds are chosen by them, and predictions follow."""
EPILOG = """\
Small programs run on the board over RPC, as with `edgepipe rpc`: some 25 for the accelerator, of
which two differ in one count each, such as the rows of a load, and one kernel of each class for the
cores. The least time of several runs counts, and runs are repeated until it no longer falls. No
pipeline may use the accelerator at the same time, and the board should be idle. It takes about a
minute. The output appears only when all is measured. Until then times are kept in FILE.measured,
and after an interrupt the same command goes on there.

The board's file states the accelerator. Its [timing] and [arm_timing] are replaced, except what is
not measured: bus_bytes, burst_bytes, reads_in_flight, the bursts of stores and the cores' clock_hz.

--timed is a trial without a board: the simulator takes the time that the board's file states, so
the costs of that file must come out. The cores' costs are then those of this machine; with
--network, kernels take the time that the file states, too, if this machine is fast enough.

With --network, the operators of a network are measured instead: each alone, on the cores and on the
accelerator, and the stages of the best splits. The output is then a file of costs for --costs of
`edgepipe build` and `edgepipe inspect`, written after each operator. What it has, also from other
networks, is not measured again, nor is what failed. With --tracker, all boards that offer
themselves there as --key (`edgepipe rpc offer`) share the work. With --dask, workers on several
machines share it, each with the boards of its machine.

examples:
  edgepipe measure --host xilinx@192.168.2.99 --board ultra96 -o measured.toml
  edgepipe build net.onnx --board measured.toml --calib pictures/ -o net.edgepipe
  edgepipe measure --timed --board my_board.toml -o trial.toml
  edgepipe measure --network net.onnx --host xilinx@192.168.2.99 --board ultra96 -o costs.toml
  edgepipe measure --network net.onnx --tracker 127.0.0.1:9190 --key ultra96 --board ultra96 \\
      -o costs.toml
  edgepipe measure --network net.onnx --dask lab:8786 --tracker 127.0.0.1:9190 --key ultra96 \\
      --board ultra96 -o costs.toml
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "measure", DESCRIPTION, EPILOG)
    parser.add_argument(
        "--board", required=True, metavar="BOARD", help="known board, or a board's .toml file"
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="FILE",
        help="the board's file with the measured costs; may be that of --board",
    )
    parser.add_argument(
        "--repeat",
        type=arguments.positive,
        default=10,
        metavar="N",
        help="runs of each program and kernel before its least time is looked at (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--timed",
        action="store_true",
        help="a trial: run on the simulator at the speed that the board's file states",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--network",
        type=Path,
        metavar="MODEL",
        help="measure the operators and stages of this ONNX network, for --costs of build and "
        "inspect",
    )
    parser.add_argument(
        "--description", type=Path, metavar="FILE", help="the network's description"
    )
    parser.add_argument(
        "--tracker",
        metavar="HOST:PORT",
        help="share the work among all boards that this TVM RPC tracker has as --key",
    )
    parser.add_argument("--key", metavar="NAME", help="name of the boards at the tracker")
    parser.add_argument(
        "--dask",
        default="",
        metavar="HOST:PORT",
        help="let the workers of this Dask scheduler measure, each with the boards that it finds "
        "at --tracker",
    )
    parser.add_argument(
        "--limit",
        type=arguments.positive,
        default=60,
        metavar="SECONDS",
        help="how long one run of an operator or stage may take (default: %(default)s)",
    )
    parser.add_argument(
        "--wait",
        type=arguments.positive,
        default=60,
        metavar="SECONDS",
        help="how long to wait for a board that is free (default: %(default)s)",
    )
    parser.add_argument("--retry", action="store_true", help="measure again what failed before")
    add_where(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure the board, write its file and print the costs; or measure a network.

    Raises BoardError for a tracker without a network.
    """
    from edgepipe import rpc  # loads TVM
    from edgepipe.board_costs import board_text, measuring, text
    from edgepipe.board_costs.record import record_path
    from edgepipe.board_costs.runner import TRIAL

    output: Path = options.output
    output_file.check(output, [])
    if options.network is not None:
        from edgepipe.cli.network_measurement import measure_network

        return measure_network(options)
    if options.tracker is not None or options.key is not None or options.dask:
        raise BoardError(
            "--tracker, --key and --dask share the operators of a network among boards",
            hint="name the network",
            option="network",
            value="MODEL",
        )
    board = boards.load(options.board)
    source = boards.path_of(options.board).read_text(encoding="utf-8")
    record = record_path(output)
    progress = ConsoleProgress()
    with server_of(options) as server:
        measured = measuring.measure(
            lambda: rpc.connect(server.port, key=server.key),
            board,
            measuring.MeasureOptions(
                record=record,
                host=options.host or "",
                device=TRIAL if options.timed else "auto",
                repeat=options.repeat,
            ),
            progress,
        )
    progress.finish()
    origin = board_text.Origin(
        date=time.strftime("%Y-%m-%d"), host=options.host or measured.machine["host"]
    )
    output_file.write(output, board_text.with_costs(source, measured, origin))
    record.unlink(missing_ok=True)
    shown = text.to_json(measured) if options.json else text.to_text(measured, board)
    sys.stdout.write(shown)
    print(f"wrote {output}", file=sys.stderr)
    return 0
