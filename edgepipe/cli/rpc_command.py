"""``edgepipe rpc``: open a TVM RPC session on a board, or run a bundle's golden input in one."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import resource
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from edgepipe.cli import arguments
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import print_line
from edgepipe.errors import RpcError
from edgepipe.report.table import format_table
from edgepipe.rpc.link import RpcServer
from edgepipe.rpc.server import PROGRAM
from edgepipe.rpc.session import Session

DESCRIPTION = "Start the RPC server on a board, connect through an SSH tunnel, and use it."
EPILOG = """\
The command copies the server, edgepipe-rpcd, to the board unless the board already has it. The
server listens only on the board's 127.0.0.1. Clients reach it through an SSH tunnel and need its
key, which is random for every server. Without --host, the server runs on this machine. It ends with
the command, or when the connection is lost. It refuses to run as root without --allow-root.

With `rpc offer` clients ask a TVM RPC tracker (`rpc tracker`, or TVM's own program) for a board and
get a key of their own. With --host they must run on this machine, where the tunnel ends.

examples:
  edgepipe rpc run net.edgepipe --host xilinx@192.168.2.99
  edgepipe rpc open --host door-camera     # prints HOST:PORT KEY for tvm.rpc.connect
  edgepipe rpc tracker --port 9190
  edgepipe rpc offer --host door-camera --tracker 127.0.0.1:9190 --key ultra96
  edgepipe rpc boards --tracker 127.0.0.1:9190       # which boards it has, and who waits
  edgepipe rpc run net.edgepipe --tracker 127.0.0.1:9190 --key ultra96
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "rpc", DESCRIPTION, EPILOG)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    opened = actions.add_parser(
        "open", help="print the server's address; the server ends when standard input closes"
    )
    add_where(opened)
    opened.set_defaults(run=run_open)
    offered = actions.add_parser(
        "offer",
        help="offer a board to the clients of a TVM RPC tracker until standard input closes",
    )
    offered.add_argument(
        "--tracker", required=True, metavar="HOST:PORT", help="address of the tracker"
    )
    offered.add_argument(
        "--key", required=True, metavar="NAME", help="name by which clients ask for such boards"
    )
    add_where(offered)
    offered.set_defaults(run=run_offer)
    tracking = actions.add_parser(
        "tracker", help="run a TVM RPC tracker on 127.0.0.1 until standard input closes"
    )
    tracking.add_argument(
        "--port",
        type=partial(arguments.whole, most=65535),
        default=9190,
        metavar="N",
        help="port to listen on (default: %(default)s; 0: any free port)",
    )
    tracking.set_defaults(run=run_tracker)
    listed = actions.add_parser("boards", help="print the boards that a TVM RPC tracker has")
    listed.add_argument(
        "--tracker", required=True, metavar="HOST:PORT", help="address of the tracker"
    )
    listed.add_argument("--json", action="store_true", help="print JSON")
    listed.set_defaults(run=run_boards)
    golden = actions.add_parser(
        "run", help="upload a bundle, run its golden input and time its stages"
    )
    golden.add_argument("bundle", metavar="BUNDLE", type=Path, help="bundle folder or archive")
    golden.add_argument(
        "--repeat",
        type=arguments.positive,
        default=10,
        metavar="N",
        help="timed runs (default: %(default)s)",
    )
    golden.add_argument(
        "--device",
        choices=("auto", "simulator", "uio"),
        default="auto",
        help="device for the VTA stages (default: %(default)s)",
    )
    golden.add_argument("--json", action="store_true", help="print JSON")
    golden.add_argument(
        "--tracker",
        metavar="HOST:PORT",
        help="run it on any board that this TVM RPC tracker has as --key",
    )
    golden.add_argument("--key", metavar="NAME", help="name of the boards at the tracker")
    golden.add_argument(
        "--wait",
        type=arguments.positive,
        metavar="SECONDS",
        help="how long to wait for a board of the tracker (default: 60)",
    )
    add_where(golden)
    golden.set_defaults(run=run_golden)


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where edgepipe-rpcd runs."""
    parser.add_argument(
        "--host", metavar="HOST", help="board, as ssh knows it (default: this machine)"
    )
    parser.add_argument("--ssh-config", type=Path, metavar="FILE", help="SSH configuration file")
    parser.add_argument(
        "--server", metavar="FILE", help=f"{PROGRAM} to use (default: the one built here)"
    )
    parser.add_argument(
        "--allow-root",
        action="store_true",
        help="let the server run as root, for boards where only root reaches the accelerator",
    )


@contextlib.contextmanager
def server_of(options: argparse.Namespace) -> Iterator[RpcServer]:
    """Run edgepipe-rpcd where the options say, and yield its address."""
    from edgepipe import rpc  # loads TVM

    root = options.allow_root
    if options.host:
        with rpc.open_board(
            options.host,
            ssh_config=options.ssh_config,
            program=options.server or "",
            allow_root=root,
        ) as server:
            yield server
    else:
        program = Path(options.server) if options.server else None
        with rpc.LocalServer.start(program, allow_root=root) as local:
            yield RpcServer(port=local.port, key=local.key)


def run_open(options: argparse.Namespace) -> int:
    """Print the address and keep the server running until standard input ends."""
    with server_of(options) as server:
        print(f"{server.host}:{server.port} {server.key}", flush=True)
        for _ in sys.stdin:
            pass
    return 0


def run_offer(options: argparse.Namespace) -> int:
    """Offer the board until standard input ends."""
    from edgepipe import rpc  # loads TVM
    from edgepipe.rpc.tracker import tracker_address

    tracker = tracker_address(options.tracker)
    root = options.allow_root
    with contextlib.ExitStack() as stack:
        if options.host:
            stack.enter_context(
                rpc.offer_board(
                    options.host,
                    tracker,
                    options.key,
                    ssh_config=options.ssh_config,
                    program=options.server or "",
                    allow_root=root,
                )
            )
        else:
            program = Path(options.server) if options.server else None
            where = ["--tracker", f"{tracker[0]}:{tracker[1]}", "--key", options.key]
            stack.enter_context(rpc.LocalServer.start(program, where, allow_root=root))
        print_line(f"offered as {options.key} at {options.tracker}")
        for _ in sys.stdin:
            pass
    return 0


def run_tracker(options: argparse.Namespace) -> int:
    """Run a tracker until standard input ends."""
    from edgepipe.rpc.tracker import serving

    # A connection is an open file. At the limit, TVM's tracker would stop to answer anybody.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with serving(options.port) as port:
        print_line(f"tracker at 127.0.0.1:{port}")
        for _ in sys.stdin:
            pass
    return 0


def run_boards(options: argparse.Namespace) -> int:
    """Print how many boards of each kind a tracker has, and how many clients wait."""
    from edgepipe.rpc.tracker import Tracker

    kinds = Tracker.at(options.tracker).kinds()
    if options.json:
        print(json.dumps({name: dataclasses.asdict(kind) for name, kind in kinds.items()}))
        return 0
    rows = [
        [name, str(kind.boards), str(kind.free), str(kind.waiting)] for name, kind in kinds.items()
    ]
    print(format_table(["key", "boards", "free", "clients that wait"], rows))
    return 0


@contextlib.contextmanager
def _session_of(options: argparse.Namespace) -> Iterator[Session]:
    """Yield a session where the options say, or with a board of a tracker."""
    from edgepipe import rpc

    if options.tracker is None and options.key is None and options.wait is None:
        with server_of(options) as server, rpc.connect(server.port, key=server.key) as session:
            yield session
        return
    if options.tracker is None or options.key is None or options.host:
        raise RpcError(
            "--tracker, --key and --wait are for a board of a tracker: expected the first two, "
            "and no --host",
            hint="add --tracker HOST:PORT --key NAME, or name one board with --host",
        )
    place = rpc.Place.at_tracker(options.tracker, options.key, wait_s=float(options.wait or 60))
    with place.open() as session:
        session.exchange.allow(0.0)  # a large network takes as long as it takes
        yield session


def run_golden(options: argparse.Namespace) -> int:
    """Run the golden input and print the stages' times.

    Raises RpcError for a tracker without a name of boards.
    """
    with _session_of(options) as session:
        machine = session.info()
        report = session.run_golden(options.bundle, device=options.device, repeat=options.repeat)
    if options.json:
        print(json.dumps({"machine": machine, **dataclasses.asdict(report)}, indent=1))
        report.check_device(options.host or "")
        return 0
    rows = [
        [time.name, time.kind, str(time.runs)]
        + [f"{value:.1f}" for value in (time.min_us, time.median_us, time.max_us)]
        for time in report.stages
    ]
    print(format_table(["stage", "kind", "runs", "min us", "median us", "max us"], rows))
    account = "".join(
        f", but '{time.name}' ran {time.fallback_runs} times on its ARM fallback"
        for time in report.stages
        if time.fallback_runs
    )
    print_line(
        f"{report.network}: golden output bit-equal on {machine['host']} ({machine['machine']}); "
        f"VTA stages ran on: {report.device}{account}"
    )
    report.check_device(options.host or "")
    return 0
