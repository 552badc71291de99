"""A kernel and its tiling to instructions.

Tile by tile: blocks of input and weights are loaded into slots (load module), products and vector
operations run on an accumulator slot (compute module), the finished tile is stored (store module).
Groups and tokens are the business of :mod:`vta_stages.schedule`, so the modules overlap as far as
the slots allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.codec import encode_uops
from vta_stages.consts import ConstBuilder
from vta_stages.isa import AluOp, MemoryType, Module
from vta_stages.kernel import (
    Accumulate,
    Combine,
    Immediate,
    IndexArray,
    Kernel,
    Region,
    Reset,
    Source,
    Vector,
)
from vta_stages.layers import TensorSpec
from vta_stages.patch import Patch, Products, Tile, patch_of, products_of
from vta_stages.schedule import Group, Schedule
from vta_stages.slots import Slot, SlotRing
from vta_stages.tiling import AccLayout, Tiling, channel_chunks, loop_split, tiles_of
from vta_stages.uop_buffer import UopBuffer

LONGEST_STRIDE = (1 << 16) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies: a region and the element in it at which block 0 starts.

    ``computed`` tells that the program itself writes the tensor.
    """

    region: int
    element: int
    computed: bool


@dataclass(slots=True, eq=False)
class _AccSlot:
    base: int
    stored: Group | None = None


class KernelEmitter:
    """Emits one kernel. Use :meth:`emit` once."""

    def __init__(
        self,
        kernel: Kernel,
        tiling: Tiling,
        schedule: Schedule,
        uops: UopBuffer,
        consts: ConstBuilder,
        places: Mapping[str, Place],
    ) -> None:
        self._accelerator: Accelerator = schedule.buffer.accelerator
        self._kernel, self._tiling = kernel, tiling
        self._schedule, self._buffer = schedule, schedule.buffer
        self._uops, self._consts, self._places = uops, consts, places
        self._layout = AccLayout.of(self._accelerator, kernel, tiling)
        # Whatever ran before may still be reading any slot.
        previous = schedule.last(Module.COMPUTE)
        self._inp = SlotRing(tiling.inp_slot, tiling.inp_slots, previous)
        self._wgt = SlotRing(tiling.wgt_slot, tiling.wgt_slots, previous)
        self._acc = [_AccSlot(base) for base in self._layout.main]
        self._products: dict[object, Products] = {}
        self._vectors_of: tuple[int, int] | None = None

    def emit(self) -> None:
        """Append the kernel's instructions."""
        self._prologue = self._emit_prologue()
        tiles = tiles_of(self._kernel, self._tiling)
        chunks = channel_chunks(self._kernel, self._tiling.co)
        if self._tiling.channels_outer:
            order = [(tile, chunk) for chunk in chunks for tile in tiles]
        else:
            order = [(tile, chunk) for tile in tiles for chunk in chunks]
        for number, (tile, (first, count)) in enumerate(order):
            slot = self._acc[number % len(self._acc)]
            _TileEmitter(self, tile, first, count, slot).emit()

    def _emit_prologue(self) -> Group:
        """Wait until all earlier layers are stored, and make the spare accumulator entries known.

        Loads of tensors that this program computes wait for this group.
        """
        stored = self._schedule.last(Module.STORE)
        with self._schedule.group(Module.COMPUTE, after=[stored]) as group:
            spare = np.arange(self._accelerator.acc_hazard_steps) + self._layout.spare
            begin = self.place_uops(spare, 0, 0)
            self._buffer.gemm(begin, begin + len(spare), reset=True)
            if self._tiling.vectors_resident and len(self._kernel.vectors):
                self.load_vectors(0, self._kernel.co_blocks)
        return group

    def place_uops(self, dst: IndexArray, src: IndexArray | int, wgt: IndexArray | int) -> int:
        """Return the uop buffer index of a sequence."""
        columns = np.broadcast_arrays(dst, src, wgt)
        return self._uops.place(encode_uops(self._accelerator, np.stack(columns, axis=1)))

    def load_vectors(self, first: int, count: int) -> None:
        """Load the constants of channel blocks into the accumulator, ``[vector][block]``."""
        if self._vectors_of == (first, count):
            return
        self._vectors_of = (first, count)
        lanes = self._kernel.vectors.reshape(
            -1, self._kernel.co_blocks, 1, self._accelerator.block_out
        )
        chosen = np.repeat(lanes[:, first : first + count], self._accelerator.batch, axis=2)
        self._buffer.load(
            MemoryType.ACC,
            sram_base=0,
            dram_base=self._consts.add(chosen.astype("<i4").tobytes(), self._accelerator.acc_bytes),
            x_size=chosen.shape[0] * chosen.shape[1],
            region=self._consts.region,
        )

    def load_patch(self, tensor: TensorSpec, patch: Patch, first: int, count: int) -> Slot:
        """Return a slot with channel blocks of a patch, ``[block][row][col]``."""
        slot, hit = self._inp.take((tensor.name, patch, first, count))
        if hit:
            return slot
        place = self._places[tensor.name]
        after = [slot.used, self._prologue if place.computed else None]
        with self._schedule.group(Module.LOAD, after=after) as slot.loaded:
            self._load_rows(tensor, place, patch, slot.base, first, count)
        return slot

    def _load_rows(
        self, tensor: TensorSpec, place: Place, patch: Patch, base: int, first: int, count: int
    ) -> None:
        rows, cols = patch.rows, patch.cols
        plane = tensor.height * tensor.width
        start = place.element + first * plane + rows.first * tensor.width + cols.first
        contiguous = cols.count == tensor.width and rows.step == 1
        for sram, dram, shape in transfers(
            patch.pixels, count, plane, rows.count, cols.count, rows.step * tensor.width, contiguous
        ):
            self._buffer.load(
                MemoryType.INP, sram_base=base + sram, dram_base=start + dram,
                y_size=shape[0], x_size=shape[1], x_stride=shape[2], region=place.region,
            )  # fmt: skip

    def load_tiles(self, index: int, out: tuple[int, int], inp: tuple[int, int]) -> Slot:
        """Return a slot with weight tiles ``[co][ci][tile]`` of a source; counts are relative."""
        source = self._kernel.sources[index]
        key = (index,) if source.shared else (index, out, inp)
        slot, hit = self._wgt.take(key)
        if hit:
            return slot
        tiles = source.tiles
        if not source.shared:
            tiles = tiles[out[0] : out[0] + out[1], inp[0] : inp[0] + inp[1]]
        content = np.ascontiguousarray(tiles)
        with self._schedule.group(Module.LOAD, after=[slot.used]) as slot.loaded:
            self._buffer.load(
                MemoryType.WGT,
                sram_base=slot.base,
                dram_base=self._consts.add(content.tobytes(), self._accelerator.wgt_bytes),
                x_size=content.size // self._accelerator.wgt_bytes,
                region=self._consts.region,
            )
        return slot

    def products(self, step: Accumulate, tile: Tile, patch: Patch) -> Products:
        """Return the products of a step, made once per tile."""
        key = (step.source, step.tap, tile)
        known = self._products.get(key)
        if known is None:
            known = products_of(self._kernel.sources[step.source], tile, patch, step.tap)
            self._products[key] = known
        return known


def transfers(
    block_pixels: int, blocks: int, plane: int, rows: int, cols: int, pitch: int, contiguous: bool
) -> list[tuple[int, int, tuple[int, int, int]]]:
    """Return (sram offset, dram offset, (y_size, x_size, x_stride)) with as few rows as can be.

    ``blocks`` pieces of ``rows`` x ``cols`` pixels, ``plane`` apart in DRAM and dense on chip.
    """
    if contiguous and block_pixels == plane:
        return [(0, 0, (1, blocks * plane, 0))]
    if contiguous and (plane <= LONGEST_STRIDE or blocks == 1):
        return [(0, 0, (blocks, block_pixels, plane if blocks > 1 else 0))]
    shape = (1, block_pixels, 0) if contiguous else (rows, cols, pitch if rows > 1 else 0)
    return [(block * block_pixels, block * plane, shape) for block in range(blocks)]


class _TileEmitter:
    """Emits one output tile of one chunk of channel blocks into an accumulator slot."""

    def __init__(
        self, kernel_emitter: KernelEmitter, tile: Tile, first: int, count: int, slot: _AccSlot
    ) -> None:
        self._owner = kernel_emitter
        self._kernel, self._tiling = kernel_emitter._kernel, kernel_emitter._tiling
        self._schedule, self._buffer = kernel_emitter._schedule, kernel_emitter._buffer
        self._tile, self._first, self._count = tile, first, count
        self._slot = slot
        self._bases = {Region.MAIN: slot.base, Region.TEMP: kernel_emitter._layout.temp}

    def emit(self) -> None:
        """Append the tile's instructions."""
        pending: list[Reset | Immediate | Vector | Combine] = []
        for step in self._kernel.steps:
            if isinstance(step, Accumulate):
                self._emit_vector_steps(pending)
                pending = []
                self._emit_products(step)
            else:
                pending.append(step)
        self._emit_vector_steps(pending)
        self._emit_store()

    def _emit_vector_steps(self, steps: list[Reset | Immediate | Vector | Combine]) -> None:
        if not steps:
            return
        with self._schedule.group(Module.COMPUTE, after=[self._slot.stored]):
            for step in steps:
                self._emit_vector_step(step)

    def _emit_vector_step(self, step: Reset | Immediate | Vector | Combine) -> None:
        pixels, blocks = self._tile.pixels, self._count
        piece = pixels if pixels < 64 else _piece(pixels)
        unrolled = blocks if pixels < 64 else 1
        block, pixel = (g.ravel() for g in np.mgrid[:unrolled, :piece])
        dst = self._bases[step.region] + block * pixels + pixel
        loops = {
            "iter_out": blocks // unrolled,
            "iter_in": pixels // piece,
            "dst_factors": (pixels if blocks > unrolled else 0, piece if pixels > piece else 0),
        }
        match step:
            case Reset():
                begin = self._owner.place_uops(dst, 0, 0)
                self._buffer.gemm(begin, begin + len(dst), reset=True, **loops)  # type: ignore[arg-type]
            case Immediate():
                begin = self._owner.place_uops(dst, 0, 0)
                self._alu(step.op, begin, len(dst), loops, (0, 0), step.imm)
            case Combine():
                src = dst - self._bases[step.region] + self._bases[step.operand]
                begin = self._owner.place_uops(dst, src, 0)
                self._alu(step.op, begin, len(dst), loops, loops["dst_factors"], None)
            case Vector():
                if self._tiling.vectors_resident:
                    src = step.vector * self._kernel.co_blocks + self._first + block
                else:
                    self._owner.load_vectors(self._first, blocks)
                    src = step.vector * blocks + block
                begin = self._owner.place_uops(dst, src, 0)
                factors = (1 if blocks > unrolled else 0, 0)
                self._alu(step.op, begin, len(dst), loops, factors, None)

    def _alu(self, op: AluOp, begin: int, count: int, loops, src_factors, imm) -> None:
        self._buffer.alu(op, begin, begin + count, imm=imm, src_factors=src_factors, **loops)

    def _emit_products(self, step: Accumulate) -> None:
        source = self._kernel.sources[step.source]
        patch = patch_of(source, self._tile)
        if not patch.pixels:
            return
        products = self._owner.products(step, self._tile, patch)
        if not len(products):
            return
        if source.diagonal:
            self._emit_chunk(step, source, patch, products, (self._first, self._count))
            return
        start = int(source.ci_first[self._first])
        for first in range(0, source.ci_count, self._tiling.ci):
            count = min(self._tiling.ci, source.ci_count - first)
            tiles = source.tiles[self._first : self._first + self._count, first : first + count]
            if tiles.any():
                chunk = (start + first, count)
                self._emit_chunk(step, source, patch, products, chunk, first)

    def _emit_chunk(
        self,
        step: Accumulate,
        source: Source,
        patch: Patch,
        products: Products,
        chunk: tuple[int, int],
        relative: int = 0,
    ) -> None:
        assert source.tensor is not None
        wgt = self._owner.load_tiles(
            step.source,
            (self._first, self._count),
            (0, 1) if source.diagonal else (relative, chunk[1]),
        )
        inp = self._owner.load_patch(source.tensor, patch, *chunk)
        after = [inp.loaded, wgt.loaded, self._slot.stored]
        with self._schedule.group(Module.COMPUTE, after=after) as group:
            acc = self._bases[step.region]
            if source.diagonal:
                stride = 0 if source.shared else source.tile_count
                pairs = _Pairs(self._count, 1, self._tile.pixels, patch.pixels, 0, stride, 0)
            else:
                pairs = _Pairs(
                    self._count, chunk[1], self._tile.pixels, 0, patch.pixels,
                    chunk[1] * source.tile_count, source.tile_count,
                )  # fmt: skip
            shifted = Products(products.dst + acc, products.src + inp.base, products.wgt + wgt.base)
            self._emit_gemm(shifted, pairs)
        inp.used = wgt.used = group

    def _emit_gemm(self, products: Products, pairs: _Pairs) -> None:
        hazard = self._owner._accelerator.acc_hazard_steps
        longest = self._owner._uops.longest
        co_u, ci_u = loop_split(len(products), pairs.co, pairs.ci)
        unrolled = pairs.unroll(products, co_u, ci_u)
        pieces = [_slice(unrolled, at, longest) for at in range(0, len(unrolled), longest)]
        loops = (pairs.ci // ci_u, pairs.co // co_u)
        if not all(_spread(piece.dst, hazard, loops) for piece in pieces):
            # Too few entries to keep steps apart in plain order: interleave all output blocks.
            co_u, loops = pairs.co, (pairs.ci // ci_u, 1)
            unrolled, width = _in_rounds(
                pairs.unroll(products, co_u, ci_u), hazard, self._owner._layout.spare
            )
            whole = longest // width * width
            pieces = [_slice(unrolled, at, whole) for at in range(0, len(unrolled), whole)]
        outer, inner = int(loops[0] > 1) * ci_u, int(loops[1] > 1) * co_u
        for piece in pieces:
            begin = self._owner.place_uops(piece.dst, piece.src, piece.wgt)
            self._buffer.gemm(
                begin,
                begin + len(piece),
                iter_out=loops[0],
                iter_in=loops[1],
                dst_factors=(0, pairs.co_dst * inner),
                src_factors=(pairs.ci_src * outer, pairs.co_src * inner),
                wgt_factors=(pairs.ci_wgt * outer, pairs.co_wgt * inner),
            )

    def _emit_store(self) -> None:
        output, tile = self._kernel.output, self._tile
        place = self._owner._places[output.name]
        plane = output.height * output.width
        start = place.element + self._first * plane + tile.rows[0] * output.width + tile.cols[0]
        done = self._schedule.last(Module.COMPUTE)
        with self._schedule.group(Module.STORE, after=[done]) as self._slot.stored:
            for sram, dram, shape in transfers(
                tile.pixels, self._count, plane, tile.height, tile.width, output.width,
                tile.width == output.width,
            ):  # fmt: skip
                self._buffer.store(
                    sram_base=self._slot.base + sram, dram_base=start + dram,
                    y_size=shape[0], x_size=shape[1], x_stride=shape[2], region=place.region,
                )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The channel block pairs of a chunk and how indices move from one to the next."""

    co: int
    ci: int
    co_dst: int
    co_src: int
    ci_src: int
    co_wgt: int
    ci_wgt: int

    def unroll(self, products: Products, co: int, ci: int) -> Products:
        """Return the products of ``ci`` x ``co`` pairs, input blocks outermost, pixels innermost."""
        if co == ci == 1:
            return products
        i, o = (g.ravel()[:, None] for g in np.mgrid[:ci, :co])
        return Products(
            (products.dst + o * self.co_dst).ravel(),
            (products.src + o * self.co_src + i * self.ci_src).ravel(),
            (products.wgt + o * self.co_wgt + i * self.ci_wgt).ravel(),
        )


def _piece(pixels: int) -> int:
    """Return how many pixels a vector instruction's uops cover; the rest is its inner loop."""
    for parts in range(1, pixels + 1):
        if pixels % parts == 0 and pixels // parts <= 512:
            return pixels // parts if pixels // parts >= 64 else pixels
    return pixels


def _slice(products: Products, at: int, count: int) -> Products:
    end = at + count
    return Products(products.dst[at:end], products.src[at:end], products.wgt[at:end])


def _spread(dst: IndexArray, hazard: int, loops: tuple[int, int]) -> bool:
    """Tell whether steps on one accumulator entry are at least ``hazard`` steps apart."""
    order = np.argsort(dst, kind="stable")
    ordered = dst[order]
    same = ordered[1:] == ordered[:-1]
    if same.any() and int(np.diff(order)[same].min()) < hazard:
        return False
    if loops[0] == 1:
        return True
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    ends = np.append(starts[1:], len(dst)) - 1
    reach = order[ends] - order[starts]
    return int((len(dst) * loops[1] - reach).min()) >= hazard


def _in_rounds(products: Products, hazard: int, spare: int) -> tuple[Products, int]:
    """Return the products in rounds that touch each entry once, and the length of a round.

    A round has one place per accumulator entry and is a multiple of ``hazard`` long, so steps on one
    entry are far enough apart however often the rounds are repeated. Places without work are steps
    on the spare entries, which nothing reads.
    """
    entries, column = np.unique(products.dst, return_inverse=True)
    order = np.argsort(column, kind="stable")
    first = np.searchsorted(column[order], np.arange(len(entries)))
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - first[column[order]]
    width = -(-len(entries) // hazard) * hazard
    dst = np.tile(spare + np.arange(width) % hazard, (int(turn.max()) + 1, 1))
    src = np.full(dst.shape, products.src[0])
    wgt = np.full(dst.shape, products.wgt[0])
    for table, values in ((dst, products.dst), (src, products.src), (wgt, products.wgt)):
        table[turn, column] = values
    return Products(dst.ravel(), src.ravel(), wgt.ravel()), width
