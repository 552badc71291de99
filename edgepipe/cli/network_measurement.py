"""The half of ``edgepipe measure`` that measures the operators and stages of a network."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from edgepipe import boards, cluster, recipe
from edgepipe.board_costs.board_session import BoardSession, Measurer, RangeOptions
from edgepipe.board_costs.network_measuring import NetworkCosts
from edgepipe.board_costs.network_measuring import measure_network as measure
from edgepipe.board_costs.network_ranges import MeasuredNetwork
from edgepipe.board_costs.runner import TRIAL, this_architecture
from edgepipe.board_costs.worker_boards import TrackedBoards, WorkerBoard, count_boards
from edgepipe.cli.console import ConsoleProgress, print_line
from edgepipe.cli.rpc_command import server_of
from edgepipe.errors import BoardError
from edgepipe.partition.measured.cost_file import CostFile, Entry, without_failures
from edgepipe.quantize.options import needs_one_table
from edgepipe.rehearsal import rehearse
from edgepipe.report.table import format_table
from edgepipe.rpc.place import Place


def measure_network(options: argparse.Namespace) -> int:
    """Measure the network that the options name, write the file of costs and print them."""
    output: Path = options.output
    board = boards.load(options.board)
    architecture = this_architecture() if options.timed else board.architecture
    costs = CostFile.open(output, board.name, trial=options.timed)
    if options.retry:
        costs = without_failures(costs)
    progress = ConsoleProgress()
    found = rehearse(
        options.network,
        progress,
        described=options.description,
        one_table=needs_one_table(board.accelerator),
    )
    network = MeasuredNetwork(
        quantized=found.quantized,
        check=recipe.vta_check(found.quantized, found.network, board),
        board=board,
        architecture=architecture,
    )
    ranges = RangeOptions(
        board=board,
        architecture=architecture,
        device=TRIAL if options.timed else "auto",
        repeat=options.repeat,
        limit_s=float(options.limit),
    )
    with _boards(options, ranges) as (connect, count):
        measured = measure(connect, count, network, costs, progress)
    progress.finish()
    if options.json:
        print(json.dumps(_table(measured), indent=1))
    else:
        _print(measured)
    print(f"wrote {output}", file=sys.stderr)
    return 0


@contextlib.contextmanager
def _boards(
    options: argparse.Namespace, ranges: RangeOptions
) -> Iterator[tuple[Callable[[], Measurer], int]]:
    """Yield a function that finds a free board, and the number of boards."""
    wait_s = float(options.wait)
    if options.tracker is None and options.key is None and not options.dask:
        with server_of(options) as server:
            place = Place.at_server(server, wait_s=wait_s)
            yield lambda: BoardSession.open(place.open, ranges), place.boards
        return
    if options.tracker is None or options.key is None or options.host:
        raise BoardError(
            "boards at a tracker: expected --tracker with --key, and no --host",
            hint="add --tracker HOST:PORT --key NAME, or name one board with --host",
        )
    if options.dask:
        tracked = TrackedBoards(tracker=options.tracker, key=options.key, wait_s=wait_s)
        with cluster.connected(options.dask) as workers:
            yield (
                lambda: WorkerBoard(workers, tracked, ranges),
                count_boards(workers, tracked),
            )
        return
    place = Place.at_tracker(options.tracker, options.key, wait_s=wait_s)
    yield lambda: BoardSession.open(place.open, ranges), place.boards


def _print(measured: NetworkCosts) -> None:
    rows = [
        [
            ", ".join(entry.operators) if len(entry.operators) < 3 else _ends(entry),
            entry.device,
            str(entry.threads),
            entry.failure or f"{entry.us:.1f}",
            f"{entry.modelled_us:.1f}",
            "" if entry.failure else _difference(entry),
        ]
        for entry in measured.entries
    ]
    header = ["operators", "device", "cores", "measured us", "modelled", "difference %"]
    print_line(f"{len(measured.entries)} ranges of operators")
    print(format_table(header, rows))
    now = sum(measured.counts.values())
    hosts = ", ".join(f"{host} {count}" for host, count in sorted(measured.counts.items()))
    print_line(
        f"{now} measured now{f' ({hosts})' if hosts else ''}, {measured.known} known before, "
        f"{len(measured.failed)} failed"
    )


def _ends(entry: Entry) -> str:
    first, last = entry.operators[0], entry.operators[-1]
    return f"{first} .. {last} ({len(entry.operators)})"


def _difference(entry: Entry) -> str:
    if not entry.modelled_us:
        return ""
    return f"{100 * (entry.modelled_us / entry.us - 1):+.0f}"


def _table(measured: NetworkCosts) -> dict[str, object]:
    return {
        "ranges": [dataclasses.asdict(entry) for entry in measured.entries],
        "known": measured.known,
        "measured": dict(measured.counts),
    }
