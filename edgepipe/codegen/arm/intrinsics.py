"""Tensor intrinsics: one step of an int8 convolution in registers.

``C[pixel, lane] += sum_k A[pixel * stride + k] * B[lane, k]``: a tile of pixels times the weights
of ``lanes`` output channels. The reduction is kept in pairs, because all instruction sets multiply
vectors and add neighbouring products (``x86.py``, ``neon.py``). In a ``doubled`` step, they process
two pairs at once.

The loop over pixels is inside that over pairs, so the weights of a pair are loaded once.
"""

# TVMScript: buffers and their matrices have capital letters.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgepipe.codegen.arm.tensor_ir import Expr, LookUp, PrimFunc, TensorIntrin
from edgepipe.codegen.arm.tensor_ir import script as T  # noqa: N812 - TVMScript's name for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The sizes of one step; ``stride`` is the distance between pixels in ``A``, in elements."""

    pixels: int
    stride: int
    lanes: int
    pairs: int
    is_doubled: bool

    @property
    def span(self) -> int:
        """The number of elements of ``A`` from the first to the last that is read."""
        return (self.pixels - 1) * self.stride + self.pairs * 2

    def intrinsic(self, instructions: InstructionSet) -> str:
        """Return the name of the tensor intrinsic; register it first if necessary."""
        sizes = f"{self.pixels}x{self.stride}x{self.lanes}x{self.pairs}"
        name = f"edgepipe.{instructions.name}.step_{sizes}{'_doubled' if self.is_doubled else ''}"
        if TensorIntrin.get(name, allow_missing=True) is None:
            described = _describe(self, instructions.staged_dtype)
            TensorIntrin.register(name, described, instructions.product(self))
        return name


class InstructionSet(Protocol):
    """How a processor multiplies and adds vectors, and how many sums its registers hold."""

    @property
    def name(self) -> str:
        """The name of the variant, part of the names of its kernels."""
        ...

    @property
    def staged_dtype(self) -> str:
        """The dtype that it multiplies, and as which a convolution's input rows are staged."""
        ...

    @property
    def staged_zero(self) -> int:
        """The offset that staging adds to every value; kernels subtract its share from the sums."""
        ...

    @property
    def depthwise_dtype(self) -> str:
        """The dtype as which the rows of depthwise convolutions are staged."""
        ...

    @property
    def tile_lanes(self) -> Mapping[int, int]:
        """How many int32 sums fit the registers, for a step of that many lanes."""
        ...

    @property
    def look_up(self) -> LookUp | None:
        """How it looks vectors of bytes up in 256 entries; None: one by one."""
        ...

    def can_double(self, *, has_lowest_weight: bool) -> bool:
        """Return whether a step may be ``doubled``; ``has_lowest_weight``: some weight is -128."""
        ...

    def product(self, step: Step) -> PrimFunc:
        """Return the step as instructions of this processor."""
        ...


def _describe(step: Step, dtype: str) -> Any:
    pixels, stride, lanes, pairs = step.pixels, step.stride, step.lanes, step.pairs
    # TVM removes loops with one iteration from a block before it compares it with this.
    axes = [(n, kind) for n, kind in ((pixels, "S"), (lanes, "S"), (pairs, "R"), (2, "R")) if n > 1]
    extents, kinds = [n for n, _ in axes], "".join(kind for _, kind in axes)

    def element(at: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
        """Return the elements of A, B and C that belong together: their indices."""
        given = iter(at)
        p, i, j, k = (next(given) if n > 1 else 0 for n in (pixels, lanes, pairs, 2))
        return p * stride + j * 2 + k, (j, i, k), (p, i)

    @T.macro
    def update(A: Any, B: Any, C: Any) -> None:
        for loops in T.grid(*extents):
            with T.sblock("update"):
                at = T.meta_var(T.axis.remap(kinds, loops))
                C[element(at)[2]] = C[element(at)[2]] + T.cast(A[element(at)[0]], "int32") * T.cast(
                    B[element(at)[1]], "int32"
                )

    return step_function(step, dtype, update)


def step_function(step: Step, dtype: str, update: Any) -> PrimFunc:
    """Return a function of A, of ``dtype``, B and C whose body is the macro ``update``."""
    pixels, lanes, pairs, span = step.pixels, step.lanes, step.pairs, step.span

    @T.prim_func(s_tir=True)
    def function(
        A: T.Buffer((span,), dtype, offset_factor=1),
        B: T.Buffer((pairs, lanes, 2), "int8", offset_factor=1),
        C: T.Buffer((pixels, lanes), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(C[0:pixels, 0:lanes], A[0:span], B[0:pairs, 0:lanes, 0:2])
            T.writes(C[0:pixels, 0:lanes])
            update(A, B, C)

    return function
