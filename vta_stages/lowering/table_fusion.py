"""Merge tables into the layers before them."""

from __future__ import annotations

from collections.abc import Sequence

from vta_stages.layers.inputs import layer_inputs
from vta_stages.layers.pooled_conv import PooledConv
from vta_stages.layers.records import Concat, Layer, Pick, Table
from vta_stages.layers.tabled_layer import PlannedLayer, TabledLayer


def fuse_tables(layers: Sequence[Layer | PooledConv], outputs: Sequence[str]) -> list[PlannedLayer]:
    """Merge tables into the layers that compute their input, and return all layers.

    A table is merged if nothing else reads that input. Concatenations and picks stay as they are,
    because they mostly cost nothing, and so do tables of tables. The merged layer takes the place
    of the table.
    """
    readers: dict[str, int] = dict.fromkeys(outputs, 1)
    for layer in layers:
        for spec in layer_inputs(layer):
            readers[spec.name] = readers.get(spec.name, 0) + 1
    makers = {layer.output.name: layer for layer in layers}
    fused: dict[str, TabledLayer] = {}
    for layer in layers:
        if not isinstance(layer, Table) or readers[layer.input.name] != 1:
            continue
        maker = makers.get(layer.input.name)
        if maker is not None and not isinstance(maker, Concat | Pick | Table):
            fused[layer.name] = TabledLayer(maker=maker, table=layer)
    gone = {layer.maker.name for layer in fused.values()}
    return [fused.get(layer.name, layer) for layer in layers if layer.name not in gone]
