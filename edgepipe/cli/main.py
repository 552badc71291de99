"""``edgepipe``: build, inspect and run pipelines."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import signal
import sys
import tempfile
from collections.abc import Sequence

from edgepipe import __version__, resources
from edgepipe.cli import console
from edgepipe.cli.commands import COMMANDS
from edgepipe.cli.entry import INTERRUPTED
from edgepipe.cli.hints import hint_of
from edgepipe.cli.parser import Parser
from edgepipe.errors import (
    DifferenceError,
    EdgepipeError,
    FingerprintError,
    SignatureError,
    UnbuildableError,
)
from edgepipe.interrupts import SIGNALS

_FOR_BUILDING = ("onnx", "onnxruntime", "tvm")  # the packages of `edgepipe[build]`
_OWN_EXIT_CODES = (DifferenceError, FingerprintError, SignatureError, UnbuildableError)

EPILOG = """\
exit codes:
  0 success, 1 failure (with one error line and a hint), 2 wrong use, 3 the network that `inspect`
  looked at would not build, 130 interrupted (Ctrl-C, SIGTERM); bundle and board differ in: 10
  configuration, 11 encoding revision, 12 clock, 13 bitstream, 14 runtime version; the bundle is
  refused because 15 it is not signed, 16 its signer is not allowed, 17 it has changed since it was
  signed, 18 the board has run a later version, 19 its signature cannot be verified; 20 the board
  computes other bits than the simulator

a first example, which finds text in pictures:
  edgepipe models get ppocr_det
  edgepipe build ppocr_det.onnx --board ultra96 --calib pictures/ -o ppocr_det.edgepipe
  edgepipe inspect ppocr_det.edgepipe
  edgepipe run ppocr_det.edgepipe --input pictures/ --output results/
"""


class _PrintCmakeDir(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(resources.cmake_dir())
        parser.exit()


def make_parser(called: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the whole command line.

    ``called`` is the only command whose own arguments are wanted, "" if none are; by default,
    the parser has those of all.
    """
    parser = Parser(
        prog="edgepipe",
        description="Run neural networks as pipelines of ARM and VTA stages on FPGA SoC boards.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"edgepipe {__version__}")
    parser.add_argument(
        "--cmake-dir",
        action=_PrintCmakeDir,
        nargs=0,
        help="print the folder of the CMake package for C++ programs and exit",
    )
    parser.add_argument(
        "--debug", action="store_true", help="show a traceback if the command fails"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command, summary in COMMANDS.items():
        name = command.replace("_", "-")
        if called is None or called == name:
            importlib.import_module(f"edgepipe.cli.{command}_command").add_parser(commands)
        else:
            commands.add_parser(name, help=summary, add_help=False)
    return parser


def _called(arguments: Sequence[str]) -> str:
    """Return the command of a command line: its first word, because no option before it has a
    value."""
    return next((word for word in arguments if not word.startswith("-")), "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code.

    ``arguments`` are by default the program's own. Then the handlers of signals stay as the command
    leaves them, because what is done stays done if an interrupt comes while the program exits.
    """
    if arguments is None:
        return _main(sys.argv[1:])
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        return _main(arguments)
    finally:
        for number, handler in before.items():
            if handler is not None:  # as it is for one that is not Python's
                signal.signal(number, handler)


def _main(arguments: Sequence[str]) -> int:
    debug = False
    options: argparse.Namespace | None = None
    try:
        _prepare_process()
        try:
            options = make_parser(_called(arguments)).parse_args(arguments)
            debug = options.debug
            return int(options.run(options))
        finally:
            sys.stdout.flush()  # not at interpreter exit, where errors cannot be handled
    except EdgepipeError as error:
        if debug:
            raise
        _print_error(str(error), hint_of(error, options))
        return error.exit_code if isinstance(error, _OWN_EXIT_CODES) else 1
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        if debug or (error.name or "").partition(".")[0] not in _FOR_BUILDING:
            raise
        _print_error(
            f"the Python package {error.name} is not installed; it is needed to read and compile "
            "networks, and for TVM RPC",
            'install edgepipe with what builds: pip install "edgepipe[build]", or in the '
            'repository pip install ".[build]"',
        )
        return 1
    except BrokenPipeError:
        _abandon_standard_output()
        return 1
    except OSError as error:
        if debug:
            raise
        _abandon_standard_output()
        what = error.filename or "standard output or a temporary file"
        _print_error(
            f"{what}: {error.strerror or error}",
            f"free some space or fix the permissions (temporary files are in "
            f"{tempfile.gettempdir()}); "
            "edgepipe --debug COMMAND ... shows where it failed",
        )
        return 1


def _prepare_process() -> None:
    """Make SIGTERM clean up like Ctrl-C, allow any name in output, and silence OpenCV."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    console.escape_standard_streams()
    os.environ.setdefault("OPENCV_LOG_LEVEL", "OFF")
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # AV_LOG_QUIET of libavutil/log.h


def _print_error(text: str, hint: str) -> None:
    if sys.stderr.isatty():  # which may be showing a line of progress
        print(file=sys.stderr)
    console.print_error(text, hint)


def _abandon_standard_output() -> None:
    """Discard buffered output, so that Python does not fail again at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
