"""Sessions on a board over TVM RPC: upload, run and time stages there."""

from edgepipe.rpc.board import offer_board, open_board
from edgepipe.rpc.server import LocalServer, find_program
from edgepipe.rpc.session import GoldenReport, Session, StageTime, connect

__all__ = [
    "GoldenReport",
    "LocalServer",
    "Session",
    "StageTime",
    "connect",
    "find_program",
    "offer_board",
    "open_board",
]
