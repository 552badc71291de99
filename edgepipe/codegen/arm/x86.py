"""One step of an int8 convolution on x86-64: AVX2, and AVX-512 with VNNI."""

# TVMScript: buffers and their matrices have capital letters.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgepipe.codegen.arm.intrinsics import Step, step_function
from edgepipe.codegen.arm.tensor_ir import Expr, PrimFunc, tirx
from edgepipe.codegen.arm.tensor_ir import script as T  # noqa: N812 - TVMScript's name for it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Avx2:
    """``vpmaddwd`` multiplies int16 and adds neighbours into eight int32: exact for int8 values."""

    name: str
    tile_lanes: Mapping[int, int]

    staged_dtype = depthwise_dtype = "int16"
    staged_zero = 0
    look_up = None

    def can_double(self, *, has_lowest_weight: bool) -> bool:
        return False

    def product(self, step: Step) -> PrimFunc:
        """Return the step, eight channels at a time."""
        pixels, stride, lanes, pairs = step.pixels, step.stride, step.lanes, step.pairs

        @T.macro
        def update(A: Any, B: Any, C: Any) -> None:
            for j in T.unroll(pairs):
                for p in T.unroll(pixels):
                    for g in T.unroll(lanes // 8):
                        C[p, T.ramp(g * 8, 1, 8)] += T.call_llvm_pure_intrin(
                            T.llvm_lookup_intrinsic_id("llvm.x86.avx2.pmadd.wd"),
                            T.reinterpret(
                                T.broadcast(
                                    T.reinterpret(
                                        A.vload([p * stride + j * 2], "int16x2"), dtype="int32"
                                    ),
                                    8,
                                ),
                                dtype="int16x16",
                            ),
                            T.cast(B.vload([j, g * 8, 0], dtype="int8x16"), "int16x16"),
                            dtype="int32x8",
                        )

        return step_function(step, self.staged_dtype, update)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Avx512Vnni:
    """``vpdpbusd`` adds four products of uint8 and int8 to each int32: two pairs at once.

    Rows are staged with 128 added, which makes them uint8; the kernel subtracts 128 times the sum
    of the weights. An odd last pair is filled up with two weights of zero.
    """

    name: str
    tile_lanes: Mapping[int, int]

    staged_dtype = "uint8"
    staged_zero = 128
    depthwise_dtype = "int16"
    look_up = None

    def can_double(self, *, has_lowest_weight: bool) -> bool:
        return True

    def two_pairs(self, sums: Expr, pixels: Expr, weights: Expr, lanes: int) -> Expr:
        """Add to int32 ``sums`` a pixel's uint8x4 times ``weights`` int8[2 pairs, lanes, 2]."""
        copies = T.broadcast(T.reinterpret(pixels, dtype="int32"), lanes)
        words = T.reinterpret(weights, dtype=f"int16x{2 * lanes}")
        places = [pair * lanes + lane for lane in range(lanes) for pair in range(2)]
        return self._add_products(sums, copies, tirx.Shuffle([words], places), lanes)

    def one_pair(self, sums: Expr, pixels: Expr, weights: Expr, lanes: int) -> Expr:
        """The same for a pixel's uint8x2 and weights int8[lanes, 2]."""
        copies = T.broadcast(T.reinterpret(pixels, dtype="int16"), 2 * lanes)
        words = T.cast(T.reinterpret(weights, dtype=f"uint16x{lanes}"), f"uint32x{lanes}")
        return self._add_products(sums, copies, words, lanes)

    def _add_products(self, sums: Expr, copies: Expr, weights: Expr, lanes: int) -> Expr:
        return T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id(f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"),
            sums,
            T.reinterpret(copies, dtype=f"int8x{4 * lanes}"),
            T.reinterpret(weights, dtype=f"int8x{4 * lanes}"),
            dtype=f"int32x{lanes}",
        )

    def product(self, step: Step) -> PrimFunc:
        """Return the step, all channels in one register."""
        pixels, stride, lanes, pairs = step.pixels, step.stride, step.lanes, step.pairs
        doubled = pairs // 2 * 2 if step.is_doubled else 0

        @T.macro
        def update(A: Any, B: Any, C: Any) -> None:
            # Not unrolled: LLVM would keep values that neighbouring pixels share, and spill them.
            for j in T.serial(doubled // 2):
                for p in T.unroll(pixels):
                    C[p, T.ramp(0, 1, lanes)] = self.two_pairs(
                        C[p, T.ramp(0, 1, lanes)],
                        A.vload([p * stride + j * 4], "uint8x4"),
                        B.vload([j * 2, 0, 0], f"int8x{4 * lanes}"),
                        lanes,
                    )
            for j in T.unroll(pairs - doubled):
                for p in T.unroll(pixels):
                    C[p, T.ramp(0, 1, lanes)] = self.one_pair(
                        C[p, T.ramp(0, 1, lanes)],
                        A.vload([p * stride + (doubled + j) * 2], "uint8x2"),
                        B.vload([doubled + j, 0, 0], f"int8x{2 * lanes}"),
                        lanes,
                    )

        return step_function(step, self.staged_dtype, update)


# 13 or 10 of 16 registers, and 26 or 28 of 32.
AVX2 = _Avx2(name="avx2", tile_lanes={8: 104, 16: 80})
AVX512_VNNI = _Avx512Vnni(name="avx512vnni", tile_lanes={8: 208, 16: 448})
