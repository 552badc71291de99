"""Layers whose outputs are looked up in a table, on accelerators with the extension."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from accelerators import ALL_EXTENSIONS, FOUR_BY_EIGHT
from compiler_support import check_program, conv, epilogue, tensor
from instruction_records import name_of

from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.errors import LayerError
from vta_stages.isa.instructions import AluOp, MemoryType, Opcode
from vta_stages.layers.records import (
    Concat,
    Layer,
    MaxPool,
    Pick,
    Sum,
    Table,
    TensorSpec,
    Term,
)
from vta_stages.program import Program

EXTENDED = Accelerator(acc_hazard_steps=1, extensions=ALL_EXTENSIONS)
ACCELERATORS = (
    EXTENDED,
    Accelerator(revision="0.0.2", extensions=("table",)),
    replace(FOUR_BY_EIGHT, extensions=("requantise", "table")),
)
each_accelerator = pytest.mark.parametrize("accelerator", ACCELERATORS, ids=name_of)


def table(name: str, source: TensorSpec, *, seed: int = 0, rows: int = 1) -> Table:
    """Return the look-up of a tensor in a random table."""
    return Table(
        name=name,
        input=source,
        output=tensor(f"{name}.out", source.channels, source.height, source.width),
        table=np.random.default_rng(seed).integers(-128, 128, (rows, 256), np.int8),
    )


def total(name: str, *sources: TensorSpec, shift: int = 1) -> Sum:
    first = sources[0]
    ones = np.ones(first.channels, np.int32)
    none = np.zeros(first.channels, np.int32)
    rng = np.random.default_rng(1)
    return Sum(
        name=name,
        output=tensor(f"{name}.out", first.channels, first.height, first.width),
        terms=tuple(Term(tensor=source, factor=ones) for source in sources),
        epilogue=replace(
            epilogue(rng, first.channels, low=-128, per_channel=False),
            bias=none,
            shift=none + shift,
        ),
    )


def pool(name: str, source: TensorSpec, kernel: int, stride: int) -> MaxPool:
    extent = (source.height - kernel) // stride + 1
    return MaxPool(
        name=name,
        input=source,
        output=tensor(f"{name}.out", source.channels, extent, extent),
        kernel=(kernel, kernel),
        stride=(stride, stride),
    )


def count(program: Program, operation: AluOp) -> int:
    return int((program.table.columns[Opcode.ALU]["alu_opcode"] == operation).sum())


def table_loads(program: Program) -> int:
    return int((program.table.columns[Opcode.LOAD]["memory_type"] == MemoryType.TABLE).sum())


@each_accelerator
@pytest.mark.parametrize("low", [-128, 0, 3])
@pytest.mark.parametrize("leaky", [False, True])
def test_a_convolution_is_looked_up_in_its_last_pass(
    accelerator: Accelerator, low: int, leaky: bool
) -> None:
    rng = np.random.default_rng(low + 128)
    first = conv(rng, "c", tensor("x", 20, 9, 9), 40, 3, pad=1, low=low, leaky=leaky)
    bent = table("t", first.output)
    program = check_program(accelerator, [first, bent], ["x"], ["t.out"])
    assert [layer.name for layer in program.layers] == ["c+t"]
    assert table_loads(program) == 1
    alone = check_program(accelerator, [first], ["x"], ["c.out"])
    if accelerator is EXTENDED:
        passes = (len(p.table.positions[Opcode.ALU]) for p in (program, alone))
        assert len(set(passes)) == 1
        assert count(program, AluOp.REQUANTISE) == 0


@each_accelerator
@pytest.mark.parametrize("shift", [0, 1, 17])
def test_a_sum_is_shifted_and_looked_up(accelerator: Accelerator, shift: int) -> None:
    x, y = tensor("x", 20, 7, 5), tensor("y", 20, 7, 5)
    layer = total("s", x, y, shift=shift)
    check_program(accelerator, [layer, table("t", layer.output)], ["x", "y"], ["t.out"])


@each_accelerator
def test_a_picture_is_looked_up_as_it_is(accelerator: Accelerator) -> None:
    program = check_program(accelerator, [table("t", tensor("x", 20, 7, 5))], ["x"], ["t.out"])
    assert [layer.name for layer in program.layers] == ["t"]
    assert count(program, AluOp.TABLE) == len(program.table.positions[Opcode.ALU])


@each_accelerator
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 1), (5, 2)])
def test_poolings_are_looked_up(accelerator: Accelerator, kernel: int, stride: int) -> None:
    rng = np.random.default_rng(4)
    first = conv(rng, "c", tensor("x", 16, 12, 12), 32, 3, pad=1, low=0)
    smaller = pool("p", first.output, kernel, stride)
    check_program(accelerator, [first, smaller, table("t", smaller.output)], ["x"], ["t.out"])


@each_accelerator
def test_tables_of_everything_else_are_layers_of_their_own(accelerator: Accelerator) -> None:
    """Of a concatenation, a pick, a table, and of what something else reads, too."""
    rng = np.random.default_rng(5)
    first = conv(rng, "c", tensor("x", 16, 6, 6), 20, 1)
    bent = table("t", first.output, seed=1)
    both = Concat(
        name="both", inputs=(first.output, bent.output), output=tensor("both.out", 40, 6, 6)
    )
    of_both = table("u", both.output, seed=2)
    some = Pick(
        name="some",
        input=of_both.output,
        output=tensor("some.out", 3, 6, 6),
        channels=(0, 39, 17),
    )
    of_some = table("v", some.output, seed=3)
    again = table("w", of_some.output, seed=4)
    layers: list[Layer] = [first, bent, both, of_both, some, of_some, again]
    outputs = ["t.out", "u.out", "v.out", "w.out"]
    program = check_program(accelerator, layers, ["x"], outputs)
    assert table_loads(program) == 4


def test_a_table_that_is_there_is_not_loaded_again() -> None:
    rng = np.random.default_rng(6)
    layers: list[Layer] = []
    source = tensor("x", 16, 8, 8)
    for n, seed in enumerate((1, 1, 2, 1)):
        layers.append(conv(rng, f"c{n}", source, 16, 3, pad=1))
        layers.append(table(f"t{n}", layers[-1].output, seed=seed))
        source = layers[-1].output
    program = check_program(EXTENDED, layers, ["x"], ["t3.out"])
    assert table_loads(program) == 3


@pytest.mark.parametrize(("rows", "differ"), [(20, False), (20, True)])
def test_a_table_for_each_channel_stays_on_arm(rows: int, differ: bool) -> None:
    layer = table("t", tensor("x", 20, 4, 4), rows=rows)
    if not differ:
        layer = replace(layer, table=np.repeat(layer.table[:1], rows, axis=0))
        check_program(EXTENDED, [layer], ["x"], ["t.out"])
        return
    with pytest.raises(LayerError) as caught:
        compile_program(EXTENDED, [layer], ["x"], ["t.out"])
    assert str(caught.value) == (
        "t: has a table for each channel; the accelerator's is one for all"
    )
    assert caught.value.hint == "place it on arm"


def test_an_accelerator_without_the_extension_refuses_a_table_of_a_convolution() -> None:
    first = conv(np.random.default_rng(0), "c", tensor("x", 16, 4, 4), 16, 1)
    with pytest.raises(LayerError, match=r"^t: values are looked up in a table, which the accel"):
        compile_program(Accelerator(), [first, table("t", first.output)], ["x"], ["t.out"])
