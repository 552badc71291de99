"""The search knows that compute waits for weights whose slots are taken by other ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from accelerators import ALL_EXTENSIONS
from compiler_support import STOCK, conv, tensor

from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.layers.records import Conv, Term
from vta_stages.lowering.lower import lower
from vta_stages.tiling.search import cheapest_tiling
from vta_stages.timing.rtl_costs import rtl_costs, time_on_rtl
from vta_stages.whole_blocks import whole_blocks

WIDE = Accelerator(
    block_in=32, inp_buffer_bytes_log2=16, acc_hazard_steps=1, extensions=ALL_EXTENSIONS
)


def layer_with_residual() -> Conv:
    """Return a layer whose residual has a small chunk of weights beside large ones."""
    source = tensor("source", 512, 7, 7)
    made = conv(np.random.default_rng(0), "c", source, 512, 3, pad=1)
    term = Term(tensor=tensor("added", 512, 7, 7), factor=np.full(512, 5, np.int32))
    return replace(made, terms=(term,))


def cycles_on_rtl(layer: Conv, accelerator: Accelerator) -> int:
    cost = rtl_costs(accelerator)
    program = compile_program(
        accelerator,
        [layer],
        ["source", *(term.tensor.name for term in layer.terms)],
        [layer.output.name],
        cost=cost,
    )
    return time_on_rtl(program, cost).cycles


def test_a_layer_with_a_residual_takes_hardly_longer_than_one_without() -> None:
    layer = layer_with_residual()
    plain = replace(layer, terms=())
    assert cycles_on_rtl(layer, WIDE) < 1.1 * cycles_on_rtl(plain, WIDE)


@pytest.mark.parametrize("accelerator", [WIDE, STOCK], ids=["with extensions", "published"])
def test_what_the_search_expects_is_what_the_model_finds(accelerator: Accelerator) -> None:
    layer = layer_with_residual()
    whole = whole_blocks(accelerator)
    expected = cheapest_tiling(whole, lower(layer, whole), rtl_costs(accelerator))
    assert expected is not None
    assert cycles_on_rtl(layer, accelerator) == pytest.approx(expected.cycles, rel=0.1)
