"""Staging: the rows that a band of outputs needs, with their zero border, side by side.

A staged row holds ``columns * channels`` elements, pixel after pixel. A kernel row is then one
contiguous run of ``kernel_width * channels`` elements, without a test for the border. For a camera
frame, the input table has already been applied, once per pixel instead of once per tap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgepipe.codegen.arm.layouts import View
from edgepipe.codegen.arm.tensor_ir import Expr, Loop, Schedule, Tensor, share, te, tirx

# Staged bands stay within a share of the second-level cache (1 MB on the Ultra96, four cores).
BAND_BYTES = 192 * 1024
BLOCK = "staged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The staged rows and columns of ``input``; row 0 is input row ``first_row``, columns alike.

    ``is_camera``: the input is uint8 and is looked up in a table int8[256 * channels].
    """

    input: View
    is_camera: bool
    first_row: int
    first_column: int
    rows: int
    columns: int

    @property
    def channels(self) -> int:
        """The channels of a staged pixel, including padding lanes."""
        return self.input.lanes

    def placeholders(self) -> list[Tensor]:
        """Return the kernel parameters: the input, and a camera's table."""
        found = [self.input.placeholder("x")]
        if self.is_camera:
            found.append(te.placeholder((256 * self.input.channels,), "int8", "table"))
        return found

    def compute(self, params: list[Tensor], dtype: str, zero: int = 0) -> Tensor:
        """Define staged rows as ``dtype[rows, columns, channels]``; :meth:`place` flattens them.

        ``zero`` is added to every value, so a zero is staged as ``zero``.
        """
        source = self.input

        def value(row: Expr, column: Expr, c: Expr) -> Expr:
            y, x = row + self.first_row, column + self.first_column
            found = params[0][source.layout.index(c, y, x)]
            if self.is_camera:
                found = params[1][c * 256 + found.astype("int32")]
            inside = tirx.all(y >= 0, y < source.height, x >= 0, x < source.width)
            # Modulo 256: the sum of a byte is another one.
            found = found.astype(dtype) + tirx.const(zero, dtype)
            return tirx.if_then_else(inside, found, tirx.const(zero, dtype))

        return te.compute((self.rows, self.columns, self.channels), value, name=BLOCK)

    def element(self, staged: Tensor, row: Expr, element: Expr) -> Expr:
        """Read element ``column * channels + c`` of a staged row; ``c`` may exceed the pixel."""
        column, c = tirx.floordiv(element, self.channels), tirx.floormod(element, self.channels)
        return staged[row, column, c]

    def band(self, rows: int, step: int, dtype: str) -> int:
        """Return for how many of ``rows`` output rows to stage at once, a divisor of ``rows``."""
        row_bytes = self.columns * self.channels * (2 if dtype == "int16" else 1)
        window = self.rows - (rows - 1) * step
        fitting = [
            n
            for n in range(1, rows + 1)
            if rows % n == 0 and ((n - 1) * step + window) * row_bytes <= BAND_BYTES
        ]
        return max(fitting, default=1)

    def place(self, sch: Schedule, loop: Loop) -> None:
        """Compute the staged rows just inside ``loop``, whole vectors of channels at a time."""
        block, channels = sch.get_sblock(BLOCK), self.channels
        sch.compute_at(block, loop, preserve_unit_loops=True)
        # Flattened only now: compute_at cannot invert `column * channels + c` for odd channels.
        sch.transform_layout(
            block, ("write", 0), lambda row, column, c: (row, column * channels + c)
        )
        *_, row, column, channel = sch.get_loops(block)
        share(sch, [row], math.prod(int(sch.get(n).extent) for n in (row, column, channel)))
        if self.is_camera:
            sch.unroll(channel)
            self._split_off_border(sch, column)
            return
        for lanes in (32, 16, 8):
            if self.channels % lanes == 0:
                _, vector = sch.split(channel, [None, lanes])
                sch.vectorize(vector)
                return

    def _split_off_border(self, sch: Schedule, column: Loop) -> None:
        """Put the columns left and right of the picture into separate loops, which need no test."""
        before = min(max(0, -self.first_column), self.columns)
        inside = min(self.columns - before, self.input.width)
        parts = [n for n in (before, inside, self.columns - before - inside) if n > 0]
        if len(parts) > 1:
            sch.loop_partition(column, [*parts[:-1], None])
