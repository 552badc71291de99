"""Look the results of a kernel up in a table, in its last pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vta_stages.isa.instructions import (
    LONGEST_REQUANTISE_SHIFT,
    AluOp,
    requantise_immediate,
    table_content,
)
from vta_stages.layers.records import Int8Array
from vta_stages.lowering.kernel import Accumulator, Immediate, Kernel, Step, Vector

_INT8 = range(-128, 128)


def look_up(kernel: Kernel, table: Int8Array) -> Kernel:
    """Return a kernel whose outputs, all int8, go through a table int8[256] when they are stored.

    The pass that requantises them looks them up, too. Where there is none, a single pass does so
    that also shifts and clips as the kernel's last passes do, which it replaces.
    """
    steps = list(kernel.steps)
    last = steps[-1]
    if (
        isinstance(last, Immediate | Vector)
        and last.op is AluOp.REQUANTISE
        and last.target is Accumulator.MAIN
    ):
        steps[-1] = replace(last, op=AluOp.TABLE)
    else:
        imm = requantise_immediate(*_taken(steps))
        steps.append(Immediate(AluOp.TABLE, Accumulator.MAIN, imm))
    return replace(kernel, steps=tuple(steps), table=table_content(table))


def shared_table(table: Int8Array) -> Int8Array | None:
    """Return the one table int8[256] of all channels of ``table``, int8[n, 256]; none if they
    differ."""
    return table[0] if np.array_equal(table, np.broadcast_to(table[:1], table.shape)) else None


def _taken(steps: list[Step]) -> tuple[int, int, int]:
    """Take a shift and clips from the end of ``steps``; return the distance and both bounds."""
    _last(steps, AluOp.ADD, (0,))
    high = _last(steps, AluOp.MIN, _INT8, _INT8[-1])
    low = _last(steps, AluOp.MAX, _INT8[:: LONGEST_REQUANTISE_SHIFT + 1], _INT8[0])
    return _last(steps, AluOp.SHR, range(LONGEST_REQUANTISE_SHIFT + 1)), low, high


def _last(steps: list[Step], op: AluOp, allowed: Sequence[int], otherwise: int = 0) -> int:
    """Take the last step if it is ``op`` with an allowed immediate, and return that."""
    last = steps[-1]
    if (
        isinstance(last, Immediate)
        and (last.op, last.target) == (op, Accumulator.MAIN)
        and last.imm in allowed
    ):
        steps.pop()
        return last.imm
    return otherwise
