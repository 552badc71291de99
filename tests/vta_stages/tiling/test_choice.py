"""Layers that differ only in names and values share one tiling, which is searched for once."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from compiler_support import ACCELERATORS, STOCK, conv, tensor

from vta_stages.errors import LayerError
from vta_stages.lowering.kernel import Kernel
from vta_stages.lowering.lower import lower
from vta_stages.tiling import choice
from vta_stages.tiling.search import cheapest_tiling
from vta_stages.timing.cost_model import CostModel
from vta_stages.whole_blocks import whole_blocks


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """The kernels for which the search ran; all tilings are forgotten at first."""
    found: list[Kernel] = []

    def search(accelerator, kernel, cost):
        found.append(kernel)
        return cheapest_tiling(accelerator, kernel, cost)

    monkeypatch.setattr(choice, "cheapest_tiling", search)
    choice.forget()
    return found


def kernel(name="c", seed=0, kernel_size=3, accelerator=STOCK):
    rng = np.random.default_rng(seed)
    source = tensor(f"{name}.in", 32, 14, 14)
    return lower(conv(rng, name, source, 48, kernel_size, pad=kernel_size // 2), accelerator)


def test_names_and_values_make_no_difference(searched):
    first = choice.choose_tiling(STOCK, kernel("a", 1), CostModel())
    assert choice.choose_tiling(STOCK, kernel("b", 2), CostModel()) == first
    assert len(searched) == 1


def test_the_search_sees_no_values(searched):
    choice.choose_tiling(STOCK, kernel(), CostModel())
    (seen,) = searched
    assert seen.name == ""
    assert not any(source.weights.any() for source in seen.sources)
    assert not seen.biases.any()
    assert all(
        source.weights.strides == (0,) * 5 for source in seen.sources
    )  # the zeros take no memory


@pytest.mark.parametrize("accelerator", [whole_blocks(a) for a in ACCELERATORS[1:]])
def test_another_shape_accelerator_or_board_is_searched_again(searched, accelerator):
    questions = [
        (STOCK, kernel(), CostModel()),
        (STOCK, kernel(kernel_size=1), CostModel()),
        (STOCK, kernel(), CostModel(dma_row_cycles=160)),
        (accelerator, kernel(accelerator=accelerator), CostModel()),
    ]
    for question in questions:
        assert choice.choose_tiling(*question) == cheapest_tiling(*question)
    assert len(searched) == len(questions)


def test_indices_that_repeat_one_number_are_distinguished(searched):
    """Arrays that repeat one number may share a single element of memory."""
    whole = kernel()
    (source,) = whole.sources
    for first in (0, 1):
        indices = np.broadcast_to(np.int64(first), source.ci_first.shape)
        other = dataclasses.replace(source, ci_first=indices)
        choice.choose_tiling(STOCK, dataclasses.replace(whole, sources=(other,)), CostModel())
    assert len(searched) == 2


def test_every_layer_that_does_not_fit_is_named(searched):
    tiny = dataclasses.replace(STOCK, wgt_buffer_bytes_log2=12)
    for name in ("a", "b"):
        with pytest.raises(LayerError, match=f"^{name}: one output pixel needs"):
            choice.choose_tiling(tiny, kernel(name, 0, 7, tiny), CostModel())
    assert len(searched) == 1
