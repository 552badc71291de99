"""A layer and the table that its output is looked up in as one layer.

An accelerator with the extension looks results up on their way to the out buffer, in the pass that
requantises them. So the table costs its load, and what it is made from never goes to DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass

from vta_stages.layers.pooled_conv import PooledConv
from vta_stages.layers.records import Layer, Table, TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledLayer:
    """The values of ``maker``, whose own output is not stored, looked up in ``table``."""

    maker: Layer | PooledConv
    table: Table

    @property
    def name(self) -> str:
        """The names of both layers, joined by a plus sign, which no operator's name contains."""
        return f"{self.maker.name}+{self.table.name}"

    @property
    def output(self) -> TensorSpec:
        """The tensor that is stored, the output of the table."""
        return self.table.output


PlannedLayer = Layer | PooledConv | TabledLayer
"""A layer after the rewrites: memory is planned for these, and these are lowered."""
