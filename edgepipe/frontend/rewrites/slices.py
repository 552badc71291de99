"""Slices of pictures: rows and columns apart from channels."""

from __future__ import annotations

import onnx
from onnx import helper

from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

Bounds = tuple[int, int, int]
"""Begin, end and step along an axis, as ONNX writes them."""


def plain_slice(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a slice of rows and columns, then one of channels, each only if it changes something.

    before   Slice(x, starts=[0, 1, 1, 0], ends=[most, most, most, most], axes=[0, 2, 3, 1])
    after    Slice(x, starts=[1, 1], ends=[most, most], axes=[2, 3])

    TensorFlow names all axes in ``x[:, 1:, 1:, :]``. Channels in steps are a selection.
    """
    shape = rewriting.shapes.get(node.input[0], ())
    bounds = _bounds(rewriting, node) if len(shape) == 4 else None
    if bounds is None:
        return None
    kept = {axis: given for axis, given in bounds.items() if not _takes_all(given, shape[axis])}
    channels = kept.pop(1, None)
    is_plain = len(kept) == len(bounds) or (len(bounds) == 1 and channels and channels[2] == 1)
    if is_plain or 0 in kept:
        return None
    nodes: Nodes = []
    source, name = node.input[0], node.output[0]
    if kept:
        part = f"{name}/pixels" if channels else name
        nodes.append(_slice(rewriting, source, part, kept))
        source = part
    if channels is None:
        return nodes or [helper.make_node("Identity", [source], [name])]
    if channels[2] == 1:
        return [*nodes, _slice(rewriting, source, name, {1: channels})]
    taken = [int(index) for index in _taken(channels, shape[1])]
    index = rewriting.integers(f"{name}/channels", taken)
    return [*nodes, helper.make_node("Gather", [source, index], [name], axis=1)]


def _bounds(rewriting: Rewriting, node: onnx.NodeProto) -> dict[int, Bounds] | None:
    """Return what a slice of four axes takes of each that it names; None if that can change."""
    names = [value for value in node.input[1:] if value]
    given = [rewriting.array(value) for value in names]
    if len(node.input) < 3 or any(values is None for values in given):
        return None
    arrays = dict(zip(names, given, strict=True))
    inputs = [*node.input[1:], "", ""][:4]
    starts, ends, axes, steps = (
        [] if (values := arrays.get(name)) is None else [int(v) for v in values.reshape(-1)]
        for name in inputs
    )
    axes = [axis % 4 for axis in axes or range(len(starts))]
    steps = steps or [1] * len(starts)
    if not len(starts) == len(ends) == len(set(axes)) == len(steps) or 0 in steps:
        return None
    return dict(zip(axes, zip(starts, ends, steps, strict=True), strict=True))


def _taken(bounds: Bounds, size: int) -> range:
    """Return the positions that a slice takes of an axis of ``size``."""
    begin, end, step = bounds
    last = None if step < 0 and end < -size else end  # Python has no number for that
    return range(size)[begin:last:step]


def _takes_all(bounds: Bounds, size: int) -> bool:
    return _taken(bounds, size) == range(size)


def _slice(
    rewriting: Rewriting, source: str, target: str, kept: dict[int, Bounds]
) -> onnx.NodeProto:
    starts, ends, steps = zip(*kept.values(), strict=True)
    inputs = [
        rewriting.integers(f"{target}/{what}", values)
        for what, values in (
            *(("starts", starts), ("ends", ends)),
            *(("axes", tuple(kept)), ("steps", steps)),
        )
    ]
    return helper.make_node("Slice", [source, *inputs], [target])
