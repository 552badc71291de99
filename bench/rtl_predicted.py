"""What ResNet-18 would reach on an Ultra96 with an accelerator of our own, in frames per second.

The split is that of ``edgepipe.forecast``, and so are the times on ARM and what the host does for
the accelerator. The accelerator's time is that of the layers that the split gives to it, in cycles
measured on RTL. That no tool has made such a bitstream is the largest of all assumptions.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.exported import written
from bench.figures import Figure
from bench.network_cases import cases
from bench.rtl_layers import LayerCycles
from bitstreams.board_text import own_board
from edgepipe.forecast import Forecast, ForecastOptions, forecast
from vta_stages.accelerator import Accelerator

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
        vta_ms = _vta_ms(found, layers, mhz)
        arm_ms = max(
            found.arm_ms / board.arm_cores,
            *(stage.ms + hop_ms for stage in found.stages if stage.device == "arm"),
        )
        made.append(
            Figure(
                name=f"ResNet-18 on {kind} at {mhz} MHz, predicted for an Ultra96, pipelined",
                value=1e3 / max(vta_ms + hop_ms, arm_ms),
                unit="frames/s",
                at_least=BARS.get((kind, mhz)),
                source=f"accelerator {vta_ms:.2f} ms with the host's work, "
                f"{board.arm_cores} cores {arm_ms:.2f} ms; {OTHERS}",
            )
        )
    return made


def _vta_ms(found: Forecast, layers: Sequence[LayerCycles], mhz: int) -> float:
    """Return the accelerator's time for a frame: its layers on RTL, and what the host does."""
    vta_stages = {stage.name for stage in found.stages if stage.device == "vta"}
    modelled_ms = sum(each.ms for each in found.operators if each.stage in vta_stages)
    host_ms = sum(s.ms for s in found.stages if s.name in vta_stages) - modelled_ms
    stems = [each for each in found.operators[:_BEFORE_BODY] if each.stage in vta_stages]
    cycles, number = 0, _BEFORE_BODY
    for group in layers:
        ours = found.operators[number : number + len(group.layers)]
        cycles += group.found if any(each.stage in vta_stages for each in ours) else 0
        number += len(group.layers)
    # The body's programs were measured; a first convolution on the accelerator is modelled.
    return host_ms + sum(each.ms for each in stems) + cycles / (1e3 * mhz)
