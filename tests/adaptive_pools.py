"""Adaptive means as PyTorch's exporter writes them: pixels are gathered, masked and added up."""

from __future__ import annotations

import itertools

import numpy as np
from small_networks import Builder


def windows(size: int, count: int) -> list[range]:
    """The pixels of each window along one axis, as PyTorch defines them."""
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def adaptive_mean(
    b: Builder, x: str, size: tuple[int, int], out: tuple[int, int], name: str
) -> str:
    """Append the mean of a picture of ``size`` over ``out`` windows; return its name.

    If all windows along an axis are alike, nothing is masked there. If they are alike along both
    axes, one operator computes the mean.
    """

    def constant(part: str, values: object, kind: type = np.int64) -> str:
        return b.constant(f"{name}/{part}", np.array(values, kind))

    sides = [windows(*pair) for pair in zip(size, out, strict=True)]
    lengths = [[len(window) for window in side] for side in sides]
    most = [max(each) for each in lengths]
    pixels = [
        np.array([[min(w.start + k, limit - 1) for k in range(longest)] for w in side])
        for side, longest, limit in zip(sides, most, size, strict=True)
    ]
    down, across = np.broadcast_arrays(pixels[0][:, :, None, None], pixels[1])
    index = constant("index", np.stack([down, across], axis=-1))
    x = b.node("Transpose", [x], f"{name}/last", perm=[2, 3, 0, 1])
    x = b.node("GatherND", [x, index], f"{name}/gathered")
    x = b.node("Transpose", [x], f"{name}/windows", perm=[4, 5, 0, 1, 2, 3])
    varies = [len(set(each)) > 1 for each in lengths]
    if not any(varies):
        return b.node("ReduceMean", [x], name, axes=[-3, -1], keepdims=0)
    zero = constant("zero", 0, np.float32)
    for axis in (0, 1):
        if varies[axis]:
            outside = np.arange(most[axis]) >= np.array(lengths[axis])[:, None]
            outside = outside[:, :, None, None] if axis == 0 else outside
            mask = constant(f"outside{axis}", outside, np.bool_)
            x = b.node("Where", [mask, zero, x], f"{name}/masked{axis}")
    total = ""
    rows = [
        b.node("Gather", [x, constant(f"k{k}", k)], f"{name}/row{k}", axis=3)
        for k in range(most[0])
    ]
    for (k, row), n in itertools.product(enumerate(rows), range(most[1])):
        part = b.node("Gather", [row, constant(f"k{k}n{n}", n)], f"{name}/part{k}_{n}", axis=4)
        total = b.node("Add", [total, part], f"{name}/total{k}_{n}") if total else part
    counts = constant("counts", np.outer(*lengths), np.float32)
    return b.node("Div", [total, counts], name)
