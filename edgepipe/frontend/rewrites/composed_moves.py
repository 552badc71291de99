"""Chains of moves as one: which elements end where, and the fewest operators that bring them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray

from edgepipe.frontend.rewrites.places import Places


@dataclass(frozen=True, slots=True)
class Axes:
    """A permutation as axes: those of a source in its order, and where each of them goes."""

    sizes: tuple[int, ...]
    perm: tuple[int, ...]


def axes_of(order: Places, count: int) -> Axes | None:
    """Return the axes whose permutation puts the ``count`` elements of a source into ``order``.

    ``order`` has for each element of the result its place in the source. There are as few axes as
    possible, one if nothing changes places; None if it is no permutation of axes.
    """
    rest = order.reshape(-1)
    if rest.size != count or not count or rest[0] != 0:
        return None
    found: list[tuple[int, int]] = []
    while rest.size > 1:
        step = int(rest[1] - rest[0])
        broken = np.flatnonzero(np.diff(rest) != step)
        run = int(broken[0]) + 1 if broken.size else rest.size
        if rest.size % run:
            return None
        rows = rest.reshape(-1, run)
        if not np.array_equal(rows, rows[:, :1] + step * np.arange(run)):
            return None
        found.insert(0, (run, step))
        rest = rows[:, 0]
    found = found or [(1, 1)]
    source = sorted(range(len(found)), key=lambda axis: -found[axis][1])
    expected = order.size
    for axis in source:
        size, step = found[axis]
        expected //= size
        if step != expected:
            return None
    perm = tuple(source.index(axis) for axis in range(len(found)))
    return Axes(tuple(found[axis][0] for axis in source), perm)


def moved(
    node: onnx.NodeProto,
    order: Places,
    shape: tuple[int, ...],
    index: NDArray[np.float64] | None,
) -> Places | None:
    """Return the order of what a move makes of a tensor with ``order``; None if it is no move.

    ``shape`` is that of the result, ``index`` the second input if that is a constant.
    """
    made: Places | None = None
    if node.op_type in RESHAPES:
        made = order.reshape(shape) if order.size == int(np.prod(shape)) else None
    elif node.op_type == "Transpose":
        perms = [list(a.ints) for a in node.attribute if a.name == "perm"]
        made = order.transpose(perms[0] if perms else None)
    elif node.op_type == "Gather" and index is not None:
        axis = next((int(a.i) for a in node.attribute if a.name == "axis"), 0)
        if index.size and np.abs(index + 0.5).max() < order.shape[axis]:
            made = order.take(index.astype(np.int64), axis)
    return made if made is not None and made.shape == shape else None


RESHAPES = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
MOVES = (*RESHAPES, "Gather", "Transpose")
