"""What operators cost on an ARM core, by the board's table."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from partition_records import conv, product, table

from edgepipe import boards
from edgepipe.partition.arm_cost import is_depthwise, layer_ms, operator_ms
from edgepipe.partition.operator import Operator
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.normal_forms import write_input_table
from edgepipe.tvm_adapter import Binding, ModuleBuilder
from vta_stages.layers.records import Concat, Conv, Pick, Projection, TensorSpec

BOARD = dataclasses.replace(
    boards.load("ultra96"),
    arm_timing=boards.ArmTiming(
        clock_hz=1000,  # a cycle is a millisecond
        macs_per_cycle=4.0,
        depthwise_macs_per_cycle=0.5,
        table_cycles=3.0,
        product_cycles=5.0,
        element_cycles=7.0,
        exponential_cycles=11.0,
        byte_cycles=13.0,
        fit_cycles=17.0,
    ),
)


def test_layers_cost_by_their_multiplications_or_their_elements() -> None:
    assert layer_ms(conv("c", "x", 16, 1, 10).layer, BOARD) == 9 * 16 * 16 * 100 / 4
    assert layer_ms(conv("c", "x", 16, 16, 10).layer, BOARD) == 9 * 16 * 100 / 0.5
    assert operator_ms(table("t", "x", 16, 10), BOARD) == 16 * 100 * 3
    assert operator_ms(product("p", "x", "y", 16, 10), BOARD) == 16 * 100 * 5


def test_layers_that_only_place_elements_cost_as_tables() -> None:
    parts = [TensorSpec(name=name, channels=8, height=10, width=10) for name in ("x", "y")]
    whole = TensorSpec(name="both", channels=16, height=10, width=10)
    layer = Concat(name="both", inputs=tuple(parts), output=whole)
    assert layer_ms(layer, BOARD) == 16 * 100 * 3
    picked = Pick(name="x", input=whole, output=parts[0], channels=tuple(range(8)))
    assert layer_ms(picked, BOARD) == 8 * 100 * 3


def test_the_input_table_fits_a_camera_s_picture_of_640_by_480() -> None:
    builder = ModuleBuilder()
    frame = builder.param("frame", (1, 20, 30, 3), "uint8")
    table = np.repeat(np.arange(-128, 128).astype(np.int8)[None], 3, 0)
    (operator,) = match_operators(builder.finish([write_input_table(builder, "x", frame, table)]))
    elements = 3 * 20 * 30
    assert operator.kind == "input_table"
    fit = (640 * 480 * 3 + elements) * 17
    assert operator_ms(operator, BOARD) == fit + elements * 3
    builder = ModuleBuilder()
    frame = builder.param("frame", (1, 20, 30, 3), "uint8")
    wide = write_input_table(builder, "x", frame, table.astype(np.int16))
    (operator,) = match_operators(builder.finish([wide]))
    assert operator.kind == "generic"
    assert operator_ms(operator, BOARD) == fit + 4 * elements * 7


def test_copies_to_c_order_and_back_cost_by_their_bytes() -> None:
    operators = [
        call("add", (1, 4, 5, 6), "x", "x"),
        dataclasses.replace(call("add", (1, 4, 5, 6), "x", "x"), copied_bytes=1000),
    ]
    plain_ms, copied_ms = (operator_ms(each, BOARD) for each in operators)
    assert copied_ms - plain_ms == 1000 * 13


def test_a_projection_costs_its_own_multiplications() -> None:
    layer = conv("c", "x", 16, 1, 10).layer
    assert isinstance(layer, Conv)
    picture = TensorSpec(name="p", channels=8, height=20, width=20)
    weight = np.ones((16, 8), np.int8)
    projection = Projection(tensor=picture, weight=weight, stride=(2, 2))
    both = dataclasses.replace(layer, projections=(projection,))
    assert layer_ms(both, BOARD) - layer_ms(layer, BOARD) == 8 * 16 * 100 / 4


def call(
    op: str, shape: tuple[int, ...], *args: object, shapes: dict[str, tuple[int, ...]] | None = None
) -> Operator:
    binding = Binding(
        name="y",
        op=op,
        args=args,
        attributes={},
        shape=shape,
        dtype="float32",
        raw=None,
        shapes=shapes or {},
    )
    return Operator(
        name="y", kind="generic", layer=None, inputs=("x",), output="y", bindings=(binding,)
    )


@pytest.mark.parametrize(
    ("operator", "cycles"),
    [
        (call("add", (2, 3)), 6 * 7),
        (call("nn.softmax", (2, 3)), 6 * 11),
        (call("squeeze", (2, 3)), 0),
        (call("matmul", (2, 3), "x", np.zeros((5, 3), np.float32)), 6 * 5 * 7),
        (call("matmul", (2, 3), "x", "z", shapes={"x": (2, 9), "z": (9, 3)}), 6 * 9 * 7),
        (call("matmul", (2,), "x", "z", shapes={"x": (2, 4), "z": (4,)}), 2 * 4 * 7),
        (call("matmul", (2, 3), np.zeros((2, 8), np.float32), "z", shapes={"z": (8, 3)}), 336),
        (call("nn.conv2d", (1, 2, 3, 1), "x", np.zeros((2, 4, 3, 3), np.float32)), 6 * 36 * 7),
    ],
)
def test_other_calls_cost_by_what_they_compute(operator: Operator, cycles: int) -> None:
    assert operator_ms(operator, BOARD) == cycles


def test_a_product_of_computed_matrices_sums_over_their_own_extent() -> None:
    builder = ModuleBuilder()
    builder.param("queries", (1, 4, 10, 32), "float32")
    builder.param("keys", (1, 4, 32, 10), "float32")
    builder.emit("scores", "matmul", "queries", "keys")
    (product,) = match_operators(builder.finish(["scores"]))
    assert operator_ms(product, BOARD) == 4 * 10 * 10 * 32 * 7


def test_an_average_pooling_is_not_a_depthwise_convolution() -> None:
    layer = conv("deep", "x", 16, 16).layer
    average = dataclasses.replace(layer, weight=np.full_like(layer.weight, 3))
    assert is_depthwise(layer)
    assert not is_depthwise(average)
