"""Quantised networks become float networks with given ranges, or are refused with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import quantised_networks
import small_networks
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantFormat, QuantType
from quantised_networks import Builder

from edgepipe.errors import FrontendError
from edgepipe.frontend.dequantising import Dequantised, dequantise
from edgepipe.frontend.given_ranges import GivenRange

SHAPE = [1, 3, 16, 16]
AGAIN = (
    "give the float network, which edgepipe quantises, or quantise it with onnxruntime's "
    "quantize_static(..., quant_format=QuantFormat.QDQ)"
)


def picture(shape: list[int], largest: float = 2.0) -> NDArray[np.float32]:
    return np.random.default_rng(0).uniform(-largest, largest, shape).astype(np.float32)


def outputs(model: onnx.ModelProto, value: NDArray[np.generic]) -> list[NDArray[np.generic]]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: value})


def dequantised(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Dequantised]:
    """Return a copy as a float network, checked by onnx, and what it gave."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    found = dequantise(Path("net.onnx"), copy)
    onnx.checker.check_model(copy)
    kinds = {node.op_type for node in copy.graph.node}
    assert not [kind for kind in kinds if "uant" in kind or "QLinear" in kind or "Integer" in kind]
    return copy, found


def kinds_of(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def conv_and_pair(zero: object, scale: float = 0.02, kind: str = "Conv") -> onnx.ModelProto:
    b = Builder(1)
    x = b.int8_conv("image", "conv", (4, 3, 3, 3), scale=0.004, input_scale=0.01)
    if kind != "Conv":
        x = b.node(kind, [x], "active")
    x = b.pair(x, "a", scale, zero)
    b.conv(x, "result", (2, 4, 1, 1))
    return b.model(SHAPE, {"result": 4})


def test_a_float_network_stays_as_it_is() -> None:
    model = small_networks.detector()
    before = model.SerializeToString()
    assert dequantise(Path("net.onnx"), model) == Dequantised()
    assert model.SerializeToString() == before


def test_weights_are_their_integers_times_their_scales() -> None:
    model = quantised_networks.powers_of_two()
    copy, found = dequantised(model)
    constants = {c.name: onnx.numpy_helper.to_array(c) for c in model.graph.initializer}
    real = {c.name: onnx.numpy_helper.to_array(c) for c in copy.graph.initializer}
    scale = constants["second.w.scale"].reshape(-1, 1, 1, 1)
    assert (real["second.w"] == constants["second.w.i"] * scale).all()
    assert (real["second.b"] == constants["second.b.i"] * constants["second.b.scale"]).all()
    assert found.ranges["image"] == GivenRange(low=-4.0, high=127 / 32, step=1 / 32)
    assert found.ranges["first/relu"].step == 1 / 16
    assert set(found.ranges) == {"image", "first/relu", "second", "second/relu", "pool", "third"}
    assert kinds_of(copy) == ["Conv", "Relu", "Conv", "Add", "Relu", "MaxPool", "Conv", "Identity"]
    assert not found.notices


@pytest.mark.parametrize("kind", [np.int16, np.uint16])
def test_values_are_those_of_the_original(kind: type[np.int16 | np.uint16]) -> None:
    """Steps of 16 bits are so fine that the original computes what the float network computes."""
    info = np.iinfo(kind)
    b = Builder(2)
    x = b.pair("image", "in", 1e-4, kind(info.max // 2 + info.min // 2 + 1))
    x = b.int8_conv(x, "conv", (8, 3, 3, 3), scale=0.001, input_scale=1e-4)
    x = b.pair(x, "a", 1e-4, kind(info.min))
    b.conv(x, "result", (2, 8, 1, 1))
    model = b.model(SHAPE, {"result": 4}, opset=21)
    model.ir_version = 10
    copy, found = dequantised(model)
    assert kinds_of(copy) == ["Conv", "Relu", "Conv"]
    assert found.ranges["conv"].low == 0
    value = picture(SHAPE)
    assert_allclose(outputs(copy, value)[0], outputs(model, value)[0], atol=2e-3)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (conv_and_pair(np.uint8(0)), ["Conv", "Relu", "Conv"]),
        (conv_and_pair(np.int8(-128)), ["Conv", "Relu", "Conv"]),
        (conv_and_pair(np.int8(127)), ["Conv", "Clip", "Conv"]),
        (conv_and_pair(np.uint8(0), kind="Sigmoid"), ["Conv", "Sigmoid", "Conv"]),
        (conv_and_pair(np.uint8(0), kind="Relu"), ["Conv", "Relu", "Conv"]),
        (conv_and_pair(np.int8(0)), ["Conv", "Conv"]),
        (conv_and_pair(np.uint8(100)), ["Conv", "Conv"]),
    ],
)
def test_a_range_that_begins_at_zero_is_a_relu(model: onnx.ModelProto, expected: list[str]) -> None:
    copy, found = dequantised(model)
    assert kinds_of(copy) == expected
    (given,) = found.ranges.values()
    assert_allclose([given.step, given.high - given.low], [0.02, 5.1], rtol=1e-6)
    value = picture(SHAPE, 0.6)  # nothing saturates
    assert_allclose(outputs(copy, value)[0], outputs(model, value)[0], atol=0.1)


def test_a_relu_takes_the_name_of_its_input_unless_others_read_that() -> None:
    copy, _ = dequantised(conv_and_pair(np.uint8(0)))
    assert [node.output[0] for node in copy.graph.node] == ["conv/unsaturated", "conv", "result"]
    b = Builder(1)
    x = b.int8_conv("image", "conv", (4, 3, 3, 3), scale=0.004, input_scale=0.01)
    y = b.pair(b.pair(x, "a", 0.02, np.int8(0)), "b", 0.02, np.int8(-128))
    b.node("Sub", [y, "a.dq"], "result")
    model = b.model(SHAPE, {"result": 4})
    copy, found = dequantised(model)
    assert [list(node.input)[:2] for node in copy.graph.node[1:]] == [
        ["conv"],
        ["conv/saturated", "conv"],
    ]
    assert set(found.ranges) == {"conv", "conv/saturated"}
    value = picture(SHAPE, 0.6)  # nothing saturates
    assert_allclose(outputs(copy, value)[0], outputs(model, value)[0], atol=0.04)


def test_types_of_fewer_bits_are_clips() -> None:
    """Brevitas writes them as QuantizeLinear, Clip and DequantizeLinear, also for weights."""
    b = Builder(5)
    low, high = b.constant("low", np.int8(-8)), b.constant("high", np.int8(7))
    meaning = [b.constant("scale", np.float32(0.25)), b.constant("zero", np.int8(0))]
    weight = b.constant("weight", b.normal(4, 3, 3, 3))
    names = []
    for x, name in (("image", "x"), (weight, "w")):
        b.node("QuantizeLinear", [x, *meaning], f"{name}.q")
        b.node("Clip", [f"{name}.q", low, high], f"{name}.clip")
        names.append(b.node("DequantizeLinear", [f"{name}.clip", *meaning], f"{name}.dq"))
    b.node("Conv", names, "conv")
    b.node("QuantizeLinear", ["conv", *meaning], "y.q")
    b.node("Clip", ["y.q", low, high], "y.clip")
    b.node("DequantizeLinear", ["y.clip", *meaning], "result")
    model = b.model(SHAPE, {"result": 4})
    copy, found = dequantised(model)
    assert kinds_of(copy) == ["Conv", "Clip"]
    assert found.ranges["result"] == GivenRange(low=-2.0, high=1.75, step=0.25)
    value = np.round(picture(SHAPE) * 2) / 4  # no rounding in the input
    assert_allclose(outputs(copy, value)[0], outputs(model, value)[0], atol=0.126)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_integer_inputs_and_outputs_become_float(kind: type[np.int8 | np.uint8]) -> None:
    model = quantised_networks.like_tflite(kind)
    copy, found = dequantised(model)
    types = {v.type.tensor_type.elem_type for v in (*copy.graph.input, *copy.graph.output)}
    assert types == {TensorProto.FLOAT}
    name = np.dtype(kind).name
    assert found.notices == (
        f"image: {name} input becomes a float picture of values from -1 to 0.9922, as the "
        "description's preprocessing makes them",
        f"result: {name} output becomes float",
    )
    info = np.iinfo(kind)
    integers = np.random.default_rng(0).integers(info.min, info.max + 1, (1, 16, 16, 3), kind)
    zero = 0 if kind is np.int8 else 128
    real = ((integers.astype(np.float32) - zero) / 128).astype(np.float32)
    expected = (outputs(model, integers)[0].astype(np.float32) - zero - 5) * 0.05
    difference = np.abs(outputs(copy, real)[0] - expected)
    saturated = (expected <= -6.6) | (expected >= 6.0)
    assert difference[~saturated].max() < 0.06
    assert found.ranges["first/relu"].low == 0
    assert found.ranges["image"].step == 1 / 128


def test_bytes_that_are_cast_become_a_float_picture() -> None:
    b = Builder(6)
    b.node("Cast", ["image"], "cast", to=TensorProto.FLOAT)
    b.conv("cast", "result", (2, 3, 3, 3))
    model = b.model(SHAPE, {"result": 4})
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    copy, found = dequantised(model)
    assert kinds_of(copy) == ["Conv"]
    assert not found.was_quantised
    assert found.ranges["image"] == GivenRange(low=0.0, high=255.0, step=1.0)


def test_operators_that_move_integers_move_floats() -> None:
    b = Builder(7)
    meaning = [b.constant("scale", np.float32(0.05)), b.constant("zero", np.uint8(3))]
    b.conv("image", "conv", (4, 3, 3, 3), pads=[1, 1, 1, 1])
    b.node("QuantizeLinear", ["conv", *meaning], "q")
    b.node("MaxPool", ["q"], "pooled", kernel_shape=[2, 2], strides=[2, 2])
    b.node("Concat", ["pooled", "pooled"], "joined", axis=1)
    b.node("DequantizeLinear", ["joined", *meaning], "dq")
    b.conv("dq", "result", (2, 8, 1, 1))
    model = b.model(SHAPE, {"result": 4})
    copy, found = dequantised(model)
    assert kinds_of(copy) == ["Conv", "MaxPool", "Concat", "Conv"]
    assert list(found.ranges) == ["conv"]


@pytest.mark.parametrize(
    ("domain", "prefix"), [("com.amd.quark", "Extended"), ("com.microsoft", "")]
)
def test_pairs_of_a_tool_are_known(domain: str, prefix: str) -> None:
    b = Builder(8)
    b.domain, b.prefix = domain, prefix
    x = b.int8_conv("image", "conv", (4, 3, 3, 3), scale=2.0**-8, input_scale=2.0**-5)
    x = b.pair(x, "a", 2.0**-4, np.int16(0))
    b.conv(x, "result", (2, 4, 1, 1))
    copy, found = dequantised(quantised_networks.in_domain(b.model(SHAPE, {"result": 4}), domain))
    assert kinds_of(copy) == ["Conv", "Conv"]
    assert found.ranges["conv"] == GivenRange(low=-2048.0, high=32767 / 16, step=1 / 16)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("activations", [QuantType.QInt8, QuantType.QUInt8])
def test_networks_of_onnxruntime(
    form: QuantFormat, activations: QuantType, per_channel: bool, tmp_path: Path
) -> None:
    model = small_networks.classifier(1)
    path = quantised_networks.by_onnxruntime(
        tmp_path, model, form, activations, per_channel=per_channel
    )
    quantised = onnx.load(path)
    copy, found = dequantised(quantised)
    assert len(found.ranges) >= 6
    for frame in small_networks.frames(3, seed=5):
        value = small_networks.PREPROCESS.normalise(frame)
        result, reference = outputs(copy, value)[0], outputs(quantised, value)[0]
        assert np.corrcoef(result.reshape(-1), reference.reshape(-1))[0, 1] > 0.98


def test_operators_that_quantise_while_they_run_have_no_range() -> None:
    b = Builder(9)
    x = b.node("DynamicQuantizeLinear", ["image"], "x.q", "x.scale", "x.zero")
    weight = b.constant("w", (b.normal(4, 3, 3, 3) * 40).astype(np.int8))
    b.node("ConvInteger", [x, weight, "x.zero"], "conv.i")
    b.node("Cast", ["conv.i"], "conv.f", to=TensorProto.FLOAT)
    b.node("Mul", ["x.scale", b.constant("w.scale", np.float32(0.01))], "both")
    b.node("Mul", ["conv.f", "both"], "result")
    model = b.model(SHAPE, {"result": 4})
    copy, found = dequantised(model)
    assert found.was_quantised
    assert not found.ranges
    value = picture(SHAPE)
    assert_allclose(outputs(copy, value)[0], outputs(model, value)[0], atol=0.1)


def read_integers(kind: str) -> onnx.ModelProto:
    """A network with an operator on integers that has no float form."""
    b = Builder(10)
    meaning = [b.constant("scale", np.float32(0.05)), b.constant("zero", np.int8(0))]
    b.node("QuantizeLinear", ["image", *meaning], "q")
    b.node(kind, ["q"], "odd")
    b.node("DequantizeLinear", ["odd", *meaning], "result")
    return b.model(SHAPE, {"result": 4}, opset=14)


def quantised_by_a_tensor() -> onnx.ModelProto:
    b = Builder(11)
    b.node("ReduceMax", ["image"], "scale", keepdims=0)
    b.node("QuantizeLinear", ["image", "scale"], "q")
    b.node("DequantizeLinear", ["q", "scale"], "result")
    return b.model(SHAPE, {"result": 4})


def rescaled() -> onnx.ModelProto:
    b = Builder(12)
    one, two = b.constant("one", np.float32(0.1)), b.constant("two", np.float32(0.2))
    b.node("QuantizeLinear", ["image", one], "q")
    b.node("DequantizeLinear", ["q", two], "result")
    return b.model(SHAPE, {"result": 4})


def joined() -> onnx.ModelProto:
    b = Builder(13)
    one, two = b.constant("one", np.float32(0.1)), b.constant("two", np.float32(0.2))
    b.node("QuantizeLinear", ["image", one], "q")
    b.node("QuantizeLinear", ["image", two], "r")
    b.node("Concat", ["q", "r"], "both", axis=1)
    b.node("DequantizeLinear", ["both", one], "result")
    return b.model(SHAPE, {"result": 4})


def in_float8() -> onnx.ModelProto:
    b = Builder(14)
    scale = b.constant("scale", np.float32(0.1))
    b.constants.append(helper.make_tensor("zero", TensorProto.FLOAT8E4M3FN, [], [0.0]))
    b.node("QuantizeLinear", ["image", scale, "zero"], "q")
    b.node("DequantizeLinear", ["q", scale, "zero"], "result")
    return b.model(SHAPE, {"result": 4}, opset=19)


def integer_input() -> onnx.ModelProto:
    b = Builder(15)
    b.node("Neg", ["image"], "result")
    model = b.model(SHAPE, {"result": 4})
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.INT8
    return model


def of_qonnx() -> onnx.ModelProto:
    b = Builder(16)
    domain = "qonnx.custom_op.general"
    numbers = [b.constant(f"n{n}", np.float32(v)) for n, v in enumerate((0.1, 0, 8))]
    b.node("Quant", ["image", *numbers], "result", domain=domain)
    return quantised_networks.in_domain(b.model(SHAPE, {"result": 4}), domain)


def of_block_floats() -> onnx.ModelProto:
    b = Builder(17)
    b.node("BFPQuantizeDequantize", ["image"], "result", domain="com.amd.quark")
    return quantised_networks.in_domain(b.model(SHAPE, {"result": 4}), "com.amd.quark")


def pooled_with_channels_last() -> onnx.ModelProto:
    b = Builder(18)
    scale, zero = b.constant("scale", np.float32(0.1)), b.constant("zero", np.uint8(0))
    b.node("QuantizeLinear", ["image", scale, zero], "q")
    b.node(
        "QLinearGlobalAveragePool",
        ["q", scale, zero, scale, zero],
        "pooled",
        domain="com.microsoft",
        channels_last=1,
    )
    b.node("DequantizeLinear", ["pooled", scale, zero], "result")
    return quantised_networks.in_domain(b.model(SHAPE, {"result": 4}), "com.microsoft")


def integer_conv_of_pairs() -> onnx.ModelProto:
    b = Builder(19)
    scale, zero = b.constant("scale", np.float32(0.1)), b.constant("zero", np.uint8(0))
    b.node("QuantizeLinear", ["image", scale, zero], "q")
    b.node("ConvInteger", ["q", b.constant("w", np.ones((4, 3, 3, 3), np.int8))], "conv")
    b.node("Cast", ["conv"], "result", to=TensorProto.FLOAT)
    return b.model(SHAPE, {"result": 4})


def conv_with_a_computed_bias() -> onnx.ModelProto:
    b = Builder(20)
    scale, zero = b.constant("scale", np.float32(0.1)), b.constant("zero", np.uint8(0))
    b.node("QuantizeLinear", ["image", scale, zero], "q")
    b.node("Cast", ["q"], "wide", to=TensorProto.INT32)
    weight = b.constant("w", np.ones((4, 3, 3, 3), np.uint8))
    inputs = ["q", scale, zero, weight, scale, zero, scale, zero, "wide"]
    b.node("QLinearConv", inputs, "y")
    b.node("DequantizeLinear", ["y", scale, zero], "result")
    return b.model(SHAPE, {"result": 4})


def quantised_with_scale_zero() -> onnx.ModelProto:
    b = Builder(21)
    b.pair("image", "a", 0.0)
    b.node("Neg", ["a.dq"], "result")
    return b.model(SHAPE, {"result": 4})


def sum_of_one() -> onnx.ModelProto:
    b = Builder(22)
    scale, zero = b.constant("scale", np.float32(0.1)), b.constant("zero", np.uint8(0))
    b.node("QuantizeLinear", ["image", scale, zero], "q")
    b.node("QLinearAdd", ["q", scale, zero], "sum", domain="com.microsoft")
    b.node("DequantizeLinear", ["sum", scale, zero], "result")
    return quantised_networks.in_domain(b.model(SHAPE, {"result": 4}), "com.microsoft")


REFUSED: list[tuple[Callable[[], onnx.ModelProto], str, str]] = [
    (
        lambda: read_integers("Relu"),
        "net.onnx: Relu odd computes on the integers q, expected DequantizeLinear before it",
        AGAIN,
    ),
    (
        quantised_by_a_tensor,
        "net.onnx: QuantizeLinear q computes its scale from the picture, expected a constant",
        AGAIN,
    ),
    (
        rescaled,
        "net.onnx: DequantizeLinear result reads the integers q with another scale than they were "
        "made",
        AGAIN,
    ),
    (joined, "net.onnx: Concat both moves integers of several scales", AGAIN),
    (
        in_float8,
        "net.onnx: q is quantised to float8e4m3fn, expected int8, uint8, int16 or uint16",
        AGAIN,
    ),
    (
        integer_input,
        "net.onnx: input image is int8 and Neg reads it, expected DequantizeLinear, which says "
        "what its integers stand for",
        "export the network with a float32 picture as its input",
    ),
    (
        of_qonnx,
        "net.onnx: Quant result of qonnx.custom_op.general has no float form",
        "export the network from Brevitas with export_onnx_qcdq, or give the float network, which "
        "edgepipe quantises",
    ),
    (
        of_block_floats,
        "net.onnx: BFPQuantizeDequantize result of com.amd.quark has no float form",
        AGAIN,
    ),
    (
        pooled_with_channels_last,
        "net.onnx: QLinearGlobalAveragePool pooled has its channels last, expected them first",
        AGAIN,
    ),
    (
        integer_conv_of_pairs,
        "net.onnx: ConvInteger conv reads integers that no DynamicQuantizeLinear makes",
        AGAIN,
    ),
    (
        conv_with_a_computed_bias,
        "net.onnx: QLinearConv y computes its bias or its scales from the picture, expected "
        "constants",
        AGAIN,
    ),
    (
        quantised_with_scale_zero,
        "net.onnx: image is quantised with the scale 0, expected a positive number",
        AGAIN,
    ),
    (
        sum_of_one,
        "net.onnx: scales, zero points or inputs of its operators on integers do not fit each "
        "other: not enough values to unpack (expected 8, got 3)",
        AGAIN,
    ),
]


@pytest.mark.parametrize(("make", "message", "hint"), REFUSED)
def test_what_has_no_float_form_is_refused_with_a_remedy(
    make: Callable[[], onnx.ModelProto], message: str, hint: str
) -> None:
    with pytest.raises(FrontendError) as caught:
        dequantise(Path("net.onnx"), make())
    assert str(caught.value) == message
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("given", "step"),
    [
        (GivenRange(low=-12.8, high=12.7, step=0.1), 0.1),
        (GivenRange(low=-12.7, high=12.7, step=0.1), 0.1),
        (GivenRange(low=0.0, high=25.5, step=0.1), 0.2),
        (GivenRange(low=0.0, high=1.5, step=0.1), 0.1),
        (GivenRange(low=-2.7, high=19.05, step=0.1), 0.15),
        (GivenRange(low=-3276.8, high=3276.7, step=0.1), 3276.8 / 127),
    ],
)
def test_int8_covers_a_range_with_its_own_step_or_twice_that(
    given: GivenRange, step: float
) -> None:
    assert_allclose(given.int8_step, step)
