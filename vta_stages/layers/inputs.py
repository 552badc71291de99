"""The tensors that a layer reads."""

from __future__ import annotations

from vta_stages.layers.pooled_conv import PooledConv
from vta_stages.layers.records import (
    Concat,
    Conv,
    MaxPool,
    Pick,
    PixelAffine,
    Product,
    Quotient,
    Resize,
    Sum,
    Table,
    TensorSpec,
)
from vta_stages.layers.tabled_layer import PlannedLayer, TabledLayer


def layer_inputs(layer: PlannedLayer) -> list[TensorSpec]:
    """Return the tensors that a layer reads; one that it reads twice is listed twice."""
    if isinstance(layer, TabledLayer):
        return layer_inputs(layer.maker)
    if isinstance(layer, PooledConv):
        return [layer.conv.input]
    if isinstance(layer, Concat):
        return list(layer.inputs)
    if isinstance(layer, Sum):
        return [term.tensor for term in layer.terms]
    if isinstance(layer, MaxPool | Resize | Table | Pick | PixelAffine):
        return [layer.input]
    if isinstance(layer, Product | Quotient):
        return [layer.first, layer.second, *(term.tensor for term in layer.terms)]
    read = [layer.input, *(term.tensor for term in layer.terms)]
    if isinstance(layer, Conv):
        read += [projection.tensor for projection in layer.projections]
    return read
