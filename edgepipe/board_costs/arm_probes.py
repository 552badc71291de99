"""One ARM stage for each class of kernels that a board's ``arm_timing`` table distinguishes.

The time that :mod:`edgepipe.partition.arm_cost` gives a stage by a board's table is proportional to
one cost or, for a rate, to its reciprocal. So the measured time gives the cost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from edgepipe.boards import Board
from edgepipe.partition.arm_cost import operators_ms
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.normal_forms import write_dequantize, write_layer
from edgepipe.tvm_adapter import IRModule, ModuleBuilder
from vta_stages.layers.records import Conv, Epilogue, Product, Table, TensorSpec

CHANNELS, EXTENT = 64, 56  # of the pictures

KEPT = ("clock_hz", "byte_cycles", "fit_cycles", "dram_bytes_per_s")
"""The costs that are not measured, but kept as the board has them: only the quotients of the other
costs with the clock matter, no stage copies or fits a picture and does nothing else, and a probe
runs alone."""

RATES = ("macs_per_cycle", "depthwise_macs_per_cycle")
"""The costs that are multiplications per cycle; the others are cycles per element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmProbe:
    """A stage whose time determines ``cost``: its module, and the shapes of its tensors.

    ``inputs`` and ``output`` are names with the tensors' types.
    """

    cost: str
    module: IRModule = field(repr=False)
    inputs: Mapping[str, str]
    output: tuple[str, str]
    shape: tuple[int, ...] = (1, CHANNELS, EXTENT, EXTENT)

    def cost_of(self, measured_ms: float, board: Board) -> float:
        """Return the cost by which the stage takes ``measured_ms``."""
        one: dict[str, Any] = {self.cost: 1.0}
        timing = dataclasses.replace(board.arm_timing, **one)
        by_one = operators_ms(
            match_operators(self.module), dataclasses.replace(board, arm_timing=timing)
        )
        return by_one / measured_ms if self.cost in RATES else measured_ms / by_one


def arm_probes() -> dict[str, ArmProbe]:
    """Return the stages by name: the name of the cost with ``arm_`` in front."""
    made = {name: write(f"arm_{name}") for name, write in _WRITERS.items()}
    return {f"arm_{name}": probe for name, probe in made.items()}


def hop_stages(count: int) -> list[ArmProbe]:
    """Return ``count`` short stages, each of which reads what the one before it writes."""
    return [
        _stage("table_cycles", _table(f"hop_{n}", f"hop_{n - 1}" if n else "hop_start", 1))
        for n in range(count)
    ]


def _picture(name: str, channels: int = CHANNELS) -> TensorSpec:
    return TensorSpec(name=name, channels=channels, height=EXTENT, width=EXTENT)


def _epilogue() -> Epilogue:
    return Epilogue(
        bias=np.ones(CHANNELS, np.int32), shift=np.full(CHANNELS, 7, np.int32), low=-128, high=127
    )


def _convolution(name: str, groups: int) -> Conv:
    weight = np.random.default_rng(groups).integers(-127, 128, (CHANNELS, CHANNELS // groups, 3, 3))
    return Conv(
        name=name,
        input=_picture(f"{name}_start"),
        output=_picture(name),
        weight=weight.astype(np.int8),
        epilogue=_epilogue(),
        stride=(1, 1),
        padding=(1, 1, 1, 1),
        groups=groups,
    )


def _table(name: str, source: str, channels: int = CHANNELS) -> Table:
    return Table(
        name=name,
        input=_picture(source, channels),
        output=_picture(name, channels),
        table=np.arange(-128, 128).astype(np.int8)[None, ::-1].copy(),
    )


def _product(name: str) -> Product:
    return Product(
        name=name,
        first=_picture(f"{name}_start"),
        second=_picture(f"{name}_other"),
        output=_picture(name),
        factor=np.ones(CHANNELS, np.int32),
        epilogue=_epilogue(),
    )


def _stage(cost: str, layer: Conv | Table | Product) -> ArmProbe:
    read = [layer.first, layer.second] if isinstance(layer, Product) else [layer.input]
    builder = ModuleBuilder()
    for tensor in read:
        builder.param(tensor.name, (1, tensor.channels, tensor.height, tensor.width), "int8")
    write_layer(builder, layer)
    output = layer.output
    return ArmProbe(
        cost=cost,
        module=builder.finish([layer.name], returns_tuple=True),
        inputs={tensor.name: "int8" for tensor in read},
        output=(layer.name, "int8"),
        shape=(1, output.channels, output.height, output.width),
    )


def _element(name: str) -> ArmProbe:
    """Return a stage of calls as behind a network's heads: to float, transposed, added."""
    builder = ModuleBuilder()
    source = builder.param(f"{name}_start", (1, CHANNELS, EXTENT, EXTENT), "int8")
    write_dequantize(builder, f"{name}_float", source, np.array([0.125], np.float32), reshape=())
    builder.emit(f"{name}_turned", "permute_dims", f"{name}_float", [0, 2, 3, 1])
    builder.emit(name, "add", f"{name}_turned", np.ones(CHANNELS, np.float32))
    return ArmProbe(
        cost="element_cycles",
        module=builder.finish([name], returns_tuple=True),
        inputs={source: "int8"},
        output=(name, "float32"),
    )


def _exponential(name: str) -> ArmProbe:
    builder = ModuleBuilder()
    source = builder.param(f"{name}_start", (1, CHANNELS, EXTENT, EXTENT), "float32")
    builder.emit(name, "sigmoid", source)
    return ArmProbe(
        cost="exponential_cycles",
        module=builder.finish([name], returns_tuple=True),
        inputs={source: "float32"},
        output=(name, "float32"),
    )


_WRITERS: Mapping[str, Callable[[str], ArmProbe]] = MappingProxyType(
    {
        "macs_per_cycle": lambda name: _stage("macs_per_cycle", _convolution(name, 1)),
        "depthwise_macs_per_cycle": lambda name: _stage(
            "depthwise_macs_per_cycle", _convolution(name, CHANNELS)
        ),
        "table_cycles": lambda name: _stage("table_cycles", _table(name, f"{name}_start")),
        "product_cycles": lambda name: _stage("product_cycles", _product(name)),
        "element_cycles": _element,
        "exponential_cycles": _exponential,
    }
)
