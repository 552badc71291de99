"""The product of two pictures, either of which may be broadcast, then the epilogue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.codegen.arm.epilogue import Tail, padded
from edgepipe.codegen.arm.intrinsics import InstructionSet
from edgepipe.codegen.arm.layouts import View
from edgepipe.codegen.arm.tensor_ir import Expr, PrimFunc, Tensor, result, schedule, te
from edgepipe.codegen.arm.vectors import vectorise
from vta_stages.layers.records import Int32Array, Product


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductKernel:
    """Products in int16 (exact for int8), times a factor in int32, then the tail.

    A factor that is loaded as int16, ``factor_dtype``, needs no widening of the products.
    """

    first: View
    second: View
    tail: Tail
    factor_dtype: str

    stem = "product"

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the scheduled kernel: (first, second, factor[lanes], tail's, output)."""
        output = self.tail.output
        tensors = [self.first.placeholder("first"), self.second.placeholder("second")]
        factor = te.placeholder((output.lanes,), self.factor_dtype, "factor")
        params = self.tail.placeholders()

        def value(c: Expr, y: Expr, x: Expr) -> Expr:
            first = self._read(self.first, tensors[0], c, y, x)
            second = self._read(self.second, tensors[1], c, y, x)
            product = (first.astype("int16") * second.astype("int16")).astype("int32")
            return self.tail.apply(product * factor[c].astype("int32"), params, c, y, x)

        sch = schedule([*tensors, factor, *params, output.compute(value, "out")])
        vectorise(sch, output, [self.first, self.second, *self.tail.terms])
        return result(sch)

    def _read(self, view: View, tensor: Tensor, c: Expr, y: Expr, x: Expr) -> Expr:
        """Read an element; extents of one are broadcast."""
        output = self.tail.output
        if view.channels == 1 < output.channels:
            c = 0
        y = 0 if view.height == 1 < output.height else y
        x = 0 if view.width == 1 < output.width else x
        return view.read(tensor, c, y, x, lanes=1 if isinstance(c, int) else output.lanes)


def product(
    layer: Product, first: View, second: View, tail: Tail
) -> tuple[ProductKernel, NDArray[np.int16] | Int32Array]:
    """Return the kernel of a product, and its factors: int16[lanes], or int32 if they need it."""
    factor = padded(layer.factor, tail.output.lanes)
    fits = np.abs(factor).max() < 1 << 15
    kernel = ProductKernel(
        first=first, second=second, tail=tail, factor_dtype="int16" if fits else "int32"
    )
    return kernel, factor.astype(kernel.factor_dtype)
