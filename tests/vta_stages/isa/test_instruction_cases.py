"""Instruction-level programs, assembled by hand, verified and run on the simulator.

The cases of the old VTA test suite, in both encoding revisions: round trips, padded loads, GEMM
with and without two virtual threads, ALU operations with negative operands, and a blocked GEMM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from accelerators import ALL_EXTENSIONS, FOUR_BY_EIGHT
from numpy.typing import NDArray

from edgepipe.runtime.simulator import Simulator
from vta_stages.accelerator import Accelerator
from vta_stages.isa.codec import NO_REGION, decode_table, encode_uops
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import (
    AluOp,
    MemoryType,
    Module,
    Token,
    element_bytes,
    leaky_immediate,
    requantise_bounds,
    requantise_immediate,
    requantise_operand,
    table_content,
)
from vta_stages.isa.layout import diagonal_weights
from vta_stages.program import LayerSpan, Program, Region, RegionKind
from vta_stages.verification.verifier import verify

pytestmark = pytest.mark.sim

CONSTS, DATA, RESULT = range(3)
TABLE_ADDRESS = 1 << 12
TARGETS = [
    replace(shape, revision=revision)
    for revision in ("0.0.1", "0.0.2")
    for shape in (Accelerator(), FOUR_BY_EIGHT)
]


@pytest.fixture(params=TARGETS, ids=lambda a: f"{a.batch}x{a.block_in}-{a.revision}")
def target(request: pytest.FixtureRequest) -> Accelerator:
    accelerator: Accelerator = request.param
    return accelerator


class Assembler:
    """Emits a program and the memory it needs. With ``serial``, each instruction on another module
    than the last waits for the last, so nothing overlaps."""

    def __init__(self, target: Accelerator, *, serial: bool = True) -> None:
        self.target = target
        self.buffer = InstructionBuffer(target)
        self._serial = serial
        self._last = Module.COMPUTE
        self._uops: list[NDArray[np.int64]] = []
        self._data = bytearray()
        self._table = b""
        self._stored = 0

    def _at(self, module: Module) -> int:
        """Make the next instruction, on ``module``, wait for the last; return its tokens."""
        last, self._last = self._last, module
        if not self._serial or last == module or not len(self.buffer):
            return 0
        self.buffer.add_tokens(-1, Token.PUSH_NEXT if module > last else Token.PUSH_PREV)
        return Token.POP_PREV if module > last else Token.POP_NEXT

    def uops(self, rows: Sequence[Sequence[int]] | NDArray[np.int64], *, at: int = 0) -> int:
        """Load uops (dst, src, wgt) to the uop buffer; return the end of their range."""
        block = np.array(rows, np.int64).reshape(-1, 3)
        base = sum(map(len, self._uops))
        self._uops.append(block)
        tokens = self._at(Module.COMPUTE)
        self.buffer.load(
            MemoryType.UOP, sram_base=at, dram_base=base, x_size=len(block), tokens=tokens,
            region=CONSTS,
        )  # fmt: skip
        return at + len(block)

    def table(self, table: NDArray[np.int8]) -> None:
        """Load the table int8[256], the only one of the program."""
        self._table = table_content(table)
        self.buffer.load(
            MemoryType.TABLE, sram_base=0, dram_base=TABLE_ADDRESS // 4, x_size=64,
            tokens=self.compute(), region=CONSTS,
        )  # fmt: skip

    def place(self, data: NDArray[np.generic], element_bytes: int) -> int:
        """Put an array into the input; return its address in elements."""
        self._data += bytes(-len(self._data) % element_bytes)
        address = len(self._data) // element_bytes
        self._data += np.ascontiguousarray(data).tobytes()
        return address

    def load(
        self,
        memory_type: MemoryType,
        data: NDArray[np.generic],
        *,
        at: int = 0,
        tokens: int = 0,
        pads: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        """Load a whole array, one element after the other.

        ``pads`` are how many are before and after them, and ``pad_value``.
        """
        unit = element_bytes(self.target, memory_type)
        by_load = memory_type in (MemoryType.INP, MemoryType.WGT)
        module = Module.LOAD if by_load else Module.COMPUTE
        self.buffer.load(
            memory_type, sram_base=at, dram_base=self.place(data, unit),
            x_size=data.nbytes // unit, tokens=tokens | self._at(module), region=DATA,
            x_pad_0=pads[0], x_pad_1=pads[1], pad_value=pads[2],
        )  # fmt: skip

    def store(self, count: int, *, at: int = 0, tokens: int = 0) -> None:
        """Append ``count`` elements of the out buffer to the result."""
        self.buffer.store(
            sram_base=at, dram_base=self._stored, x_size=count,
            tokens=tokens | self._at(Module.STORE), region=RESULT,
        )  # fmt: skip
        self._stored += count

    def compute(self) -> int:
        """Announce a GEMM, an ALU instruction or a FINISH; return the tokens it must have."""
        return self._at(Module.COMPUTE)

    def alu(self, operation: AluOp, end: int, imm: int | None = None, *, at: int = 0) -> None:
        self.buffer.alu(operation, at, end, imm=imm, tokens=self.compute())

    def program(self) -> Program:
        """End the program with a FINISH after the last store."""
        if self._serial:
            self.buffer.finish(tokens=self.compute())
        else:
            self.buffer.finish(tokens=Token.POP_NEXT)
        encoded = encode_uops(self.target, np.concatenate([np.zeros((0, 3), int), *self._uops]))
        consts = encoded.tobytes()
        if self._table:
            consts = consts.ljust(TABLE_ADDRESS, b"\0") + self._table
        stored_bytes = self._stored * self.target.out_bytes
        return Program(
            accelerator=self.target,
            instructions=self.buffer.encode(),
            relocations=self.buffer.relocations,
            consts=consts,
            regions=(
                Region(name="consts", bytes=len(consts), kind=RegionKind.CONST),
                Region(name="data", bytes=len(self._data), kind=RegionKind.INPUT),
                Region(name="result", bytes=stored_bytes, kind=RegionKind.OUTPUT),
            ),
            layers=(LayerSpan(name="case", first=0, count=len(self.buffer)),),
        )

    def run(self) -> NDArray[np.int8]:
        """Verify and run the program; return the result int8[elements, batch, block]."""
        program = self.program()
        verify(program)
        data = np.frombuffer(bytes(self._data), np.uint8)
        with Simulator(self.target) as simulator:
            stored = simulator.run_program(program, {"data": data})["result"]
        return stored.view(np.int8).reshape(-1, self.target.batch, self.target.block_out)

    def run_int32(self, count: int) -> NDArray[np.int32]:
        """Store ``count`` acc entries byte by byte, run, and return int32[count, batch, block]."""
        uops = self.uops([[i, i, 0] for i in range(count)], at=4096)
        for byte in range(4):
            self.alu(AluOp.SHR, uops, 8 if byte else 0, at=4096)
            self.store(count)
        planes = self.run().view(np.uint8).astype(np.uint32).reshape(4, count, -1)
        whole = sum(planes[byte] << np.uint32(8 * byte) for byte in range(4))
        return np.asarray(whole).view(np.int32).reshape(count, self.target.batch, -1)


def random_int8(seed: int, *shape: int) -> NDArray[np.int8]:
    """Return values over the full range, including -128 and 127."""
    values = np.random.default_rng(seed).integers(-128, 128, shape, np.int8)
    values.reshape(-1)[:2] = (-128, 127)
    return values


def random_acc(target: Accelerator, seed: int, count: int) -> NDArray[np.int32]:
    shape = (count, target.batch, target.block_out)
    return (
        np.random.default_rng(seed).integers(-(1 << 31), 1 << 31, shape, np.int64).astype(np.int32)
    )


def shifted(values: NDArray[np.int32], amount: NDArray[np.int32] | int) -> NDArray[np.int32]:
    """Shift as the hardware does: by a signed 5-bit number; negative numbers shift left."""
    five = ((np.asarray(amount, np.int64) & 31) ^ 16) - 16
    left = values.astype(np.int64) << np.maximum(-five, 0)
    return np.where(five < 0, left, values >> np.maximum(five, 0)).astype(np.int32)


def test_device_memory_returns_the_written_bytes(target: Accelerator) -> None:
    data = random_int8(0, 5000)
    with Simulator(target) as simulator:
        address = simulator.allocate(data.nbytes)
        simulator.write(address, data)
        assert np.array_equal(simulator.read(address, data.nbytes).view(np.int8), data)


def test_acc_entries_survive_load_and_store(target: Accelerator) -> None:
    values = random_acc(target, 1, 40)
    case = Assembler(target)
    case.load(MemoryType.ACC, values)
    assert np.array_equal(case.run_int32(40), values)


@pytest.mark.parametrize("shift", [0, 1, 7, 15, -1, -16])
def test_load_shift_store(target: Accelerator, shift: int) -> None:
    values = random_acc(target, 2, 24)
    case = Assembler(target)
    case.load(MemoryType.ACC, values)
    case.alu(AluOp.SHR, case.uops([[i, 0, 0] for i in range(24)]), shift)
    case.store(24)
    assert np.array_equal(case.run(), shifted(values, shift).astype(np.int8))


@pytest.mark.parametrize(
    "pads",
    [(2, 0, 3, 0), (0, 3, 0, 1), (1, 2, 3, 4), (0, 0, 15, 15)],
    ids=["before", "after", "both", "widest"],
)
def test_a_padded_load_surrounds_rows_with_zeros(
    target: Accelerator, pads: tuple[int, int, int, int]
) -> None:
    height, width, stride = 3, 4, 7
    picture = random_int8(3, height, stride, target.batch, target.block_in)
    above, below, before, after = pads
    padded = np.pad(picture[:, :width], ((above, below), (before, after), (0, 0), (0, 0))).reshape(
        -1, target.batch, target.block_in
    )
    count = len(padded)

    case = Assembler(target)
    base = case.place(picture, target.inp_bytes)
    case.load(MemoryType.WGT, diagonal_weights(target, np.ones(target.block_in, np.int8)))
    case.buffer.load(
        MemoryType.INP, sram_base=5, dram_base=base, y_size=height, x_size=width, x_stride=stride,
        y_pad_0=above, y_pad_1=below, x_pad_0=before, x_pad_1=after, region=DATA,
    )  # fmt: skip
    uops = case.uops([[i, 5 + i, 0] for i in range(count)])
    case.buffer.gemm(0, uops, reset=True, tokens=case.compute())
    case.buffer.gemm(0, uops, tokens=case.compute())
    case.store(count)
    assert np.array_equal(case.run(), padded)


def product(inputs: NDArray[np.int8], tiles: NDArray[np.int8]) -> NDArray[np.int32]:
    """int32[rows, batch, block_out] of inputs [k, rows, batch, block_in] and tiles [k, out, in]."""
    wide = inputs.astype(np.int32), tiles.astype(np.int32)
    return np.einsum("krbi,koi->rbo", *wide, dtype=np.int32)


def test_gemm_over_the_full_int8_range(target: Accelerator) -> None:
    rows, depth = 20, 6
    inputs = random_int8(4, depth, rows, target.batch, target.block_in)
    tiles = random_int8(5, depth, target.block_out, target.block_in)
    inputs[:, 0], tiles[:, 0] = -128, -128  # the largest possible sum

    case = Assembler(target)
    case.load(MemoryType.INP, inputs)
    case.load(MemoryType.WGT, tiles)
    uops = case.uops([[i, i, 0] for i in range(rows)])
    case.buffer.gemm(0, uops, reset=True, tokens=case.compute())
    case.buffer.gemm(
        0, uops, iter_in=depth, src_factors=(0, rows), wgt_factors=(0, 1), tokens=case.compute()
    )
    result = case.run_int32(rows)
    assert np.array_equal(result, product(inputs, tiles))
    assert result[0, 0, 0] == depth * target.block_in * (1 << 14)


def test_gemm_with_two_virtual_threads(target: Accelerator) -> None:
    """Tiles alternate between two halves of inp and acc; loads and stores overlap the GEMM."""
    tiles, rows, depth = 5, 10, 3
    inputs = random_int8(6, tiles, depth, rows, target.batch, target.block_in)
    weights = random_int8(7, depth, target.block_out, target.block_in)

    case = Assembler(target, serial=False)
    half = depth * rows
    case.uops([[h * rows + i, h * half + i, 0] for h in range(2) for i in range(rows)])
    case.load(MemoryType.WGT, weights)
    for tile in range(tiles):
        thread, again, last = tile % 2, tile >= 2, tile >= tiles - 2
        begin, end = thread * rows, (thread + 1) * rows
        case.load(
            MemoryType.INP, inputs[tile], at=thread * half,
            tokens=Token.PUSH_NEXT | (Token.POP_NEXT if again else 0),
        )  # fmt: skip
        case.buffer.gemm(
            begin, end, reset=True, tokens=Token.POP_PREV | (Token.POP_NEXT if again else 0)
        )
        case.buffer.gemm(
            begin, end, iter_in=depth, src_factors=(0, rows), wgt_factors=(0, 1),
            tokens=0 if last else Token.PUSH_PREV,
        )  # fmt: skip
        case.buffer.alu(AluOp.SHR, begin, end, imm=8, tokens=Token.PUSH_NEXT)
        behind = Token.PUSH_PREV if not last or tile == tiles - 1 else 0
        case.store(rows, at=thread * rows, tokens=Token.POP_PREV | behind)

    expected = np.concatenate([product(one, weights) >> 8 for one in inputs]).astype(np.int8)
    assert np.array_equal(case.run(), expected)


OPERATIONS = {
    AluOp.MIN: np.minimum,
    AluOp.MAX: np.maximum,
    AluOp.ADD: np.add,
    AluOp.SHR: shifted,
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("imm", [0, 5, 16, -1, -7, 32767, -32768])
def test_alu_with_an_immediate(target: Accelerator, operation: AluOp, imm: int) -> None:
    values = random_acc(target, 8, 16)
    case = Assembler(target)
    case.load(MemoryType.ACC, values)
    case.alu(operation, case.uops([[i, 0, 0] for i in range(16)]), imm)
    expected = OPERATIONS[operation](values, np.int32(imm))
    assert np.array_equal(case.run_int32(16), expected)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_alu_with_a_vector_operand(target: Accelerator, operation: AluOp) -> None:
    values, operands = random_acc(target, 9, 16), random_acc(target, 10, 16)
    case = Assembler(target)
    case.load(MemoryType.ACC, values)
    case.load(MemoryType.ACC, operands, at=64)
    case.alu(operation, case.uops([[i, 64 + i, 0] for i in range(16)]))
    assert np.array_equal(case.run_int32(16), OPERATIONS[operation](values, operands))


REQUANTISE_CASES = [(-128, 127), (0, 127), (0, 6), (-5, 100)]


@pytest.mark.parametrize(("low", "high"), REQUANTISE_CASES)
def test_requantise_is_an_addition_a_shift_and_two_clips(
    target: Accelerator, low: int, high: int
) -> None:
    """One instruction of an extended accelerator, four of the same without extensions."""
    values, draw = random_acc(target, 16, 16), np.random.default_rng(17)
    constants = draw.integers(-(1 << 26), 1 << 26, values.shape).astype(np.int32)
    shifts = draw.integers(0, 16, values.shape).astype(np.int32)

    def load(case: Assembler, *operands: NDArray[np.int32]) -> list[int]:
        """Load values and operands; return the end of the uops that pair them, for each operand."""
        case.load(MemoryType.ACC, values)
        ends = [0]
        for n, operand in enumerate(operands, start=1):
            case.load(MemoryType.ACC, operand, at=16 * n)
            ends.append(case.uops([[i, 16 * n + i, 0] for i in range(16)], at=ends[-1]))
        return ends

    extended = Assembler(replace(target, extensions=ALL_EXTENSIONS))
    load(extended, requantise_operand(constants, shifts))
    bounds = requantise_bounds(low, high)
    extended.buffer.alu(AluOp.REQUANTISE, 0, 16, vector_imm=bounds, tokens=extended.compute())

    stock = Assembler(target)
    _, adds, shift_ends = load(stock, constants, shifts)
    stock.alu(AluOp.ADD, adds)
    stock.alu(AluOp.SHR, shift_ends, at=adds)
    stock.alu(AluOp.MAX, adds, low)
    stock.alu(AluOp.MIN, adds, high)
    np.testing.assert_array_equal(extended.run_int32(16), stock.run_int32(16))


def test_a_table_gives_the_out_buffer_its_entries(target: Accelerator) -> None:
    values = random_acc(target, 20, 16)
    table = random_int8(21, 256)
    extended = replace(target, extensions=ALL_EXTENSIONS)
    case = Assembler(extended)
    case.load(MemoryType.ACC, values)
    case.table(table)
    uops = case.uops([[i, 0, 0] for i in range(16)])
    case.alu(AluOp.TABLE, uops, requantise_immediate(24, -128, 127))
    case.store(16)
    assert np.array_equal(case.run(), table[(values >> 24) + 128])


def test_multiply_has_the_products_of_16_bits(target: Accelerator) -> None:
    values, operands = random_acc(target, 18, 16), random_acc(target, 19, 16)
    case = Assembler(replace(target, extensions=ALL_EXTENSIONS))
    case.load(MemoryType.ACC, values)
    case.load(MemoryType.ACC, operands, at=64)
    case.alu(AluOp.MULTIPLY, case.uops([[i, 64 + i, 0] for i in range(16)]))
    factors = [array.astype(np.int16).astype(np.int32) for array in (values, operands)]
    assert np.array_equal(case.run_int32(16), factors[0] * factors[1])


@pytest.mark.parametrize(("first", "second", "adds"), [(2, 1, True), (7, 7, True), (3, 0, False)])
def test_leaky_is_a_copy_additions_shifts_and_a_maximum(
    target: Accelerator, first: int, second: int, adds: bool
) -> None:
    values, offsets = random_acc(target, 20, 16), random_acc(target, 21, 16)
    case = Assembler(replace(target, extensions=ALL_EXTENSIONS))
    case.load(MemoryType.ACC, values)
    case.load(MemoryType.ACC, offsets, at=64)
    case.uops([[i, 64 + i, 0] for i in range(16)])
    imm = leaky_immediate(first, second, adds=adds)
    case.buffer.alu(AluOp.LEAKY, 0, 16, vector_imm=imm, tokens=case.compute())
    with np.errstate(over="ignore"):
        branch = (values + offsets) >> first
        expected = np.maximum(values + branch * adds, branch >> second)
    np.testing.assert_array_equal(case.run_int32(16), expected)


def test_loads_of_int8_accumulators_extend_the_sign(target: Accelerator) -> None:
    values = random_int8(22, 16, target.batch, target.block_out)
    case = Assembler(replace(target, extensions=ALL_EXTENSIONS))
    case.load(MemoryType.ACC8, values, pads=(1, 2, -32))
    case.uops([[i, 0, 0] for i in range(19)])
    pads = np.full((1, *values.shape[1:]), -128)
    expected = np.concatenate([pads, values, pads, pads]).astype(np.int32)
    assert np.array_equal(case.run_int32(19), expected)


def test_pads_of_inputs_hold_what_the_instruction_says(target: Accelerator) -> None:
    values = random_int8(23, 4, target.batch, target.block_in)
    case = Assembler(replace(target, extensions=ALL_EXTENSIONS))
    case.load(MemoryType.INP, values, pads=(2, 1, 31))
    case.load(MemoryType.WGT, diagonal_weights(target, np.ones(target.block_out, np.int8)))
    end = case.uops([[i, i, 0] for i in range(7)])
    case.buffer.gemm(0, end, reset=True, tokens=case.compute())
    case.buffer.gemm(0, end, tokens=case.compute())
    case.store(7)
    pads = np.full((1, target.batch, target.block_in), 124, np.int8)
    assert np.array_equal(case.run(), np.concatenate([pads, pads, values, pads]))


def test_relu(target: Accelerator) -> None:
    values = random_acc(target, 11, 32) >> 24
    case = Assembler(target)
    case.load(MemoryType.ACC, values)
    case.alu(AluOp.MAX, case.uops([[i, 0, 0] for i in range(32)]), 0)
    case.store(32)
    assert np.array_equal(case.run(), np.maximum(values, 0).astype(np.int8))


def test_shift_and_scale(target: Accelerator) -> None:
    values = random_acc(target, 12, 32) >> 16
    case = Assembler(target)
    case.load(MemoryType.ACC, values)
    uops = case.uops([[i, 0, 0] for i in range(32)])
    case.alu(AluOp.ADD, uops, 100)
    case.alu(AluOp.SHR, uops, 6)
    case.store(32)
    assert np.array_equal(case.run(), ((values + 100) >> 6).astype(np.int8))


@pytest.mark.parametrize("uop_loops", [True, False], ids=["loops", "uops"])
def test_a_blocked_gemm_of_256_by_256_by_64(target: Accelerator, uop_loops: bool) -> None:
    """64 samples times a 256 x 256 matrix, in one instruction or in one for each output block."""
    blocks, rows = 256 // target.block_in, 64 // target.batch
    samples = random_int8(13, 64, 256)
    matrix = random_int8(14, 256, 256)
    block = target.block_in
    inputs = samples.reshape(rows, target.batch, blocks, block).transpose(2, 0, 1, 3)
    tiles = matrix.reshape(blocks, block, blocks, block).transpose(0, 2, 1, 3)

    case = Assembler(target)
    case.load(MemoryType.INP, inputs)
    case.load(MemoryType.WGT, tiles)
    end = case.uops([[i, i, 0] for i in range(rows)])
    every_block = {"iter_out": blocks, "dst_factors": (rows, 0)}
    case.buffer.gemm(0, end, reset=True, tokens=case.compute(), **every_block)
    if uop_loops:
        case.buffer.gemm(
            0, end, iter_in=blocks, src_factors=(0, rows), wgt_factors=(blocks, 1),
            tokens=case.compute(), **every_block,
        )  # fmt: skip
    else:
        for out in range(blocks):
            k, i = (grid.ravel() for grid in np.mgrid[:blocks, :rows])
            uops = np.stack([out * rows + i, k * rows + i, out * blocks + k], axis=-1)
            last = case.uops(uops, at=rows)
            case.buffer.gemm(rows, last, tokens=case.compute())
    case.buffer.alu(AluOp.SHR, 0, end, imm=10, tokens=case.compute(), **every_block)
    case.store(blocks * rows)

    whole = samples.astype(np.int32) @ matrix.astype(np.int32).T
    expected = (whole >> 10).astype(np.int8).reshape(rows, target.batch, blocks, block)
    assert np.array_equal(
        case.run(), expected.transpose(2, 0, 1, 3).reshape(-1, target.batch, block)
    )


def test_both_revisions_of_a_case_differ_in_bits_and_agree_in_meaning() -> None:
    programs = []
    for revision in ("0.0.1", "0.0.2"):
        case = Assembler(Accelerator(revision=revision))
        case.load(MemoryType.ACC, random_acc(case.target, 15, 16))
        case.alu(AluOp.ADD, case.uops([[i, 0, 0] for i in range(16)]), -3)
        case.store(16)
        programs.append(case.program())
    old, new = programs
    assert not np.array_equal(old.instructions, new.instructions)
    for program in programs:
        assert program.relocations.tolist() == [DATA, CONSTS, NO_REGION, RESULT, NO_REGION]
    records = [
        [decode_table(p.accelerator, p.instructions).record(i) for i in range(5)] for p in programs
    ]
    assert records[0] == records[1]
