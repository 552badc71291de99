"""Budgets for the body of ResNet-18: cycles, instructions and bytes."""

from __future__ import annotations

import numpy as np
import pytest
from compiler_support import STOCK, check_program, conv, tensor

from vta_stages.compiler import compile_program
from vta_stages.layers.records import Layer, TensorSpec, Term
from vta_stages.program import RegionKind
from vta_stages.timing.timing_model import time_program

WITH_PADDING_CYCLES = 6_623_232
"""The products of the body, also those with padding, at 256 per cycle."""


def resnet_18_body() -> tuple[list[Layer], TensorSpec]:
    """Return all convolutions except the first, with random weights, and the last tensor."""
    rng = np.random.default_rng(1)
    layers: list[Layer] = []
    source = tensor("x", 64, 56, 56)
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            name = f"stage{stage}.{block}"
            first = conv(rng, f"{name}.a", source, channels, 3, stride=stride, pad=1, low=0)
            layers.append(first)
            shortcut = source
            if stride == 2:
                layers.append(conv(rng, f"{name}.shortcut", source, channels, 1, stride=2))
                shortcut = layers[-1].output
            factor = (rng.integers(1, 120, channels) << rng.integers(0, 4)).astype(np.int32)
            terms = (Term(tensor=shortcut, factor=factor),)
            layers.append(
                conv(rng, f"{name}.b", first.output, channels, 3, pad=1, low=0, terms=terms)
            )
            source = layers[-1].output
    return layers, source


def test_resnet_18_body_in_cycles_instructions_and_bytes() -> None:
    layers, last = resnet_18_body()
    program = compile_program(STOCK, layers, ["x"], [last.name])
    timing = time_program(program)
    assert timing.cycles <= 1.11 * WITH_PADDING_CYCLES
    assert len(program.instructions) <= 5500
    weights = sum(layer.weight.size for layer in layers if hasattr(layer, "weight"))
    consts = next(r.bytes for r in program.regions if r.kind is RegionKind.CONST)
    assert consts <= 1.2 * weights


@pytest.mark.sim
def test_resnet_18_body_is_exact() -> None:
    layers, last = resnet_18_body()
    check_program(STOCK, layers, ["x"], [last.name])
