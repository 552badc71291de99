"""Products of two tensors, on accelerators with the extension MULTIPLY."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from accelerators import ALL_EXTENSIONS, FOUR_BY_EIGHT, RECTANGULAR, THIRTYTWO_BY_SIXTEEN
from compiler_support import check_program, conv, epilogue, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from instruction_records import name_of

from vta_stages.accelerator import Accelerator
from vta_stages.compiler import check_layer, compile_program
from vta_stages.errors import LayerError
from vta_stages.isa.instructions import AluOp, Opcode
from vta_stages.layers.inputs import layer_inputs
from vta_stages.layers.records import Layer, Product, Table, TensorSpec, Term
from vta_stages.program import Program
from vta_stages.timing.rtl_costs import rtl_costs, time_on_rtl

EXTENDED = Accelerator(acc_hazard_steps=1, extensions=ALL_EXTENSIONS)
ALONE = Accelerator(revision="0.0.2", extensions=("multiply",))
"""MULTIPLY without REQUANTISE: the stock passes shift and clip."""

ACCELERATORS = (
    EXTENDED,
    ALONE,
    replace(FOUR_BY_EIGHT, extensions=("multiply", "requantise")),
    RECTANGULAR,
    THIRTYTWO_BY_SIXTEEN,
)
each_accelerator = pytest.mark.parametrize("accelerator", ACCELERATORS, ids=name_of)


def product(
    first: TensorSpec,
    second: TensorSpec,
    *,
    name: str = "p",
    seed: int = 0,
    shift: int = 12,
    factor: int | None = None,
    terms: tuple[Term, ...] = (),
    leaky: bool = False,
) -> Product:
    """Return a product of tensors that are broadcast, with random factors unless one is given."""
    rng = np.random.default_rng(seed)
    shape = (max(getattr(t, n) for t in (first, second)) for n in ("channels", "height", "width"))
    output = tensor(f"{name}.out", *shape)
    factors = rng.integers(-127, 128, output.channels)
    if factor is not None:
        factors = np.full(output.channels, factor)
    return Product(
        name=name,
        first=first,
        second=second,
        output=output,
        factor=factors.astype(np.int32),
        epilogue=epilogue(rng, output.channels, shift=shift, leaky=leaky),
        terms=terms,
    )


def check(accelerator: Accelerator, layer: Layer, seed: int = 0) -> Program:
    inputs = list(dict.fromkeys(spec.name for spec in layer_inputs(layer)))
    return check_program(accelerator, [layer], inputs, [layer.output.name], seed)


def operations(program: Program) -> list[AluOp]:
    return [AluOp(op) for op in program.table.columns[Opcode.ALU]["alu_opcode"].tolist()]


@each_accelerator
@pytest.mark.parametrize(("height", "width"), [(1, 1), (7, 5), (40, 40)])
def test_two_maps_of_one_shape(accelerator: Accelerator, height: int, width: int) -> None:
    check(accelerator, product(tensor("x", 40, height, width), tensor("y", 40, height, width)))


@each_accelerator
@pytest.mark.parametrize("gate_first", [False, True])
def test_a_gate_for_each_channel(accelerator: Accelerator, gate_first: bool) -> None:
    picture, gate = tensor("x", 72, 14, 14), tensor("gate", 72, 1, 1)
    pair = (gate, picture) if gate_first else (picture, gate)
    program = check(accelerator, product(*pair))
    assert AluOp.MULTIPLY in operations(program)


@each_accelerator
@pytest.mark.parametrize("channels", [1, 40])
def test_a_gate_for_each_pixel(accelerator: Accelerator, channels: int) -> None:
    check(accelerator, product(tensor("x", channels, 9, 12), tensor("gate", 1, 9, 12)))


@each_accelerator
def test_both_tensors_may_be_broadcast(accelerator: Accelerator) -> None:
    check(accelerator, product(tensor("rows", 20, 6, 1), tensor("columns", 1, 1, 8)))


@each_accelerator
def test_a_square_reads_its_tensor_once(accelerator: Accelerator) -> None:
    x = tensor("x", 20, 6, 6)
    check(accelerator, product(x, x))


@each_accelerator
@pytest.mark.parametrize("factor", [0, 1, -128, 127, 127 << 6, -(128 << 6)])
def test_factors_of_eight_bits_and_a_power_of_two(accelerator: Accelerator, factor: int) -> None:
    layer = product(tensor("x", 20, 5, 5), tensor("y", 20, 5, 5), factor=factor, shift=18)
    check(accelerator, layer)


@each_accelerator
@pytest.mark.parametrize("leaky", [False, True])
@pytest.mark.parametrize("factor", [3, 100 << 9], ids=["plain", "shifted"])
def test_what_is_added_to_a_product(accelerator: Accelerator, leaky: bool, factor: int) -> None:
    """A gate with a residual; the residual's factor may need a shift of its own."""
    x = tensor("x", 40, 9, 9)
    residual = Term(tensor=x, factor=np.full(40, factor, np.int32))
    layer = product(x, tensor("gate", 40, 1, 1), terms=(residual,), leaky=leaky)
    check(accelerator, layer)


@given(
    seed=st.integers(0, 2**32 - 1),
    output=st.tuples(st.integers(1, 70), st.integers(1, 13), st.integers(1, 13)),
    ones=st.lists(st.booleans(), min_size=6, max_size=6),
    power=st.integers(0, 6),
    shift=st.integers(0, 20),
    terms=st.integers(0, 2),
)
@each_accelerator
@settings(max_examples=25, deadline=None)
def test_random_products(accelerator, seed, output, ones, power, shift, terms):
    rng = np.random.default_rng(seed)
    first, second = (
        tensor(name, *(1 if one else extent for one, extent in zip(flags, output, strict=True)))
        for name, flags in (("x", ones[:3]), ("y", ones[3:]))
    )
    layer = product(first, second, seed=seed, shift=shift, leaky=bool(rng.integers(2)))
    made = layer.output
    shifts = rng.integers(0, power + 1, made.channels)
    residuals = tuple(
        Term(
            tensor=replace(made, name=f"r{index}"),
            factor=(rng.integers(-127, 128, made.channels) << int(rng.integers(9))).astype(
                np.int32
            ),
        )
        for index in range(terms)
    )
    check(accelerator, replace(layer, factor=layer.factor << shifts, terms=residuals), seed)


@pytest.mark.parametrize("extensions", [(), ("requantise", "table", "leaky", "clear")])
def test_an_accelerator_without_the_extension_refuses(extensions: tuple[str, ...]) -> None:
    layer = product(tensor("x", 16, 4, 4), tensor("y", 16, 4, 4))
    with pytest.raises(LayerError) as caught:
        check_layer(Accelerator(extensions=extensions), layer)
    error = caught.value
    assert str(error) == "p: multiplies two tensors; the accelerator multiplies only by constants"
    assert (error.hint, error.option, error.value) == ("place it on arm", "placement", "p=arm")


def test_a_factor_of_more_bits_belongs_on_arm() -> None:
    layer = product(tensor("x", 16, 4, 4), tensor("y", 16, 4, 4), factor=127 << 7)
    with pytest.raises(LayerError) as caught:
        check_layer(EXTENDED, layer)
    error = caught.value
    assert str(error) == (
        "p: has factor 16256 on channel 0, expected f * 2**k with -128 <= f <= 127 and k <= 6"
    )
    assert (error.hint, error.option, error.value) == ("place it on arm", "placement", "p=arm")


@each_accelerator
def test_a_product_between_layers(accelerator: Accelerator) -> None:
    """Convolution, gate and convolution in one program, where the buffers are in use."""
    rng = np.random.default_rng(1)
    wide = conv(rng, "wide", tensor("x", 16, 12, 12), 48, 3, pad=1)
    gate = conv(rng, "gate", tensor("mean", 8, 1, 1), 48, 1, low=0)
    gated = product(wide.output, gate.output, seed=2)
    last = conv(rng, "last", gated.output, 24, 1)
    check_program(accelerator, [wide, gate, gated, last], ["x", "mean"], ["last.out"])


def test_a_product_is_looked_up_in_its_last_pass() -> None:
    layer = product(tensor("x", 20, 7, 5), tensor("y", 20, 7, 5))
    entries = np.random.default_rng(3).integers(-128, 128, (1, 256), np.int8)
    bent = Table(
        name="t", input=layer.output, output=replace(layer.output, name="t.out"), table=entries
    )
    program = check_program(EXTENDED, [layer, bent], ["x", "y"], ["t.out"])
    assert [span.name for span in program.layers] == ["p+t"]
    assert set(operations(program)) == {AluOp.MULTIPLY, AluOp.TABLE}


def test_with_requantise_a_product_takes_two_passes() -> None:
    layer = product(tensor("x", 20, 7, 5), tensor("y", 20, 7, 5))
    program = compile_program(EXTENDED, [layer], ["x", "y"], ["p.out"])
    assert set(operations(program)) == {AluOp.MULTIPLY, AluOp.REQUANTISE}


@pytest.mark.parametrize("accelerator", [EXTENDED, THIRTYTWO_BY_SIXTEEN], ids=name_of)
def test_a_gate_for_each_channel_takes_two_cycles_less_than_a_map(
    accelerator: Accelerator,
) -> None:
    """It is copied to an accumulator for each channel block, not to one for each pixel."""
    picture, cycles = tensor("x", 64, 56, 56), []
    for other in (tensor("y", 64, 1, 1), tensor("y", 64, 56, 56)):
        layer = product(picture, other)
        cost = rtl_costs(accelerator)
        program = compile_program(accelerator, [layer], ["x", "y"], ["p.out"], cost=cost)
        cycles.append(time_on_rtl(program, cost).cycles / (4 * 56 * 56))
    assert cycles[0] < 3.6
    assert 1.9 < cycles[1] - cycles[0] < 2.5
