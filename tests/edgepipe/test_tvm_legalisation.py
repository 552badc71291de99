"""Float operators have the same bits in a network and in its stages, and TVM's values."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from exported_networks import exact
from onnx import TensorProto, helper, numpy_helper
from tvm import relax, te, tirx

from edgepipe import tvm_functions
from edgepipe.tvm_adapter import HOST_TARGET
from edgepipe.tvm_legalisation import legalise

SIZES = [((5, 7), (12, 9)), ((16, 2), (19, 5)), ((9, 12), (4, 6)), ((6, 6), (6, 13))]
METHODS = [
    *(("linear", mode, "") for mode in ("half_pixel", "pytorch_half_pixel", "align_corners")),
    ("linear", "asymmetric", ""),
    ("cubic", "half_pixel", ""),
    ("nearest_neighbor", "half_pixel", "round_prefer_floor"),
    ("nearest_neighbor", "asymmetric", "floor"),
]


def run(module: tvm.IRModule, picture: np.ndarray) -> np.ndarray:
    executable = tvm.compile(module, target=tvm.target.Target(HOST_TARGET))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return machine["main"](tvm.runtime.tensor(picture)).numpy()


def resize(size: tuple[int, int], wanted: tuple[int, int], how: tuple[str, str, str]):
    method, mode, rounding = how
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, *size), "float32"))
    with builder.function("main", [x]):
        call = relax.op.image.resize2d(
            x, wanted, layout="NCHW", method=method,
            coordinate_transformation_mode=mode, rounding_method=rounding,
        )  # fmt: skip
        builder.emit_func_output(builder.emit(call))
    return builder.get()


@pytest.mark.parametrize(("size", "wanted"), SIZES)
@pytest.mark.parametrize("how", METHODS)
def test_a_resize_is_what_tvm_computes_but_for_rounding(size, wanted, how) -> None:
    module = resize(size, wanted, how)
    picture = np.random.default_rng(0).normal(0, 1, (1, 3, *size)).astype(np.float32)
    found = run(legalise(module), picture)
    np.testing.assert_allclose(found, run(module, picture), rtol=0, atol=3e-6)


@pytest.mark.parametrize("how", ["linear", "cubic"])
def test_a_stage_gives_the_bits_of_the_network(how: str, tmp_path: Path) -> None:
    """The network and its stages are compiled for processors with vectors of other lengths."""
    rng = np.random.default_rng(1)
    weight = rng.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    scales = np.array([1, 1, 1.1875, 2.5], np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "weight"], ["made"], pads=[1, 1, 1, 1]),
        helper.make_node(
            "Resize", ["made", "", "scales"], ["output"], mode=how,
            coordinate_transformation_mode="pytorch_half_pixel",
        ),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 4, 19, 40])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(scales, "scales")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    assert exact.outcome(model, tmp_path, 16) == "exact"


def test_a_product_is_rounded_before_it_is_added(tmp_path: Path) -> None:
    """A layer normalisation as older exporters write it, which is one kernel in its stage."""
    model = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 13]>
        net (float[1, 3, 16, 16] image) => (float[1, 1, 1, 8] output)
        <float two = {2.0}, float epsilon = {0.00001}>
        {
            made = Conv <pads = [1, 1, 1, 1]> (image, weight)
            pooled = GlobalAveragePool(made)
            last = Transpose <perm = [0, 2, 3, 1]> (pooled)
            mean = ReduceMean <axes = [-1]> (last)
            centred = Sub(last, mean)
            squares = Pow(centred, two)
            variance = ReduceMean <axes = [-1]> (squares)
            safe = Add(variance, epsilon)
            deviation = Sqrt(safe)
            normal = Div(centred, deviation)
            scaled = Mul(normal, scale)
            output = Add(scaled, offset)
        }
        """
    )
    rng = np.random.default_rng(2)
    for name, shape in (("weight", (8, 3, 3, 3)), ("scale", (8,)), ("offset", (8,))):
        values = rng.normal(0, 0.5, shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    assert exact.outcome(model, tmp_path, 16) == "exact"


ZERO = np.float32(0)
SIGNED = {
    "not negative": lambda x, largest: largest(x, ZERO),
    "not positive": lambda x, largest: -largest(x, ZERO),
    "any": lambda x, largest: x,
}


@pytest.mark.parametrize("factor", [0.2, -0.2])
@pytest.mark.parametrize("sign", SIGNED)
def test_a_product_of_known_sign_is_rounded_before_a_constant_is_added(sign, factor) -> None:
    signed, factor = SIGNED[sign], np.float32(factor)

    def formula(x):
        product = tvm_functions.product(
            signed(x, lambda one, other: tirx.max(one, tirx.const(other, "float32"))),
            tirx.const(factor, "float32"),
        )
        return tirx.const(0.5, "float32") + product

    x = te.placeholder((4096,), "float32", "x")
    kernel = te.create_prim_func([x, tvm_functions.element_wise(formula)(x)])
    found = tvm.runtime.tensor(np.zeros(4096, np.float32))
    values = np.random.default_rng(0).normal(0, 1, 4096).astype(np.float32)
    compiled = tvm.compile(kernel, target=tvm.target.Target(HOST_TARGET))
    compiled["main"](tvm.runtime.tensor(values), found)
    expected = np.float32(0.5) + signed(values, np.maximum) * factor
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("op", [relax.op.nn.silu, relax.op.square])
def test_operators_that_end_with_a_product_keep_their_values(op) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, 5, 7), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(op(x), x)))
    module = builder.get()
    picture = np.random.default_rng(0).normal(0, 1, (1, 3, 5, 7)).astype(np.float32)
    np.testing.assert_allclose(
        run(legalise(module), picture), run(module, picture), rtol=0, atol=1e-6
    )


FUNCTIONS = {
    "erf": (relax.op.erf, math.erf),
    "atan": (relax.op.atan, math.atan),
    "gelu": (relax.op.nn.gelu, lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
}


@pytest.mark.parametrize(("op", "exact_value"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_of_the_c_library_have_formulas_of_their_own(op, exact_value) -> None:
    builder = relax.BlockBuilder()
    ends = () if op is relax.op.nn.gelu else (-np.inf, -1e30, 1e30, np.inf)
    values = np.array([*np.linspace(-10, 10, 4001), *ends], np.float32)
    x = relax.Var("x", relax.TensorType(values.shape, "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(op(x)))
    expected = np.vectorize(exact_value)(values.astype(np.float64))
    np.testing.assert_allclose(run(legalise(builder.get()), values), expected, atol=6e-7, rtol=2e-7)


SUMS_OF_PRODUCTS = {
    "a grouped convolution": (
        (1, 4, 9, 8),
        (6, 2, 3, 2),
        lambda x, w: relax.op.nn.conv2d(
            x, w, strides=(2, 1), padding=(1, 0, 2, 1), dilation=(1, 2), groups=2
        ),
    ),
    "a depthwise convolution": (
        (1, 4, 6, 6),
        (4, 1, 3, 3),
        lambda x, w: relax.op.nn.conv2d(x, w, padding=(1, 1, 1, 1), groups=4),
    ),
    "a transposed convolution": (
        (1, 4, 5, 6),
        (4, 3, 3, 2),
        lambda x, w: relax.op.nn.conv2d_transpose(
            x, w, strides=(2, 3), padding=(1, 0, 0, 1), output_padding=(1, 2), groups=2
        ),
    ),
    "a dilated transposed convolution": (
        (1, 4, 5, 6),
        (4, 3, 3, 3),
        lambda x, w: relax.op.nn.conv2d_transpose(x, w, strides=(2, 2), dilation=(2, 2)),
    ),
    "a dense layer": ((3, 7), (7, 5), relax.op.matmul),
    "matrices for each head": ((2, 3, 5, 7), (3, 7, 4), relax.op.matmul),
    "one matrix for several": ((1, 5, 7), (2, 4, 7, 6), relax.op.matmul),
    "a vector": ((7,), (7, 4), relax.op.matmul),
}


@pytest.mark.parametrize(("shape", "other", "op"), SUMS_OF_PRODUCTS.values(), ids=SUMS_OF_PRODUCTS)
def test_sums_of_products_are_what_tvm_computes_but_for_rounding(shape, other, op) -> None:
    rng = np.random.default_rng(3)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        constant = relax.const(rng.normal(0, 1, other).astype(np.float32))
        builder.emit_func_output(builder.emit(op(x, constant)))
    module = builder.get()
    picture = rng.normal(0, 1, shape).astype(np.float32)
    found, expected = run(legalise(module), picture), run(module, picture)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
