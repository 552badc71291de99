"""``edgepipe virtual-board``: an Ultra96 under QEMU on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from edgepipe import boards
from edgepipe.cli import arguments
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress
from edgepipe.virtual_board.board import VirtualBoard
from edgepipe.virtual_board.fpga_model import FAULTS, FpgaOptions

DESCRIPTION = "Start, stop and use an Ultra96 that QEMU emulates on this machine."
EPILOG = """\
The board is QEMU with the Ultra96's device tree, Debian's kernel and a small Debian system. Its
FPGA is a process on this machine that runs the accelerator's simulator behind registers, DMA and an
interrupt. All files are in one folder, which you may delete while the board is down.

examples:
  edgepipe virtual-board up
  edgepipe virtual-board ssh cat /proc/device-tree/model
  scp -F "$(edgepipe virtual-board status --ssh-config)" program virtual-ultra96:
  edgepipe virtual-board fpga --board measured.toml --timed
  edgepipe virtual-board fpga --fault hang=10 --fault lost-interrupt=7
  edgepipe virtual-board down
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser and those of its actions."""
    parser = add_command(commands, "virtual-board", DESCRIPTION, EPILOG)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--folder",
        type=Path,
        default=default_folder(),
        metavar="DIR",
        help="images, logs and state (default: %(default)s)",
    )
    fpga = argparse.ArgumentParser(add_help=False)
    fpga.add_argument(
        "--board", default="ultra96", help="board whose accelerator the FPGA contains"
    )
    fpga.add_argument(
        "--timed",
        action="store_true",
        help="each run of the accelerator takes at least as long as the board's file says",
    )
    fpga.add_argument("--no-fpga", action="store_true", help="run no FPGA model")
    fpga.add_argument(
        "--blank",
        action="store_true",
        help="leave the FPGA blank until the board programs it (edgepipe bitstream install)",
    )
    fpga.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND=N",
        help=f"make every N-th run fail; kinds: {', '.join(FAULTS)} (repeatable)",
    )
    fpga.add_argument(
        "--rtl",
        type=Path,
        metavar="LIBRARY",
        help="the board's accelerator as Verilog that Verilator has compiled, in place of the "
        "simulator (vta_rtl/README.md)",
    )
    fpga.add_argument("--fpga-model", type=Path, metavar="PROGRAM", help="FPGA model to run")

    actions = parser.add_subparsers(metavar="ACTION", required=True)
    up = actions.add_parser(
        "up", parents=[common, fpga], help="build what is missing, start, and wait for SSH"
    )
    up.add_argument(
        "--port", type=arguments.port, metavar="N", help="local SSH port (default: a free one)"
    )
    up.add_argument("--rebuild", action="store_true", help="download and build everything again")
    up.set_defaults(run=run_up)
    down = actions.add_parser("down", parents=[common], help="stop")
    down.set_defaults(run=run_down)
    reset = actions.add_parser(
        "reset", parents=[common], help="cut its power briefly; keeps the SD card"
    )
    reset.set_defaults(run=run_reset)
    status = actions.add_parser("status", parents=[common], help="show what is running")
    status.add_argument("--json", action="store_true", help="print JSON")
    status.add_argument(
        "--ssh-config", action="store_true", help="print only the path of the SSH configuration"
    )
    status.set_defaults(run=run_status)
    ssh = actions.add_parser("ssh", parents=[common], help="log in, or run a command")
    ssh.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD", help="command to run")
    ssh.set_defaults(run=run_ssh)
    load = actions.add_parser("fpga", parents=[common, fpga], help="load the running board's FPGA")
    load.set_defaults(run=run_fpga)


def default_folder() -> Path:
    """Return the folder below the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "edgepipe/virtual-board"


def run_up(options: argparse.Namespace) -> int:
    """Start the board."""
    progress = ConsoleProgress()
    board = _board(options)
    started = board.up(
        fpga=_fpga(options), port=options.port, rebuild=options.rebuild, progress=progress
    )
    progress.finish()
    if not started:
        print("virtual board: already running", file=sys.stderr)
    return run_status(argparse.Namespace(folder=options.folder, json=False, ssh_config=False))


def run_down(options: argparse.Namespace) -> int:
    """Stop the board."""
    stopped = _board(options).down()
    print("virtual board: stopped" if stopped else "virtual board: not running", file=sys.stderr)
    return 0


def run_reset(options: argparse.Namespace) -> int:
    """Cut the power and wait until the board is up again."""
    progress = ConsoleProgress()
    progress.step("restart the virtual Ultra96")
    _board(options).reset(progress)
    progress.finish()
    return 0


def run_status(options: argparse.Namespace) -> int:
    """Print the board's state; the exit code is 1 unless it is up."""
    status = _board(options).status()
    if options.json:
        print(json.dumps(dataclasses.asdict(status), indent=1, default=str))
    elif options.ssh_config and status.ssh_config:
        print(status.ssh_config)
    else:
        print(f"virtual board: {status.state} ({options.folder})")
        if status.ssh_config:
            print(
                f"  ssh    127.0.0.1:{status.ssh_port}; ssh -F {status.ssh_config} virtual-ultra96"
            )
            print(f"  qemu   process {status.qemu_pid}")
        if status.fpga:
            accelerator = status.fpga.accelerator
            faults = f", faults {' '.join(status.fpga.faults)}" if status.fpga.faults else ""
            timed = ", timed" if status.fpga.timing is not None else ""
            timed += f", RTL {status.fpga.rtl}" if status.fpga.rtl is not None else ""
            process = f"process {status.fpga_pid}" if status.fpga_pid else "stopped"
            print(
                f"  fpga   {process}: {accelerator.configuration}, "
                f"revision {accelerator.revision}{timed}{faults}"
            )
    return 0 if status.state == "up" else 1


def run_ssh(options: argparse.Namespace) -> int:
    """Log in, or run a command; the exit code is the command's."""
    return subprocess.run(_board(options).ssh_command(options.command), check=False).returncode


def run_fpga(options: argparse.Namespace) -> int:
    """Load the FPGA of a running board."""
    _board(options).load_fpga(_fpga(options))
    return 0


def _board(options: argparse.Namespace) -> VirtualBoard:
    return VirtualBoard(folder=options.folder.absolute())


def _fpga(options: argparse.Namespace) -> FpgaOptions | None:
    if options.no_fpga:
        return None
    board = boards.load(options.board)
    return FpgaOptions(
        accelerator=board.accelerator,
        timing=board.timing if options.timed else None,
        faults=tuple(options.fault),
        program=options.fpga_model,
        blank=options.blank,
        rtl=options.rtl,
    )
