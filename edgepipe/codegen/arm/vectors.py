"""Schedules of kernels that are one element-wise block."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgepipe.codegen.arm.layouts import View
from edgepipe.codegen.arm.tensor_ir import Schedule, find_loops, share


def vectorise(sch: Schedule, output: View, inputs: Sequence[View]) -> None:
    """Schedule a kernel that is one element-wise block: rows, pixels, channel vectors.

    Where all tensors are in the accelerator's blocks, it runs through memory from start to end.
    """
    outer, y, x, lanes = output.split_loops(sch, "out")
    shared = [y]
    if all(view.layout == output.layout for view in inputs):
        shared = [*outer[:-1], y]  # the last one is inside a block
        sch.reorder(*shared, x, outer[-1], lanes)
    else:
        sch.reorder(y, x, *outer, lanes)
    share(sch, shared, math.prod(output.shape))
    sch.vectorize(lanes)


def share_outer(sch: Schedule, output: View) -> None:
    """Let cores share rows, planes or rows of blocks: the outer half of the loops."""
    loops = find_loops(sch, "out")
    share(sch, loops[: len(loops) // 2], math.prod(output.shape))
