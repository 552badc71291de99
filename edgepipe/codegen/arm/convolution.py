"""Convolution and transposed convolution with fused staging and epilogue, as one kernel.

Both are one loop nest over taps. A transposed convolution of stride s is s x s plain convolutions,
one for each phase ``output % s``, whose kernels are every s-th tap of the original; a plain
convolution has a single phase. Output position ``q * phases + p`` reads, at tap ``t``, the input
position ``q * step + (p + phase_offset) // phases + origin + t * dilation``.

The reduction runs over pairs: the taps and channels of a kernel row are one contiguous run of the
staged row, so a 3x3 kernel on 3 channels is three runs of 9 elements, of 5 pairs each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgepipe.codegen.arm.epilogue import NoTail, Tail
from edgepipe.codegen.arm.intrinsics import InstructionSet, Step
from edgepipe.codegen.arm.layouts import View
from edgepipe.codegen.arm.staging import Staging
from edgepipe.codegen.arm.tensor_ir import Expr, PrimFunc, result, schedule, share, te, tirx
from vta_stages.layers.records import Conv, Int8Array, Int32Array, TransposedConv

_LONGEST_RUN = 15  # pairs of an odd run that are unrolled
_PIECE_ROWS = 4  # the most rows of one channel vector that a core takes at once
_LEAST_PIECES = 32  # of a band: three cores then finish within 10 % of each other
_GUARD_COST = 1.2  # measured: guarding the store of a tile's surplus pixels costs about 20 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One spatial axis of the loop nest (see the module's docstring)."""

    outputs: int
    phases: int
    step: int
    taps: int
    dilation: int
    phase_offset: int
    origin: int

    @property
    def positions(self) -> int:
        """Values of q."""
        return -(-self.outputs // self.phases)

    @property
    def first(self) -> int:
        """The lowest input position that is read."""
        return self.phase_offset // self.phases + self.origin

    @property
    def spread(self) -> int:
        """The distance between the input positions of the last and the first phase."""
        last = self.phases - 1 + self.phase_offset
        return last // self.phases - self.phase_offset // self.phases

    def extent(self, positions: int) -> int:
        """The number of input positions that ``positions`` values of q span."""
        return (positions - 1) * self.step + self.spread + (self.taps - 1) * self.dilation + 1

    def offset(self, phase: Expr) -> Expr:
        """The position of a phase's first tap relative to ``first``."""
        if self.phases == 1:
            return 0
        ahead = tirx.floordiv(phase + self.phase_offset, self.phases)
        return ahead - self.phase_offset // self.phases


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionKernel:
    """One convolution kernel; equal values give the same machine code.

    ``groups`` are the groups after merging (see :func:`merge_groups`), each of ``group_channels``
    input channels. ``has_lowest_weight``: some weight is -128, see ``intrinsics``.
    """

    input: View
    is_camera: bool
    tail: Tail | NoTail
    y: Axis
    x: Axis
    groups: int
    group_channels: int
    has_lowest_weight: bool

    stem = "convolution"

    @property
    def output(self) -> View:
        """The picture that the kernel writes."""
        return self.tail.output

    @property
    def is_one_run(self) -> bool:
        """Whether the taps of a kernel row are contiguous in the staged row."""
        return self.x.dilation == 1 and self.groups == 1

    @property
    def runs(self) -> int:
        """Contiguous runs of elements per kernel row: one, or one for each tap."""
        return 1 if self.is_one_run else self.x.taps

    @property
    def run_pairs(self) -> int:
        """Pairs of elements in one run; an odd run has one surplus element of weight zero."""
        elements = self.group_channels * (self.x.taps if self.is_one_run else 1)
        return -(-elements // 2)

    def tile(self, instructions: InstructionSet) -> int:
        """Return the values of q (for every x phase) of a register tile.

        Chosen for the fewest loads and the least wasted work per useful multiplication.
        """
        lanes, count = self.output.vector, self.x.positions

        def cost(tile: int) -> float:
            steps = tile + lanes / 4 + tile * lanes / 4
            waste = math.ceil(count / tile) * tile / count
            return steps / (tile * lanes) * waste * (_GUARD_COST if count % tile else 1.0)

        most = max(1, instructions.tile_lanes[lanes] // lanes // self.x.phases)
        return min(range(1, min(count, most) + 1), key=cost)

    def staging(self, tile: int) -> Staging:
        """Return the staging whose columns fill whole tiles."""
        padded = math.ceil(self.x.positions / tile) * tile
        last = (padded - 1) * self.x.step + self.x.spread + (self.runs - 1) * self.x.dilation
        end = last * self.input.lanes + (self.groups - 1) * self.group_channels + self.run_pairs * 2
        return Staging(
            input=self.input,
            is_camera=self.is_camera,
            first_row=self.y.first,
            first_column=self.x.first,
            rows=self.y.extent(self.y.positions),
            columns=max(self.x.extent(padded), -(-end // self.input.lanes)),
        )

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """(phases y, x, channel vectors, taps y, runs, pairs, lanes, 2)."""
        vector = self.output.vector
        outer = (self.y.phases, self.x.phases, self.output.lanes // vector)
        return (*outer, self.y.taps, self.runs, self.run_pairs, vector, 2)

    @property
    def sums_shape(self) -> tuple[int, ...]:
        """(phases y, x, channel vectors, lanes): the sum of an output channel's weights."""
        return (*self.weight_shape[:3], self.output.vector)

    @property
    def macs(self) -> int:
        """The number of multiplications, including those with zeros in padding."""
        pixels = math.prod(axis.positions for axis in (self.y, self.x))
        return pixels * math.prod(self.weight_shape)

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the scheduled kernel: (x, [table], weights, their sums, tail's, output)."""
        y_axis, x_axis, tile = self.y, self.x, self.tile(instructions)
        staging = self.staging(tile)
        vector, channels = self.output.vector, self.input.lanes
        vectors_per_group = max(1, self.output.lanes // self.groups // vector)
        sources = staging.placeholders()
        weights = te.placeholder(self.weight_shape, "int8", "weights")
        sums = te.placeholder(self.sums_shape, "int32", "sums")
        params = self.tail.placeholders()
        staged = staging.compute(sources, instructions.staged_dtype, instructions.staged_zero)
        ty, run = te.reduce_axis((0, y_axis.taps), "ty"), te.reduce_axis((0, self.runs), "run")
        pair, half = te.reduce_axis((0, self.run_pairs), "pair"), te.reduce_axis((0, 2), "half")

        def product(qy: Expr, py: Expr, px: Expr, outer: Expr, qx: Expr, lane: Expr) -> Expr:
            row = qy * y_axis.step + y_axis.offset(py) + ty * y_axis.dilation
            column = qx * x_axis.step + x_axis.offset(px) + run * x_axis.dilation
            group: Expr = 0
            if self.groups > 1:
                group = tirx.min(tirx.floordiv(outer, vectors_per_group), self.groups - 1)
            element = column * channels + group * self.group_channels + pair * 2 + half
            weight = weights[py, px, outer, ty, run, pair, lane, half]
            return te.sum(
                staging.element(staged, row, element).astype("int32") * weight.astype("int32"),
                axis=[ty, run, pair, half],
            )

        surplus = math.ceil(x_axis.positions / tile) * tile
        acc = te.compute(
            (y_axis.positions, y_axis.phases, x_axis.phases, *self._vectors, surplus, vector),
            product,
            name="acc",
        )

        def value(c: Expr, y: Expr, x: Expr) -> Expr:
            py, px = tirx.floormod(y, y_axis.phases), tirx.floormod(x, x_axis.phases)
            outer, lane = tirx.floordiv(c, vector), tirx.floormod(c, vector)
            qy, qx = tirx.floordiv(y, y_axis.phases), tirx.floordiv(x, x_axis.phases)
            found = acc[qy, py, px, outer, qx, lane]
            if instructions.staged_zero:
                found = found - instructions.staged_zero * sums[py, px, outer, lane]
            return self.tail.apply(found, iter(params), c, y, x)

        out = self.output.compute(value, "out")
        return self._schedule([*sources, weights, sums, *params, out], instructions)

    @property
    def _vectors(self) -> tuple[int]:
        return (self.output.lanes // self.output.vector,)

    def _step(self, instructions: InstructionSet) -> Step:
        """Return the step that runs at once: two pairs where they can be doubled, or an odd run."""
        is_doubled = instructions.can_double(has_lowest_weight=self.has_lowest_weight)
        pairs = 1
        if is_doubled and self.run_pairs % 2 == 0:
            pairs = 2
        elif is_doubled and self.run_pairs <= _LONGEST_RUN:
            pairs = self.run_pairs
        return Step(
            pixels=self.tile(instructions),
            stride=self.x.step * self.input.lanes,
            lanes=self.output.vector,
            pairs=pairs,
            is_doubled=is_doubled,
        )

    def _piece(self, band: int) -> int:
        """Return how many rows of a band make one piece of work for a core, a divisor."""
        rows = self._vectors[0] * band
        fitting = [n for n in range(1, _PIECE_ROWS + 1) if band % n == 0]
        return max((n for n in fitting if rows // n >= _LEAST_PIECES), default=1)

    def _schedule(self, arguments: list[te.Tensor], instructions: InstructionSet) -> PrimFunc:
        """Rows in bands, channel vectors, rows, tiles of pixels; the tile stays in registers.

        Cores share a band: first its rows are staged, then channel vectors and pieces of rows.
        The tile stays in the "global" memory scope: only buffers of that scope are put on the stack
        by TVM, where LLVM turns them into registers; others would also be stored.
        """
        sch = schedule(arguments)
        outer, y, x, lanes = self.output.split_loops(sch, "out")
        step = self._step(instructions)
        staging = self.staging(step.pixels)
        band = staging.band(self.y.positions, self.y.step, instructions.staged_dtype)
        piece = self._piece(band)
        y_band, y_piece, y_row, y_phase = sch.split(y, [None, band // piece, piece, self.y.phases])
        x_tile, x_pixel, x_phase = sch.split(x, [None, step.pixels, self.x.phases])
        sch.reorder(y_band, *outer, y_piece, y_row, y_phase, x_tile, x_pixel, x_phase, lanes)
        share(sch, [*outer, y_piece], self.macs * band // self.y.positions)
        acc = sch.get_sblock("acc")
        sch.compute_at(acc, x_tile, preserve_unit_loops=True)
        *_, phase, _, pixel, lane, ty, run, pair, half = sch.get_loops(acc)
        staging.place(sch, y_band)
        inner = [half]
        if step.pairs > 1:  # loops with one iteration would not match the intrinsic
            pair, step_pair = sch.split(pair, [None, step.pairs])
            inner = [step_pair, half]
        sch.reorder(ty, run, pair, phase, pixel, lane, *inner)
        sch.unroll(phase)
        *_, init_phase, _, init_pixel, init_lane = sch.get_loops(sch.decompose_reduction(acc, ty))
        sch.unroll(init_phase)
        sch.unroll(init_pixel)
        sch.vectorize(init_lane)
        sch.tensorize(pixel if step.pixels > 1 else lane, step.intrinsic(instructions))
        sch.unroll(x_pixel)
        sch.unroll(x_phase)
        sch.vectorize(lanes)
        return result(sch)


def merge_groups(weight: Int8Array, groups: int, vector: int) -> tuple[Int8Array, int]:
    """Merge neighbouring groups until a group's output channels fill whole vectors.

    ``weight`` is int8[out, in / groups, kh, kw]; returns int8[out, in / merged, kh, kw], zero where
    an output does not depend on an input, and the number of merged groups.
    """
    outputs = weight.shape[0] // groups
    fitting = [n for n in range(1, groups + 1) if groups % n == 0 and n * outputs % vector == 0]
    factor = min(fitting, default=groups)
    if factor == 1 or groups == 1:
        return weight, groups
    inputs = weight.shape[1]
    merged = np.zeros((weight.shape[0], inputs * factor, *weight.shape[2:]), np.int8)
    for group in range(groups):
        place = group % factor
        merged[group * outputs : (group + 1) * outputs, place * inputs : (place + 1) * inputs] = (
            weight[group * outputs : (group + 1) * outputs]
        )
    return merged, groups // factor


def plain_taps(layer: Conv) -> Int8Array:
    """Return the weights as int8[1, 1, out, in / groups, kh, kw]: a single phase."""
    return layer.weight[np.newaxis, np.newaxis]


def transposed_taps(layer: TransposedConv) -> Int8Array:
    """Return int8[sy, sx, out, in / groups, ty, tx], taps in ascending order of input position."""
    inputs, outputs, kh, kw = layer.weight.shape
    sy, sx = layer.stride
    ty, tx = -(-kh // sy), -(-kw // sx)
    group_inputs = inputs // layer.groups
    taps = np.zeros((sy, sx, outputs * layer.groups, group_inputs, ty, tx), np.int8)
    grouped = layer.weight.reshape(layer.groups, group_inputs, outputs, kh, kw)
    flat = grouped.transpose(0, 2, 1, 3, 4).reshape(outputs * layer.groups, group_inputs, kh, kw)
    for py, px, y, x in np.ndindex(sy, sx, ty, tx):
        dy = (py + layer.padding[0]) % sy + (ty - 1 - y) * sy
        dx = (px + layer.padding[1]) % sx + (tx - 1 - x) * sx
        if dy < kh and dx < kw:
            taps[py, px, :, :, y, x] = flat[:, :, dy, dx]
    return taps


def convolution(
    layer: Conv | TransposedConv, source: View, tail: Tail | NoTail, *, is_camera: bool
) -> tuple[ConvolutionKernel, Int8Array]:
    """Return the kernel of a layer that is not depthwise, and its packed weights.

    The weights are int8 of ``ConvolutionKernel.weight_shape``.
    """
    if isinstance(layer, TransposedConv):
        phased = transposed_taps(layer)
        axes = [
            Axis(
                outputs=(layer.output.height, layer.output.width)[i],
                phases=layer.stride[i],
                step=1,
                taps=phased.shape[4 + i],
                dilation=1,
                phase_offset=layer.padding[i],
                origin=1 - phased.shape[4 + i],
            )
            for i in range(2)
        ]
    else:
        phased = plain_taps(layer)
        axes = [
            Axis(
                outputs=(layer.output.height, layer.output.width)[i],
                phases=1,
                step=layer.stride[i],
                taps=phased.shape[4 + i],
                dilation=layer.dilation[i],
                phase_offset=0,
                origin=-layer.padding[i],
            )
            for i in range(2)
        ]
    merged = [
        [
            merge_groups(phased[py, px], layer.groups, tail.output.vector)
            for px in range(axes[1].phases)
        ]
        for py in range(axes[0].phases)
    ]
    groups = merged[0][0][1]
    taps = np.array([[weight for weight, _ in row] for row in merged], np.int8)
    kernel = ConvolutionKernel(
        input=source,
        is_camera=is_camera,
        tail=tail,
        y=axes[0],
        x=axes[1],
        groups=groups,
        group_channels=source.lanes if groups == 1 else taps.shape[3],
        has_lowest_weight=bool((taps == -128).any()),
    )
    return kernel, pack_weights(kernel, taps)


def pack_weights(kernel: ConvolutionKernel, taps: Int8Array) -> Int8Array:
    """Pack int8[py, px, out, in, ty, tx] into ``kernel.weight_shape``, zeros in all padding."""
    py, px, outputs, inputs, ty, tx = taps.shape
    lanes, vector = kernel.output.lanes, kernel.output.vector
    wide = np.zeros((py, px, lanes, ty, tx, kernel.group_channels), np.int8)
    wide[:, :, :outputs, :, :, :inputs] = taps.transpose(0, 1, 2, 4, 5, 3)
    rows = wide.reshape(py, px, lanes, ty, kernel.runs, -1)
    runs = np.zeros((*rows.shape[:-1], kernel.run_pairs * 2), np.int8)
    runs[..., : rows.shape[-1]] = rows
    split = runs.reshape(py, px, lanes // vector, vector, ty, kernel.runs, kernel.run_pairs, 2)
    return np.ascontiguousarray(split.transpose(0, 1, 2, 4, 5, 6, 3, 7))


def sum_weights(packed: Int8Array) -> Int32Array:
    """Return the sum of every output channel's packed weights, of shape ``sums_shape``.

    It compensates for what staging adds to every value, ``InstructionSet.staged_zero``.
    """
    sums: Int32Array = packed.sum(axis=(3, 4, 5, 7), dtype=np.int32)
    return sums
