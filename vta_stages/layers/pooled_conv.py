"""A convolution and the max pooling after it as one layer.

Bias, leaky ReLU, shift and clip are monotonic, so the largest of several outputs is the output of
the largest accumulator. The maximum is therefore taken first. The other operations then run on a
quarter of the pixels (for 2x2), and the output of the convolution never goes to DRAM. Windows must
not overlap, because each window computes its own pixels.
"""

from __future__ import annotations

from dataclasses import dataclass

from vta_stages.layers.records import Conv, MaxPool, TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledConv:
    """The pooling ``pool`` of ``conv``, whose own output is not stored.

    :func:`vta_stages.lowering.pool_fusion.can_pool` says which pairs are possible.
    """

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
