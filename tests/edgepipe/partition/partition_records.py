"""Operators with real records, for tests of placement and of its model."""

from __future__ import annotations

import dataclasses

import numpy as np

from edgepipe.partition.operator import Operator
from vta_stages.layers.records import Conv, Epilogue, Product, Table, TensorSpec


def _tensor(name: str, channels: int, extent: int) -> TensorSpec:
    return TensorSpec(name=name, channels=channels, height=extent, width=extent)


def _epilogue(channels: int) -> Epilogue:
    zeros = np.zeros(channels, np.int32)
    return Epilogue(bias=zeros, shift=zeros, low=-128, high=127)


def conv(name: str, source: str, channels: int, groups: int, extent: int = 100) -> Operator:
    """Return a 3x3 convolution as wide as its input."""
    spec = _tensor(source, channels, extent)
    weight = np.arange(channels * channels // groups * 9).reshape(channels, -1, 3, 3) % 100
    layer = Conv(
        name=name,
        input=spec,
        output=dataclasses.replace(spec, name=name),
        weight=weight.astype(np.int8),
        epilogue=_epilogue(channels),
        padding=(1, 1, 1, 1),
        groups=groups,
    )
    return Operator(name=name, kind="conv", layer=layer, inputs=(source,), output=name, bindings=())


def stem(name: str, source: str, channels: int, extent: int) -> Operator:
    """Return a 3x3 convolution of a picture with four channels."""
    made = conv(name, source, channels, 1, extent)
    assert isinstance(made.layer, Conv)
    layer = dataclasses.replace(
        made.layer,
        input=_tensor(source, 4, extent),
        weight=np.ascontiguousarray(made.layer.weight[:, :4]),
    )
    return dataclasses.replace(made, layer=layer)


def table(name: str, source: str, channels: int, extent: int) -> Operator:
    """Return a table for all channels."""
    layer = Table(
        name=name,
        input=_tensor(source, channels, extent),
        output=_tensor(name, channels, extent),
        table=np.zeros((1, 256), np.int8),
    )
    return Operator(
        name=name, kind="table", layer=layer, inputs=(source,), output=name, bindings=()
    )


def product(name: str, first: str, second: str, channels: int, extent: int) -> Operator:
    """Return a product of two tensors of one size."""
    layer = Product(
        name=name,
        first=_tensor(first, channels, extent),
        second=_tensor(second, channels, extent),
        output=_tensor(name, channels, extent),
        factor=np.ones(channels, np.int32),
        epilogue=_epilogue(channels),
    )
    return Operator(
        name=name, kind="product", layer=layer, inputs=(first, second), output=name, bindings=()
    )
