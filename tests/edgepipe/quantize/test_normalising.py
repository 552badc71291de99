"""Normalisation in integers: near to the float formula, no overflow, the same bits everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import small_networks
from eager_relax import EagerRelax
from emulated_stage import run_emulated
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from small_networks import PREPROCESS, frames

from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.frontend.network import Network, load_network
from edgepipe.quantize.graph import Activation, ConvNode, FloatNode, NormNode
from edgepipe.quantize.integers import Int8Form
from edgepipe.quantize.normalising import forms
from edgepipe.quantize.normalising.gather import MOST_VALUES
from edgepipe.quantize.normalising.layers import integer_norm
from edgepipe.quantize.normalising.records import Norm
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize, understand
from edgepipe.quantize.ranges import Target
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import ModuleBuilder, read_main, run_module
from vta_stages.layers.records import TensorSpec

Shape = tuple[int, int, int, int]
Int8 = NDArray[np.int8]
FRAME = next(iter(frames(1, seed=9)))


def norm_node(channels: int, *, groups: int = 0, seed: int = 0, **changes: Any) -> NormNode:
    random = np.random.default_rng(seed)
    made = {
        "epsilon": 1e-6,
        "is_centred": True,
        "factor": random.normal(1, 0.3, channels),
        "bias": random.normal(0, 0.5, channels),
    }
    return NormNode(name="y", input="x", groups=groups, **{**made, **changes})


def in_integers(
    node: NormNode, shape: Shape, target: Target, scale: float = 0.03, zero: int = 0
) -> tuple[Norm, NDArray[np.float64]]:
    _, channels, height, width = shape
    source = Int8Form(name="x", shape=shape, scale=np.full(channels, scale), zero=zero)
    output = TensorSpec(name="y", channels=channels, height=height, width=width)
    return integer_norm(node, source, output, target)


def in_float(node: NormNode, x: Int8, scale: float, zero: int) -> NDArray[np.float64]:
    """The formula in float64; values that do not differ are the constant."""
    values = x.astype(np.float64) - zero
    parts = values if node.groups == 0 else values.reshape(1, node.groups, -1)
    axis = 1 if node.groups == 0 else 2
    if node.is_centred:
        total = parts.sum(axis, keepdims=True)  # exact, like the product
        parts = (parts * parts.shape[axis] - total) / parts.shape[axis]
    variance = np.square(parts).mean(axis, keepdims=True) + node.epsilon / scale**2
    quotient = parts / np.sqrt(np.where(variance > 0, variance, 1))
    factor, bias = (a.reshape(1, -1, 1, 1) for a in (node.factor, node.bias))
    result = quotient.reshape(x.shape) * factor + bias
    return np.clip(result, node.activation.low, node.activation.high)


def computed(norm: Norm, x: Int8) -> Int8:
    builder: Any = EagerRelax(x)
    found: Int8 = builder.values[forms.write(builder, norm)]
    return found


def pictures(shape: Shape, seed: int, kind: str) -> Int8:
    random = np.random.default_rng(seed)
    if kind == "even":
        return random.integers(-128, 128, shape).astype(np.int8)
    if kind == "alike":
        return np.clip(np.rint(random.normal(100, 1, shape)), -128, 127).astype(np.int8)
    if kind == "rare":
        return np.where(random.random(shape) < 0.02, 127, -128).astype(np.int8)
    return np.full(shape, int(random.integers(-128, 128)), np.int8)


@settings(max_examples=150, deadline=None)
@given(
    channels=st.sampled_from([1, 2, 3, 4, 24, 40, 384]),
    size=st.sampled_from([(1, 1), (1, 3), (5, 7), (14, 14)]),
    grouping=st.sampled_from(["pixel", "one", "two", "each"]),
    is_centred=st.booleans(),
    epsilon=st.sampled_from([0.0, 1e-12, 1e-6, 1e-3, 10.0]),
    scale=st.sampled_from([1e-5, 1e-3, 0.03, 1.0]),
    zero=st.sampled_from([0, -128, 5]),
    kind=st.sampled_from(["even", "alike", "rare", "constant"]),
    by_channel=st.booleans(),
    seed=st.integers(0, 1 << 16),
)
def test_the_integers_are_near_to_the_float_formula(
    channels: int,
    size: tuple[int, int],
    grouping: str,
    is_centred: bool,
    epsilon: float,
    scale: float,
    zero: int,
    kind: str,
    by_channel: bool,
    seed: int,
) -> None:
    shape = (1, channels, *size)
    groups = {"pixel": 0, "one": 1, "two": 2, "each": channels}[grouping]
    groups = 1 if groups and channels % groups else groups
    node = norm_node(channels, groups=groups, seed=seed, is_centred=is_centred, epsilon=epsilon)
    x = pictures(shape, seed, kind)
    expected = in_float(node, x, scale, zero)
    largest = np.maximum(np.abs(expected).max((0, 2, 3)), 1e-2 * np.abs(node.factor))
    whole = np.full(channels, largest.max())
    step = (np.maximum(largest, whole / 8) if by_channel else whole) / 127
    norm, step = in_integers(node, shape, Target(step=step), scale, zero)
    wide = step.reshape(1, -1, 1, 1)
    error = np.abs(computed(norm, x) - np.clip(expected / wide, -128, 127))
    # Half a step for its own rounding. A channel's constant may take away most of a product, and
    # epsilon may leave little of a deviation: then the error of the product counts more.
    products = np.abs(expected - node.bias.reshape(1, -1, 1, 1)) / wide
    deviation = np.abs(node.factor.reshape(1, -1, 1, 1)) / wide
    share = 2.0 ** (-10 if 1024 < norm.count <= 4096 else -11)
    assert (error < 0.5001 + share * (products + deviation)).all()


@pytest.mark.parametrize("is_centred", [True, False])
@pytest.mark.parametrize("kind", ["even", "rare"])
def test_the_most_values_that_share_a_mean_do_not_overflow(kind: str, is_centred: bool) -> None:
    shape = (1, 2, 512, 256)
    node = norm_node(2, groups=1, is_centred=is_centred)
    x = pictures(shape, 3, kind)
    expected = in_float(node, x, 0.03, 0)
    step = np.full(2, np.abs(expected).max() / 127)
    norm, step = in_integers(node, shape, Target(step=step))
    assert norm.count == MOST_VALUES
    assert np.abs(computed(norm, x) - expected / step.reshape(1, -1, 1, 1)).max() < 0.6
    with pytest.raises(ValueError, match=r"^y: normalises over 262656 values, at most 262144$"):
        in_integers(node, (1, 2, 513, 256), Target(step=step))


def test_an_activation_and_a_zero_point_are_part_of_the_result() -> None:
    shape = (1, 8, 4, 4)
    node = norm_node(8, groups=2, activation=Activation(low=0.0, high=1.5))
    x = pictures(shape, 1, "even")
    target = Target(step=np.full(8, 1.5 / 255), zero=-128)
    norm, step = in_integers(node, shape, target)
    found = (computed(norm, x).astype(np.float64) + 128) * step.reshape(1, -1, 1, 1)
    assert found.min() == 0
    np.testing.assert_allclose(found, in_float(node, x, 0.03, 0), atol=0.62 * 1.5 / 255)


def test_a_step_that_is_far_too_fine_becomes_coarser() -> None:
    """A ReLU may have removed all that calibration saw."""
    norm, step = in_integers(norm_node(4), (1, 4, 2, 2), Target(step=np.full(4, 1e-12)))
    assert (step == 2.0**-10 * np.abs(norm_node(4).factor)).all()
    fixed = Target(step=np.full(4, 1e-12), is_fixed=True)
    norm, step = in_integers(norm_node(4), (1, 4, 2, 2), fixed)
    assert (step == 1e-12).all()
    assert set(np.unique(computed(norm, pictures((1, 4, 2, 2), 0, "even")))) <= {-128, 127}


def test_stock_tvm_computes_these_integers() -> None:
    for groups in (0, 2, 8):
        shape = (1, 8, 3, 5)
        norm, _ = in_integers(norm_node(8, groups=groups), shape, Target(step=np.full(8, 0.02)))
        builder = ModuleBuilder()
        builder.param("x", shape, "int8")
        forms.write(builder, norm)
        x = pictures(shape, groups, "even")
        found = run_module(builder.finish(["y"]), {"x": x})["y"]
        np.testing.assert_array_equal(found, computed(norm, x))


# Networks.


def standardised(b: small_networks.Builder, x: str, name: str, axes: list[int]) -> str:
    """Append the calls that divide by the standard deviation, as older exporters write them."""
    mean = b.node("ReduceMean", [x], f"{name}.mean", axes=axes)
    centred = b.node("Sub", [x, mean], f"{name}.centred")
    squares = b.node("Mul", [centred, centred], f"{name}.squares")
    variance = b.node("ReduceMean", [squares], f"{name}.variance", axes=axes)
    epsilon = b.constant(f"{name}.epsilon", np.float32(1e-5))
    positive = b.node("Add", [variance, epsilon], f"{name}.positive")
    root = b.node("Sqrt", [positive], f"{name}.root")
    return b.node("Div", [centred, root], f"{name}.quotient")


def normalised() -> onnx.ModelProto:
    """Layers behind a normalisation of channels, of pixels, and of both by groups."""
    b = small_networks.Builder(31)
    x = b.conv("image", "stem", (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = standardised(b, x, "layer", [1])
    x = b.node("Mul", [x, b.constant("scale", 1 + 0.2 * b.normal(8, 1, 1))], "scaled")
    x = b.node("Add", [x, b.constant("shift", 0.3 * b.normal(8, 1, 1))], "layer")
    x = b.conv(x, "body", (8, 8, 1, 1))
    x = b.node("Relu", [standardised(b, x, "instance", [2, 3])], "instance")
    x = b.conv(x, "other", (8, 8, 1, 1))
    shape = b.constant("groups", np.array([1, 2, 4 * 8, 8], np.int64))
    x = standardised(b, b.node("Reshape", [x, shape], "grouped"), "group", [2, 3])
    x = b.node("Reshape", [x, b.constant("back", np.array([1, 8, 8, 8], np.int64))], "group")
    x = b.node("LeakyRelu", [x], "leaky", alpha=0.1)
    b.conv(x, "head", (4, 8, 3, 3), pads=[1] * 4)
    return b.model([1, 3, 16, 16], {"head": 4})


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    path = tmp_path_factory.mktemp("norms") / "net.onnx"
    onnx.save(normalised(), path)
    return load_network(path)


def quantised(network: Network, **options: Any) -> QuantizedNetwork:
    return quantize(network, frames(4), PREPROCESS, QuantizeOptions(**options))


@pytest.fixture(scope="module")
def made(network: Network) -> QuantizedNetwork:
    return quantised(network)


def outputs(made: QuantizedNetwork) -> dict[str, np.ndarray]:
    return run_module(made.module, {made.input_name: FRAME})


def test_calls_that_normalise_are_gathered_with_what_follows(network: Network) -> None:
    nodes = {node.name: node for node in understand(network).nodes}
    norms = {name: node for name, node in nodes.items() if isinstance(node, NormNode)}
    assert {name: node.groups for name, node in norms.items()} == {
        "layer": 0,
        "instance": 8,
        "group": 2,
    }
    assert (norms["layer"].factor != 1).all()
    assert (norms["layer"].bias != 0).all()
    assert norms["instance"].activation == Activation(low=0.0)
    assert norms["group"].activation == Activation()  # a slope is a sum of its own
    assert not [node for node in nodes.values() if isinstance(node, FloatNode)]


def test_a_normalised_network_has_no_float_operator_inside(made: QuantizedNetwork) -> None:
    floats = [b.op for b in read_main(made.module).bindings if b.dtype == "float32"]
    assert floats == ["astype", "multiply"]
    assert made.reasons["layer"] == "values are normalised on arm"


@pytest.mark.networks
def test_the_kernels_have_the_bits_of_integer_relax(made: QuantizedNetwork, tmp_path: Path) -> None:
    compile_arm_stage(made.module, arches=("x86_64",)).write(tmp_path)
    with ArmStage(tmp_path) as stage:
        found = stage.run({made.input_name: FRAME})
    assert np.asarray(found["head"]).tobytes() == outputs(made)["head"].tobytes()


@pytest.mark.cross
@pytest.mark.networks
def test_boards_compute_the_same_bits(
    architecture: str, made: QuantizedNetwork, tmp_path: Path
) -> None:
    compile_arm_stage(made.module, arches=(architecture,)).write(tmp_path)
    expected = outputs(made)
    found = run_emulated(architecture, tmp_path, {made.input_name: FRAME}, expected)
    assert found["head"].tobytes() == expected["head"].tobytes()


@pytest.mark.networks
def test_a_normalisation_stays_float_on_request(network: Network, made: QuantizedNetwork) -> None:
    floats = quantised(network, float_layers=("layer",))
    kinds = {binding.name: binding.dtype for binding in read_main(floats.module).bindings}
    assert kinds["layer"] == "float32"
    assert floats.reasons["layer"] == "stays float: requested"
    one, other = (outputs(each)["head"] for each in (floats, made))
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.999


@pytest.mark.parametrize("region", [("stem..body",), ("stem", "layer", "body")])
def test_a_normalisation_in_int16_is_float_between_int16_tensors(
    region: tuple[str, ...], network: Network
) -> None:
    made = quantised(network, int16_layers=region)
    kinds = {binding.name: binding.dtype for binding in read_main(made.module).bindings}
    assert (kinds["stem"], kinds["layer"], kinds["body"]) == ("int16", "float32", "int16")
    assert made.reasons["layer"] == (
        "stays float: requested in int16, computed between int16 tensors"
    )


@pytest.mark.networks
def test_a_network_with_normalisations_in_int16_is_near_to_float(
    network: Network, made: QuantizedNetwork, tmp_path: Path
) -> None:
    """Signal-to-noise ratio of the result, 2026-11: int8 30 dB, int16 75 dB."""
    wide = quantised(network, int16_layers=("stem..head",))
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    (exact,) = session.run(None, {network.onnx_input: PREPROCESS.normalise(FRAME)})
    noise = [((exact - outputs(each)["head"]) ** 2).sum() for each in (made, wide)]
    assert 10 * np.log10((exact**2).sum() / noise[1]) > 70
    assert 10 * np.log10(noise[0] / noise[1]) > 24  # four bits
    compile_arm_stage(wide.module, arches=("x86_64",)).write(tmp_path)
    with ArmStage(tmp_path) as stage:
        found = stage.run({wide.input_name: FRAME})
    assert np.asarray(found["head"]).tobytes() == outputs(wide)["head"].tobytes()


def test_a_normalisation_that_only_results_depend_on_stays_float(tmp_path: Path) -> None:
    b = small_networks.Builder(32)
    x = b.conv("image", "stem", (8, 3, 3, 3), pads=[1] * 4)
    standardised(b, x, "layer", [1])
    onnx.save(b.model([1, 3, 16, 16], {"layer.quotient": 4}), tmp_path / "net.onnx")
    nodes = understand(load_network(tmp_path / "net.onnx")).nodes
    assert isinstance(nodes[0], ConvNode)
    assert nodes[-1].reason == "stays float: only results depend on it"


def test_a_normalisation_of_too_many_values_stays_float(tmp_path: Path) -> None:
    b = small_networks.Builder(33)
    x = standardised(b, b.conv("image", "stem", (1, 3, 1, 1)), "norm", [2, 3])
    b.conv(x, "head", (4, 1, 1, 1))
    onnx.save(b.model([1, 3, 513, 512], {"head": 4}), tmp_path / "net.onnx")
    nodes = {node.name: node for node in understand(load_network(tmp_path / "net.onnx")).nodes}
    assert nodes["norm.quotient"].reason == (
        "stays float: it normalises over 262656 values, expected at most 262144"
    )


def test_a_root_of_weighed_values_is_no_normalisation(tmp_path: Path) -> None:
    b = small_networks.Builder(34)
    x = b.conv("image", "stem", (8, 3, 1, 1))
    weighed = b.node("Mul", [x, b.constant("weights", b.normal(8, 1, 1))], "weighed")
    root = b.node("Sqrt", [b.node("ReduceMean", [weighed], "mean", axes=[1])], "root")
    b.conv(b.node("Div", [x, root], "quotient"), "head", (4, 8, 1, 1))
    onnx.save(b.model([1, 3, 16, 16], {"head": 4}), tmp_path / "net.onnx")
    nodes = {node.name: node for node in understand(load_network(tmp_path / "net.onnx")).nodes}
    assert nodes["quotient"].reason == (
        "stays float: a tensor that it divides, or divides by, is float"
    )
