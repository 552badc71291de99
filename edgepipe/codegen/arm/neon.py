"""One step of an int8 convolution on NEON without dot product (Cortex-A53, Cortex-A9).

``smull`` multiplies to int16, then ``sadalp`` adds neighbours into int32; armhf has other names for
these instructions. Where two pairs of a step are ``doubled``, ``smlal`` first adds their products
in int16. That is exact unless both are (-128) * (-128), so it needs weights above -128. An odd last
pair is processed alone.
"""

# TVMScript: buffers and their matrices have capital letters.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgepipe.codegen.arm.intrinsics import Step, step_function
from edgepipe.codegen.arm.tensor_ir import Expr, LookUp, PrimFunc, tirx
from edgepipe.codegen.arm.tensor_ir import script as T  # noqa: N812 - TVMScript's name for it

LOW, HIGH = "low", "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Neon:
    """``multiply`` and ``pairwise_add`` are LLVM's names for the two NEON instructions.

    Weights are loaded for eight channels, int8x16, and multiplied four channels at a time.
    """

    name: str
    multiply: str
    pairwise_add: str
    tile_lanes: Mapping[int, int]
    look_up: LookUp | None

    staged_dtype = depthwise_dtype = "int8"
    staged_zero = 0

    def can_double(self, *, has_lowest_weight: bool) -> bool:
        return not has_lowest_weight

    def one_pair(self, pair: Expr, weights: Expr, channels: str) -> Expr:
        """Return the products of a pair, int8x2, with the weights of four channels: int32x4."""
        copies = T.broadcast(T.reinterpret(pair, dtype="int16"), 4)
        return self._add_neighbours(self._smull(copies, weights, channels))

    def two_pairs(self, pairs: Expr, first: Expr, second: Expr, channels: str) -> Expr:
        """The same for two pairs, int8x4, which are loaded at once and added in int16."""
        both = T.reinterpret(pairs, dtype="int16x2")
        products = [
            self._smull(tirx.Shuffle([both, both], [index] * 4), weights, channels)
            for index, weights in enumerate((first, second))
        ]
        return self._add_neighbours(products[0] + products[1])

    def _smull(self, copies: Expr, weights: Expr, channels: str) -> Expr:
        """Multiply four copies of an int8 pair, int16x4, with four channels' pairs: int16x8."""
        part = T.vectorlow if channels == LOW else T.vectorhigh
        return T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id(self.multiply),
            T.reinterpret(copies, dtype="int8x8"),
            part(weights, dtype="int8x8"),
            dtype="int16x8",
        )

    def _add_neighbours(self, products: Expr) -> Expr:
        """Add neighbouring int16 lanes into int32x4; LLVM fuses the addition after it (sadalp)."""
        return T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id(self.pairwise_add), products, dtype="int32x4"
        )

    def product(self, step: Step) -> PrimFunc:
        """Return the step: doubled pairs first, then an odd last pair."""
        pixels, lanes, pairs = step.pixels, step.lanes, step.pairs
        stride, doubled = step.stride, pairs // 2 * 2 if step.is_doubled else 0

        # In this order of loops, LLVM spills the fewest registers.
        @T.macro
        def update(A: Any, B: Any, C: Any) -> None:
            for j in T.unroll(doubled // 2):
                for p in T.unroll(pixels):
                    for g in T.unroll(lanes // 8):
                        C[p, T.ramp(g * 8, 1, 4)] += self.two_pairs(
                            A.vload([p * stride + j * 4], "int8x4"),
                            B.vload([j * 2, g * 8, 0], "int8x16"),
                            B.vload([j * 2 + 1, g * 8, 0], "int8x16"),
                            LOW,
                        )
                        C[p, T.ramp(g * 8 + 4, 1, 4)] += self.two_pairs(
                            A.vload([p * stride + j * 4], "int8x4"),
                            B.vload([j * 2, g * 8, 0], "int8x16"),
                            B.vload([j * 2 + 1, g * 8, 0], "int8x16"),
                            HIGH,
                        )
            for j in T.unroll(pairs - doubled):
                for g in T.unroll(lanes // 8):
                    for p in T.unroll(pixels):
                        C[p, T.ramp(g * 8, 1, 4)] += self.one_pair(
                            A.vload([p * stride + (doubled + j) * 2], "int8x2"),
                            B.vload([doubled + j, g * 8, 0], "int8x16"),
                            LOW,
                        )
                        C[p, T.ramp(g * 8 + 4, 1, 4)] += self.one_pair(
                            A.vload([p * stride + (doubled + j) * 2], "int8x2"),
                            B.vload([doubled + j, g * 8, 0], "int8x16"),
                            HIGH,
                        )

        return step_function(step, self.staged_dtype, update)


def _look_up_64(table: Sequence[Expr], index: Expr, dtype: str) -> Expr:
    """Look ``index`` up in four quarters: ``tbl`` and ``tbx`` leave lanes outside theirs alone.

    A quarter is four registers. A table that stays in registers takes 0.75 instructions a byte, 3.4
    if every byte is loaded alone (2026-11, objdump).
    """
    lanes = dtype.removeprefix("int8x")

    def quarter(number: int, name: str, *before: Expr) -> Expr:
        within = index - T.broadcast(T.int8(number * 64 - (256 if number > 1 else 0)), int(lanes))
        return T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id(f"llvm.aarch64.neon.{name}.v{lanes}i8"),
            *before,
            *table[number * 4 : number * 4 + 4],
            within,
            dtype=dtype,
        )

    found = quarter(0, "tbl4")
    for number in range(1, 4):
        found = quarter(number, "tbx4", found)
    return found


def _look_up_32(table: Sequence[Expr], index: Expr, dtype: str) -> Expr:
    """Look ``index`` up, eight lanes at a time, in eighths of four doubleword registers.

    All 32 registers together hold one table, so each eighth is loaded where it is used. 16 bytes
    take 52 instructions, 53 if every byte is loaded alone; but none moves a byte between NEON and
    the core (2026-11, objdump).
    """
    halves = [part(r, dtype="int8x8") for r in table for part in (T.vectorlow, T.vectorhigh)]

    def eighth(number: int, name: str, lanes: Expr, *before: Expr) -> Expr:
        within = lanes - T.broadcast(T.int8(number * 32 - (256 if number > 3 else 0)), 8)
        return T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id(f"llvm.arm.neon.{name}"),
            *before,
            *halves[number * 4 : number * 4 + 4],
            within,
            dtype="int8x8",
        )

    def look_up(lanes: Expr) -> Expr:
        found = eighth(0, "vtbl4", lanes)
        for number in range(1, 8):
            found = eighth(number, "vtbx4", lanes, found)
        return found

    if dtype == "int8x8":
        return look_up(index)
    parts = [look_up(part(index, dtype="int8x8")) for part in (T.vectorlow, T.vectorhigh)]
    return T.vectorcombine(*parts, dtype="int8x16")


_TILE_LANES = {8: 104, 16: 80}  # 26 or 20 of 32 registers
A64_NEON = _Neon(
    name="a64",
    multiply="llvm.aarch64.neon.smull.v8i16",
    pairwise_add="llvm.aarch64.neon.saddlp.v4i32.v8i16",
    tile_lanes=_TILE_LANES,
    look_up=_look_up_64,
)
A32_NEON = _Neon(
    name="a32",
    multiply="llvm.arm.neon.vmulls.v8i16",
    pairwise_add="llvm.arm.neon.vpaddls.v4i32.v8i16",
    tile_lanes=_TILE_LANES,
    look_up=_look_up_32,
)
