"""Footprints and hazards, compared with an expansion of all steps."""

from __future__ import annotations

import numpy as np
import pytest
from accelerators import ALL_EXTENSIONS
from hypothesis import given
from hypothesis import strategies as st

from vta_stages.accelerator import Accelerator
from vta_stages.isa.codec import decode_table
from vta_stages.isa.footprint import (
    Hazard,
    Loops,
    alu_footprint,
    destination_hazard,
    gemm_footprint,
    loaded_elements,
    operand_hazard,
    touched,
    transferred_span,
)
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Load, MemoryType, Opcode

factors = st.integers(0, 5)
counts = st.integers(1, 4)
loops = st.builds(Loops, iter_out=counts, iter_in=counts, factor_out=factors, factor_in=factors)
indices = st.lists(st.integers(0, 20), min_size=1, max_size=12).map(np.array)


def expand(uop_indices: np.ndarray, of: Loops) -> list[int]:
    return [
        int(index) + outer * of.factor_out + inner * of.factor_in
        for outer in range(of.iter_out)
        for inner in range(of.iter_in)
        for index in uop_indices
    ]


def closest(first: list[int], second: list[int]) -> int | None:
    """Return the least distance from a step of ``first`` to a later step of ``second``."""
    distances = [
        later - earlier
        for earlier, one in enumerate(first)
        for later, other in enumerate(second)
        if later > earlier and one == other
    ]
    return min(distances, default=None)


@given(indices, loops)
def test_touched_elements_are_those_of_all_steps(uops: np.ndarray, of: Loops) -> None:
    depth = 20 + of.reach + 1
    selected = np.arange(depth)[touched(uops, of, depth)]
    assert selected.tolist() == sorted(set(expand(uops, of)))


@given(indices, loops, st.integers(1, 9))
def test_a_destination_hazard_is_found_if_and_only_if_there_is_one(
    uops: np.ndarray, of: Loops, steps: int
) -> None:
    distance = closest(expand(uops, of), expand(uops, of))
    found = destination_hazard(uops, of, steps)
    assert (found is not None) == (distance is not None and distance < steps)


@given(st.data(), loops, st.integers(1, 9))
def test_an_operand_hazard_is_found_if_and_only_if_there_is_one(
    data: st.DataObject, dst_loops: Loops, steps: int
) -> None:
    dst = data.draw(indices)
    src = data.draw(st.lists(st.integers(0, 20), min_size=len(dst), max_size=len(dst)))
    shape = {"iter_out": dst_loops.iter_out, "iter_in": dst_loops.iter_in}
    other = st.builds(Loops, factor_out=factors, factor_in=factors, **{
        name: st.just(count) for name, count in shape.items()
    })  # fmt: skip
    src_loops = data.draw(st.one_of(st.just(dst_loops), other))
    written, read = expand(dst, dst_loops), expand(np.array(src), src_loops)
    distances = [d for d in (closest(written, read), closest(read, written)) if d is not None]
    found = operand_hazard(dst, dst_loops, np.array(src), src_loops, steps)
    assert (found is not None) == (min(distances, default=steps) < steps)


def test_a_hazard_says_which_uops_and_how_far_apart() -> None:
    found = destination_hazard(np.array([4, 5, 6, 4]), Loops(1, 1, 0, 0), 8)
    assert found == Hazard(first_uop=0, second_uop=3, distance=3)
    assert str(found) == "uops 0 and 3 touch the same acc entry 3 steps apart"


def test_a_vector_operand_may_be_the_entry_itself() -> None:
    uops = np.array([[i, i, 0] for i in range(8)])
    once = Loops(1, 1, 0, 0)
    footprint = alu_footprint(Accelerator(), uops, use_imm=False, dst=once, src=once)
    assert footprint.fault is None
    assert footprint.dst == footprint.src == slice(0, 8)


def test_very_long_loops_over_the_same_entries_are_refused_and_not_expanded() -> None:
    uops = np.array([[i, i, 0] for i in range(16)])
    dst, src = Loops(1 << 13, 1 << 13, 0, 0), Loops(1 << 13, 1 << 13, 0, 1 << 0)
    accelerator = Accelerator(acc_buffer_bytes_log2=20, inp_buffer_bytes_log2=18)
    footprint = alu_footprint(accelerator, uops, use_imm=False, dst=dst, src=src)
    assert footprint.fault is not None
    assert "more than 4194304 steps" in footprint.fault


@pytest.mark.parametrize(
    ("column", "name", "depth"), [(0, "acc", 2048), (1, "inp", 2048), (2, "wgt", 1024)]
)
def test_the_last_index_of_a_gemm_must_be_within_its_buffer(
    column: int, name: str, depth: int
) -> None:
    once, strided = Loops(3, 2, 0, 0), Loops(3, 2, 100, 10)
    uops = np.array([[i, i, 0] for i in range(16)])
    uops[0, column] = depth - 211  # 2 * 100 + 1 * 10 from the end
    operands = [once, once, once]
    operands[column] = strided
    target = Accelerator(acc_hazard_steps=1)
    dst, src, wgt = operands
    within = gemm_footprint(target, uops, reset=False, dst=dst, src=src, wgt=wgt)
    assert within.fault is None
    uops[0, column] += 1
    beyond = gemm_footprint(target, uops, reset=False, dst=dst, src=src, wgt=wgt)
    assert beyond.fault == f"touches {name}[{depth}], expected an index below {depth}"


@pytest.mark.parametrize(
    ("revision", "memory_type", "elements", "span"),
    [
        ("0.0.1", MemoryType.INP, 6 * 7, 23),
        ("0.0.1", MemoryType.ACC, 3 * 3, 23),
        ("0.0.2", MemoryType.ACC, 6 * 7, 23),
        ("0.0.2", MemoryType.WGT, 3 * 3, 23),
        ("0.0.2", MemoryType.UOP, 3, 3),
        ("0.0.2", MemoryType.TABLE, 3, 3),
    ],
)
def test_a_load_fills_rows_with_pads_where_the_memory_has_them(
    revision: str, memory_type: MemoryType, elements: int, span: int
) -> None:
    load = Load(
        memory_type=memory_type, sram_base=0, dram_base=0, y_size=3, x_size=3, x_stride=10,
        y_pad_0=1, y_pad_1=2, x_pad_0=4, x_pad_1=0,
    )  # fmt: skip
    target = Accelerator(revision=revision, extensions=ALL_EXTENSIONS)
    table = decode_table(target, encode(target, [load]))
    assert loaded_elements(table).tolist() == [elements]
    assert transferred_span(table, Opcode.LOAD).tolist() == [span]
