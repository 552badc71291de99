"""A small network and files of measured costs for it, for tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path

import onnx
from small_networks import DESCRIPTION, Builder

from edgepipe import boards, recipe
from edgepipe.partition.measured.cost_file import CostFile, Entry
from edgepipe.partition.measured.ranges import OperatorRange, single_ranges
from edgepipe.partition.reasons import VtaCheck
from edgepipe.progress import Silent
from edgepipe.rehearsal import Rehearsal, rehearse

BOARD = boards.load("ultra96")
# Hops, launches, caches and pictures that cost nothing, so that a small network is worth stages,
# and kernels for one architecture.
EAGER = dataclasses.replace(
    BOARD,
    architecture="x86_64",
    timing=dataclasses.replace(BOARD.timing, launch_cycles=0, cache_kib_cycles=0),
    arm_timing=dataclasses.replace(BOARD.arm_timing, handover_us=0.0, fit_cycles=0.0),
)


def gated(seed: int = 3, channels: int = 16) -> onnx.ModelProto:
    """Return convolutions with a depthwise one and a table between them."""
    b = Builder(seed)
    x = b.conv("image", "stem", (channels, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = b.conv(x, "depth", (channels, 1, 3, 3), group=channels, pads=[1] * 4)
    x = b.node("HardSwish", [b.conv(x, "body", (16, channels, 1, 1))], "swish")
    b.conv(x, "result", (8, 16, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4}, opset=14)


def write_network(folder: Path, model: onnx.ModelProto | None = None) -> Path:
    """Write a network, by default ``gated``, with its description; return its path."""
    onnx.save(model or gated(), folder / "net.onnx")
    (folder / "net.toml").write_text(DESCRIPTION)
    return folder / "net.onnx"


@cache
def rehearsed(path: Path) -> Rehearsal:
    """Return a network as a build would see it."""
    return rehearse(path, Silent())


def check_of(path: Path, board: boards.Board) -> VtaCheck:
    """Return the check of a network's operators."""
    found = rehearsed(path)
    return recipe.vta_check(found.quantized, found.network, board)


def ranges_of(path: Path, board: boards.Board) -> list[OperatorRange]:
    """Return the operators of a network as ranges."""
    check = check_of(path, board)
    return single_ranges(check.operators, check.runs_on, rehearsed(path).quantized.input_name)


def entry(part: OperatorRange, board: boards.Board, us: float, modelled_us: float = 10.0) -> Entry:
    """Return the entry of a range that took ``us`` microseconds."""
    return Entry(
        key=part.key(board),
        device=part.device,
        threads=part.threads,
        operators=part.names,
        modelled_us=modelled_us,
        us=us,
        host="door",
        date="2026-11-25",
    )


def write_costs(
    path: Path,
    network: Path,
    board: boards.Board,
    us_of: Callable[[OperatorRange], float | None],
) -> CostFile:
    """Write a file in which every operator of a network takes what ``us_of`` says, if anything."""
    made = CostFile.open(path, board.name, trial=False)
    for part in ranges_of(network, board):
        us = us_of(part)
        if us is not None:
            made.add(entry(part, board, us))
    return made
