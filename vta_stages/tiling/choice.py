"""The tiling of a layer, searched for once per shape and process.

Many layers of a network have the same shape, and each layer needs its tiling twice: when it is
placed and when it is compiled.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.errors import LayerError
from vta_stages.lowering.kernel import AxisMap, Kernel, Source
from vta_stages.tiling.search import cheapest_tiling, least_need
from vta_stages.tiling.tiling import Tiling
from vta_stages.timing.cost_model import CostModel


def choose_tiling(accelerator: Accelerator, kernel: Kernel, cost: CostModel) -> Tiling:
    """Return the cheapest tiling. Raises LayerError, with the numbers, when none fits."""
    shape = _without_values(kernel)
    tiling = _search(_Question(accelerator, cost, _content(shape), shape))
    if tiling is None:
        raise LayerError(
            f"{kernel.name}: {least_need(accelerator, kernel)} ({accelerator.configuration})",
            hint="place it on arm",
            option="placement",
            value=f"{kernel.name}=arm",
        )
    return tiling


@dataclass(frozen=True, slots=True)
class _Question:
    """The arguments of a search; equal for kernels that differ only in names and values."""

    accelerator: Accelerator
    cost: CostModel
    content: Hashable
    kernel: Kernel = field(compare=False)


@functools.lru_cache(maxsize=4096)
def _search(question: _Question) -> Tiling | None:
    return cheapest_tiling(question.accelerator, question.kernel, question.cost)


def forget() -> None:
    """Forget all tilings, so that measurements include the search."""
    _search.cache_clear()


def _without_values(kernel: Kernel) -> Kernel:
    """Return the kernel with zeros for weights, vectors, biases and table.

    The zeros take no memory, but for those of the table.
    """
    return dataclasses.replace(
        kernel,
        name="",
        output=dataclasses.replace(kernel.output, name=""),
        sources=tuple(
            dataclasses.replace(
                source,
                tensor=dataclasses.replace(source.tensor, name=""),
                weights=np.broadcast_to(np.int8(0), source.weights.shape),
            )
            for source in kernel.sources
        ),
        vectors=np.broadcast_to(np.int32(0), kernel.vectors.shape),
        biases=np.broadcast_to(np.int32(0), kernel.biases.shape),
        table=bytes(len(kernel.table)),
    )


def _content(value: object) -> Hashable:
    """Return everything that a kernel consists of as one hashable value."""
    if isinstance(value, np.ndarray):
        # Arrays of zeros stand for values that do not matter: their shape is enough.
        return value.shape, value.tobytes() if value.any() else b""
    if isinstance(value, tuple):
        return tuple(_content(part) for part in value)
    if isinstance(value, Kernel | Source | AxisMap):
        return tuple(_content(getattr(value, part.name)) for part in dataclasses.fields(value))
    assert isinstance(value, Hashable)
    return value
