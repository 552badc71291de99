"""Cycles of the layers of a run on the accelerator's own hardware, beside the modelled ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.figures import Figure
from edgepipe.report.table import format_table
from vta_rtl.isa.names import MASTERS, WRITER
from vta_rtl.verilated.device import Transfers
from vta_stages.isa.instructions import Opcode
from vta_stages.program import Program

FEW_CYCLES = 5_000
"""Layers that end sooner after the one before are part of the next: what they overlap with weighs
more than what they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCycles:
    """Cycles of a layer, or of several that follow each other: on RTL, and modelled."""

    layers: tuple[str, ...]
    found: int
    modelled: int

    @property
    def name(self) -> str:
        """The layer's name, or those of the first and the last one."""
        first, *_, last = (*self.layers, self.layers[-1])
        return first if first == last else f"{first} to {last}"

    @property
    def error_percent(self) -> float:
        """By how many percent the modelled cycles differ from those on RTL."""
        return 100 * (self.modelled - self.found) / self.found

    def figure(self, network: str) -> Figure:
        """Return the cycles on RTL as a figure of a network."""
        source = f"modelled: {self.modelled} ({self.error_percent:+.1f} %)"
        name = f"{network}: {self.name}: cycles on RTL"
        return Figure(name=name, value=self.found, unit="cycles", source=source)


def ends_of_layers(program: Program, transfers: Transfers, bus_bytes: int) -> list[int]:
    """Return the cycle in which the last byte of each layer is in memory."""
    table = program.table
    at, columns = table.positions[Opcode.STORE], table.columns[Opcode.STORE]
    stored = np.zeros(len(table), np.int64)
    stored[at] = columns["x_size"] * columns["y_size"] * program.accelerator.out_bytes
    writes = transfers.port == list(MASTERS).index(WRITER)
    written = np.cumsum(transfers.beats[writes]) * bus_bytes
    last_cycles, ends, total = transfers.last_cycle[writes], [], 0
    for span in program.layers:
        total += int(stored[span.first : span.first + span.count].sum())
        ends.append(int(last_cycles[np.searchsorted(written, total)]) if total else 0)
    return ends


def layers_between(
    names: Sequence[str], found: Sequence[int], modelled: Sequence[int]
) -> list[LayerCycles]:
    """Return the cycles between the ends of layers, on RTL and modelled. Layers of few cycles are
    joined with the next, the last one with the one before."""
    kept: list[int] = []
    before = 0
    for n, end in enumerate(found):
        if end - before >= FEW_CYCLES:
            kept.append(n)
            before = end
    kept[-1:] = [len(found) - 1]
    layers, first = [], 0
    for last in kept:
        spans = [ends[last] - (ends[first - 1] if first else 0) for ends in (found, modelled)]
        layers.append(
            LayerCycles(layers=tuple(names[first : last + 1]), found=spans[0], modelled=spans[1])
        )
        first = last + 1
    return layers


def table(layers: Sequence[LayerCycles]) -> str:
    """Return the layers as a table."""
    rows = [[x.name, f"{x.found}", f"{x.modelled}", f"{x.error_percent:+.1f}"] for x in layers]
    return format_table(["layer", "cycles on RTL", "modelled", "error, %"], rows)
