"""A known board's file with an accelerator of our own in place of the published bitstream's."""

from __future__ import annotations

import dataclasses

from edgepipe import boards
from vta_stages.accelerator import OPTIONAL, Accelerator
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.rtl_costs import rtl_costs

_CLOCKED = ("launch_cycles", "cache_kib_cycles")
_LIGHT_PERCENT = 2


def own_board(name: str, accelerator: Accelerator, bus_bytes: int) -> boards.Board:
    """Return the known board ``name`` with the accelerator in its FPGA.

    Costs of the host are the board's, in cycles of the other clock; those of the accelerator are
    the hardware's behind an Ultra96's memory, so on other boards they are estimates. The first
    convolution is what limits an accelerator of so many products, so ARM stages have all cores: the
    thread of the accelerator sleeps most of the time.
    """
    board = boards.load(name)
    scale = accelerator.clock_hz / board.accelerator.clock_hz
    timing = dataclasses.replace(
        rtl_costs(accelerator, bus_bytes=bus_bytes),
        **{key: round(getattr(board.timing, key) * scale) for key in _CLOCKED},
    )
    arm = dataclasses.replace(
        board.threads.arm, cores=tuple(range(board.cores)), light_percent=_LIGHT_PERCENT
    )
    threads = dataclasses.replace(board.threads, arm=arm)
    return dataclasses.replace(board, accelerator=accelerator, timing=timing, threads=threads)


def board_text(name: str, accelerator: Accelerator, bus_bytes: int, bitstream: str) -> str:
    """Return the file of :func:`own_board`, TOML, with the path of its bitstream."""
    board = own_board(name, accelerator, bus_bytes)
    lines = [
        f"# {name} with a bitstream from vta_rtl, written by bitstreams/generate.py.",
        f"name = {_value(name)}",
        f"description = {_value(board.description)}",
        f"part = {_value(board.part)}",
        f"compatible = {_value(board.compatible)}",
        f"architecture = {_value(board.architecture)}",
        f"cpu = {_value(board.cpu)}",
        f"cores = {board.cores}",
        f"dma_bytes = {board.dma_bytes}",
        f"bitstream = {_value(bitstream)}",
        "",
        "[accelerator]",
        *_lines(dataclasses.asdict(accelerator), OPTIONAL),
        "",
        "# Not measured: `edgepipe measure` replaces these costs.",
        "[timing]",
        *_lines(dataclasses.asdict(board.timing), dataclasses.asdict(CostModel())),
        "",
        "[arm_timing]",
        *_lines(dataclasses.asdict(board.arm_timing), dataclasses.asdict(boards.ArmTiming())),
    ]
    for device in ("arm", "vta"):
        threads = dataclasses.asdict(getattr(board.threads, device))
        changed = _lines(threads, dataclasses.asdict(boards.StageThreads()))
        lines += ["", f"[threads.{device}]", *changed] if changed else []
    return "\n".join(lines) + "\n"


def _lines(values: dict[str, object], default: object) -> list[str]:
    """Return the values that differ from those of a mapping."""
    known = dict(default)  # type: ignore[call-overload]
    return [f"{k} = {_value(v)}" for k, v in values.items() if k not in known or v != known[k]]


def _value(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    return str(value)
