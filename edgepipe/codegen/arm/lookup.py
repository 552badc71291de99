"""Look int8 values up in a table of 256 entries.

In memory a row of a table begins with the entry of 0 and ends with that of -1, so that a value's
byte is its index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgepipe.codegen.arm.layouts import View
from edgepipe.codegen.arm.tensor_ir import (
    TABLE_ENTRIES,
    Expr,
    Tensor,
    te,
    tirx,
)
from vta_stages.layers.records import Int8Array, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The shape of a table whose results are ``output``: one row, or one for each lane."""

    output: View
    is_by_channel: bool

    @classmethod
    def of(cls, layer: Table, output: View) -> Lookup:
        """Return the shape of ``layer``'s table."""
        return cls(output=output, is_by_channel=layer.table.shape[0] > 1)

    def placeholder(self, name: str) -> Tensor:
        """Return the kernel parameter: int8[256], or int8[256 * lanes]."""
        rows = self.output.lanes if self.is_by_channel else 1
        return te.placeholder((TABLE_ENTRIES * rows,), "int8", name)

    def apply(self, value: Expr, table: Tensor, c: Expr) -> Expr:
        """Return what int8 ``value`` of channel ``c`` becomes; padding lanes give zero."""
        # Not a cast: TVM folds casts of bounds, and cannot make -128 unsigned.
        index = tirx.reinterpret("uint8", value).astype("int32")
        if self.is_by_channel:  # the rows of padding lanes are zero
            return table[c * TABLE_ENTRIES + index]
        if self.output.is_padded:
            return tirx.Select(c < self.output.channels, table[index], tirx.const(0, "int8"))
        return table[index]


def table_constant(layer: Table, lanes: int) -> Int8Array:
    """Return the argument for :meth:`Lookup.placeholder`, int8[256] or int8[256 * lanes]."""
    rows = np.zeros((lanes if layer.table.shape[0] > 1 else 1, TABLE_ENTRIES), np.int8)
    rows[: layer.table.shape[0]] = np.roll(layer.table, TABLE_ENTRIES // 2, axis=1)
    return rows.reshape(-1)
