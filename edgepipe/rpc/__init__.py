"""Sessions on a board over TVM RPC: upload, run and time stages there."""

from edgepipe.rpc.board import offer_board, open_board
from edgepipe.rpc.place import Place
from edgepipe.rpc.server import LocalServer, find_program
from edgepipe.rpc.session import GoldenReport, Session, StageTime, connect
from edgepipe.rpc.tracker import Tracker

__all__ = [
    "GoldenReport",
    "LocalServer",
    "Place",
    "Session",
    "StageTime",
    "Tracker",
    "connect",
    "find_program",
    "offer_board",
    "open_board",
]
