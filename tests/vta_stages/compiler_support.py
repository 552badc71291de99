"""Helpers of the compiler's tests: layers, and a check of programs against the reference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from accelerators import (
    ALL_EXTENSIONS,
    CHISEL,
    FOUR_BY_EIGHT,
    HALF_BUFFERS,
    ONE_BY_THIRTYTWO,
    RECTANGULAR,
    THIRTYTWO_BY_SIXTEEN,
)
from numpy.typing import NDArray

from edgepipe.runtime.simulator import Simulator
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.isa.layout import activation_shape, pack_activation, unpack_activation
from vta_stages.layers.inputs import layer_inputs
from vta_stages.layers.records import Conv, Epilogue, Layer, Leaky, LeakySum, TensorSpec, Term
from vta_stages.layers.reference import run_layers
from vta_stages.program import Program

STOCK = Accelerator()
ACCELERATORS = (
    Accelerator(implementation="hls"),
    CHISEL,
    FOUR_BY_EIGHT,
    ONE_BY_THIRTYTWO,
    HALF_BUFFERS,
    Accelerator(inp_buffer_bytes_log2=13, acc_hazard_steps=16),
    Accelerator(acc_hazard_steps=1, extensions=ALL_EXTENSIONS),
    RECTANGULAR,
    THIRTYTWO_BY_SIXTEEN,
)


@cache
def simulator(accelerator: Accelerator) -> Simulator:
    return Simulator(accelerator)


def tensor(name: str, channels: int, height: int, width: int) -> TensorSpec:
    return TensorSpec(name=name, channels=channels, height=height, width=width)


def int8(rng: np.random.Generator, *shape: int) -> NDArray[np.int8]:
    """Return random int8 over the full range."""
    return rng.integers(-128, 128, shape).astype(np.int8)


LEAKY_STEPS = (
    ((1, LeakySum.TO_BRANCH), (4, LeakySum.NOTHING)),
    ((2, LeakySum.TO_VALUE), (1, LeakySum.NOTHING)),
    ((3, LeakySum.TO_VALUE),),
)


def epilogue(
    rng: np.random.Generator,
    channels: int,
    *,
    shift: int = 8,
    low: int = -128,
    high: int = 127,
    leaky: bool = False,
    per_channel: bool = True,
) -> Epilogue:
    """Return an epilogue that keeps most results in range; bias and shift differ by channel."""
    extra = rng.integers(0, 3, channels) if per_channel else np.zeros(channels, np.int64)
    steps = LEAKY_STEPS[int(rng.integers(len(LEAKY_STEPS)))]
    offset = rng.integers(0, 200, channels).astype(np.int32)
    return Epilogue(
        bias=rng.integers(-(1 << (shift + 5)), 1 << (shift + 5), channels).astype(np.int32),
        shift=(shift + extra).astype(np.int32),
        low=low,
        high=high,
        leaky=Leaky(offset=offset, steps=steps) if leaky else None,
    )


def conv(
    rng: np.random.Generator,
    name: str,
    source: TensorSpec,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    pad: int = 0,
    groups: int = 1,
    terms: tuple[Term, ...] = (),
    low: int = -128,
    high: int = 127,
    leaky: bool = False,
) -> Conv:
    """Return a square convolution with a shift that suits its accumulator."""
    height = (source.height + 2 * pad - kernel) // stride + 1
    width = (source.width + 2 * pad - kernel) // stride + 1
    products = source.channels // groups * kernel * kernel
    shift = 6 + int(np.log2(products)) // 2
    return Conv(
        name=name,
        input=source,
        output=tensor(f"{name}.out", channels, height, width),
        weight=int8(rng, channels, source.channels // groups, kernel, kernel),
        epilogue=epilogue(rng, channels, shift=shift, low=low, high=high, leaky=leaky),
        stride=(stride, stride),
        padding=(pad,) * 4,
        groups=groups,
        terms=terms,
    )


def specs_of(layers: Sequence[Layer]) -> dict[str, TensorSpec]:
    """Return all tensors of a network by name."""
    return {spec.name: spec for layer in layers for spec in [*layer_inputs(layer), layer.output]}


def check_program(
    accelerator: Accelerator,
    layers: Sequence[Layer],
    inputs: Sequence[str],
    outputs: Sequence[str],
    seed: int = 0,
) -> Program:
    """Compile, run on the simulator and compare every output with the reference, bit for bit.

    Lanes after an input's channels are filled with noise: a program must not depend on them.
    """
    rng = np.random.default_rng(seed)
    specs = specs_of(layers)
    tensors = {
        name: int8(rng, specs[name].channels, specs[name].height, specs[name].width)
        for name in inputs
    }
    expected = run_layers(layers, tensors)
    program = compile_program(accelerator, layers, inputs, outputs)
    packed = {}
    for name, content in tensors.items():
        padding = -len(content) % accelerator.block_in
        noise = int8(rng, padding, *content.shape[1:])
        packed[name] = pack_activation(accelerator, np.concatenate([content, noise])[None])
    found = simulator(accelerator).run_program(program, packed)
    for name in outputs:
        spec = specs[name]
        shape = activation_shape(accelerator, spec.channels, spec.height, spec.width)
        result = unpack_activation(
            accelerator, found[name].view(np.int8).reshape(shape), spec.channels
        )
        np.testing.assert_array_equal(result[0], expected[name], err_msg=name)
    return program
