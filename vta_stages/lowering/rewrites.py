"""Replace layers by equivalent but cheaper ones, before memory is planned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vta_stages.layers.pooled_conv import PooledConv
from vta_stages.layers.records import Layer, MaxPool, TensorSpec
from vta_stages.layers.tabled_layer import PlannedLayer
from vta_stages.lowering.axis_maps import pool_axes
from vta_stages.lowering.pool_fusion import fuse_pools
from vta_stages.lowering.table_fusion import fuse_tables
from vta_stages.lowering.window_centres import centre_tap

GAIN = 0.9
"""The relative cost below which a pooling is split; the intermediate tensor goes through DRAM."""


def rewrite(
    layers: Sequence[Layer], outputs: Sequence[str], worth: Callable[[PooledConv], bool]
) -> list[PlannedLayer]:
    """Return equivalent layers that compute the same outputs, under the same names.

    Poolings are merged into the convolutions before them, where that is possible and ``worth`` says
    so. Other large poolings are split into one along the rows and one along the columns; their
    intermediate tensors are named ``<output>:rows``. Tables are merged into what their input is
    computed by.
    """
    rewritten: list[Layer | PooledConv] = []
    for layer in fuse_pools(layers, outputs, worth):
        rewritten += split_pool(layer) if isinstance(layer, MaxPool) else [layer]
    return fuse_tables(rewritten, outputs)


def split_pool(layer: MaxPool) -> list[MaxPool]:
    """Return a pooling as two one-dimensional ones if that takes fewer cycles, else unchanged.

    Windows that have centres are folded as they are (:mod:`vta_stages.emission.window_fold`). For
    others, a maximum over k taps takes 4 * k - 2 cycles per accumulator entry: a copy of two cycles
    for the first tap, a copy and an ALU step for each other tap. So 5x5 at stride 1 takes 36 cycles
    instead of 98.
    """
    if all(centre_tap(axis) is not None for axis in pool_axes(layer)):
        return [layer]
    kernel_h, kernel_w = layer.kernel
    heights = layer.input.height / layer.output.height
    split = heights * (4 * kernel_w - 2) + (4 * kernel_h - 2)
    if split > GAIN * (4 * kernel_h * kernel_w - 2):
        return [layer]
    top, left, bottom, right = layer.padding
    between = TensorSpec(
        name=f"{layer.output.name}:rows",
        channels=layer.input.channels,
        height=layer.input.height,
        width=layer.output.width,
    )
    along_rows = MaxPool(
        name=f"{layer.output.name}:rows",
        input=layer.input,
        output=between,
        kernel=(1, kernel_w),
        stride=(1, layer.stride[1]),
        padding=(0, left, 0, right),
    )
    along_columns = MaxPool(
        name=layer.name,
        input=between,
        output=layer.output,
        kernel=(kernel_h, 1),
        stride=(layer.stride[0], 1),
        padding=(top, 0, bottom, 0),
    )
    return [along_rows, along_columns]
