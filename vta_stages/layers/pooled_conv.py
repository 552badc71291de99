"""A convolution and the max pooling behind it as one layer.

Bias, leaky ReLU, shift and clip never fall, so the largest of some outputs is the output of the
largest accumulator: the maximum is taken first, everything else on a quarter of the pixels (for
2x2), and the convolution's output never goes to DRAM. Only windows that do not overlap are worth
it, as every window computes its own pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vta_stages.layers.records import Concat, Conv, Layer, MaxPool, Resize, Sum, TensorSpec

NO_WRAP = 1 << 30
"""Below this an accumulator cannot wrap, not even with a bias and a leaky ReLU's sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledConv:
    """``pool`` of ``conv``; ``conv.output`` is not stored. See :func:`can_pool`."""

    conv: Conv
    pool: MaxPool

    @property
    def name(self) -> str:
        """Both layers' names; no operator has a plus sign in its own."""
        return f"{self.conv.name}+{self.pool.name}"

    @property
    def output(self) -> TensorSpec:
        """The pooling's output; the convolution's is never stored."""
        return self.pool.output


PlannedLayer = Layer | PooledConv
"""What memory is planned for and what is lowered."""


def layer_inputs(layer: PlannedLayer) -> list[TensorSpec]:
    """Return the tensors that a layer reads, with repetitions."""
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
    """Tell whether the two can be one layer: disjoint windows, and no sum that could wrap."""
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
    """Return the layers with convolutions pooled where nothing else reads them and it is worth it.

    The fused layer stands where the pooling stood.
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
