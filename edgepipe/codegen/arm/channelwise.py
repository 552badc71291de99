"""Kernels in which every output channel depends on one input channel only: vectors of channels.

Depthwise convolution, max pooling and resampling. Each is one loop nest over
rows, channel vectors and pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgepipe.codegen.arm.epilogue import Tail
from edgepipe.codegen.arm.intrinsics import InstructionSet
from edgepipe.codegen.arm.layouts import View
from edgepipe.codegen.arm.staging import Staging
from edgepipe.codegen.arm.tensor_ir import (
    Expr,
    PrimFunc,
    result,
    schedule,
    share,
    te,
    tirx,
)
from edgepipe.codegen.arm.vectors import share_outer, vectorise
from vta_stages.layers.records import Conv, Int8Array, Int32Array, Pick, Resize

_DEPTHWISE_TILE = 4


def is_depthwise(layer: Conv) -> bool:
    """Return whether every output channel depends only on the input channel of that number."""
    return layer.groups == layer.input.channels == layer.output.channels


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseKernel:
    """Depthwise convolution: products in int16 (exact for int8), sums in int32."""

    input: View
    is_camera: bool
    tail: Tail
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    stem = "depthwise"

    @property
    def tile(self) -> int:
        """The output columns that a kernel computes at once; they divide the width of a row."""
        count = self.tail.output.width
        return max(n for n in range(1, _DEPTHWISE_TILE + 1) if count % n == 0)

    @property
    def staging(self) -> Staging:
        """The input rows as the kernel reads them: padded, and widened by surplus lanes."""
        output = self.tail.output
        columns = (output.width - 1) * self.stride[1] + (self.kernel[1] - 1) * self.dilation[1] + 1
        # The lanes of the last pixel may extend beyond the input's lanes (their weights are zero).
        surplus = -(-max(0, output.lanes - self.input.lanes) // self.input.lanes)
        return Staging(
            input=self.input,
            is_camera=self.is_camera,
            first_row=-self.padding[0],
            first_column=-self.padding[1],
            rows=(output.height - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilation[0] + 1,
            columns=columns + surplus,
        )

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the scheduled kernel: (x, [table], weights[kh, kw, lanes], tail's, output)."""
        staging, output = self.staging, self.tail.output
        sources = staging.placeholders()
        weights = te.placeholder((*self.kernel, output.lanes), "int8", "weights")
        params = self.tail.placeholders()
        staged = staging.compute(sources, instructions.depthwise_dtype)
        ty, tx = (
            te.reduce_axis((0, self.kernel[0]), "ty"),
            te.reduce_axis((0, self.kernel[1]), "tx"),
        )

        def product(y: Expr, x: Expr, c: Expr) -> Expr:
            row = y * self.stride[0] + ty * self.dilation[0]
            column = x * self.stride[1] + tx * self.dilation[1]
            element = staging.element(staged, row, column * self.input.lanes + c)
            value = element.astype("int16") * weights[ty, tx, c].astype("int16")
            return te.sum(value.astype("int32"), axis=[ty, tx])

        acc = te.compute((output.height, output.width, output.lanes), product, name="acc")
        out = output.compute(
            lambda c, y, x: self.tail.apply(acc[y, x, c], iter(params), c, y, x), "out"
        )
        sch = schedule([*sources, weights, *params, out])
        outer, y, x, lanes = output.split_loops(sch, "out")
        band = staging.band(output.height, self.stride[0], instructions.depthwise_dtype)
        y_band, y_row = sch.split(y, [None, band])
        x_tile, x_pixel = sch.split(x, [None, self.tile])
        sch.reorder(y_band, *outer, y_row, x_tile, x_pixel, lanes)
        macs = band * output.width * output.lanes * math.prod(self.kernel)
        share(sch, [*outer, y_row], macs)
        block = sch.get_sblock("acc")
        sch.compute_at(block, x_tile, preserve_unit_loops=True)
        *_, pixel, lane, rows, columns = sch.get_loops(block)
        staging.place(sch, y_band)
        sch.reorder(rows, columns, pixel, lane)
        sch.unroll(pixel)
        sch.vectorize(lane)
        *_, init_pixel, init_lane = sch.get_loops(sch.decompose_reduction(block, rows))
        sch.unroll(init_pixel)
        sch.vectorize(init_lane)
        sch.unroll(x_pixel)
        sch.vectorize(lanes)
        return result(sch)


def depthwise(
    layer: Conv, source: View, tail: Tail, *, is_camera: bool
) -> tuple[DepthwiseKernel, Int8Array]:
    """Return the kernel of a depthwise layer, and its weights int8[kh, kw, lanes]."""
    kernel = DepthwiseKernel(
        input=source,
        is_camera=is_camera,
        tail=tail,
        kernel=(layer.weight.shape[2], layer.weight.shape[3]),
        stride=layer.stride,
        padding=(layer.padding[0], layer.padding[1]),
        dilation=layer.dilation,
    )
    weights = np.zeros((*kernel.kernel, tail.output.lanes), np.int8)
    weights[..., : layer.output.channels] = layer.weight[:, 0].transpose(1, 2, 0)
    return kernel, weights


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPoolKernel:
    """Maximum over windows; outside the picture counts as -128."""

    input: View
    output: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    stem = "max_pool"

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the scheduled kernel: (x, output)."""
        source = self.input
        tensor = source.placeholder("x")
        ty, tx = (
            te.reduce_axis((0, self.kernel[0]), "ty"),
            te.reduce_axis((0, self.kernel[1]), "tx"),
        )

        def value(y: Expr, x: Expr, c: Expr) -> Expr:
            row = y * self.stride[0] - self.padding[0] + ty
            column = x * self.stride[1] - self.padding[1] + tx
            inside = tirx.all(row >= 0, row < source.height, column >= 0, column < source.width)
            found = source.read(tensor, c, row, column, lanes=self.output.lanes)
            lowest = tirx.const(-128, "int8")
            return te.max(tirx.if_then_else(inside, found, lowest), axis=[ty, tx])

        shape = (self.output.height, self.output.width, self.output.lanes)
        acc = te.compute(shape, value, name="acc")
        out = self.output.compute(lambda c, y, x: acc[y, x, c], "out")
        sch = schedule([tensor, out])
        outer, y, x, lanes = self.output.split_loops(sch, "out")
        sch.reorder(*outer, y, x, lanes)
        share(sch, [*outer, y], math.prod((*shape, *self.kernel)))
        block = sch.get_sblock("acc")
        sch.compute_at(block, x, preserve_unit_loops=True)
        *_, lane, rows, columns = sch.get_loops(block)
        sch.reorder(rows, columns, lane)
        sch.vectorize(lane)
        init = sch.decompose_reduction(block, rows)
        sch.vectorize(sch.get_loops(init)[-1])
        sch.vectorize(lanes)
        return result(sch)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeKernel:
    """Separable resampling; an output row depends on ``taps[0]`` adjacent input rows, and so on."""

    input: View
    output: View
    taps: tuple[int, int]
    shift: int

    stem = "resize"

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the scheduled kernel: (x, rows, first row, columns, first column, output)."""
        source = self.input
        tensor = source.placeholder("x")
        sizes = (self.output.height, self.output.width)
        factors, firsts = [], []
        for size, taps, name in zip(sizes, self.taps, ("rows", "columns"), strict=True):
            factors.append(te.placeholder((size, taps), "int32", name))
            firsts.append(te.placeholder((size,), "int32", f"first_{name}"))

        def value(c: Expr, y: Expr, x: Expr) -> Expr:
            total: Expr = tirx.const(1 << (self.shift - 1) if self.shift else 0, "int32")
            for u in range(self.taps[0]):
                line: Expr = tirx.const(0, "int32")
                for v in range(self.taps[1]):
                    row, column = firsts[0][y] + u, firsts[1][x] + v
                    found = source.read(tensor, c, row, column, lanes=self.output.lanes)
                    line = line + found.astype("int32") * factors[1][x, v]
                total = total + line * factors[0][y, u]
            total = tirx.shift_right(total, tirx.const(self.shift, "int32"))
            return tirx.min(tirx.max(total, -128), 127).astype("int8")

        out = self.output.compute(value, "out")
        sch = schedule([tensor, factors[0], firsts[0], factors[1], firsts[1], out])
        vectorise(sch, self.output, [self.input])
        return result(sch)


def resize(
    layer: Resize, source: View, output: View
) -> tuple[ResizeKernel, tuple[Int32Array, ...]]:
    """Return the kernel, and its rows, first rows, columns and first columns.

    For an output of height h and width w, rows are int32[h, taps[0]], first rows int32[h],
    columns int32[w, taps[1]] and first columns int32[w].
    """
    rows, first_rows = sparse_taps(layer.rows)
    columns, first_columns = sparse_taps(layer.cols)
    kernel = ResizeKernel(
        input=source, output=output, taps=(rows.shape[1], columns.shape[1]), shift=layer.shift
    )
    return kernel, (rows, first_rows, columns, first_columns)


def sparse_taps(matrix: Int32Array) -> tuple[Int32Array, Int32Array]:
    """Return int32[out, taps] and the input index int32[out] of the first tap of each row."""
    used = [np.flatnonzero(row) for row in matrix]
    spans = [(int(u[0]), int(u[-1])) if u.size else (0, 0) for u in used]
    taps = max(last - first + 1 for first, last in spans)
    firsts = np.array([min(first, matrix.shape[1] - taps) for first, _ in spans], np.int32)
    window = firsts[:, np.newaxis] + np.arange(taps)
    return np.take_along_axis(matrix, window, axis=1).astype(np.int32), firsts


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcatKernel:
    """The channels of the inputs, one input after the other."""

    inputs: tuple[View, ...]
    output: View

    stem = "concat"

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the scheduled kernel: (inputs, output)."""
        tensors = [view.placeholder(f"x{i}") for i, view in enumerate(self.inputs)]
        starts = np.cumsum([0, *(view.channels for view in self.inputs)]).tolist()
        # Where all inputs start at a vector's border, the channel is tested once for a whole
        # vector.
        grain = math.gcd(self.output.vector, *starts[:-1])

        def value(c: Expr, y: Expr, x: Expr) -> Expr:
            found: Expr = tirx.const(0, "int8")
            for view, tensor, start in reversed(
                list(zip(self.inputs, tensors, starts[:-1], strict=True))
            ):
                end = start + view.channels
                element = tensor[view.layout.index(c - start, y, x)]
                if grain > 1 and end % grain == 0:
                    inside = tirx.floordiv(c, grain) < end // grain
                else:
                    inside = c < end
                found = tirx.if_then_else(inside, element, found)
            return found

        out = self.output.compute(value, "out")
        sch = schedule([*tensors, out])
        outer, y, x, lanes = self.output.split_loops(sch, "out")
        sch.reorder(y, x, *outer, lanes)
        share(sch, [y], math.prod(self.output.shape))
        if grain >= 4 and all(end % grain == 0 for end in starts):
            _, vector = sch.split(lanes, [None, grain])
            sch.vectorize(vector)
        return result(sch)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyKernel:
    """The same picture in another layout; padding lanes and batch rows of the output are zero."""

    input: View
    output: View

    stem = "copy"

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the scheduled kernel: (x, output)."""
        tensor = self.input.placeholder("x")
        lanes = self.output.lanes

        def value(c: Expr, y: Expr, x: Expr) -> Expr:
            return self.input.read(tensor, c, y, x, lanes=lanes)

        sch = schedule([tensor, self.output.compute(value, "out")])
        share_outer(sch, self.output)
        return result(sch)


@dataclass(frozen=True, slots=True, kw_only=True)
class PickKernel:
    """Some channels of a picture: neighbours from ``begin`` on, or those of an argument."""

    input: View
    output: View
    begin: int | None

    stem = "pick"

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the scheduled kernel: (x, [channels int32[lanes]], output)."""
        tensor = self.input.placeholder("x")
        order = te.placeholder((self.output.lanes,), "int32", "channels")

        def value(c: Expr, y: Expr, x: Expr) -> Expr:
            channel = order[c] if self.begin is None else c + self.begin
            found = tensor[self.input.layout.index(channel, y, x)]
            if not self.output.is_padded:
                return found
            return tirx.if_then_else(c < self.output.channels, found, tirx.const(0, "int8"))

        arguments = [tensor, order] if self.begin is None else [tensor]
        sch = schedule([*arguments, self.output.compute(value, "out")])
        share_outer(sch, self.output)
        return result(sch)


def pick(layer: Pick, source: View, output: View) -> tuple[PickKernel, tuple[Int32Array, ...]]:
    """Return the kernel, and its channels, int32[lanes], unless they are neighbours."""
    begin = layer.channels[0]
    if layer.channels == tuple(range(begin, begin + len(layer.channels))):
        return PickKernel(input=source, output=output, begin=begin), ()
    order = np.zeros(output.lanes, np.int32)
    order[: len(layer.channels)] = layer.channels
    return PickKernel(input=source, output=output, begin=None), (order,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKernel:
    """A camera frame through its input table, for an input that is not read by a convolution."""

    input: View
    output: View

    stem = "input_table"

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the scheduled kernel: (frame, table int8[256 * channels], output)."""
        tensor = self.input.placeholder("x")
        channels = self.input.channels
        table = te.placeholder((256 * channels,), "int8", "table")

        def value(c: Expr, y: Expr, x: Expr) -> Expr:
            found = table[c * 256 + tensor[self.input.layout.index(c, y, x)].astype("int32")]
            return tirx.if_then_else(c < channels, found, tirx.const(0, "int8"))

        sch = schedule([tensor, table, self.output.compute(value, "out")])
        share_outer(sch, self.output)
        return result(sch)
