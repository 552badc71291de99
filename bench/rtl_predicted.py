"""What ResNet-18 would reach on an Ultra96 with an accelerator of our own, in frames per second.

The split is that of ``edgepipe.forecast``, and so are the times on ARM and what the host does for
the accelerator. The accelerator's time is that of the layers that the split gives to it, in cycles
measured on RTL. That no tool has made such a bitstream is the largest of all assumptions.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import networks
from bench.exported import written
from bench.figures import Figure
from bench.network_cases import cases
from bench.rtl_layers import LayerCycles
from bitstreams.board_text import own_board
from edgepipe.boards import Board
from edgepipe.forecast import Forecast, ForecastOptions, forecast
from vta_stages.accelerator import Accelerator
from vta_stages.layers.inputs import layer_inputs

NETWORK = "resnet18"
CLOCKS_MHZ = (300, 250)

BARS = {("1x32x16", 300): 78.0}
"""At least, in frames per second: more than AMD's DPU B1600, which was measured on an Ultra96."""

OTHERS = "AMD's DPU B1600, measured on an Ultra96: 74.2 with one thread, 77.8 with several"

_BEFORE_BODY = 2
"""Operators before the body: the camera's bytes, and the first convolution."""


def predicted(
    kind: str, accelerator: Accelerator, bus_bytes: int, layers: Sequence[LayerCycles]
) -> list[Figure]:
    """Return ResNet-18's frames per second at each clock, by the cycles of its body's layers."""
    made = []
    for mhz in CLOCKS_MHZ:
        clocked = dataclasses.replace(accelerator, clock_hz=mhz * 1_000_000)
        board = own_board("ultra96", clocked, bus_bytes)
        with tempfile.TemporaryDirectory() as folder:
            model = written(cases()[NETWORK], Path(folder))
            found = forecast(ForecastOptions(model=model, board=board))
        hop_ms = board.arm_timing.handover_us / 1e3
        vta_ms = sum(_vta_stages_ms(found, layers, board))
        arm_ms = max(
            found.arm_ms / board.arm_cores,
            *(stage.ms + hop_ms for stage in found.stages if stage.device == "arm"),
        )
        made.append(
            Figure(
                name=f"ResNet-18 on {kind} at {mhz} MHz, predicted for an Ultra96, pipelined",
                value=1e3 / max(vta_ms, arm_ms),
                unit="frames/s",
                at_least=BARS.get((kind, mhz)),
                source=f"accelerator {vta_ms:.2f} ms with the host's work, "
                f"{board.arm_cores} cores {arm_ms:.2f} ms; {OTHERS}",
            )
        )
    return made


def _vta_stages_ms(found: Forecast, layers: Sequence[LayerCycles], board: Board) -> Iterator[float]:
    """Yield the time of each stage on the accelerator: its layers on RTL, and what the host does.

    A first convolution on the accelerator has the time of the forecast: it is not in the body.
    """
    body = networks.resnet18_body().layers
    operators = found.operators[_BEFORE_BODY:][: len(body)]
    hop_ms = board.arm_timing.handover_us / 1e3
    for stage in found.stages:
        if stage.device != "vta":
            continue
        own = [n for n, operator in enumerate(operators) if operator.stage == stage.name]
        if not own:
            yield stage.ms + hop_ms
            continue
        cycles = first = 0
        for group in layers:
            here = range(first, first + len(group.layers))
            cycles += group.found if not set(here).isdisjoint(own) else 0
            first = here.stop
        ends = [*layer_inputs(body[own[0]]), body[own[-1]].output]
        border_bytes = sum(spec.channels * spec.height * spec.width for spec in ends)
        stem_ms = sum(o.ms for o in found.operators[:_BEFORE_BODY] if o.stage == stage.name)
        yield board.vta_stage_ms(cycles, border_bytes) + stem_ms + hop_ms
