"""VTA programs by the timing model: checked against the reference, then compared with others.

The published figures are those of tvm-vta's TopHub logs, of the Chisel VTA's cycle-accurate
simulation and of AMD's DPU. Limits are shares of products with padding, as published figures are.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench import networks
from bench.figures import Figure, publish
from bench.models import EXAMPLES, description, model
from bench.networks import Workload
from edgepipe import boards
from edgepipe import description as descriptions
from edgepipe.boards import Board
from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.network import load_network
from edgepipe.partition import arm_cost, depthwise
from edgepipe.partition.operator import Operator
from edgepipe.partition.operators import match_operators
from edgepipe.partition.placement import Segment, place, segment
from edgepipe.quantize.quantizer import QuantizeOptions, quantize
from edgepipe.report.table import format_table
from edgepipe.runtime.simulator import Simulator
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.isa.instructions import Module
from vta_stages.isa.layout import (
    activation_bytes,
    activation_shape,
    pack_activation,
    unpack_activation,
)
from vta_stages.layers.inputs import layer_inputs
from vta_stages.layers.products import real_products
from vta_stages.layers.records import Int8Array, Layer
from vta_stages.layers.reference import run_layers
from vta_stages.program import Program
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import Timing, time_program

CALIBRATION_FRAMES = 16

# Milliseconds of tvm-vta's TopHub schedules on the Ultra96's VTA at 333 MHz.
TOPHUB_ULTRA96_MS = {"C2": 3.29, "C5": 2.40, "C8": 1.94, "C11": 1.72}
STRIDED_1X1 = ("C4", "C7", "C10")

OTHER_ACCELERATORS = {
    "4x8 (batch 4)": Accelerator(
        batch=4, block_in=8, block_out=8,
        inp_buffer_bytes_log2=16, wgt_buffer_bytes_log2=16, acc_buffer_bytes_log2=18,
    ),
    "1x32x32": Accelerator(block_in=32, block_out=32, wgt_buffer_bytes_log2=20),
    "half the buffers": Accelerator(
        uop_buffer_bytes_log2=14, inp_buffer_bytes_log2=14,
        wgt_buffer_bytes_log2=17, acc_buffer_bytes_log2=16,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A compiled, checked and timed network; ``predictions`` are the tiler's cycles by layer."""

    workload: Workload
    accelerator: Accelerator
    program: Program
    timing: Timing
    predictions: dict[str, float]

    @property
    def with_padding(self) -> float:
        """The time in which all multipliers would do all products, in percent of the cycles.

        Programs skip most products with padding, so a layer can exceed 100 %.
        """
        return 100 * self.workload.macs / self.accelerator.macs_per_cycle / self.timing.cycles

    @property
    def real_products(self) -> float:
        """The ideal, in which products with padding do not count, in percent of the cycles."""
        products = sum(real_products(layer) for layer in self.workload.layers)
        return 100 * products / self.accelerator.macs_per_cycle / self.timing.cycles

    @property
    def gemm_steps(self) -> float:
        """The share of cycles in which a GEMM step runs, in percent.

        Steps also clear accumulators and add biases, and multiply lanes without a channel.
        """
        return 100 * self.timing.gemm_steps / self.timing.cycles

    def cycles_of(self, layers: Sequence[Layer]) -> int:
        """Return the cycles of some layers, without the launch."""
        names = {layer.name for layer in layers}
        return sum(timing.cycles for timing in self.timing.layers if timing.name in names)

    @property
    def errors(self) -> list[float]:
        """The tiler's errors per layer, in percent of the modelled cycles."""
        return [
            100 * abs(self.predictions[layer.name] - layer.cycles) / layer.cycles
            for layer in self.timing.layers
        ]


def run(
    workload: Workload, accelerator: Accelerator, cost: CostModel, *, check: bool = True
) -> Run:
    """Compile a network, compare its bits with the reference, and time it."""
    print(f"{workload.name} on {accelerator.configuration}", file=sys.stderr, flush=True)
    predictions: dict[str, float] = {}
    program = compile_program(
        accelerator, workload.layers, workload.inputs, workload.outputs,
        cost=cost, predictions=predictions,
    )  # fmt: skip
    if check:
        check_bits(workload, accelerator, program)
    return Run(
        workload=workload,
        accelerator=accelerator,
        program=program,
        timing=time_program(program, cost),
        predictions=predictions,
    )


def reference(workload: Workload) -> tuple[dict[str, Int8Array], dict[str, Int8Array]]:
    """Return random inputs int8[channels, height, width] and the reference's outputs for them."""
    if workload.name in _REFERENCES:
        return _REFERENCES[workload.name]
    rng = np.random.default_rng(5)
    specs = {spec.name: spec for layer in workload.layers for spec in layer_inputs(layer)}
    tensors = {}
    for name in workload.inputs:
        shape = (specs[name].channels, specs[name].height, specs[name].width)
        tensors[name] = rng.integers(-128, 128, shape).astype(np.int8)
    _REFERENCES[workload.name] = tensors, run_layers(workload.layers, tensors)
    return _REFERENCES[workload.name]


_REFERENCES: dict[str, tuple[dict[str, Int8Array], dict[str, Int8Array]]] = {}


def check_bits(
    workload: Workload, accelerator: Accelerator, program: Program, *, kernel: str = ""
) -> dict[str, NDArray[np.int8]]:
    """Run a program on the simulator and compare all outputs with the reference, bit for bit.

    Returns its inputs, packed.
    """
    tensors, expected = reference(workload)
    packed = {name: pack_activation(accelerator, value[None]) for name, value in tensors.items()}
    with Simulator(accelerator, kernel=kernel) as simulator:
        found = simulator.run_program(program, packed)
    for name in workload.outputs:
        channels, height, width = expected[name].shape
        shape4 = activation_shape(accelerator, channels, height, width)
        result = unpack_activation(accelerator, found[name].view(np.int8).reshape(shape4), channels)
        if not np.array_equal(result[0], expected[name]):
            sys.exit(f"{workload.name}: output {name} differs from the reference")
    return packed


def nanodet_body() -> Workload:
    """Return the quantised NanoDet-g without its first convolution."""
    name = "nanodet_g_coco_416"
    preprocess = descriptions.load(description(name)).preprocess
    frames = list(
        itertools.islice(frames_from(EXAMPLES / "calibration", preprocess), CALIBRATION_FRAMES)
    )
    quantized = quantize(
        load_network(model(name)), frames, preprocess, QuantizeOptions(frames=len(frames))
    )
    layers = [op.layer for op in match_operators(quantized.module) if op.layer is not None]
    return Workload(name="nanodet-g body", layers=tuple(layers[1:]), made_up=False)


def layer_table(one: Run) -> str:
    """Return a row per layer: cycles predicted and modelled, use of the MAC units, waits."""
    layers: dict[str, Layer] = {layer.name: layer for layer in one.workload.layers}
    rows = []
    for timing in one.timing.layers:
        # A convolution fused with its pooling has both names.
        macs = sum(networks.layer_macs(layers[n]) for n in timing.name.split("+") if n in layers)
        compute = timing.modules[Module.COMPUTE]
        rows.append(
            [
                timing.name,
                f"{timing.cycles}",
                f"{one.predictions[timing.name]:.0f}",
                f"{100 * macs / one.accelerator.macs_per_cycle / timing.cycles:.1f}",
                f"{compute.previous_cycles}",
                f"{compute.next_cycles}",
                f"{compute.port_cycles}",
                f"{sum(module.moved_bytes for module in timing.modules.values()) // 1024}",
            ]
        )
    header = ["layer", "cycles", "predicted", "% padded", "wait load", "wait store", "port", "KiB"]
    return format_table(header, rows)


def body_figures(one: Run, bar: float | None, source: str) -> list[Figure]:
    """Return the figures common to all networks."""
    name = one.workload.name
    clock = one.accelerator.clock_hz
    made_up = "synthetic weights" if one.workload.made_up else "quantised network"
    return [
        Figure(
            name=f"{name}: cycles", value=one.timing.cycles / 1e6, unit="Mcycles", source=made_up
        ),
        Figure(
            name=f"{name}: frame", value=1e3 * one.timing.cycles / clock, unit="ms", source=source
        ),
        Figure(name=f"{name}: real products", value=one.real_products, unit="%"),
        Figure(name=f"{name}: GEMM steps", value=one.gemm_steps, unit="%"),
        Figure(
            name=f"{name}: products with padding", value=one.with_padding, unit="%", at_least=bar
        ),
        Figure(
            name=f"{name}: tiler's median error",
            value=statistics.median(one.errors),
            unit="%",
            at_most=5,
        ),
    ]


def resnet18_figures(one: Run) -> list[Figure]:
    """Return the total, and the convolutions (with their residuals) only."""
    layers = networks.body_convolutions(one.workload)
    macs = sum(networks.layer_macs(layer) for layer in layers)
    share = 100 * macs / one.accelerator.macs_per_cycle / one.cycles_of(layers)
    return [
        Figure(
            name="resnet18 body: total",
            value=one.timing.cycles / 1e6,
            unit="Mcycles",
            at_most=7.9,
            source="Chisel VTA, simulated 7.73 (convolutions only)",
        ),
        Figure(
            name="resnet18 body: its convolutions, products with padding",
            value=share,
            unit="%",
            at_least=86,
            source="Chisel VTA, simulated 86; TVM on an Ultra96, measured 52",
        ),
    ]


def single_figures(accelerator: Accelerator, cost: CostModel) -> list[Figure]:
    """Return the layers of TVM's VTA benchmark, each as a separate program."""
    figures = []
    for label, make in networks.RESNET18_LAYERS.items():
        one = run(make(), accelerator, cost)
        milliseconds = 1e3 * one.timing.cycles / accelerator.clock_hz
        published = TOPHUB_ULTRA96_MS.get(label)
        figures.append(
            Figure(
                name=f"{label} {one.workload.name}",
                value=one.with_padding,
                unit="%",
                at_least=30 if label in STRIDED_1X1 else 75,
                source=f"modelled {milliseconds:.2f} ms"
                + (f"; TVM on an Ultra96, measured {published} ms" if published else ""),
            )
        )
    return figures


def mobilenet_figures(one: Run, board: Board) -> list[Figure]:
    """Return both placements of depthwise convolutions, and the choice of `edgepipe build`."""
    layers = (networks.mobilenet_v2_stem(), *one.workload.layers)
    operators = [
        Operator(
            name=layer.output.name,
            kind=type(layer).__name__.lower(),
            layer=layer,
            inputs=tuple(spec.name for spec in layer_inputs(layer)),
            output=layer.output.name,
            bindings=(),
        )
        for layer in layers
    ]
    outputs = {layer.name: layer.output.name for layer in layers}
    cycles = {outputs[timing.name]: float(timing.cycles) for timing in one.timing.layers}
    sizes = {
        spec.name: activation_bytes(one.accelerator, spec.channels, spec.height, spec.width)
        for layer in layers
        for spec in (*layer_inputs(layer), layer.output)
    }

    def arrange(on_arm: Mapping[str, str]) -> tuple[Segment, ...]:
        return segment(place(operators, lambda _: None, on_arm=on_arm))

    clock = one.accelerator.clock_hz
    moved = [layer for layer in one.workload.layers if arm_cost.is_depthwise(layer)]
    there = sum(cycles[layer.output.name] for layer in moved) / clock
    here = sum(arm_cost.layer_ms(layer, board) for layer in moved)
    figures = [
        Figure(name="mobilenet_v2: depthwise on VTA", value=1e3 * there, unit="ms"),
        Figure(
            name="mobilenet_v2: depthwise on ARM",
            value=here,
            unit="ms",
            source="one core, by the model of the board file",
        ),
    ]
    for wish in ("vta", "arm"):
        chosen = depthwise.choose(arrange, cycles, sizes, board, wish)
        estimate = depthwise.estimate(chosen.segments, cycles, sizes, board)
        figures.append(
            Figure(
                name=f"mobilenet_v2: a frame every, depthwise on {wish.upper()}",
                value=estimate.interval_ms,
                unit="ms",
                source=f"{len(chosen.segments)} stages, VTA {estimate.vta_ms:.1f} ms, "
                f"ARM {estimate.arm_ms:.1f} ms on {board.arm_cores} cores, "
                f"{estimate.slots_bytes >> 20} MiB of slots",
            )
        )
    print(depthwise.choose(arrange, cycles, sizes, board).text)
    return figures


def other_figures(workloads: Sequence[Workload], cost: CostModel) -> list[Figure]:
    """Return the networks on other accelerators; a batch of one fills one row of four."""
    figures = []
    for (label, accelerator), workload in itertools.product(OTHER_ACCELERATORS.items(), workloads):
        one = run(workload, accelerator, cost)
        figures.append(
            Figure(
                name=f"{workload.name} on {label}",
                value=one.timing.cycles / 1e6,
                unit="Mcycles",
                source=f"{one.with_padding:.1f} % of {accelerator.macs_per_cycle} MAC a cycle",
            )
        )
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.vta", description=__doc__)
    parser.add_argument(
        "--board", default="ultra96", help="board that defines the accelerator and its clock"
    )
    parser.add_argument("--layers", action="store_true", help="print a table of every layer")
    options = parser.parse_args(arguments)
    # These figures compare schedules, so they use the default costs for every board.
    board = dataclasses.replace(boards.load(options.board), timing=CostModel())
    accelerator, cost = board.accelerator, board.timing
    print(f"{board.name}: {accelerator.configuration}, {accelerator.clock_hz / 1e6:.0f} MHz")
    print(", ".join(f"{key} {value}" for key, value in dataclasses.asdict(cost).items()))
    resnet18, nanodet = networks.resnet18_body(), nanodet_body()
    runs = [
        (resnet18, None, "TopHub Ultra96 37.9 ms (convolutions only); DPU B1600 13.5 ms"),
        (networks.resnet50_body(), 72.0, "DPU B1600 30.8 ms"),
        (networks.yolov3_tiny_body(), 70.0, ""),
        (nanodet, 60.0, ""),
        (networks.mobilenet_v2_body(), None, ""),
    ]
    extra = {
        "resnet18 body": resnet18_figures,
        "mobilenet_v2 body": partial(mobilenet_figures, board=board),
    }
    figures = []
    for workload, bar, source in runs:
        one = run(workload, accelerator, cost)
        figures += body_figures(one, bar, source)
        if workload.name in extra:
            figures += extra[workload.name](one)
        if options.layers:
            print(f"\n{workload.name}\n{layer_table(one)}")
    figures += single_figures(accelerator, cost)
    figures += other_figures([workload for workload, _, _ in runs], cost)
    print()
    return publish("vta", figures)


if __name__ == "__main__":
    sys.exit(main())
