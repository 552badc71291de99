"""``edgepipe``: build, inspect and run pipelines."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from edgepipe import __version__
from edgepipe.cli import (
    bitstream_command,
    boards_command,
    build_command,
    deploy_command,
    doctor_command,
    inspect_command,
    logs_command,
    rpc_command,
    run_command,
    top_command,
    virtual_board_command,
)
from edgepipe.errors import EdgepipeError, FingerprintError

COMMANDS = (
    build_command,
    inspect_command,
    run_command,
    top_command,
    deploy_command,
    logs_command,
    doctor_command,
    boards_command,
    bitstream_command,
    virtual_board_command,
    rpc_command,
)

EPILOG = """\
exit codes: 0 done, 1 failed (one line says what and how to go on), 2 wrong use, 130 interrupted;
bundle and board differ in: 10 configuration, 11 encoding revision, 12 clock, 13 bitstream,
14 runtime version

a first session:
  edgepipe build examples/nanodet_g_coco_416.onnx --board ultra96 \\
      --calib examples/calibration -o build/nanodet.edgepipe
  edgepipe inspect build/nanodet.edgepipe
  edgepipe run build/nanodet.edgepipe --input examples/pedestrians.avi --output build/demo
"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="edgepipe",
        description="Neural networks as pipelines of ARM and VTA stages on FPGA SoC boards.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"edgepipe {__version__}")
    parser.add_argument(
        "--debug", action="store_true", help="show a traceback when an error ends it"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except EdgepipeError as error:
        if options.debug:
            raise
        print(
            f"\nedgepipe: error: {error}" if sys.stderr.isatty() else f"edgepipe: error: {error}",
            file=sys.stderr,
        )
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code if isinstance(error, FingerprintError) else 1
    except KeyboardInterrupt:
        print("\nedgepipe: interrupted; nothing half-written is left behind", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
