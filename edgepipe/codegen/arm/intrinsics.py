"""Tensor intrinsics: one step of an int8 convolution in registers.

``C[pixel, lane] += sum_k A[pixel * stride + k] * B[lane, k]``: a tile of pixels against the weights
of ``lanes`` output channels. The reduction is kept in pairs, because both instruction sets multiply
vectors and add neighbouring products:

* x86-64 (AVX2): ``vpmaddwd`` on int16 pairs, exact for int8 values, then ``vpaddd``; AVX512-VNNI
  does both at once (``vpdpwssd``), on twice the lanes;
* NEON without dot product (Cortex-A53; Cortex-A9 has other names for the same): ``smull`` to int16,
  then ``sadalp`` adds neighbours into int32. Where two pairs of a step are ``doubled``, ``smlal``
  first adds their products in int16. That is exact unless both are (-128) * (-128), so it needs
  weights above -128. The last pair of an odd number goes alone.

Pixels are inside a pair, so its weights are loaded once.
"""

# TVMScript: buffers and their matrices have capital letters.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgepipe.codegen.arm.tensor_ir import Expr, PrimFunc, TensorIntrin, tirx
from edgepipe.codegen.arm.tensor_ir import script as T  # noqa: N812 - TVMScript's name for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The sizes of one step: ``stride`` is the distance of two pixels in ``A``, in elements."""

    pixels: int
    stride: int
    lanes: int
    pairs: int
    is_doubled: bool

    @property
    def span(self) -> int:
        """Elements of ``A`` from the first to the last that is read."""
        return (self.pixels - 1) * self.stride + self.pairs * 2

    def intrinsic(self, instructions: InstructionSet) -> str:
        """Register (once) and return the name of the tensor intrinsic."""
        sizes = f"{self.pixels}x{self.stride}x{self.lanes}x{self.pairs}"
        name = f"edgepipe.{instructions.name}.step_{sizes}{'_doubled' if self.is_doubled else ''}"
        if TensorIntrin.get(name, allow_missing=True) is None:
            described = _describe(self, instructions.staged_dtype)
            TensorIntrin.register(name, described, instructions.product(self))
        return name


class InstructionSet(Protocol):
    """What a processor multiplies and adds vectors with, and how many sums its registers hold."""

    @property
    def name(self) -> str: ...

    @property
    def staged_dtype(self) -> str:
        """What it multiplies: a convolution's input rows are staged as that."""
        ...

    @property
    def can_double(self) -> bool:
        """Whether a step may be ``doubled``."""
        ...

    @property
    def tile_lanes(self) -> Mapping[int, int]:
        """The int32 sums that registers have room for, by the lanes of a step."""
        ...

    def product(self, step: Step) -> PrimFunc:
        """Return the step in this processor's instructions."""
        ...


def _describe(step: Step, dtype: str) -> Any:
    pixels, stride, lanes, pairs, span = step.pixels, step.stride, step.lanes, step.pairs, step.span
    # TVM drops loops of one from a block before it compares it with this.
    axes = [(n, kind) for n, kind in ((pixels, "S"), (lanes, "S"), (pairs, "R"), (2, "R")) if n > 1]
    extents, kinds = [n for n, _ in axes], "".join(kind for _, kind in axes)

    def element(at: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
        """Return the elements of A, B and C that belong together: their indices."""
        given = iter(at)
        p, i, j, k = (next(given) if n > 1 else 0 for n in (pixels, lanes, pairs, 2))
        return p * stride + j * 2 + k, (j, i, k), (p, i)

    @T.prim_func(s_tir=True)
    def description(
        A: T.Buffer((span,), dtype, offset_factor=1),
        B: T.Buffer((pairs, lanes, 2), "int8", offset_factor=1),
        C: T.Buffer((pixels, lanes), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(C[0:pixels, 0:lanes], A[0:span], B[0:pairs, 0:lanes, 0:2])
            T.writes(C[0:pixels, 0:lanes])
            for loops in T.grid(*extents):
                with T.sblock("update"):
                    at = T.meta_var(T.axis.remap(kinds, loops))
                    C[element(at)[2]] = C[element(at)[2]] + T.cast(
                        A[element(at)[0]], "int32"
                    ) * T.cast(B[element(at)[1]], "int32")

    return description


@dataclass(frozen=True, slots=True, kw_only=True)
class _X86:
    """Vectors of int32 sums of up to ``most_lanes``; every sum takes an int16 pair of products.

    LLVM makes one instruction of both where the processor has it.
    """

    name: str
    most_lanes: int
    tile_lanes: Mapping[int, int]

    staged_dtype = "int16"
    can_double = False

    def product(self, step: Step) -> PrimFunc:
        """Return the step in registers of the step's lanes, or of what there is."""
        pixels, lanes, pairs, span = step.pixels, step.lanes, step.pairs, step.span
        stride, width = step.stride, min(lanes, self.most_lanes)
        multiply = _MULTIPLY_PAIRS[width]

        @T.prim_func(s_tir=True)
        def product(
            A: T.Buffer((span,), "int16", offset_factor=1),
            B: T.Buffer((pairs, lanes, 2), "int8", offset_factor=1),
            C: T.Buffer((pixels, lanes), "int32", offset_factor=1),
        ) -> None:
            with T.sblock("root"):
                T.reads(C[0:pixels, 0:lanes], A[0:span], B[0:pairs, 0:lanes, 0:2])
                T.writes(C[0:pixels, 0:lanes])
                for j in T.unroll(pairs):
                    for p in T.unroll(pixels):
                        for g in T.unroll(lanes // width):
                            C[p, T.ramp(g * width, 1, width)] += T.call_llvm_pure_intrin(
                                T.llvm_lookup_intrinsic_id(multiply),
                                T.reinterpret(
                                    T.broadcast(
                                        T.reinterpret(
                                            A.vload([p * stride + j * 2], "int16x2"), dtype="int32"
                                        ),
                                        width,
                                    ),
                                    dtype=f"int16x{width * 2}",
                                ),
                                T.cast(
                                    B.vload([j, g * width, 0], dtype=f"int8x{width * 2}"),
                                    f"int16x{width * 2}",
                                ),
                                dtype=f"int32x{width}",
                            )

        return product


_MULTIPLY_PAIRS = {8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}

LOW, HIGH = "low", "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Neon:
    """``multiply`` and ``pairwise_add`` are LLVM's names of the two NEON instructions.

    Weights are loaded for eight channels, int8x16, and multiplied four channels at a time.
    """

    name: str
    multiply: str
    pairwise_add: str
    tile_lanes: Mapping[int, int]

    staged_dtype = "int8"
    can_double = True

    def one_pair(self, pair: Expr, weights: Expr, channels: str) -> Expr:
        """Return an int8x2 pair's products with four of the weights' channels: int32x4."""
        copies = T.broadcast(T.reinterpret(pair, dtype="int16"), 4)
        return self._add_neighbours(self._smull(copies, weights, channels))

    def two_pairs(self, pairs: Expr, first: Expr, second: Expr, channels: str) -> Expr:
        """Likewise of two pairs, int8x4, which are loaded at once and added up in int16."""
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
        """Return the step, doubled pairs first, the last pair of an odd number alone."""
        pixels, lanes, pairs, span = step.pixels, step.lanes, step.pairs, step.span
        stride, doubled = step.stride, pairs // 2 * 2 if step.is_doubled else 0

        # The order of loops is the one in which LLVM spills the fewest registers.
        @T.prim_func(s_tir=True)
        def product(
            A: T.Buffer((span,), "int8", offset_factor=1),
            B: T.Buffer((pairs, lanes, 2), "int8", offset_factor=1),
            C: T.Buffer((pixels, lanes), "int32", offset_factor=1),
        ) -> None:
            with T.sblock("root"):
                T.reads(C[0:pixels, 0:lanes], A[0:span], B[0:pairs, 0:lanes, 0:2])
                T.writes(C[0:pixels, 0:lanes])
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

        return product


AVX512_VNNI = _X86(name="avx512vnni", most_lanes=16, tile_lanes={8: 208, 16: 448})
AVX2 = _X86(name="avx2", most_lanes=8, tile_lanes={8: 104, 16: 80})
A64_NEON = _Neon(
    name="a64",
    multiply="llvm.aarch64.neon.smull.v8i16",
    pairwise_add="llvm.aarch64.neon.saddlp.v4i32.v8i16",
    tile_lanes={8: 104, 16: 80},
)
A32_NEON = _Neon(
    name="a32",
    multiply="llvm.arm.neon.vmulls.v8i16",
    pairwise_add="llvm.arm.neon.vpaddls.v4i32.v8i16",
    tile_lanes={8: 104, 16: 80},
)
