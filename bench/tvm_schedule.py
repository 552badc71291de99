"""The schedules by which TVM ran convolutions on VTA, rebuilt as programs from their tilings.

TVM's template (``conv2d_packed.vta``) takes the tiles of an output row by row, output blocks and
columns inside, and gives them to one or two virtual threads, which take turns. For each tile:

    compute   clear ............ products ...... products ...... shift, min, max
    load           inputs, weights    inputs, weights                    (next tile: after clear)
    store                                                                             rows

Inputs and weights of a tile are loaded one part of the input blocks at a time. Two details are
TVM's: only the two outermost loops of a product are loops of the instruction, and a pass of the ALU
is a single uop in a loop over all accumulators, so that every step is an iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from bench.measured_layers import MeasuredLayer
from vta_stages.accelerator import Accelerator
from vta_stages.emission.constant_pool import ConstantPool
from vta_stages.emission.uop_buffer import UopBuffer
from vta_stages.isa.codec import encode_uops
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import AluOp, MemoryType, Token
from vta_stages.program import LayerSpan, Program, Region, RegionKind

SHIFT = 8
"""The requantisation of all layers; its value does not change their time."""

CONSTS, DATA, WEIGHTS, RESULT = range(4)


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop over products: its count, and the steps of the indices of dst, src and wgt."""

    count: int
    dst: int
    src: int
    wgt: int


@dataclass(frozen=True, slots=True)
class _Tile:
    """The output tile that a virtual thread computes: its indices, and the thread's number."""

    row: int
    block: int
    col: int
    thread: int


def rebuild(layer: MeasuredLayer, accelerator: Accelerator) -> Program:
    """Return TVM's program for a layer.

    Its inputs are ``data`` int8[ci_blocks, h, w, batch, block] and ``weights`` int8[co_blocks,
    ci_blocks, kh, kw, block, block], its output ``result`` int8[co_blocks, h, w, batch, block]:
    products shifted right by ``SHIFT`` and clipped to int8.
    """
    return _Rebuild(layer, accelerator).program()


class _Rebuild:
    """One program under construction. Counts of channels are blocks, sizes are elements."""

    def __init__(self, layer: MeasuredLayer, accelerator: Accelerator) -> None:
        self._layer, self._accelerator = layer, accelerator
        block = accelerator.block_in
        self._ci = layer.in_channels // block
        self._co = layer.out_channels // block
        # A group of one block reads only its own input block.
        self._reduced = layer.channels_per_group // block or self._ci
        self._kernel_area = layer.kernel**2
        self._patch_rows = (layer.tile_rows - 1) * layer.stride + layer.kernel
        self._patch_cols = (layer.tile_cols - 1) * layer.stride + layer.kernel
        self._acc_entries = layer.tile_co * layer.tile_rows * layer.tile_cols
        self._inp_entries = layer.tile_ci * self._patch_rows * self._patch_cols
        self._wgt_entries = layer.tile_co * layer.tile_ci * self._kernel_area
        self._buffer = InstructionBuffer(accelerator)
        self._constants = ConstantPool(accelerator, CONSTS)
        self._uops = UopBuffer(self._buffer, self._constants)

    def program(self) -> Program:
        """Emit all tiles."""
        layer = self._layer
        rounds = self._rounds()
        for number, tiles in enumerate(rounds):
            for tile in tiles:
                self._clear(tile, waits=number > 0)
            parts = self._reduced // layer.tile_ci
            for part in range(parts):
                for tile in tiles:
                    self._load(tile, part)
                    self._multiply(tile, last=part == parts - 1)
            for tile in tiles:
                # After the last round, FINISH waits for the last store: stores run in order.
                is_awaited = number < len(rounds) - 1 or tile is tiles[-1]
                self._finish_tile(tile, is_awaited)
        self._buffer.finish(tokens=Token.POP_NEXT)
        inputs = self._ci * layer.size**2 * self._accelerator.inp_bytes
        weights = self._co * self._reduced * self._kernel_area * self._accelerator.wgt_bytes
        outputs = self._co * layer.out_size**2 * self._accelerator.out_bytes
        consts = self._constants.content()
        return Program(
            accelerator=self._accelerator,
            instructions=self._buffer.encode(),
            relocations=self._buffer.relocations,
            regions=(
                Region(name="consts", bytes=len(consts), kind=RegionKind.CONST),
                Region(name="data", bytes=inputs, kind=RegionKind.INPUT),
                Region(name="weights", bytes=weights, kind=RegionKind.INPUT),
                Region(name="result", bytes=outputs, kind=RegionKind.OUTPUT),
            ),
            consts=consts,
            layers=(LayerSpan(name=layer.name, first=0, count=len(self._buffer)),),
        )

    def _rounds(self) -> list[list[_Tile]]:
        """Return the tiles that the threads compute at the same time, round by round."""
        layer = self._layer
        rows = range(layer.out_size // layer.tile_rows // layer.row_threads)
        blocks = range(self._co // layer.tile_co // layer.co_threads)
        cols = range(layer.out_size // layer.tile_cols)
        threads = list(product(range(layer.row_threads), range(layer.co_threads)))
        return [
            [
                _Tile(row * layer.row_threads + r, block * layer.co_threads + c, col, number)
                for number, (r, c) in enumerate(threads)
            ]
            for row, block, col in product(rows, blocks, cols)
        ]

    def _clear(self, tile: _Tile, *, waits: bool) -> None:
        layer = self._layer
        loops = [
            _Loop(layer.tile_cols, 1, 0, 0),
            _Loop(layer.tile_co, layer.tile_rows * layer.tile_cols, 0, 0),
            _Loop(layer.tile_rows, layer.tile_cols, 0, 0),
        ]
        tokens = Token.PUSH_PREV | (Token.POP_NEXT if waits else 0)
        self._gemm(tile, loops, reset=True, tokens=tokens)

    def _multiply(self, tile: _Tile, *, last: bool) -> None:
        layer, area = self._layer, self._kernel_area
        loops = [
            _Loop(layer.tile_ci, 0, self._patch_rows * self._patch_cols, area),
            _Loop(layer.tile_cols, 1, layer.stride, 0),
            _Loop(layer.kernel, 0, 1, 1),
            _Loop(layer.kernel, 0, self._patch_cols, layer.kernel),
            _Loop(layer.tile_co, layer.tile_rows * layer.tile_cols, 0, layer.tile_ci * area),
            _Loop(layer.tile_rows, layer.tile_cols, layer.stride * self._patch_cols, 0),
        ]
        tokens = Token.POP_PREV | (0 if last else Token.PUSH_PREV)
        self._gemm(tile, loops, reset=False, tokens=tokens)

    def _gemm(self, tile: _Tile, loops: list[_Loop], *, reset: bool, tokens: int) -> None:
        """Append a GEMM: the two outermost real loops are its own, the others become uops."""
        real = [loop for loop in loops if loop.count > 1]
        outer, inner = [*real[:2], _Loop(1, 0, 0, 0), _Loop(1, 0, 0, 0)][:2]
        bases = (self._acc_entries, self._inp_entries, self._wgt_entries)
        uops = np.array([bases]) * tile.thread * (np.array([[1, 0, 0]]) if reset else 1)
        for loop in real[2:]:
            steps = np.arange(loop.count)[:, None] * [(loop.dst, loop.src, loop.wgt)]
            uops = (uops[:, None] + steps[None]).reshape(-1, 3)
        begin = self._uops.place(encode_uops(self._accelerator, uops))
        self._buffer.gemm(
            begin,
            begin + len(uops),
            reset=reset,
            iter_out=outer.count,
            iter_in=inner.count,
            dst_factors=(outer.dst, inner.dst),
            src_factors=(outer.src, inner.src),
            wgt_factors=(outer.wgt, inner.wgt),
            tokens=tokens,
        )

    def _load(self, tile: _Tile, part: int) -> None:
        layer = self._layer
        first = len(self._buffer)
        if layer.channels_per_group:
            self._load_inputs(tile, tile.block * layer.tile_co)
        else:
            self._load_inputs(tile, part * layer.tile_ci)
        self._buffer.add_tokens(first, Token.POP_NEXT)
        at, rows, columns, stride = _box(
            (tile.block * layer.tile_co, part * layer.tile_ci * self._kernel_area),
            (layer.tile_co, layer.tile_ci * self._kernel_area),
            self._reduced * self._kernel_area,
        )
        self._buffer.load(
            MemoryType.WGT,
            sram_base=tile.thread * self._wgt_entries,
            dram_base=at, y_size=rows, x_size=columns, x_stride=stride,
            tokens=Token.PUSH_NEXT, region=WEIGHTS,
        )  # fmt: skip

    def _load_inputs(self, tile: _Tile, first: int) -> None:
        """Append the loads of a tile's patch, one per input block from ``first`` on."""
        layer = self._layer
        base = tile.thread * self._inp_entries
        row = tile.row * layer.tile_rows * layer.stride - layer.pad
        col = tile.col * layer.tile_cols * layer.stride - layer.pad
        above, left = max(-row, 0), max(-col, 0)
        below = max(row + self._patch_rows - layer.size, 0)
        right = max(col + self._patch_cols - layer.size, 0)
        for index in range(layer.tile_ci):
            row_of_block = (first + index) * layer.size + row + above
            self._buffer.load(
                MemoryType.INP,
                sram_base=base + index * self._patch_rows * self._patch_cols,
                dram_base=row_of_block * layer.size + col + left,
                y_size=self._patch_rows - above - below,
                x_size=self._patch_cols - left - right,
                x_stride=layer.size,
                y_pad_0=above, y_pad_1=below, x_pad_0=left, x_pad_1=right,
                region=DATA,
            )  # fmt: skip

    def _finish_tile(self, tile: _Tile, is_awaited: bool) -> None:
        """Append the three passes of the ALU and the stores."""
        layer = self._layer
        entry = tile.thread * self._acc_entries
        begin = self._uops.place(encode_uops(self._accelerator, np.array([[entry, entry, 0]])))
        for operation, value in ((AluOp.SHR, SHIFT), (AluOp.MIN, 127), (AluOp.MAX, -128)):
            self._buffer.alu(
                operation, begin, begin + 1, imm=value, iter_out=self._acc_entries,
                dst_factors=(1, 0), src_factors=(1, 0),
            )  # fmt: skip
        self._buffer.add_tokens(-1, Token.PUSH_NEXT)
        first = len(self._buffer)
        size, cols = layer.out_size, layer.tile_cols
        at = (tile.block * layer.tile_co * size + tile.row * layer.tile_rows) * size
        if cols == size:
            # Rows of full width follow each other, so TVM merges them.
            box = _box(
                (tile.block * layer.tile_co, tile.row * layer.tile_rows * size),
                (layer.tile_co, layer.tile_rows * size),
                size * size,
            )
            boxes = [(entry, *box)]
        else:
            at += tile.col * cols
            rows = layer.tile_rows
            boxes = [
                (entry + co * rows * cols, at + co * size**2, rows, cols, size)
                for co in range(layer.tile_co)
            ]
        for sram, dram, rows, columns, stride in boxes:
            self._buffer.store(
                sram_base=sram, dram_base=dram, y_size=rows, x_size=columns, x_stride=stride,
                region=RESULT,
            )  # fmt: skip
        self._buffer.add_tokens(first, Token.POP_PREV)
        if is_awaited:
            self._buffer.add_tokens(-1, Token.PUSH_PREV)


def _box(first: tuple[int, int], count: tuple[int, int], width: int) -> tuple[int, int, int, int]:
    """Return a box of a matrix as (element, rows, columns, stride); full rows become one."""
    at = first[0] * width + first[1]
    if count[1] == width:
        return at, 1, count[0] * width, count[0] * width
    return at, count[0], count[1], width


def reference(
    layer: MeasuredLayer, data: NDArray[np.int8], weights: NDArray[np.int8]
) -> NDArray[np.int8]:
    """Return what a rebuilt program computes.

    ``data`` is int8[batch, ci, h, w], ``weights`` int8[co, ci, kh, kw] (ci of one group), the
    result int8[batch, co, h, w].
    """
    span, stride = layer.out_size * layer.stride, layer.stride
    rims = (layer.pad, layer.pad + stride)
    padded = np.pad(data.astype(np.float32), ((0, 0), (0, 0), rims, rims))
    groups = layer.in_channels // weights.shape[1]
    sums = np.zeros((len(data), layer.out_channels, layer.out_size, layer.out_size), np.float64)
    for group, (y, x) in product(range(groups), product(range(layer.kernel), repeat=2)):
        ins = slice(group * weights.shape[1], (group + 1) * weights.shape[1])
        outs = slice(group * len(weights) // groups, (group + 1) * len(weights) // groups)
        seen = padded[:, ins, y : y + span : stride, x : x + span : stride]
        taps = weights[outs, :, y, x].astype(np.float32)
        # float32 holds sums of up to 1,024 products of int8 exactly; one block is added at a time.
        sums[:, outs] += np.einsum("oc,nchw->nohw", taps, seen, optimize=True)
    result: NDArray[np.int8] = np.clip(sums.astype(np.int64) >> SHIFT, -128, 127).astype(np.int8)
    return result
