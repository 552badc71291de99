"""A convolution and the max pooling after it as one layer.

Bias, leaky ReLU, shift and clip are monotonic, so the largest of several outputs is the output of
the largest accumulator. The maximum is therefore taken first. The other operations then run on a
quarter of the pixels (for 2x2), and the output of the convolution never goes to DRAM. Windows must
not overlap, because each window computes its own pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vta_stages.layers.records import Concat, Conv, Layer, MaxPool, Resize, Sum, TensorSpec

NO_WRAP = 1 << 30
"""Accumulators below this bound cannot wrap, even with a bias and the sums of a leaky ReLU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledConv:
    """The pooling ``pool`` of ``conv``, whose own output is not stored. See :func:`can_pool`."""

    conv: Conv
    pool: MaxPool

    @property
    def name(self) -> str:
        """The names of both layers, joined by a plus sign, which no operator's name contains."""
        return f"{self.conv.name}+{self.pool.name}"

    @property
    def output(self) -> TensorSpec:
        """The tensor that is stored, the output of the pooling."""
        return self.pool.output


PlannedLayer = Layer | PooledConv
"""A layer after the rewrites: memory is planned for these, and these are lowered."""


def layer_inputs(layer: PlannedLayer) -> list[TensorSpec]:
    """Return the tensors that a layer reads; one that it reads twice is listed twice."""
    if isinstance(layer, PooledConv):
        return [layer.conv.input]
    if isinstance(layer, Concat):
        return list(layer.inputs)
    if isinstance(layer, Sum):
        return [term.tensor for term in layer.terms]
    if isinstance(layer, MaxPool | Resize):
        return [layer.input]
    read = [layer.input, *(term.tensor for term in layer.terms)]
    if isinstance(layer, Conv):
        read += [projection.tensor for projection in layer.projections]
    return read


def can_pool(conv: Conv, pool: MaxPool) -> bool:
    """Tell whether the two can be one layer: the windows are disjoint, and no sum can wrap."""
    disjoint = pool.kernel[0] <= pool.stride[0] and pool.kernel[1] <= pool.stride[1]
    if not disjoint or conv.terms or conv.projections:
        return False
    epilogue = conv.epilogue
    largest = np.abs(conv.weight.astype(np.int64)).reshape(len(conv.weight), -1).sum(axis=1) * 128
    largest += np.abs(epilogue.bias.astype(np.int64))
    if epilogue.leaky is not None:
        branch = largest + np.abs(epilogue.leaky.offset.astype(np.int64))
        for shift, _ in epilogue.leaky.steps:
            branch = (branch >> shift) + 1
            largest = branch = largest + branch
    return int(largest.max()) < NO_WRAP


def fuse_pools(
    layers: Sequence[Layer], outputs: Sequence[str], worth: Callable[[PooledConv], bool]
) -> list[PlannedLayer]:
    """Merge poolings into the convolutions before them and return all layers.

    A pair is merged if :func:`can_pool` allows it, ``worth`` says that it pays off, and nothing
    else reads the convolution. The merged layer takes the place of the pooling.
    """
    readers: dict[str, int] = dict.fromkeys(outputs, 1)
    for layer in layers:
        for spec in layer_inputs(layer):
            readers[spec.name] = readers.get(spec.name, 0) + 1
    makers = {layer.output.name: layer for layer in layers}
    fused: dict[str, PooledConv] = {}
    for layer in layers:
        maker = makers.get(layer.input.name) if isinstance(layer, MaxPool) else None
        if not isinstance(layer, MaxPool) or not isinstance(maker, Conv):
            continue
        candidate = PooledConv(conv=maker, pool=layer)
        if readers[maker.output.name] == 1 and can_pool(maker, layer) and worth(candidate):
            fused[layer.name] = candidate
    gone = {layer.conv.name for layer in fused.values()}
    return [fused.get(layer.name, layer) for layer in layers if layer.name not in gone]
