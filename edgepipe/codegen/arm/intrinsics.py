"""Tensor intrinsics: one step of an int8 convolution in registers.

``C[lane] += sum_k A[k] * B[lane, k]``: one pixel's ``A`` against the weights of
``lanes`` output channels, kept in pairs along the reduction, because both instruction sets
multiply vectors and add neighbouring products:

* x86-64 (AVX2): ``vpmaddwd`` on int16 pairs, exact for int8 values;
* NEON without dot product (Cortex-A53; Cortex-A9 has other names for the same): ``smull`` to int16,
  then ``sadalp`` adds neighbours into int32. With two pairs a step, ``smlal`` first adds two
  products in int16. That is exact unless both are (-128) * (-128), so it needs weights above -128.
"""

# TVMScript: buffers and their matrices have capital letters.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edgepipe.codegen.arm.targets import AARCH64, ARMHF, X86_64, Architecture
from edgepipe.codegen.arm.tensor_ir import Expr, TensorIntrin
from edgepipe.codegen.arm.tensor_ir import script as T  # noqa: N812 - TVMScript's name for it


def pair_product(arch: Architecture, lanes: int, pairs: int) -> str:
    """Register (once) and return the name of the intrinsic for ``lanes`` channels."""
    name = f"edgepipe.{arch.name}.pair_product_{lanes}x{pairs}"
    if TensorIntrin.get(name, allow_missing=True) is None:
        describe, make = _FORMS[arch.name, pairs]
        TensorIntrin.register(name, describe(lanes, arch.staged_dtype), make(lanes))
    return name


def _one_pair(lanes: int, dtype: str) -> Any:
    @T.prim_func(s_tir=True)
    def description(
        A: T.Buffer((2,), dtype, offset_factor=1),
        B: T.Buffer((lanes, 2), "int8", offset_factor=1),
        C: T.Buffer((lanes,), "int32", offset_factor=1, scope="local"),
    ) -> None:
        with T.sblock("root"):
            T.reads(C[0:lanes], A[0:2], B[0:lanes, 0:2])
            T.writes(C[0:lanes])
            for i, k in T.grid(lanes, 2):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")

    return description


def _two_pairs(lanes: int, dtype: str) -> Any:
    @T.prim_func(s_tir=True)
    def description(
        A: T.Buffer((4,), dtype, offset_factor=1),
        B: T.Buffer((2, lanes, 2), "int8", offset_factor=1),
        C: T.Buffer((lanes,), "int32", offset_factor=1, scope="local"),
    ) -> None:
        with T.sblock("root"):
            T.reads(C[0:lanes], A[0:4], B[0:2, 0:lanes, 0:2])
            T.writes(C[0:lanes])
            for i, j, k in T.grid(lanes, 2, 2):
                with T.sblock("update"):
                    vi, vj, vk = T.axis.remap("SRR", [i, j, k])
                    C[vi] = C[vi] + T.cast(A[vj * 2 + vk], "int32") * T.cast(B[vj, vi, vk], "int32")

    return description


def _avx2(lanes: int) -> Any:
    @T.prim_func(s_tir=True)
    def product(
        A: T.Buffer((2,), "int16", offset_factor=1),
        B: T.Buffer((lanes, 2), "int8", offset_factor=1),
        C: T.Buffer((lanes,), "int32", offset_factor=1, scope="local"),
    ) -> None:
        with T.sblock("root"):
            T.reads(C[0:lanes], A[0:2], B[0:lanes, 0:2])
            T.writes(C[0:lanes])
            for g in T.unroll(lanes // 8):
                C[T.ramp(g * 8, 1, 8)] += T.call_llvm_pure_intrin(
                    T.llvm_lookup_intrinsic_id("llvm.x86.avx2.pmadd.wd"),
                    T.reinterpret(
                        T.broadcast(T.reinterpret(A.vload([0], "int16x2"), dtype="int32"), 8),
                        dtype="int16x16",
                    ),
                    T.cast(B.vload([g * 8, 0], dtype="int8x16"), "int16x16"),
                    dtype="int32x8",
                )

    return product


@dataclass(frozen=True, slots=True)
class _Neon:
    """The names that LLVM gives the two NEON instructions on one architecture."""

    multiply: str
    pairwise_add: str

    def smull(self, pair: Expr, weights: Expr) -> Expr:
        """Multiply four copies of an int8 pair with four channels' weight pairs: int16x8."""
        copies = T.broadcast(T.reinterpret(pair, dtype="int16"), 4)
        return T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id(self.multiply),
            T.reinterpret(copies, dtype="int8x8"),
            weights,
            dtype="int16x8",
        )

    def add_neighbours(self, products: Expr) -> Expr:
        """Add neighbouring int16 lanes into int32x4; LLVM fuses the addition after it (sadalp)."""
        return T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id(self.pairwise_add), products, dtype="int32x4"
        )


_A64 = _Neon("llvm.aarch64.neon.smull.v8i16", "llvm.aarch64.neon.saddlp.v4i32.v8i16")
_A32 = _Neon("llvm.arm.neon.vmulls.v8i16", "llvm.arm.neon.vpaddls.v4i32.v8i16")


def _neon(lanes: int, neon: _Neon) -> Any:
    @T.prim_func(s_tir=True)
    def product(
        A: T.Buffer((2,), "int8", offset_factor=1),
        B: T.Buffer((lanes, 2), "int8", offset_factor=1),
        C: T.Buffer((lanes,), "int32", offset_factor=1, scope="local"),
    ) -> None:
        with T.sblock("root"):
            T.reads(C[0:lanes], A[0:2], B[0:lanes, 0:2])
            T.writes(C[0:lanes])
            for g in T.unroll(lanes // 4):
                C[T.ramp(g * 4, 1, 4)] += neon.add_neighbours(
                    neon.smull(A.vload([0], "int8x2"), B.vload([g * 4, 0], "int8x8"))
                )

    return product


def _neon_two_pairs(lanes: int, neon: _Neon) -> Any:
    @T.prim_func(s_tir=True)
    def product(
        A: T.Buffer((4,), "int8", offset_factor=1),
        B: T.Buffer((2, lanes, 2), "int8", offset_factor=1),
        C: T.Buffer((lanes,), "int32", offset_factor=1, scope="local"),
    ) -> None:
        with T.sblock("root"):
            T.reads(C[0:lanes], A[0:4], B[0:2, 0:lanes, 0:2])
            T.writes(C[0:lanes])
            for g in T.unroll(lanes // 4):
                C[T.ramp(g * 4, 1, 4)] += neon.add_neighbours(
                    neon.smull(A.vload([0], "int8x2"), B.vload([0, g * 4, 0], "int8x8"))
                    + neon.smull(A.vload([2], "int8x2"), B.vload([1, g * 4, 0], "int8x8"))
                )

    return product


# (architecture, pairs a step) -> (what the step means, how it is done)
_FORMS: dict[tuple[str, int], tuple[Callable[[int, str], Any], Callable[[int], Any]]] = {
    (X86_64.name, 1): (_one_pair, _avx2),
    (AARCH64.name, 1): (_one_pair, lambda lanes: _neon(lanes, _A64)),
    (AARCH64.name, 2): (_two_pairs, lambda lanes: _neon_two_pairs(lanes, _A64)),
    (ARMHF.name, 1): (_one_pair, lambda lanes: _neon(lanes, _A32)),
    (ARMHF.name, 2): (_two_pairs, lambda lanes: _neon_two_pairs(lanes, _A32)),
}
