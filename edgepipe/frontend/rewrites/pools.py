"""Means, sums and maxima over whole pictures, rows, columns or channels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

MAX_POOL_WINDOW = 4096
"""The most pixels of a window whose mean one layer computes."""

MAX_POOL_TILE = 1024
"""The most pixels of a window whose maximum every accelerator computes at once."""


def mean(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return one mean for one of columns and then one of rows, which drop their axes."""
    before = rewriting.makers.get(node.input[0])
    if before is not None and before.op_type == "ReduceMean":
        shape = rewriting.shapes.get(before.input[0], ())
        axes = [_dropped_axes(rewriting, each) for each in (before, node)]
        if len(shape) == 4 and axes in ([[3], [2]], [[-1], [2]], [[3], [-1]], [[-1], [-1]]):
            whole = helper.make_node(
                "GlobalAveragePool", [before.input[0]], [f"{node.output[0]}/all"]
            )
            flat = helper.make_node("Flatten", [whole.output[0]], [node.output[0]], axis=1)
            large = shape[2] * shape[3] > MAX_POOL_WINDOW
            return None if large else [whole, flat]
    return _mean_channels_last(rewriting, node) or global_pool(rewriting, node)


def _mean_channels_last(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a mean over a picture with the channels first, between two transpositions.

    before   ReduceMean(x, axes=[1, 2])
    after    Transpose(GlobalAveragePool(Transpose(x)))

    Gates of squeeze-and-excitation are left so where an exporter keeps the channels last.
    """
    shape = rewriting.shapes.get(node.input[0], ())
    keeps = all(a.i for a in node.attribute if a.name == "keepdims")
    if len(shape) != 4 or not keeps or _axes(rewriting, node) != [1, 2]:
        return None
    if shape[1] * shape[2] > MAX_POOL_WINDOW:
        return None
    name = node.output[0]
    first, pooled = f"{name}/first", f"{name}/pooled"
    return [
        helper.make_node("Transpose", [node.input[0]], [first], perm=[0, 3, 1, 2]),
        helper.make_node("GlobalAveragePool", [first], [pooled]),
        helper.make_node("Transpose", [pooled], [name], perm=[0, 2, 3, 1]),
    ]


def _dropped_axes(rewriting: Rewriting, node: onnx.NodeProto) -> list[int]:
    """Return the axes over which a ReduceMean is if it drops them, else none."""
    attributes = {a.name: a for a in node.attribute}
    if "keepdims" not in attributes or attributes["keepdims"].i:
        return []
    return _axes(rewriting, node)


def _axes(rewriting: Rewriting, node: onnx.NodeProto) -> list[int]:
    """Return the axes that a ReduceMean names."""
    attributes = {a.name: a for a in node.attribute}
    given = rewriting.array(node.input[1]) if len(node.input) > 1 else None
    axes = attributes["axes"].ints if "axes" in attributes else given
    return [] if axes is None else [int(axis) for axis in np.ravel(axes)]


def global_pool(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return two means, one after the other, for a picture that is too large for one layer.

    The first takes tiles; zeros fill up the last ones, and a factor makes up for them.
    """
    shape = rewriting.shapes.get(node.input[0], ())
    if len(shape) != 4 or shape[2] * shape[3] <= MAX_POOL_WINDOW:
        return None
    if not _takes_all(rewriting, node, shape):
        return None
    name, sizes = node.output[0], shape[2:]
    tiles, short = _tiles(sizes)
    filled = math.prod(size + less for size, less in zip(sizes, short, strict=True))
    factor = rewriting.constant(f"{name}/factor", np.array(filled / math.prod(sizes)))
    flat = len(rewriting.shapes.get(name, shape)) == 2
    result = f"{name}/picture" if flat else name
    nodes = [
        helper.make_node(
            "AveragePool",
            [node.input[0]],
            [f"{name}/tiles"],
            kernel_shape=tiles,
            strides=tiles,
            pads=[0, 0, *short],
            count_include_pad=1,
        ),
        helper.make_node("GlobalAveragePool", [f"{name}/tiles"], [f"{name}/mean"]),
        helper.make_node("Mul", [f"{name}/mean", factor], [result]),
    ]
    return [*nodes, helper.make_node("Flatten", [result], [name], axis=1)] if flat else nodes


def global_maximum(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return two maxima, one after the other, for a picture that is too large for one layer."""
    shape = rewriting.shapes.get(node.input[0], ())
    if len(shape) != 4 or shape[2] * shape[3] <= MAX_POOL_TILE or any(node.output[1:]):
        return None
    if not _takes_all(rewriting, node, shape):
        return None
    name = node.output[0]
    tiles, short = _tiles(shape[2:])
    flat = len(rewriting.shapes.get(name, shape)) == 2
    result = f"{name}/picture" if flat else name
    windows = {"kernel_shape": tiles, "strides": tiles, "pads": [0, 0, *short]}
    nodes = [
        helper.make_node("MaxPool", [node.input[0]], [f"{name}/tiles"], **windows),
        helper.make_node("GlobalMaxPool", [f"{name}/tiles"], [result]),
    ]
    return [*nodes, helper.make_node("Flatten", [result], [name], axis=1)] if flat else nodes


def _tiles(sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the height and width of tiles, and by how much the last ones exceed the picture."""
    tiles = [math.isqrt(size - 1) + 1 for size in sizes]
    return tiles, [-size % tile for size, tile in zip(sizes, tiles, strict=True)]


def _takes_all(rewriting: Rewriting, node: onnx.NodeProto, shape: tuple[int, ...]) -> bool:
    """Whether a pool or a reduction of a picture [1, c, h, w] is over its height and width."""
    attributes = {a.name: a for a in node.attribute}
    if node.op_type.startswith("Global"):
        return True
    if node.op_type.startswith("Reduce"):
        given = rewriting.array(node.input[1]) if len(node.input) > 1 else None
        axes = attributes["axes"].ints if "axes" in attributes else given
        return axes is not None and sorted(int(a) % 4 for a in axes) == [2, 3]
    pads = attributes["pads"].ints if "pads" in attributes else ()
    return tuple(attributes["kernel_shape"].ints) == shape[2:] and not any(pads)
