"""Layers in int16 on request: their accuracy, their bits on every level, and where they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import small_networks
from emulated_stage import run_emulated
from small_networks import PREPROCESS, frames

from edgepipe import description
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.errors import QuantizeError
from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.network import Network, load_network
from edgepipe.quantize import scheme_file
from edgepipe.quantize.graph import TableNode, is_integer
from edgepipe.quantize.int16 import forms
from edgepipe.quantize.int16.records import Operand, Scaled, Weighted, WideLayer
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize, understand
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import ModuleBuilder, read_main, run_module

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FRAME = next(iter(frames(1, seed=9)))


def every_kind() -> onnx.ModelProto:
    """Every kind of layer once: what reads, computes and moves int16 tensors."""
    b = small_networks.Builder(21)
    x = b.conv("image", "stem", (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = b.node("LeakyRelu", [x], "leaky", alpha=0.1)
    pooled = b.node("MaxPool", [x], "pooled", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = b.conv(pooled, "grouped", (8, 4, 3, 3), group=2, dilations=[2, 2], pads=[2] * 4)
    y = b.node("Mul", [y, b.node("Sigmoid", [y], "sigmoid")], "silu")
    z = b.conv(pooled, "depth", (8, 1, 3, 3), group=8, pads=[0, 1, 2, 1])
    low, high = b.constant("low", np.float32(0)), b.constant("high", np.float32(2))
    z = b.node("Clip", [z, low, high], "clipped")
    x = b.node("Concat", [b.node("Mul", [y, z], "product"), pooled], "joined", axis=1)
    weight = b.constant("up.w", 0.3 * b.normal(16, 4, 3, 3))
    up = b.node(
        "ConvTranspose", [x, weight], "up", kernel_shape=[3, 3], group=2, strides=[2, 2],
        pads=[1] * 4, output_padding=[1, 1],
    )  # fmt: skip
    scales = b.constant("scales", np.array([1, 1, 2, 2], np.float32))
    large = b.node("Resize", [pooled, "", scales], "large", mode="linear")
    x = b.node("Add", [up, large], "added")
    x = b.node("AveragePool", [x], "mean", kernel_shape=[2, 2], strides=[2, 2])
    b.node("Split", [x, b.constant("halves", np.array([4, 4], np.int64))], "left", "right", axis=1)
    x = b.node("Concat", ["right", b.conv("left", "own", (4, 4, 1, 1))], "again", axis=1)
    x = b.node("Tanh", [x], "curved")
    x = b.node("Flatten", [b.node("GlobalAveragePool", [x], "squeezed")], "flat")
    x = b.node("Gemm", [x, b.constant("dense.w", b.normal(5, 8))], "dense", transB=1)
    b.node("Sigmoid", [x], "scores")
    return b.model([1, 3, 16, 16], {"scores": 2})


def loaded(folder: Path, make: Callable[[], onnx.ModelProto]) -> Network:
    onnx.save(make(), folder / "net.onnx")
    return load_network(folder / "net.onnx")


def all_layers(network: Network) -> tuple[str, ...]:
    nodes = understand(network).nodes
    return tuple(node.name for node in nodes if is_integer(node) or isinstance(node, TableNode))


def quantised(network: Network, *layers: str) -> QuantizedNetwork:
    return quantize(network, frames(4), PREPROCESS, QuantizeOptions(int16_layers=layers))


def outputs(made: QuantizedNetwork) -> dict[str, np.ndarray]:
    return run_module(made.module, {made.input_name: FRAME})


def snr_db(network: Network, found: dict[str, np.ndarray]) -> float:
    """Return the least signal-to-noise ratio of the outputs against onnxruntime."""
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    exact = session.run(None, {network.onnx_input: PREPROCESS.normalise(FRAME)})
    pairs = zip(exact, found.values(), strict=True)
    return min(10 * np.log10((e**2).sum() / ((e - f) ** 2).sum()) for e, f in pairs)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    return loaded(tmp_path_factory.mktemp("int16"), every_kind)


@pytest.fixture(scope="module")
def whole(network: Network) -> QuantizedNetwork:
    return quantised(network, *all_layers(network))


@pytest.fixture(scope="module")
def in_int8(network: Network) -> QuantizedNetwork:
    return quantised(network)


def test_a_network_in_int16_is_near_to_float(
    network: Network, whole: QuantizedNetwork, in_int8: QuantizedNetwork
) -> None:
    kinds = {binding.name: binding.dtype for binding in read_main(whole.module).bindings}
    assert "int8" not in kinds.values()
    assert {kinds[name] for name in all_layers(network) if name != "scores"} == {"int16"}
    found = snr_db(network, outputs(whole))
    assert found > 70
    assert found > snr_db(network, outputs(in_int8)) + 24  # four bits


def test_the_kernels_of_a_network_in_int16_have_the_bits_of_integer_relax(
    whole: QuantizedNetwork, tmp_path: Path
) -> None:
    compile_arm_stage(whole.module, arches=("x86_64",)).write(tmp_path)
    found = ArmStage(tmp_path).run({whole.input_name: FRAME})
    for name, expected in outputs(whole).items():
        assert np.asarray(found[name]).tobytes() == expected.tobytes()


@pytest.mark.cross
@pytest.mark.networks
def test_boards_compute_the_same_bits(
    architecture: str, whole: QuantizedNetwork, tmp_path: Path
) -> None:
    compile_arm_stage(whole.module, arches=(architecture,)).write(tmp_path)
    expected = outputs(whole)
    found = run_emulated(architecture, tmp_path, {whole.input_name: FRAME}, expected)
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes()


def test_other_layers_keep_their_steps_around_a_region(
    network: Network, in_int8: QuantizedNetwork
) -> None:
    made = quantised(network, "silu..product", "own")
    assert set(made.int16_scales) == {"grouped", "silu", "clipped", "product", "joined", "own"} - {
        "grouped",  # before the region's first layer
        "clipped",  # does not depend on it
        "joined",  # after its last
    }
    for name in ("leaky", "grouped", "clipped"):
        np.testing.assert_array_equal(made.scales[name], in_int8.scales[name])
    assert made.scales["product.int8"].max() < 1.1 * in_int8.scales["product"].max()
    ops = {b.name: (b.op, b.dtype) for b in read_main(made.module).bindings}
    assert ops["product.int8__shifted"] == ("right_shift", "int64")
    assert ops["joined"] == ("concat", "int8")
    assert snr_db(network, outputs(made)) > snr_db(network, outputs(in_int8)) - 1


@pytest.mark.parametrize(
    ("make", "layer"),
    [
        pytest.param(
            small_networks.projected, "block_out", id="projection", marks=pytest.mark.networks
        ),
        pytest.param(
            small_networks.reluctant, "second", id="float neighbours", marks=pytest.mark.networks
        ),
    ],
)
def test_a_layer_between_int8_and_float_layers_has_one_definition(
    make: Callable[[], onnx.ModelProto], layer: str, tmp_path: Path
) -> None:
    network = loaded(tmp_path, make)
    made = quantised(network, layer)
    compile_arm_stage(made.module, arches=("x86_64",)).write(tmp_path / "stage")
    found = ArmStage(tmp_path / "stage").run({made.input_name: FRAME})
    for name, expected in outputs(made).items():
        assert np.asarray(found[name]).tobytes() == expected.tobytes()
    assert snr_db(network, outputs(made)) > 15


def test_sums_of_the_largest_values_are_exact() -> None:
    """Numpy sums whole numbers of any size; int64 has room for twice what is here."""
    random = np.random.default_rng(3)
    x = random.choice([-32768, 32767], (1, 512, 3, 3)).astype(np.int16)
    weight = random.choice([-32767, 32767], (2, 512, 3, 3)).astype(np.int16)
    weight[0] = np.where(x[0] < 0, -32767, 32767)  # every product is positive
    factor, bias = np.array([1 << 28, -3]), np.array([1 << 40, -7])
    layer = WideLayer(
        name="y",
        weighted=(Weighted(tensor=Operand(name="x", dtype="int16"), weight=weight, stride=(1, 1)),),
        scaled=(Scaled(tensors=(Operand(name="r", dtype="int16"),) * 2, factor=factor),),
        bias=bias,
        shift=np.array([30, 27]),
        low=-32768,
        high=32767,
        slope=6554,
    )
    builder = ModuleBuilder()
    builder.param("x", x.shape, "int16")
    builder.param("r", (1, 2, 1, 1), "int16")
    forms.write(builder, layer)
    r = np.array([-1, 32767], np.int16).reshape(1, 2, 1, 1)
    found = run_module(builder.finish(["y"]), {"x": x, "r": r})["y"].reshape(-1)
    for channel in (0, 1):
        total = sum(int(a) * int(b) for a, b in zip(x.flat, weight[channel].flat, strict=True))
        total += int(r.flat[channel]) ** 2 * int(factor[channel]) + int(bias[channel])
        total = max(total, total * 6554 // 65536)
        shift = int(layer.shift[channel])
        expected = (total + (1 << (shift - 1))) >> shift
        assert found[channel] == np.clip(expected, -32768, 32767)


@pytest.mark.networks
def test_a_scheme_names_int16_layers(
    network: Network, in_int8: QuantizedNetwork, tmp_path: Path
) -> None:
    made = quantised(network, "silu..product")
    path = tmp_path / "net.scheme.toml"
    path.write_text(scheme_file.to_toml(made.scheme, made.scales, made.zeros))
    assert 'int16_layers = ["silu..product"]' in path.read_text()
    read = scheme_file.read(path)
    assert read.tensors.keys() == in_int8.scheme.tensors.keys()
    again = quantize(network, (), PREPROCESS, None, read)
    assert outputs(again)["scores"].tobytes() == outputs(made)["scores"].tobytes()
    without = replace(read, options=replace(read.options, int16_layers=()))
    more = QuantizeOptions(int16_layers=("own",))
    both = quantize(network, (), PREPROCESS, more, read)
    assert both.scheme.options.int16_layers == ("silu..product", "own")
    edited = quantize(network, (), PREPROCESS, None, without)
    assert outputs(edited)["scores"].tobytes() == outputs(in_int8)["scores"].tobytes()


def test_an_unknown_int16_layer_is_refused_with_the_nearest_names(network: Network) -> None:
    message = "^layer prodct: is unknown, so it cannot be in int16$"
    with pytest.raises(QuantizeError, match=message) as caught:
        quantised(network, "prodct")
    assert str(caught.value.hint).startswith("did you mean: product")


def test_what_only_moves_values_is_no_int16_layer(tmp_path: Path) -> None:
    network = loaded(tmp_path, small_networks.detector)
    message = "^layer scores: bytes are moved on arm, expected one that computes in int8$"
    with pytest.raises(QuantizeError, match=message) as caught:
        quantised(network, "scores")
    assert caught.value.hint == "leave it out of the layers in int16"


def test_a_layer_is_not_both_float_and_int16(network: Network) -> None:
    both = QuantizeOptions(float_layers=("product",), int16_layers=("silu..product",))
    message = "^layer product: is to be both float and int16, expected one$"
    with pytest.raises(QuantizeError, match=message) as caught:
        quantize(network, frames(4), PREPROCESS, both)
    assert caught.value.hint == "take it out of the float layers, or of those in int16"


def swish_by_channel() -> onnx.ModelProto:
    """A function with another constant for each channel: ``x * sigmoid(slope * x)``."""
    b = small_networks.Builder(22)
    x = b.conv("image", "source", (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    steep = b.node("Mul", [x, b.constant("slopes", b.normal(8, 1, 1))], "steep")
    x = b.node("Mul", [x, b.node("Sigmoid", [steep], "sigmoid")], "swish")
    b.conv(x, "result", (4, 8, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4})


@pytest.mark.parametrize("layers", ["swish", "source..swish", "source..result"])
def test_a_function_that_differs_by_channel_is_float_in_int16(layers: str, tmp_path: Path) -> None:
    made = quantised(loaded(tmp_path, swish_by_channel), layers)
    kinds = {binding.name: binding.dtype for binding in read_main(made.module).bindings}
    assert kinds["swish"] == "float32"
    assert made.reasons["swish"] == (
        "stays float: requested in int16, computed between int16 tensors"
    )


def test_a_real_network_in_int16_is_near_to_float() -> None:
    """Signal-to-noise ratio of the logits on a picture, 2026-11: int8 33.6 dB, int16 78 dB."""
    described = description.load(EXAMPLES / "fmnist_resnet8.toml").preprocess
    network = load_network(
        EXAMPLES / "fmnist_resnet8.onnx", (described.channels, described.height, described.width)
    )
    pictures = list(frames_from(EXAMPLES / "calibration", described))
    made = quantize(
        network,
        pictures,
        described,
        QuantizeOptions(int16_layers=("relu_Relu..avgpool_GlobalAveragePool", "logits")),
    )
    found = run_module(made.module, {made.input_name: pictures[0]})
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    (exact,) = session.run(None, {network.onnx_input: described.normalise(pictures[0])})
    assert 10 * np.log10((exact**2).sum() / ((exact - found["logits"]) ** 2).sum()) > 65
