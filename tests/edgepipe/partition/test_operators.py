"""match_operators: every emitted record is read back unchanged; other operators are generic."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgepipe.partition.operators import input_table, match_operators
from edgepipe.quantize import normal_forms
from edgepipe.quantize.leaky import leaky
from edgepipe.tvm_adapter import IRModule, ModuleBuilder, read_main, run_module
from vta_stages.layers import records
from vta_stages.layers.inputs import layer_inputs
from vta_stages.layers.reference import run_layer


def assert_equal(found: Any, expected: Any) -> None:
    """Compare records field by field; arrays by dtype and value."""
    assert type(found) is type(expected)
    if dataclasses.is_dataclass(expected):
        for field in dataclasses.fields(expected):
            assert_equal(getattr(found, field.name), getattr(expected, field.name))
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    else:
        assert found == expected


def module_of(layer: records.Layer) -> IRModule:
    """Return a stage module whose parameters are the layer's int8 inputs."""
    builder = ModuleBuilder()
    for spec in {spec.name: spec for spec in layer_inputs(layer)}.values():
        builder.param(spec.name, (1, spec.channels, spec.height, spec.width), "int8")
    return builder.finish([normal_forms.write_layer(builder, layer)])


@st.composite
def epilogues(draw: st.DrawFn, channels: int) -> records.Epilogue:
    random = np.random.default_rng(draw(st.integers(0, 99)))
    shift = random.integers(0, 16, channels).astype(np.int32)
    low = draw(st.sampled_from([-128, -5, 0]))
    return records.Epilogue(
        bias=random.integers(-(2**20), 2**20, channels).astype(np.int32),
        shift=shift,
        low=low,
        high=draw(st.sampled_from([127, 90])),
        leaky=leaky(draw(st.sampled_from([0.1, 0.01, 0.25, 0.11])), shift)[0]
        if low == -128
        else None,
    )


@st.composite
def convs(draw: st.DrawFn) -> records.Conv:
    groups = draw(st.sampled_from([1, 2, 3]))
    channels, filters = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 4))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    stride = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    padding = tuple(draw(st.integers(0, 2)) for _ in range(4))
    size = (9, 8)
    made = [(size[a] + padding[a] + padding[a + 2] - kernel[a]) // stride[a] + 1 for a in range(2)]
    output = records.TensorSpec(name="y.0", channels=filters, height=made[0], width=made[1])
    random = np.random.default_rng(draw(st.integers(0, 99)))
    other = dataclasses.replace(output, name="r")
    count = draw(st.integers(0, 2))
    picture = records.TensorSpec(
        name="p", channels=3, height=2 * output.height - 1, width=2 * output.width
    )
    projections = tuple(
        records.Projection(
            tensor=picture,
            weight=random.integers(-128, 128, (filters, 3)).astype(np.int8),
            stride=(2, 2),
        )
        for _ in range(draw(st.integers(0, 2)))
    )
    factors = random.integers(-127, 128, (2, filters)).astype(np.int32)
    return records.Conv(
        name="y.0",
        input=records.TensorSpec(name="x", channels=channels, height=size[0], width=size[1]),
        output=output,
        weight=random.integers(-128, 128, (filters, channels // groups, *kernel)).astype(np.int8),
        epilogue=draw(epilogues(filters)),
        stride=stride,
        padding=padding,  # type: ignore[arg-type]
        groups=groups,
        terms=tuple(records.Term(tensor=other, factor=factors[i]) for i in range(count)),
        projections=projections,
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(convs())
def test_convolutions_read_back_equal(layer: records.Conv) -> None:
    (operator,) = match_operators(module_of(layer))
    assert (operator.kind, operator.name, operator.output) == ("conv", "y.0", "y.0")
    added = (*(("p",) if layer.projections else ()), *(("r",) if layer.terms else ()))
    assert operator.inputs == ("x", *added)
    assert_equal(operator.layer, layer)


def plain(channels: int) -> records.Epilogue:
    ones = np.ones(channels, np.int32)
    return records.Epilogue(bias=ones, shift=3 * ones, low=-128, high=127)


X = records.TensorSpec(name="x", channels=4, height=6, width=6)
HALF = records.TensorSpec(name="y", channels=4, height=3, width=3)
DOUBLE = records.TensorSpec(name="y", channels=4, height=12, width=12)
UP = np.kron(np.eye(6, dtype=np.int32), np.ones((2, 1), np.int32))
OTHERS: dict[str, records.Layer] = {
    "transposed_conv": records.TransposedConv(
        name="y",
        input=X,
        output=records.TensorSpec(name="y", channels=2, height=12, width=12),
        weight=np.arange(128, dtype=np.int8).reshape(4, 2, 4, 4),
        epilogue=plain(2),
        stride=(2, 2),
        padding=(1, 1, 1, 1),
    ),
    "sum": records.Sum(
        name="y",
        output=dataclasses.replace(X, name="y"),
        terms=(
            records.Term(tensor=X, factor=np.array([1, 2, 3, -4], np.int32)),
            records.Term(
                tensor=dataclasses.replace(X, name="z"),
                factor=np.array([5, 6, 7, 8], np.int32),
            ),
        ),
        epilogue=plain(4),
    ),
    "max_pool": records.MaxPool(
        name="y", input=X, output=HALF, kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1)
    ),
    "resize": records.Resize(name="y", input=X, output=DOUBLE, rows=UP, cols=UP, shift=0),
    "table": records.Table(
        name="y",
        input=X,
        output=dataclasses.replace(X, name="y"),
        table=np.arange(1024).reshape(4, 256).astype(np.int8),
    ),
    "pick": records.Pick(
        name="y", input=X, output=dataclasses.replace(X, name="y", channels=3), channels=(2, 0, 3)
    ),
    "product": records.Product(
        name="y",
        first=X,
        second=dataclasses.replace(X, name="g", height=1, width=1),
        output=dataclasses.replace(X, name="y"),
        factor=np.array([5, 6, 7, -8], np.int32),
        epilogue=plain(4),
        terms=(
            records.Term(
                tensor=dataclasses.replace(X, name="z"), factor=np.array([1, 2, 3, -4], np.int32)
            ),
        ),
    ),
    "quotient": records.Quotient(
        name="y",
        first=X,
        second=dataclasses.replace(X, name="g", channels=1),
        output=dataclasses.replace(X, name="y"),
        table=np.arange(4 * 256, dtype=np.int32).reshape(4, 256),
        epilogue=plain(4),
        terms=(
            records.Term(
                tensor=dataclasses.replace(X, name="z"), factor=np.array([1, 2, 3, -4], np.int32)
            ),
        ),
    ),
    "pixel_affine": records.PixelAffine(
        name="y",
        input=X,
        output=dataclasses.replace(X, name="y"),
        factor=np.arange(4, dtype=np.int32).reshape(1, 4, 1, 1),
        bias=np.arange(X.height * X.width, dtype=np.int32).reshape(1, 1, X.height, X.width),
        epilogue=plain(4),
    ),
    "concat": records.Concat(
        name="y",
        inputs=(X, dataclasses.replace(X, name="z", channels=3)),
        output=dataclasses.replace(X, name="y", channels=7),
    ),
}


@pytest.mark.parametrize("kind", sorted(OTHERS))
def test_other_records_read_back_equal(kind: str) -> None:
    (operator,) = match_operators(module_of(OTHERS[kind]))
    assert operator.kind == kind
    assert_equal(operator.layer, OTHERS[kind])


def test_neighbouring_channels_read_back_equal() -> None:
    neighbours = dataclasses.replace(OTHERS["pick"], channels=(1, 2, 3))  # type: ignore[call-arg]
    (operator,) = match_operators(module_of(neighbours))
    assert_equal(operator.layer, neighbours)


def test_a_table_for_all_channels_reads_back_equal() -> None:
    one = dataclasses.replace(OTHERS["table"], table=np.arange(256).reshape(1, 256).astype(np.int8))  # type: ignore[call-arg]
    (operator,) = match_operators(module_of(one))
    assert_equal(operator.layer, one)


@pytest.mark.parametrize("kind", ["table", "product", "quotient", "pixel_affine", "pick"])
def test_the_normal_form_computes_what_the_record_means(kind: str) -> None:
    layer, random = OTHERS[kind], np.random.default_rng(1)
    inputs = {
        t.name: random.integers(-128, 128, (1, t.channels, t.height, t.width)).astype(np.int8)
        for t in layer_inputs(layer)
    }
    inputs["x"][0, :2, 0, :2] = [-128, 127]
    expected = run_layer(layer, {name: array[0] for name, array in inputs.items()})
    np.testing.assert_array_equal(run_module(module_of(layer), inputs)["y"][0], expected)


def test_a_shifted_resize_and_a_one_term_sum_read_back_equal() -> None:
    resize = dataclasses.replace(OTHERS["resize"], rows=2 * UP, cols=2 * UP, shift=2)
    one = dataclasses.replace(OTHERS["sum"], terms=OTHERS["sum"].terms[:1])  # type: ignore[union-attr]
    for layer in (resize, one):
        (operator,) = match_operators(module_of(layer))
        assert_equal(operator.layer, layer)


def test_input_table_and_float_tail() -> None:
    table = np.random.default_rng(0).integers(-128, 128, (3, 256)).astype(np.int8)
    builder = ModuleBuilder()
    normal_forms.write_input_table(
        builder, "x", builder.param("frame", (1, 4, 4, 3), "uint8"), table
    )
    normal_forms.write_table(builder, "probability", "x", np.zeros((1, 256), np.float32))
    normal_forms.write_dequantize(builder, "real", "x", np.ones(3, np.float32), reshape=(1, 48))
    first, second, third = match_operators(builder.finish(["probability", "real"]))
    assert (first.kind, first.layer, first.inputs) == ("input_table", None, ("frame",))
    np.testing.assert_array_equal(input_table(first), table)
    assert (second.name, second.kind, second.inputs) == ("probability", "generic", ("x",))
    assert (third.name, third.kind, len(third.bindings)) == ("real", "generic", 3)


def test_a_chain_that_differs_in_one_call_is_generic() -> None:
    builder = ModuleBuilder()
    builder.param("x", (1, 2, 4, 4), "int8")
    wide = builder.emit("y__wide", "astype", "x", dtype="int32")
    tripled = builder.emit("y__term", "multiply", wide, normal_forms.per_channel(np.array([3, 3])))
    shifted = builder.emit(
        "y__shifted", "right_shift", tripled, normal_forms.per_channel(np.array([1, 1]))
    )
    clipped = builder.emit("y__clipped", "clip", shifted, -128, 127)
    builder.emit("y", "astype", clipped, dtype="int8")
    (operator,) = match_operators(builder.finish(["y"]))
    assert (operator.kind, operator.layer, len(operator.bindings)) == ("generic", None, 5)


def test_a_chain_whose_inner_value_is_read_elsewhere_is_split() -> None:
    builder = ModuleBuilder()
    builder.param("x", (1, 2, 4, 4), "int8")
    wide = builder.emit("y__wide", "astype", "x", dtype="int32")
    builder.emit("y", "multiply", wide, np.array(2, np.int32))
    module = builder.finish(["y", "y__wide"])
    assert [o.name for o in match_operators(module)] == ["y__wide", "y"]


@settings(max_examples=20, deadline=None)
@given(st.permutations(["conv", *sorted(OTHERS)]), st.integers(0, 5))
def test_every_binding_belongs_to_exactly_one_operator(kinds: list[str], seed: int) -> None:
    builder = ModuleBuilder()
    for name, pixels in (("x", 6), ("z", 6), ("g", 1)):
        builder.param(name, (1, 4, pixels, pixels), "int8")
    outputs = []
    for index, kind in enumerate(k for k in kinds if k not in ("conv", "concat")):
        layer = OTHERS[kind]
        name = f"op{index}"
        output = dataclasses.replace(layer.output, name=name)
        outputs.append(
            normal_forms.write_layer(builder, dataclasses.replace(layer, name=name, output=output))
        )
    module = builder.finish(outputs)
    operators = match_operators(module)
    claimed = [binding.name for operator in operators for binding in operator.bindings]
    assert claimed == [binding.name for binding in read_main(module).bindings]
    assert [operator.name for operator in operators] == outputs
