"""TVM's tensor-expression and schedule names as the kernels here use them: one border module.

``tvm.tir`` became ``tvm.tirx`` and schedules moved to ``tvm.s_tir`` in apache-tvm 0.27; should they
move again, this file changes and no kernel does.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import te, tirx
from tvm.s_tir import Schedule, TensorIntrin
from tvm.script import tirx as script

# An index or value expression, a tensor, a loop or block handle: untyped on TVM's side.
Expr = Any
Tensor = Any
Loop = Any
PrimFunc = Any


def schedule(arguments: list[Tensor]) -> Schedule:
    """Return a schedule of the kernel whose parameters are ``arguments``, outputs last."""
    function = te.create_prim_func(arguments).with_attr("global_symbol", "main")
    return Schedule(tvm.IRModule({"main": function}), debug_mask="none")


def result(sch: Schedule) -> PrimFunc:
    """Return the scheduled kernel."""
    return sch.mod["main"]


def find_loops(sch: Schedule, block: str) -> list[Loop]:
    """Return the loops around ``block``, outermost first."""
    return list(sch.get_loops(sch.get_sblock(block)))


__all__ = [
    "Expr",
    "Loop",
    "PrimFunc",
    "Schedule",
    "Tensor",
    "TensorIntrin",
    "find_loops",
    "result",
    "schedule",
    "script",
    "te",
    "tirx",
]
