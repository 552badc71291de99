"""For every rule of the verifier: a program that follows it and one that breaks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_programs import STOCK, changed, make_program, product_instructions, product_uops

from vta_stages.accelerator import Accelerator
from vta_stages.errors import EncodingError, VerificationError
from vta_stages.isa import instructions as isa
from vta_stages.isa.codec import NO_REGION, decode_table
from vta_stages.program import Program, Region, RegionKind
from vta_stages.verification.verifier import verify

VECTORS = Path(__file__).parents[2] / "data" / "vta_vectors"
LOAD_UOP, LOAD_INP, LOAD_WGT, RESET, PRODUCT, SHIFT, STORE, FINISH = range(8)


def refuse(program: Program, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        verify(program)


def with_changes(changes: Mapping[int, Mapping[str, Any]], **options: Any) -> Program:
    return make_program(changed(product_instructions(), changes), product_uops(), **options)


def assemble(
    instructions: Sequence[isa.Instruction], uops: Sequence[isa.Uop] | None = None, **options: Any
) -> Program:
    return make_program(instructions, product_uops() if uops is None else uops, **options)


def test_the_smallest_useful_program_is_accepted() -> None:
    verify(with_changes({}))


def test_an_error_names_instruction_layer_and_disassembly() -> None:
    with pytest.raises(VerificationError) as caught:
        verify(with_changes({STORE: {"sram_base": 8}}))
    assert str(caught.value) == (
        "instruction 6 (layer conv_1): reads undefined out elements, expected them to be written "
        "first; "
        "in: out[8:24] -> result[0]; pop compute, push compute"
    )


# One instruction at a time.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({LOAD_INP: {"x_size": 2049}}, r"ends at inp\[2049\], expected at most 2048 elements"),
        ({LOAD_INP: {"sram_base": 2033}}, r"ends at inp\[2049\]"),
        ({LOAD_INP: {"sram_base": 2032, "x_pad_1": 1}}, r"ends at inp\[2049\]"),
        ({LOAD_WGT: {"sram_base": 1024}}, r"ends at wgt\[1025\], expected at most 1024"),
        ({LOAD_UOP: {"sram_base": 8177}}, r"ends at uop\[8193\], expected at most 8192"),
        ({STORE: {"sram_base": 2033}}, r"ends at out\[2049\], expected at most 2048"),
        ({LOAD_INP: {"x_size": 0}}, "moves nothing, expected x_size and y_size of at least 1"),
        ({STORE: {"y_size": 0}}, "moves nothing"),
        (
            {LOAD_INP: {"dram_base": 4081}},
            "touches bytes 65296 to 65552 of region data, which has 65536",
        ),
        (
            {STORE: {"y_size": 2, "x_size": 8, "x_stride": 4090}},
            "touches bytes 0 to 65568 of region result",
        ),
        ({LOAD_UOP: {"dram_base": 1}}, "touches bytes 4 to 68 of region consts, which has 64"),
        (
            {LOAD_WGT: {"x_pad_0": 1}},
            "has pads, which some or all bitstreams ignore in loads of WGT",
        ),
        (
            {LOAD_UOP: {"y_pad_1": 1}},
            "has pads, which some or all bitstreams ignore in loads of UOP",
        ),
        ({LOAD_UOP: {"y_size": 2}}, "loads 2 rows of uops, expected 1"),
        ({PRODUCT: {"uop_end": 0}}, "has no step, expected at least one uop and one iteration"),
        ({SHIFT: {"iter_in": 0}}, "has no step"),
        ({PRODUCT: {"uop_end": 8193}}, "ends beyond the uop buffer of 8192 entries"),
        ({SHIFT: {"reset": True}}, "reset is set in an ALU instruction, expected 0"),
        (
            {PRODUCT: {"iter_in": 2, "dst_factor_in": 2040}},
            r"touches acc\[2055\], expected an index below 2048",
        ),
        (
            {PRODUCT: {"iter_out": 2, "src_factor_out": 2040}},
            r"touches inp\[2055\], expected an index below 2048",
        ),
        (
            {PRODUCT: {"iter_out": 3, "wgt_factor_out": 600}},
            r"touches wgt\[1200\], expected an index below 1024",
        ),
    ],
)
def test_accesses_out_of_bounds_are_refused(
    changes: Mapping[int, Mapping[str, Any]], message: str
) -> None:
    refuse(with_changes(changes), message)


def test_transfers_up_to_the_last_element_are_accepted() -> None:
    verify(with_changes({LOAD_INP: {"x_size": 2048}}))
    verify(with_changes({LOAD_INP: {"dram_base": 4080}, STORE: {"dram_base": 4080}}))
    verify(with_changes({STORE: {"y_size": 2, "x_size": 8, "x_stride": 4088}}))
    verify(with_changes({LOAD_INP: {"y_size": 4, "x_size": 16, "x_stride": 0}}))


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        ({LOAD_INP: "none"}, "names no DRAM region, expected one"),
        ({STORE: "none"}, "names no DRAM region"),
        ({STORE: "data"}, "stores to input region data, expected scratch or output"),
        ({STORE: "consts"}, "touches bytes 0 to 256 of region consts, which has 64"),
        ({LOAD_UOP: "data"}, "loads uops from input region data, expected const"),
    ],
)
def test_a_transfer_must_use_a_permitted_region(regions: Mapping[int, str], message: str) -> None:
    refuse(with_changes({}, regions=regions), message)


TABLE = replace(STOCK, extensions=("table",))
LOAD_TABLE = 6


def with_table(
    *, load: Mapping[str, Any] | None, region: str = "consts", accelerator: Accelerator = TABLE
) -> Program:
    """Return a program that looks its results up; ``load`` changes the load, none: without it."""
    program = product_instructions()
    look_up = isa.Alu(alu_opcode=isa.AluOp.TABLE, uop_bgn=0, uop_end=16, push_next=True)
    program[SHIFT:SHIFT] = [replace(program[SHIFT], push_next=False)]
    program[SHIFT + 1] = look_up
    regions = {}
    if load is not None:
        sizes: dict[str, Any] = {"sram_base": 0, "dram_base": 16, "x_size": 64, **load}
        program.insert(LOAD_TABLE, isa.Load(memory_type=isa.MemoryType.TABLE, **sizes))
        regions[LOAD_TABLE] = region
    return assemble(program, accelerator=accelerator, regions=regions, consts=bytes(256))


def test_a_table_is_loaded_before_it_is_used() -> None:
    verify(with_table(load={}))
    whole = "reads undefined table elements, expected them to be written first"
    refuse(with_table(load=None), whole)
    refuse(with_table(load={"x_size": 63}), whole)


@pytest.mark.parametrize(
    ("load", "region", "message"),
    [
        ({"x_size": 65}, "consts", r"ends at table\[65\], expected at most 64 elements"),
        ({"y_size": 2}, "consts", "loads 2 rows of a table, expected 1"),
        ({"x_pad_0": 1}, "consts", "has pads, which some or all bitstreams ignore in loads of T"),
        ({}, "data", "loads a table from input region data, expected const"),
    ],
)
def test_a_load_of_a_table_must_keep_the_rules(
    load: Mapping[str, Any], region: str, message: str
) -> None:
    refuse(with_table(load=load, region=region), message)


def test_acc_loads_with_pads_are_refused_in_both_revisions() -> None:
    load = isa.Load(memory_type=isa.MemoryType.ACC, sram_base=0, dram_base=0, x_size=16)
    without = [product_instructions()[LOAD_UOP], load, *product_instructions()[SHIFT:]]
    for revision in ("0.0.1", "0.0.2"):
        target = Accelerator(revision=revision)
        verify(assemble(without, accelerator=target))
        padded = changed(without, {1: {"x_pad_0": 1}})
        refuse(
            assemble(padded, accelerator=target),
            "has pads, which some or all bitstreams ignore in loads of ACC, expected none",
        )


def test_exactly_one_finish_ends_a_program() -> None:
    body = product_instructions()
    refuse(assemble([]), "program: no instructions, expected at least a FINISH")
    refuse(assemble(body[:FINISH]), "FINISH at none, expected exactly one, at 6")
    refuse(assemble([*body, isa.Finish()]), "FINISH at 7, 8, expected exactly one, at 8")
    refuse(assemble([isa.Finish(), *body[:FINISH]]), "FINISH at 0, expected exactly one, at 7")


def test_an_instruction_that_does_not_decode_is_refused() -> None:
    program = with_changes({})
    words = program.instructions.copy()
    words[PRODUCT, 0] = 7
    with pytest.raises(EncodingError, match="instruction 4: opcode is 7"):
        verify(replace(program, instructions=words))


# acc hazards.


def hazard_program(
    uops: Sequence[isa.Uop], *, target: Accelerator = STOCK, **loops: int
) -> Program:
    """Return a program with a product of 16 entries, then a GEMM with ``uops``."""
    body = product_instructions()
    count = len(uops)
    body[LOAD_UOP] = replace(body[LOAD_UOP], x_size=16 + count)  # type: ignore[call-arg]
    body[PRODUCT] = isa.Gemm(uop_bgn=16, uop_end=16 + count, **loops)
    return assemble(body, [*product_uops(), *uops], accelerator=target)


def test_steps_that_touch_one_acc_entry_keep_their_distance() -> None:
    far = [isa.Uop(dst=i) for i in (0, 1, 2, 3, 4, 5, 6, 7, 0)]
    near = [isa.Uop(dst=i) for i in (0, 1, 2, 3, 4, 5, 6, 0)]
    verify(hazard_program(far))
    message = "uops 0 and 7 touch the same acc entry 7 steps apart, expected at least 8"
    refuse(hazard_program(near), message)
    verify(hazard_program(near, target=Accelerator(acc_hazard_steps=7)))


def test_the_distance_counts_across_loop_iterations() -> None:
    eight = [isa.Uop(dst=i) for i in range(8)]
    seven = eight[:7]
    verify(hazard_program(eight, iter_out=2, iter_in=3))
    refuse(hazard_program(seven, iter_in=2), "uops 0 and 0 touch the same acc entry 7 steps apart")
    refuse(hazard_program(seven, iter_out=2), "uops 0 and 0 touch the same acc entry 7 steps apart")
    verify(hazard_program(seven, iter_in=2, dst_factor_in=8))
    refuse(hazard_program(seven, iter_in=2, dst_factor_in=1), "uops 1 and 0 .* 6 steps apart")


def vector_alu(pairs: Sequence[tuple[int, int]], **loops: int) -> Program:
    body = product_instructions()
    uops = [isa.Uop(dst=dst, src=src) for dst, src in pairs]
    body[LOAD_UOP] = replace(body[LOAD_UOP], x_size=16 + len(uops))  # type: ignore[call-arg]
    body[SHIFT] = isa.Alu(
        alu_opcode=isa.AluOp.ADD, uop_bgn=16, uop_end=16 + len(uops), push_next=True, **loops
    )
    return assemble(body, [*product_uops(), *uops])


def test_a_vector_operand_keeps_its_distance_too() -> None:
    verify(vector_alu([(i, 8 + i) for i in range(8)]))
    refuse(vector_alu([(0, 8), (1, 0)]), "uops 0 and 1 touch the same acc entry 1 step apart")
    refuse(vector_alu([(0, 1), (1, 8)]), "uops 0 and 1 touch the same acc entry 1 step apart")
    verify(vector_alu([(0, 8)], iter_in=8, dst_factor_in=1, src_factor_in=1))
    refuse(vector_alu([(0, 8)], iter_in=9, dst_factor_in=0, src_factor_in=1), "1 step apart")
    refuse(vector_alu([(0, 4)], iter_in=8, dst_factor_in=1), "uops 0 and 0 .* 1 step apart")
    verify(vector_alu([(0, 15)], iter_in=8, dst_factor_in=1))


# Tokens and queues.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {LOAD_WGT: {"push_next": False}},
            "instruction 3 .*token queue LOAD to COMPUTE has 0 pushes and 1 pops",
        ),
        ({SHIFT: {"push_next": False}}, "token queue COMPUTE to STORE has 0 pushes and 1 pops"),
        (
            {FINISH: {"pop_next": False}},
            "instruction 6 .*token queue STORE to COMPUTE has 1 pushes and 0 pops",
        ),
        ({PRODUCT: {"push_prev": True}}, "token queue COMPUTE to LOAD has 1 pushes and 0 pops"),
        ({LOAD_WGT: {"pop_prev": True}}, "uses a token queue to a module before LOAD"),
        ({STORE: {"push_next": True}}, "uses a token queue to a module after STORE"),
    ],
)
def test_every_token_queue_is_pushed_as_often_as_popped(
    changes: Mapping[int, Mapping[str, Any]], message: str
) -> None:
    refuse(with_changes(changes), message)


def test_a_deadlock_is_refused() -> None:
    crossed = {LOAD_INP: {"pop_next": True}, SHIFT: {"push_prev": True}}
    message = (
        "deadlock: LOAD waits at 1 for a token from COMPUTE; COMPUTE waits at 3 for a token from "
        "LOAD; STORE waits at 6 for a token from COMPUTE"
    )
    refuse(with_changes(crossed), message)


def loads_ahead_of_their_release(loads: int, target: Accelerator) -> Program:
    """Return a program whose first load waits for compute, which is fetched after the loads."""
    body = product_instructions()
    load = replace(body[LOAD_INP], pop_next=True)
    early = [body[LOAD_UOP], load, *[body[LOAD_INP]] * (loads - 1), body[LOAD_WGT]]
    release = replace(body[RESET], pop_prev=False, push_prev=True)
    rest = [release, replace(body[PRODUCT], pop_prev=True), *body[SHIFT:]]  # type: ignore[call-arg]
    return assemble([*early, *rest], accelerator=target)


def test_a_deadlock_through_a_full_command_queue_is_refused() -> None:
    target = Accelerator(command_queue_depth=4)
    verify(loads_ahead_of_their_release(3, target))
    refuse(
        loads_ahead_of_their_release(4, target),
        "deadlock: LOAD waits at 1 for a token from COMPUTE; COMPUTE has no instruction; "
        "STORE has no instruction; fetch waits at 5 for room in the queue of LOAD",
    )


def test_the_queue_of_loads_may_have_a_depth_of_its_own() -> None:
    target = Accelerator(command_queue_depth=512, load_queue_depth=4)
    verify(loads_ahead_of_their_release(3, target))
    refuse(loads_ahead_of_their_release(4, target), "deadlock: LOAD waits at 1 for a token")
    verify(loads_ahead_of_their_release(4, Accelerator(load_queue_depth=5, command_queue_depth=4)))


def test_a_deadlock_through_a_full_token_queue_is_refused() -> None:
    body = product_instructions()
    loads = [replace(body[LOAD_INP], push_next=True)] * 4 + [body[LOAD_WGT]]
    wait = isa.Alu(alu_opcode=isa.AluOp.MAX, uop_bgn=0, uop_end=16, use_imm=True, pop_prev=True)
    last = replace(body[PRODUCT], pop_prev=True)  # type: ignore[call-arg]
    program = [body[LOAD_UOP], *loads, body[RESET], *[wait] * 3, last, *body[SHIFT:]]
    # fetch reaches the first pop once five loads are queued or done: two queued, three done
    verify(assemble(program, accelerator=Accelerator(command_queue_depth=2, token_queue_depth=3)))
    refuse(
        assemble(program, accelerator=Accelerator(command_queue_depth=2, token_queue_depth=2)),
        "deadlock: LOAD waits at 3 for room for a token to COMPUTE; COMPUTE has no instruction; "
        "STORE has no instruction; fetch waits at 5 for room in the queue of LOAD",
    )


def test_finish_comes_after_everything_else() -> None:
    loose = {STORE: {"push_prev": False}, FINISH: {"pop_next": False}}
    refuse(
        with_changes(loose),
        "instruction 7 .*only 0 of 1 STORE instructions are certain to have ended, expected",
    )
    late_load = product_instructions()
    late_load.insert(STORE, replace(late_load[LOAD_INP], sram_base=64))  # type: ignore[call-arg]
    refuse(assemble(late_load), "only 2 of 3 LOAD instructions are certain to have ended")


# Order of accesses.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {LOAD_INP: {"x_size": 15}},
            "instruction 4 .*reads undefined inp elements",
        ),
        (
            {LOAD_WGT: {"sram_base": 1}},
            "instruction 4 .*reads undefined wgt elements",
        ),
        ({RESET: {"uop_end": 15}}, "instruction 4 .*reads undefined acc elements"),
        (
            {LOAD_UOP: {"x_size": 15}},
            "instruction 3 .*reads undefined uop elements",
        ),
        ({STORE: {"sram_base": 1}}, "instruction 6 .*reads undefined out elements"),
    ],
)
def test_nothing_is_read_before_it_is_written(
    changes: Mapping[int, Mapping[str, Any]], message: str
) -> None:
    refuse(with_changes(changes), message)


def test_a_reset_leaves_the_out_buffer_undefined() -> None:
    reset = product_instructions()
    shift = reset.pop(SHIFT)
    reset[PRODUCT] = replace(reset[PRODUCT], push_next=True)
    verify(assemble(reset))
    reset[PRODUCT] = replace(reset[RESET], pop_prev=False, push_next=True)
    refuse(assemble(reset), "instruction 5 .*reads undefined out elements")
    reset.insert(RESET + 2, replace(shift, push_next=False))
    reset[RESET + 1] = replace(reset[RESET + 1], push_next=False)
    reset[RESET + 2] = shift
    verify(assemble(reset))


def two_tiles(*, second_inp: int, second_out: int, tokens: bool) -> Program:
    """Return two consecutive products; with ``tokens``, the second waits for the first."""
    first = product_instructions()[:FINISH]
    second = list(first[LOAD_INP:])
    second[0] = replace(second[0], sram_base=second_inp)  # type: ignore[call-arg]
    uops = [*product_uops(), *(isa.Uop(dst=second_out + i, src=second_inp + i) for i in range(16))]
    first[LOAD_UOP] = replace(first[LOAD_UOP], x_size=32)  # type: ignore[call-arg]
    for at in (RESET - 1, PRODUCT - 1, SHIFT - 1):
        second[at] = replace(second[at], uop_bgn=16, uop_end=32)  # type: ignore[call-arg]
    second[STORE - 1] = replace(second[STORE - 1], sram_base=second_out, dram_base=64)  # type: ignore[call-arg]
    if tokens:
        first[PRODUCT] = replace(first[PRODUCT], push_prev=True)
        second[0] = replace(second[0], pop_next=True)
        second[RESET - 1] = replace(second[RESET - 1], pop_next=True)
    else:
        first[STORE] = replace(first[STORE], push_prev=False)
    return assemble([*first, *second, isa.Finish(pop_next=True)], uops)


def test_a_buffer_is_reused_only_after_a_token_says_so() -> None:
    verify(two_tiles(second_inp=0, second_out=0, tokens=True))
    verify(two_tiles(second_inp=16, second_out=16, tokens=True))
    message = (
        r"instruction \d+ .*(writes inp elements that instruction \d+ \(COMPUTE\) reads"
        r"|reads inp elements that instruction \d+ \(LOAD\) writes), and no token orders the two"
    )
    refuse(two_tiles(second_inp=0, second_out=16, tokens=False), message)
    # the weights are loaded again to the same place, which is a separate race
    refuse(two_tiles(second_inp=16, second_out=16, tokens=False), message.replace("inp", "wgt"))


def test_a_tile_is_not_overwritten_while_it_is_stored() -> None:
    program = two_tiles(second_inp=0, second_out=0, tokens=True)
    body = [decode_table(STOCK, program.instructions).record(i) for i in range(14)]
    loose = changed(body, {STORE: {"push_prev": False}, 9: {"pop_next": False}})
    message = (
        r"(writes out elements that instruction 6 \(STORE\) reads"
        r"|reads out elements that instruction \d+ \(COMPUTE\) writes), and no token"
    )
    refuse(replace(program, instructions=assemble(loose).instructions), message)


def test_data_is_not_used_before_its_token() -> None:
    early = {LOAD_WGT: {"push_next": False}, LOAD_INP: {"push_next": True}}
    refuse(
        with_changes(early),
        r"instruction 4 .*reads wgt elements that instruction 2 \(LOAD\) writes, and no token",
    )
    kept = {SHIFT: {"push_next": False}, PRODUCT: {"push_next": True}}
    message = r"(reads out elements that instruction 5|instruction 5 .*writes out elements that)"
    refuse(with_changes(kept), message)


def through_memory(*, tokens: bool, initialised: bool = True) -> Program:
    """Return two layers: a product stored to scratch, and its result loaded and stored again."""
    first = product_instructions()[:FINISH]
    second = list(first[LOAD_INP:])
    if tokens:  # store -> compute -> load
        first.append(isa.Alu(alu_opcode=isa.AluOp.MAX, uop_bgn=0, uop_end=1, use_imm=True,
                         pop_next=True, push_prev=True))  # fmt: skip
        second[0] = replace(second[0], pop_next=True)
    else:
        second[RESET - 1] = replace(second[RESET - 1], pop_next=True)
        first[PRODUCT] = replace(first[PRODUCT], push_prev=True)
        second[0] = replace(second[0], pop_next=True)
    body = [*first, *second, isa.Finish(pop_next=True)]
    load = len(first)
    regions = {STORE: "scratch", load: "scratch" if initialised else "result"}
    return assemble(body, regions=regions)


def test_a_layer_reads_memory_only_after_the_store_that_fills_it() -> None:
    verify(through_memory(tokens=True))
    refuse(
        through_memory(tokens=False),
        r"(reads scratch elements that instruction 6 \(STORE\) writes, and no token orders the two"
        r"|reads undefined scratch elements"
        r"|writes scratch elements that instruction \d+ \(LOAD\) reads)",
    )
    refuse(
        through_memory(tokens=True, initialised=False),
        "reads undefined result elements",
    )


# Whole programs.

# In these three, the last ALU instruction pops the token of the store before the last one and so
# runs while the last tile is stored. It adds 0 and writes the byte that is already there. That
# works in a simulator, but a block RAM may return a wrong byte if it is read and written in the
# same cycle.
RACING_VECTORS = {"31_tiles.npz", "32_tiles.npz", "33_tiles.npz"}


@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_the_recorded_vectors_are_accepted_except_three_with_a_race(revision: str) -> None:
    target = Accelerator(revision=revision)
    for path in sorted((VECTORS / revision).glob("*.npz")):
        vector = np.load(path)
        image = vector["dram_before"].tobytes()
        table = decode_table(target, vector["insns"])
        relocations = np.full(len(table), NO_REGION, np.uint8)
        relocations[table.positions[isa.Opcode.LOAD]] = 0
        relocations[table.positions[isa.Opcode.STORE]] = 1
        program = Program(
            accelerator=target,
            instructions=vector["insns"],
            relocations=relocations,
            consts=image,
            regions=(
                Region(name="before", bytes=len(image), kind=RegionKind.CONST),
                Region(name="after", bytes=len(image), kind=RegionKind.OUTPUT),
            ),
        )
        if path.name in RACING_VECTORS:
            refuse(program, r"reads out elements that instruction \d+ \(COMPUTE\) writes, and no")
        else:
            verify(program)


def test_a_shift_by_a_vector_that_is_not_constant_is_refused_where_no_lane_shifts_left() -> None:
    uops = [*product_uops(), *(isa.Uop(dst=i, src=32 + i) for i in range(16))]
    body = product_instructions()
    body[LOAD_UOP] = replace(body[LOAD_UOP], x_size=32)  # type: ignore[call-arg]
    load = isa.Load(memory_type=isa.MemoryType.ACC, sram_base=32, dram_base=2, x_size=16)
    shift = isa.Alu(alu_opcode=isa.AluOp.SHR, uop_bgn=16, uop_end=32)
    program = [*body[:SHIFT], load, shift, *body[SHIFT:]]
    consts = bytes(16 * 64)
    for regions in ({}, {SHIFT: "consts"}):
        verify(assemble(program, uops, consts=consts, regions=regions))
    chisel = Accelerator(implementation="chisel")
    own = replace(body[SHIFT], alu_opcode=isa.AluOp.SHR)  # type: ignore[call-arg]
    assert own.imm == 7  # type: ignore[attr-defined]
    verify(assemble(program, uops, consts=consts, regions={SHIFT: "consts"}, accelerator=chisel))
    refuse(
        assemble(program, uops, consts=consts, accelerator=chisel),
        "shifts by a vector that is not constant, and this implementation does not shift left",
    )
    left = np.full(16 * 16, -1, "<i4").tobytes()
    refuse(
        assemble(program, uops, consts=left, regions={SHIFT: "consts"}, accelerator=chisel),
        "shifts a lane left by a vector",
    )
    zeros = bytes(48 * 64)
    own_result = [*body[:SHIFT], replace(load, sram_base=0), replace(shift, uop_bgn=0, uop_end=16)]
    refuse(
        assemble(
            [*own_result, *body[SHIFT:]],
            [isa.Uop(dst=i, src=i) for i in range(32)],
            consts=zeros,
            regions={SHIFT: "consts"},
            accelerator=chisel,
        ),
        "shifts by a vector that is not constant",
    )
