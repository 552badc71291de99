"""Cycles of networks on the accelerator's own hardware description, with a model of DRAM.

Outputs are compared with the reference first, bit for bit, and all of DRAM with what the functional
simulator leaves there. Beside them are the cycles that the timing model expects with the costs of
``vta_stages/timing/rtl_costs.py``, for the whole and for each layer. What DRAM costs is in
``vta_rtl/verilated/memory_costs.py``, and printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import numpy as np

from bench import networks, vta
from bench.figures import Figure, publish
from bench.networks import Workload
from bench.rtl_accelerators import ACCELERATORS
from bench.rtl_layers import LayerCycles, ends_of_layers, layers_between, table
from bench.rtl_predicted import NETWORK, predicted
from edgepipe.runtime.simulator import Simulator
from vta_rtl.isa.names import MODULES
from vta_rtl.verilated.device import VerilatedDevice
from vta_rtl.verilated.driver_library import build_driver_library
from vta_rtl.verilated.memory_costs import MemoryCosts
from vta_stages.compiler import compile_program
from vta_stages.isa.layout import activation_shape, pack_activation, unpack_activation
from vta_stages.program import Program
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.rtl_costs import rtl_costs, time_on_rtl

CACHE = Path("build/vta_rtl")
BUS_BYTES = 16
PAGE_BYTES = 4096

WORKLOADS: dict[str, Callable[[], Workload]] = {
    "resnet18": networks.resnet18_body,
    "nanodet": vta.nanodet_body,
    "mobilenet_v2": networks.mobilenet_v2_body,
    "yolov3_tiny": networks.yolov3_tiny_body,
    "resnet50": networks.resnet50_body,
}

BARS = {
    ("extended", "resnet18"): 6.85,
    ("extended", "nanodet"): 9.4,
    ("extended", "resnet50"): 16.2,
    ("1x32x16", "resnet18"): 3.8,
}
"""At most, in millions of cycles."""

PREDICTED = ("extended", "1x32x16")
"""The accelerators for which frames per second are predicted."""

LAYER_ERROR_PERCENT = 5.0
"""How far the timing model may be from the cycles of a layer."""


def measured(
    kind: str, name: str, device: VerilatedDevice, costs: MemoryCosts
) -> tuple[list[Figure], list[LayerCycles]]:
    """Run a network's body on the device, compare its bits and all of DRAM, and return its cycles
    and those of its layers."""
    accelerator, workload = ACCELERATORS[kind], WORKLOADS[name]()
    print(f"{workload.name} on {kind}", file=sys.stderr, flush=True)
    cost = rtl_costs(
        accelerator,
        bus_bytes=BUS_BYTES,
        memory_bytes_per_cycle=costs.bytes_per_cycle,
        read_latency_cycles=costs.read_latency_cycles,
        refresh_percent=100 * costs.refresh_cycles / costs.refresh_interval_cycles,
    )
    program = compile_program(
        accelerator, workload.layers, workload.inputs, workload.outputs, cost=cost
    )
    tensors, expected = vta.reference(workload)
    (consts,) = (region.name for region in program.regions if region.kind == "const")
    contents = {consts: bytes(program.consts)}
    for tensor, value in tensors.items():
        contents[tensor] = pack_activation(accelerator, value[None]).tobytes()
    sizes = [-(-region.bytes // PAGE_BYTES) * PAGE_BYTES for region in program.regions]
    addresses = [0, *accumulate(sizes)]
    bases = dict(zip((region.name for region in program.regions), addresses, strict=False))
    dram = np.zeros(addresses[-1], np.uint8)
    for region, content in contents.items():
        dram[bases[region] :][: len(content)] = np.frombuffer(content, np.uint8)
    device.record_transfers(True)
    words = program.relocate(bases)
    after = device.run_image(words, dram)
    for output in workload.outputs:
        channels, height, width = expected[output].shape
        shape = activation_shape(accelerator, channels, height, width)
        found = after[bases[output] :][: int(np.prod(shape))].view(np.int8).reshape(shape)
        if not np.array_equal(unpack_activation(accelerator, found, channels)[0], expected[output]):
            sys.exit(f"{workload.name} on {kind}: output {output} differs from the reference")
    with Simulator(accelerator) as simulator:
        if not np.array_equal(after, simulator.run_image(words, dram)):
            sys.exit(f"{workload.name} on {kind}: DRAM differs from the functional simulator's")
    return figures(kind, name, workload, program, device, cost)


def figures(
    kind: str,
    name: str,
    workload: Workload,
    program: Program,
    device: VerilatedDevice,
    cost: CostModel,
) -> tuple[list[Figure], list[LayerCycles]]:
    """Return the figures of a run that has just ended on the device, and its layers' cycles."""
    cycles, timing = device.register("cycles"), time_on_rtl(program, cost)
    layers = layers_between(
        [layer.name for layer in timing.layers],
        ends_of_layers(program, device.transfers(), BUS_BYTES),
        list(accumulate(layer.cycles for layer in timing.layers)),
    )
    with_padding = workload.macs / program.accelerator.macs_per_cycle
    busy = {module: device.register(f"{module}_busy_cycles") for module in MODULES}
    title = f"{workload.name} on {kind}"
    print(f"{title}\n{table(layers)}", flush=True)
    whole = [
        Figure(
            name=f"{title}: cycles on RTL",
            value=cycles / 1e6,
            unit="Mcycles",
            at_most=BARS.get((kind, name)),
        ),
        Figure(name=f"{title}: modelled", value=timing.cycles / 1e6, unit="Mcycles"),
        Figure(
            name=f"{title}: largest error of the model in {len(layers)} layers",
            value=max(abs(layer.error_percent) for layer in layers),
            unit="%",
            at_most=LAYER_ERROR_PERCENT,
        ),
        Figure(
            name=f"{title}: products with padding",
            value=100 * with_padding / cycles,
            unit="%",
        ),
        *(
            Figure(name=f"{title}: {module} busy", value=100 * n / cycles, unit="%")
            for module, n in busy.items()
        ),
    ]
    return whole, layers


def main() -> int:
    """Measure the networks named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(WORKLOADS))
    parser.add_argument(
        "--accelerator", action="append", choices=list(ACCELERATORS), help="default: all of them"
    )
    options = parser.parse_args()
    names = options.networks or list(WORKLOADS)
    for name in names:
        if name not in WORKLOADS:
            parser.error(f"unknown network {name!r}, expected one of {', '.join(WORKLOADS)}")
    costs = MemoryCosts()
    print(costs)
    found: list[Figure] = []
    of_layers: list[Figure] = []
    for kind in options.accelerator or list(ACCELERATORS):
        library = build_driver_library(ACCELERATORS[kind], CACHE, bus_bytes=BUS_BYTES)
        for name in names:
            with VerilatedDevice(library, costs) as device:  # its first cycle is that of the run
                whole, layers = measured(kind, name, device, costs)
            found += whole
            of_layers += [layer.figure(whole[0].name.partition(":")[0]) for layer in layers]
            if name == NETWORK and kind in PREDICTED:
                found += predicted(kind, ACCELERATORS[kind], BUS_BYTES, layers)
    return publish("rtl", found, printed_before=of_layers)


if __name__ == "__main__":
    sys.exit(main())
