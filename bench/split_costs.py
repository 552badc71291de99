"""What the operators of a benchmark's network take, measured in a trial on this machine.

A trial runs programs on the simulator at the modelled speed, and kernels on this machine's
processor, as `edgepipe measure --network ... --timed` does. The files stay in
``build/bench/split_costs``, and a run measures only what they lack.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from edgepipe.board_costs.board_session import BoardSession, RangeOptions
from edgepipe.board_costs.network_measuring import measure_network
from edgepipe.board_costs.network_ranges import MeasuredNetwork
from edgepipe.board_costs.runner import TRIAL, this_architecture
from edgepipe.boards import Board
from edgepipe.partition.measured.cost_file import CostFile
from edgepipe.partition.measured.costs import MeasuredCosts, measured_costs
from edgepipe.partition.reasons import VtaCheck
from edgepipe.progress import Silent
from edgepipe.quantize.quantizer import QuantizedNetwork
from edgepipe.rpc.link import RpcServer
from edgepipe.rpc.place import Place
from edgepipe.rpc.server import LocalServer

FOLDER = Path("build/bench/split_costs")
_REPEAT = 10  # runs of each range before its least time is looked at
_WAIT_S = 60.0


def trial_costs(
    name: str, quantized: QuantizedNetwork, check: VtaCheck, board: Board
) -> MeasuredCosts:
    """Return the measured costs of a network; measure those that its file lacks.

    Raises BoardError or RpcError if this machine cannot measure.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    costs = CostFile.open(FOLDER / f"{name}.toml", board.name, trial=True)
    network = MeasuredNetwork(
        quantized=quantized, check=check, board=board, architecture=this_architecture()
    )
    options = RangeOptions(
        board=board,
        architecture=network.architecture,
        device=TRIAL,
        repeat=_REPEAT,
        limit_s=_WAIT_S,
    )
    with LocalServer.start(allow_root=os.geteuid() == 0) as server:
        address = RpcServer(port=server.port, key=server.key)
        place = Place.at_server(address, wait_s=_WAIT_S)
        measured = measure_network(
            lambda: BoardSession.open(place.open, options), 1, network, costs, Silent()
        )
    now = sum(measured.counts.values())
    print(
        f"{name}: {now} ranges measured, {measured.known} known, {len(measured.failed)} failed",
        file=sys.stderr,
        flush=True,
    )
    return measured_costs(costs, check, quantized.input_name, board)
