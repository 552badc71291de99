"""Merge poolings into the convolutions before them, where that is exact and pays off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vta_stages.layers.inputs import layer_inputs
from vta_stages.layers.pooled_conv import PooledConv
from vta_stages.layers.records import Conv, Layer, MaxPool

NO_WRAP = 1 << 30
"""Accumulators below this bound cannot wrap, even with a bias and the sums of a leaky ReLU."""


def can_pool(conv: Conv, pool: MaxPool) -> bool:
    """Return whether the two can be one layer: the windows are disjoint, and no sum can wrap."""
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
) -> list[Layer | PooledConv]:
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
