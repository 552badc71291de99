"""Write random programs for an accelerator.

Whatever a program does is defined: it reads nothing that was not written, and tokens order all
accesses to the same elements of which one is a write, on chip and in DRAM. So its result does not
depend on the order of everything else, which is as much as possible. The checker of the C++ runtime
agrees, or its simulator would refuse the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator, Extension
from vta_stages.isa.codec import encode_uops
from vta_stages.isa.instructions import (
    MEMORY_EXTENSIONS,
    REQUANTISING,
    SINGLE_ROW,
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Module,
    Store,
    alu_operations,
    buffer_depth,
    element_bytes,
    honours_pads,
    loaded_memories,
    requantise_bounds,
)

from .element_accesses import ElementAccesses, Elements
from .program import RandomProgram, with_tokens
from .rectangles import Rectangle, random_rectangle
from .token_order import NEVER, Clock, TokenOrder, later

DATA_BYTES = 1 << 14
UOP_BYTES = 1 << 14
_LOADED = (MemoryType.INP, MemoryType.WGT, MemoryType.ACC)
_MOST_STEPS = 200  # of a GEMM or ALU instruction
_IMMEDIATES = (0, 1, -1, 15, 16, -16, -17, 31, 127, -128, 0x7FFF, -0x8000)
_BOUNDS = ((-128, 127), (0, 127), (0, 6), (-5, 100), (5, -100))
_BITS_IN_IMM = (*REQUANTISING, AluOp.LEAKY)
"""Operations that read the immediate beside a vector, too."""
_NO_STEPS = (
    {"uop_bgn": 0, "uop_end": 1, "iter_out": 0},
    {"uop_bgn": 0, "uop_end": 1, "iter_in": 0},
    {"uop_bgn": 1, "uop_end": 1, "iter_in": 3},
)


def random_program(accelerator: Accelerator, seed: int, steps: int | None = None) -> RandomProgram:
    """Return the program of a seed.

    ``steps`` is how many random instructions it has after those that fill the buffers, and without
    those that only move tokens or load uops; none: as many as the seed says.
    """
    return _Generator(accelerator, seed).program(steps)


class _Generator:
    """One program. Each buffer is used in a window, so that instructions meet."""

    def __init__(self, accelerator: Accelerator, seed: int) -> None:
        self._accelerator = a = accelerator
        self._seed = seed
        self._operations = alu_operations(a)
        added = [memory for memory in MEMORY_EXTENSIONS if memory in loaded_memories(a)]
        self._loaded = (*_LOADED, *added)
        self._draw = draw = Random(f"{a.configuration} {a.revision} {seed}")
        eagerness = draw.choice((0.0, 0.1, 0.4, 0.8))
        self._order = TokenOrder(draw, a.token_queue_depth, eagerness, self._append_idle)
        self._instructions: list[Instruction] = []
        # The ALU's src has as many bits as an index of an input.
        depths = {m: buffer_depth(a, m) for m in MemoryType}
        depths[MemoryType.ACC] = min(depths[MemoryType.ACC], depths[MemoryType.INP])
        most = {
            MemoryType.INP: 48,
            MemoryType.WGT: min(12, DATA_BYTES // a.wgt_bytes),
            MemoryType.ACC: 48,
            MemoryType.UOP: 64,
        }
        self._windows: dict[MemoryType, range] = {}
        for memory, entries in most.items():
            count = min(depths[memory], draw.randint(min(4, entries), entries))
            first = draw.choice(
                (0, depths[memory] - count, draw.randint(0, depths[memory] - count))
            )
            self._windows[memory] = range(first, first + count)
        self._windows[MemoryType.TABLE] = range(depths[MemoryType.TABLE])
        self._accesses = {m: ElementAccesses(buffer_depth(a, m)) for m in MemoryType}
        self._valid = {m: np.zeros(buffer_depth(a, m), np.bool_) for m in MemoryType}
        of_buffer: tuple[dict[MemoryType, Any], ...] = (self._windows, self._accesses, self._valid)
        for known in of_buffer:
            known[MemoryType.ACC8] = known[MemoryType.ACC]
        self._uops = np.zeros((a.uop_depth, 3), np.int64)
        self._cell_bytes = min(a.inp_bytes, a.wgt_bytes, a.out_bytes)
        self._dram = ElementAccesses(DATA_BYTES // self._cell_bytes)
        # Stores go to all data, or to the part that is not loaded.
        self._is_shared = draw.random() < 0.6
        self._uop_words: list[int] = []

    def program(self, steps: int | None) -> RandomProgram:
        draw = self._draw
        every = draw.randint(4, 40)
        self._fill_buffers()
        kinds = (self._load, self._gemm, self._alu, self._store)
        weights = [draw.uniform(0.5, 2) for _ in kinds]
        for _ in range(every if steps is None else steps):
            draw.choices(kinds, weights)[0]()
        finish = self._order.finish()
        self._instructions.append(Finish())
        self._order.append(Module.COMPUTE, finish, more=False)
        pairs = zip(self._instructions, self._order.tokens, strict=True)
        contents = np.random.default_rng(self._seed)
        data = contents.integers(0, 256, DATA_BYTES, np.uint8)
        uops = np.zeros(UOP_BYTES // 4, "<u4")
        uops[: len(self._uop_words)] = self._uop_words
        return RandomProgram(
            accelerator=self._accelerator,
            seed=self._seed,
            steps=every if steps is None else steps,
            instructions=tuple(with_tokens(i, tokens) for i, tokens in pairs),
            dram=np.concatenate([data, uops.view(np.uint8)]),
        )

    # Instructions and what orders them.

    def _append(
        self,
        module: Module,
        instruction: Instruction,
        *,
        reads: Sequence[tuple[ElementAccesses, Elements]] = (),
        writes: Sequence[tuple[ElementAccesses, Elements]] = (),
    ) -> None:
        needed: Clock = NEVER
        for memory, elements in reads:
            needed = later(needed, memory.before_reading(elements))
        for memory, elements in writes:
            needed = later(needed, memory.before_writing(elements))
        tokens = self._order.admit(module, needed)
        stamp = self._order.stamp(module)
        for memory, elements in reads:
            memory.read(module, elements, stamp)
        for memory, elements in writes:
            memory.write(module, elements, stamp)
        self._instructions.append(instruction)
        self._order.append(module, tokens)

    def _append_idle(self, module: Module) -> None:
        """Append an instruction that does nothing, of any kind that the module has."""
        draw = self._draw
        nothing = {"sram_base": 0, "dram_base": 0, "x_size": 0, "y_size": 1}
        other = {**nothing, "x_size": draw.randint(0, 3), "y_size": 0}
        kinds: list[Instruction] = {
            Module.LOAD: [
                Load(memory_type=m, **sizes)
                for m in (MemoryType.INP, MemoryType.WGT)
                for sizes in (nothing, other)
            ],
            Module.COMPUTE: [
                *(
                    Load(memory_type=memory, **nothing)
                    for memory in SINGLE_ROW
                    if memory is MemoryType.UOP or memory in self._loaded
                ),
                Load(memory_type=MemoryType.ACC, **draw.choice((nothing, other))),
                Gemm(reset=draw.random() < 0.5, **draw.choice(_NO_STEPS)),
                *(
                    Alu(alu_opcode=op, use_imm=draw.random() < 0.5, **draw.choice(_NO_STEPS))
                    for op in draw.sample(self._operations, 2)
                ),
            ],
            Module.STORE: [Store(**nothing), Store(**other)],
        }[module]
        self._instructions.append(draw.choice(kinds))

    # LOAD and STORE.

    def _fill_buffers(self) -> None:
        """Write all elements of the windows of inputs, weights and accumulators, and the table."""
        left = list(self._loaded)
        self._draw.shuffle(left)
        while left:
            memory = self._draw.choice(left)
            window = self._windows[memory]
            lacking = np.flatnonzero(~self._valid[memory][window.start : window.stop])
            if not len(lacking):
                left.remove(memory)
            elif memory is MemoryType.ACC and self._draw.random() < 0.3:
                self._gemm(reset=True)
            elif memory is MemoryType.TABLE:
                self._load_table(0, len(lacking))
            else:
                self._load(memory, window.start + int(lacking[0]))

    def _load(self, memory: MemoryType | None = None, sram_base: int | None = None) -> None:
        draw, a = self._draw, self._accelerator
        memory = memory or draw.choice(self._loaded)
        window = self._windows[memory]
        if memory is MemoryType.TABLE:
            base = draw.choice(window)
            self._load_table(base, draw.randint(1, window.stop - base))
            return
        base = sram_base if sram_base is not None else draw.choice(window)
        first, last = self._dram_range(memory, store=False)
        rectangle = random_rectangle(
            draw,
            room=window.stop - base,
            first=first,
            last=last,
            padded=honours_pads(a, memory),
        )
        y_pad_0, y_pad_1, x_pad_0, x_pad_1 = rectangle.pads
        has_value = a.has(Extension.PAD_VALUE) and draw.random() < 0.7
        pad_value = draw.choice((-32, -1, 31, draw.randint(-32, 31))) if has_value else 0
        written = slice(base, base + rectangle.buffer_elements)
        self._valid[memory][written] = True
        self._append(
            Module.LOAD if memory in (MemoryType.INP, MemoryType.WGT) else Module.COMPUTE,
            Load(
                memory_type=memory,
                sram_base=base,
                dram_base=rectangle.dram_base,
                x_size=rectangle.x_size,
                y_size=rectangle.y_size,
                x_stride=rectangle.x_stride,
                y_pad_0=y_pad_0,
                y_pad_1=y_pad_1,
                x_pad_0=x_pad_0,
                x_pad_1=x_pad_1,
                pad_value=pad_value,
            ),
            reads=[(self._dram, self._cells(rectangle, memory))],
            writes=[(self._accesses[memory], written)],
        )

    def _load_table(self, base: int, count: int) -> None:
        """Load ``count`` elements of the table, from anywhere in the data."""
        draw, memory = self._draw, MemoryType.TABLE
        first, last = self._dram_range(memory, store=False)
        dram_base = draw.randint(first, last - count)
        read = np.arange(dram_base, dram_base + count) * element_bytes(self._accelerator, memory)
        written = slice(base, base + count)
        self._valid[memory][written] = True
        self._append(
            Module.COMPUTE,
            Load(
                memory_type=memory,
                sram_base=base,
                dram_base=dram_base,
                x_size=count,
                x_stride=draw.choice((0, count, 7)),
            ),
            reads=[(self._dram, np.unique(read // self._cell_bytes))],
            writes=[(self._accesses[memory], written)],
        )

    def _store(self) -> None:
        draw = self._draw
        defined = np.flatnonzero(self._valid[MemoryType.OUT])
        if not len(defined):
            self._alu()
            return
        base = int(draw.choice(defined.tolist()))
        run = self._valid[MemoryType.OUT][base:]
        room = len(run) if run.all() else int(np.argmin(run))
        first, last = self._dram_range(MemoryType.OUT, store=True)
        rectangle = random_rectangle(draw, room=room, first=first, last=last)
        read = slice(base, base + rectangle.buffer_elements)
        self._append(
            Module.STORE,
            Store(
                sram_base=base,
                dram_base=rectangle.dram_base,
                x_size=rectangle.x_size,
                y_size=rectangle.y_size,
                x_stride=rectangle.x_stride,
            ),
            reads=[(self._accesses[MemoryType.OUT], read)],
            writes=[(self._dram, self._cells(rectangle, MemoryType.OUT))],
        )

    def _dram_range(self, memory: MemoryType, *, store: bool) -> tuple[int, int]:
        """Return the first element of the data that may be used, and the end."""
        elements = DATA_BYTES // element_bytes(self._accelerator, memory)
        if self._is_shared:
            return 0, elements
        return (elements // 2, elements) if store else (0, elements // 2)

    def _cells(self, rectangle: Rectangle, memory: MemoryType) -> NDArray[np.int64]:
        return rectangle.cells(element_bytes(self._accelerator, memory) // self._cell_bytes)

    # GEMM and ALU.

    def _gemm(self, reset: bool | None = None) -> None:
        resets = self._draw.random() < 0.15 if reset is None else reset
        operands = [MemoryType.ACC, MemoryType.INP, MemoryType.WGT]
        loops, factors, touched = self._loops(operands, fresh=resets)
        instruction = Gemm(reset=resets, **loops, **factors)
        dst, src, wgt = touched
        accesses, valid = self._accesses, self._valid
        used = slice(loops["uop_bgn"], loops["uop_end"])
        reads = [(accesses[MemoryType.UOP], used)]
        if not resets:
            reads += [(accesses[MemoryType.INP], src), (accesses[MemoryType.WGT], wgt)]
        valid[MemoryType.ACC][dst] = True
        valid[MemoryType.OUT][dst] = not resets
        both = [(accesses[m], dst) for m in (MemoryType.ACC, MemoryType.OUT)]
        self._append(Module.COMPUTE, instruction, reads=reads, writes=both)

    def _alu(self) -> None:
        draw = self._draw
        use_imm = draw.random() < 0.5
        loops, factors, touched = self._loops([MemoryType.ACC, MemoryType.ACC])
        dst, src = touched
        imm = draw.choice((draw.choice(_IMMEDIATES), draw.randint(-0x8000, 0x7FFF)))
        operation = draw.choice(self._operations)
        if operation in REQUANTISING and draw.random() < 0.7:
            low, high = draw.choice(_BOUNDS)
            imm = requantise_bounds(low | draw.randint(0, 31) if use_imm else low, high)
        elif not use_imm and operation not in _BITS_IN_IMM and draw.random() >= 0.3:
            imm = 0
        instruction = Alu(
            alu_opcode=operation,
            reset=self._accelerator.has(Extension.CLEAR) and draw.random() < 0.2,
            use_imm=use_imm,
            imm=imm,
            **loops,
            **factors,
        )
        accesses = self._accesses
        used = slice(loops["uop_bgn"], loops["uop_end"])
        self._valid[MemoryType.OUT][dst] = True
        reads = [(accesses[MemoryType.UOP], used), (accesses[MemoryType.ACC], src)]
        if operation is AluOp.TABLE:
            reads.append((accesses[MemoryType.TABLE], slice(None)))
        self._append(
            Module.COMPUTE,
            instruction,
            reads=reads,
            writes=[(accesses[m], dst) for m in (MemoryType.ACC, MemoryType.OUT)],
        )

    def _loops(
        self, operands: list[MemoryType], *, fresh: bool = False
    ) -> tuple[dict[str, int], dict[str, int], list[NDArray[np.int64]]]:
        """Return loops and factors, and the elements that the operands touch in their steps.

        They use uops that are in the buffer if these fit, or new ones. All elements are defined,
        unless the instruction is ``fresh``: it reads none.
        """
        draw, window = self._draw, self._windows[MemoryType.UOP]
        for _ in range(3):
            count = draw.choice((1, 2, draw.randint(1, min(12, len(window)))))
            outer = draw.choice((1, 1, 2, draw.randint(1, 8)))
            inner = draw.choice((1, 1, 2, draw.randint(1, 8)))
            if count * outer * inner <= _MOST_STEPS:
                break
        else:
            count, outer, inner = 1, 1, 1
        factors, reaches = {}, []
        for memory, name in zip(operands, ("dst", "src", "wgt"), strict=False):
            room, reach = len(self._windows[memory]) - 1, 0
            for loop, times in (("out", outer), ("in", inner)):
                most = (room - reach) // (times - 1) if times > 1 else room
                factor = draw.choice((0, min(1, most), draw.randint(0, most)))
                factors[f"{name}_factor_{loop}"] = factor
                reach += factor * (times - 1)
            reaches.append(reach)
        begin = self._old_uops(count, operands, reaches) if draw.random() < 0.4 else None
        if begin is None:
            begin = self._new_uops(count, operands, reaches)
        loops = {"uop_bgn": begin, "uop_end": begin + count, "iter_out": outer, "iter_in": inner}
        touched = []
        for column, name in enumerate(("dst", "src", "wgt")[: len(operands)]):
            outs = np.arange(outer)[:, None, None] * factors[f"{name}_factor_out"]
            ins = np.arange(inner)[None, :, None] * factors[f"{name}_factor_in"]
            touched.append(np.unique(self._uops[begin : begin + count, column] + outs + ins))
        read = [] if fresh else zip(operands, touched, strict=True)
        assert all(self._valid[memory][elements].all() for memory, elements in read)
        return loops, factors, touched

    def _old_uops(self, count: int, operands: list[MemoryType], reaches: list[int]) -> int | None:
        """Return the first of ``count`` uops of the buffer that stay in the windows, if any."""
        window = self._windows[MemoryType.UOP]
        fits = self._valid[MemoryType.UOP][window.start : window.stop].copy()
        for column, (memory, reach) in enumerate(zip(operands, reaches, strict=True)):
            allowed = self._windows[memory]
            indices = self._uops[window.start : window.stop, column]
            fits &= (indices >= allowed.start) & (indices + reach < allowed.stop)
        begins = [b for b in range(len(fits) - count + 1) if fits[b : b + count].all()]
        return window.start + self._draw.choice(begins) if begins else None

    def _new_uops(self, count: int, operands: list[MemoryType], reaches: list[int]) -> int:
        """Load ``count`` uops whose elements stay in the windows; return the first."""
        draw = self._draw
        window = self._windows[MemoryType.UOP]
        more = draw.randint(0, 3)  # which are loaded, too
        count = min(count + more, len(window))
        rows = []
        for _ in range(count):
            row = [0, 0, 0]
            for column, (memory, reach) in enumerate(zip(operands, reaches, strict=True)):
                allowed = self._windows[memory]
                row[column] = draw.randint(allowed.start, allowed.stop - 1 - reach)
            rows.append(row)
        return self._load_uops(np.array(rows, np.int64))

    def _load_uops(self, uops: NDArray[np.int64]) -> int:
        draw = self._draw
        window = self._windows[MemoryType.UOP]
        base = draw.randint(window.start, window.stop - len(uops))
        self._uop_words += [0] * draw.randint(0, 3)
        address = len(self._uop_words)
        self._uop_words += encode_uops(self._accelerator, uops).tolist()
        loaded = slice(base, base + len(uops))
        self._uops[loaded] = uops
        self._valid[MemoryType.UOP][loaded] = True
        self._append(
            Module.COMPUTE,
            Load(
                memory_type=MemoryType.UOP,
                sram_base=base,
                dram_base=DATA_BYTES // self._accelerator.uop_bytes + address,
                x_size=len(uops),
                x_stride=draw.choice((0, len(uops), 7)),
            ),
            writes=[(self._accesses[MemoryType.UOP], loaded)],
        )
        return base
