"""Cycles of networks on the accelerator's own hardware description, with a model of DRAM.

Outputs are compared with the reference first, bit for bit. Beside them are the cycles that the
timing model expects of the published bitstreams. What DRAM costs is in
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
from vta_rtl.isa.names import MODULES
from vta_rtl.verilated.device import VerilatedDevice
from vta_rtl.verilated.driver_library import build_driver_library
from vta_rtl.verilated.memory_costs import MemoryCosts
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.isa.layout import activation_shape, pack_activation, unpack_activation
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import time_program

CACHE = Path("build/vta_rtl")
PAGE_BYTES = 4096

WORKLOADS: dict[str, Callable[[], Workload]] = {
    "resnet18": networks.resnet18_body,
    "nanodet": vta.nanodet_body,
    "mobilenet_v2": networks.mobilenet_v2_body,
    "yolov3_tiny": networks.yolov3_tiny_body,
    "resnet50": networks.resnet50_body,
}


def measured(workload: Workload, accelerator: Accelerator, device: VerilatedDevice) -> list[Figure]:
    """Run a network's body on the device, compare its bits, and return its cycles."""
    print(f"{workload.name} on {accelerator.configuration}", file=sys.stderr, flush=True)
    program = compile_program(accelerator, workload.layers, workload.inputs, workload.outputs)
    tensors, expected = vta.reference(workload)
    (consts,) = (region.name for region in program.regions if region.kind == "const")
    contents = {consts: bytes(program.consts)}
    for name, value in tensors.items():
        contents[name] = pack_activation(accelerator, value[None]).tobytes()
    sizes = [-(-region.bytes // PAGE_BYTES) * PAGE_BYTES for region in program.regions]
    addresses = [0, *accumulate(sizes)]
    bases = dict(zip((region.name for region in program.regions), addresses, strict=False))
    dram = np.zeros(addresses[-1], np.uint8)
    for name, content in contents.items():
        dram[bases[name] :][: len(content)] = np.frombuffer(content, np.uint8)
    after = device.run_image(program.relocate(bases), dram)
    for name in workload.outputs:
        channels, height, width = expected[name].shape
        shape = activation_shape(accelerator, channels, height, width)
        found = after[bases[name] :][: int(np.prod(shape))].view(np.int8).reshape(shape)
        if not np.array_equal(unpack_activation(accelerator, found, channels)[0], expected[name]):
            sys.exit(f"{workload.name}: output {name} differs from the reference")
    cycles = device.register("cycles")
    modelled = time_program(program, CostModel()).cycles
    with_padding = workload.macs / accelerator.macs_per_cycle
    busy = {module: device.register(f"{module}_busy_cycles") for module in MODULES}
    return [
        Figure(name=f"{workload.name}: cycles on RTL", value=cycles / 1e6, unit="Mcycles"),
        Figure(name=f"{workload.name}: modelled, default", value=modelled / 1e6, unit="Mcycles"),
        Figure(
            name=f"{workload.name}: products with padding",
            value=100 * with_padding / cycles,
            unit="%",
        ),
        *(
            Figure(name=f"{workload.name}: {module} busy", value=100 * n / cycles, unit="%")
            for module, n in busy.items()
        ),
    ]


def main() -> int:
    """Measure the networks named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(WORKLOADS))
    names = parser.parse_args().networks or list(WORKLOADS)
    for name in names:
        if name not in WORKLOADS:
            parser.error(f"unknown network {name!r}, expected one of {', '.join(WORKLOADS)}")
    accelerator, costs = Accelerator(), MemoryCosts()
    print(costs)
    figures: list[Figure] = []
    with VerilatedDevice(build_driver_library(accelerator, CACHE), costs) as device:
        for name in names:
            figures += measured(WORKLOADS[name](), accelerator, device)
    return publish("rtl", figures)


if __name__ == "__main__":
    sys.exit(main())
