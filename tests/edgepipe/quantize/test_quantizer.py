"""quantize: integer networks in normal form that follow their float originals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import small_networks
from levels import every

from edgepipe.errors import MediaError, QuantizeError
from edgepipe.frontend.network import Network, load_network
from edgepipe.partition.operator import Operator
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.quantizer import QuantizedNetwork, QuantizeOptions, quantize
from edgepipe.tvm_adapter import CompiledModule, load_module, run_module, save_module
from vta_stages.layers.records import Conv, MaxPool, Pick, Product, TransposedConv

MAKERS = {
    "detector": small_networks.detector,
    "classifier": small_networks.classifier,
    "projected": small_networks.projected,
    "with_float_middle": small_networks.with_float_middle,
    "exporter_habits": small_networks.exporter_habits,
    "reluctant": small_networks.reluctant,
    "upsampler": small_networks.upsampler,
    "silu_block": small_networks.silu_block,
    "squeeze_excite": small_networks.squeeze_excite,
    "activations": small_networks.activations,
    "elementary": small_networks.elementary,
    "shuffled": small_networks.shuffled,
}


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Network]:
    folder = tmp_path_factory.mktemp("quantizer")
    loaded = {}
    for name, make in MAKERS.items():
        onnx.save(make(), folder / f"{name}.onnx")
        loaded[name] = load_network(folder / f"{name}.onnx")
    return loaded


def quantized(network: Network, rounding: str = "nearest") -> QuantizedNetwork:
    options = QuantizeOptions(rounding=rounding)
    return quantize(network, small_networks.frames(16), small_networks.PREPROCESS, options)


@pytest.mark.parametrize(
    ("name", "rounding"),
    [
        *((name, "nearest") for name in sorted(MAKERS)),
        *every(4, [(name, "reconstruct") for name in sorted(MAKERS)]),
    ],
)
def test_integer_network_follows_the_float_one(
    name: str, rounding: str, networks: dict[str, Network]
) -> None:
    # Functions that jump make a whole step of a rounding.
    assert_follows_float(networks[name], rounding, least=0.995 if name == "elementary" else 0.998)


def assert_follows_float(network: Network, rounding: str = "nearest", least: float = 0.998) -> None:
    """Compare the outputs of the quantised network with those of onnxruntime."""
    result = quantized(network, rounding)
    compiled = CompiledModule(result.module, runs=12)
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    found: list[list[np.ndarray]] = [[] for _ in result.output_names]
    expected: list[list[np.ndarray]] = [[] for _ in result.output_names]
    for frame in small_networks.frames(12, seed=7):
        outputs = compiled.run({result.input_name: frame})
        picture = small_networks.PREPROCESS.normalise(frame)
        reference = session.run(None, {network.onnx_input: picture})
        for index, output in enumerate(result.output_names):
            assert outputs[output].shape == reference[index].shape
            assert outputs[output].dtype == np.float32
            found[index].append(outputs[output].reshape(-1))
            expected[index].append(reference[index].reshape(-1))
    for one, other in zip(found, expected, strict=True):
        assert np.corrcoef(np.concatenate(one), np.concatenate(other))[0, 1] > least


def kinds(operators: tuple[Operator, ...]) -> dict[str, str]:
    return {operator.name: operator.kind for operator in operators}


def test_a_detector_is_integer_up_to_its_head(networks: dict[str, Network]) -> None:
    found = kinds(match_operators(quantized(networks["detector"]).module))
    assert found["image.int8"] == "input_table"
    assert found["stem_pool"] == "max_pool"
    assert found["body_concat"] == "concat"
    assert found["up_resize"] == "resize"
    assert found["merge_again"] == found["head_conv"] == "conv"
    assert [name for name, kind in found.items() if kind == "generic"] == [
        *("head_sigmoid", "scores_reshape", "distances_reshape"),
        *("scores", "distances.int8", "distances"),
    ]
    assert found["head_split"] == found["head_split_1"] == "pick"


def test_adds_become_residual_terms(networks: dict[str, Network]) -> None:
    operators = match_operators(quantized(networks["detector"]).module)
    merge = next(o for o in operators if o.name == "merge_again")
    assert merge.inputs == ("body_concat", "up_resize", "body_leaky")


def test_a_1x1_shortcut_is_merged_into_the_convolution_that_it_is_added_to(
    networks: dict[str, Network],
) -> None:
    operators = match_operators(quantized(networks["projected"]).module)
    assert "block_shortcut" not in kinds(operators)
    block = next(o for o in operators if o.name == "block_out")
    assert isinstance(block.layer, Conv)
    assert block.inputs == ("block_relu", "stem_relu")
    (projection,) = block.layer.projections
    assert projection.weight.shape == (40, 24)
    assert projection.stride == (2, 2)
    assert not block.layer.terms


def test_a_classifier_is_integer_to_the_end(networks: dict[str, Network]) -> None:
    operators = match_operators(quantized(networks["classifier"]).module)
    assert list(kinds(operators).values()) == ["input_table", *["conv"] * 5, "generic"]
    pool = next(o.layer for o in operators if o.name == "pool_Pool")
    assert isinstance(pool, Conv)
    assert pool.groups == 8
    assert len(np.unique(pool.weight)) == 1
    relu6 = next(o.layer for o in operators if o.name == "stem_Clip")
    assert isinstance(relu6, Conv)
    assert (relu6.epilogue.low, relu6.epilogue.high) == (0, 127)


def test_operators_without_an_integer_form_stay_float(networks: dict[str, Network]) -> None:
    found = kinds(match_operators(quantized(networks["with_float_middle"]).module))
    assert found["first"] == found["second"] == "conv"
    for name in ("gated", "upper", "upper.int8", "result"):
        assert found[name] == "generic"


INT8_NETWORKS = ("silu_block", "squeeze_excite", "shuffled", "activations", "elementary")


@pytest.mark.parametrize("name", INT8_NETWORKS)
def test_int8_operators_hand_int8_to_each_other(name: str, networks: dict[str, Network]) -> None:
    network = networks[name]
    operators = match_operators(quantized(network).module)
    in_float = [o for o in operators if any("float" in b.dtype for b in o.bindings)]
    assert [o.output for o in in_float] == list(network.output_names)
    assert [o for o in operators if o.kind == "generic"] == in_float


def test_a_convolution_of_windows_stays_float(tmp_path: Path) -> None:
    """EfficientViT's: a batch of four windows is no picture."""
    b = small_networks.Builder(13)
    x = b.conv("image", "first", (4, 3, 3, 3), pads=[1] * 4)
    x = b.node("Reshape", [x, b.constant("cut", np.array([1, 4, 2, 8, 2, 8]))], "cut_up")
    x = b.node("Transpose", [x], "by_window", perm=[0, 2, 4, 1, 3, 5])
    x = b.node("Reshape", [x, b.constant("batch", np.array([4, 4, 8, 8]))], "windows")
    b.conv(x, "result", (4, 4, 3, 3))
    onnx.save(b.model([1, 3, 16, 16], {"result": 4}), tmp_path / "net.onnx")
    made = quantized(load_network(tmp_path / "net.onnx"))
    assert made.reasons["result"] == (
        "stays float: its output [4, 4, 6, 6] is not a picture [1, c, h, w]"
    )


def test_a_product_that_is_a_result_stays_float(tmp_path: Path) -> None:
    b = small_networks.Builder(12)
    scores = [
        b.node("Sigmoid", [b.conv("image", f"{name}/conv", (n, 3, 3, 3))], f"{name}/score")
        for name, n in (("class", 4), ("object", 1))
    ]
    b.node("Mul", scores, "result")
    onnx.save(b.model([1, 3, 16, 16], {"result": 4}), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    made = quantized(network)
    operators = {operator.name: operator for operator in match_operators(made.module)}
    for name in ("class_score", "object_score", "result"):
        assert operators[name].bindings[-1].dtype == "float32"
    assert made.reasons["result"] == "stays float: only results depend on it"


def test_sums_of_float_tensors_that_only_results_depend_on_stay_float(tmp_path: Path) -> None:
    """In int8, a small constant would become 0, and its logarithm infinite."""
    b = small_networks.Builder(13)
    x = b.node("Softmax", [b.conv("image", "scores", (4, 3, 3, 3))], "soft", axis=1)
    x = b.node("Add", [x, b.constant("tiny", np.float32(1e-6))], "above_zero")
    x = b.node("Transpose", [b.node("Log", [x], "log")], "turned", perm=[0, 2, 3, 1])
    x = b.node("Mul", [x, b.constant("factor", np.float32(0.1))], "scaled")
    b.node("Relu", [b.node("Add", [x, "turned"], "added")], "result")
    onnx.save(b.model([1, 3, 16, 16], {"result": 4, "turned": 4}), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    made = quantized(network)
    in_float = [o for o in match_operators(made.module) if o.kind == "generic"]
    assert {o.output for o in in_float if o.bindings[-1].dtype != "float32"} == set()
    assert made.reasons["above_zero"] == "stays float: no integer operator depends on it"
    picture = np.random.default_rng(4).integers(0, 256, (1, 16, 16, 3)).astype(np.uint8)
    found = run_module(made.module, {made.input_name: picture})
    exact = onnxruntime.InferenceSession(network.onnx_model.SerializeToString()).run(
        None, {network.onnx_input: made.preprocess.normalise(picture)}
    )
    for one, other in zip(found.values(), exact, strict=True):
        np.testing.assert_allclose(one, other, atol=0.5)


@pytest.mark.parametrize(("mode", "factor"), [("cubic", 2), ("linear", 8), ("linear", 3)])
def test_a_resize_with_fine_weights_says_why_it_stays_float(
    mode: str, factor: int, tmp_path: Path
) -> None:
    b = small_networks.Builder(14)
    x = b.conv("image", "scores", (4, 3, 1, 1))
    b.node("Resize", [x, "", b.constant("by", np.float32([1, 1, factor, factor]))], "y", mode=mode)
    onnx.save(b.model([1, 3, 16, 16], {"y": 4}), tmp_path / "net.onnx")
    size = 16 * factor
    assert quantized(load_network(tmp_path / "net.onnx")).reasons["y"] == (
        f"stays float: {mode} with half_pixel from 16x16 to {size}x{size} has weights that are not "
        "multiples of 1/128 below 1"
    )


def test_a_shuffle_and_its_slices_pick_channels(networks: dict[str, Network]) -> None:
    operators = match_operators(quantized(networks["shuffled"]).module)
    picks = {o.name: o.layer for o in operators if isinstance(o.layer, Pick)}
    assert {name: layer.input.name for name, layer in picks.items()} == {
        "left": "joined",
        "right": "joined",
    }
    assert picks["left"].channels == (0, 8, 1, 9, 2, 10, 3, 11)
    assert picks["right"].channels == (4, 12, 5, 13, 6, 14, 7, 15)


def test_a_gate_is_one_product_with_what_is_added_to_it(networks: dict[str, Network]) -> None:
    operators = match_operators(quantized(networks["squeeze_excite"]).module)
    layers = {o.name: o.layer for o in operators}
    gated, emphasised = layers["gated"], layers["emphasised"]
    assert isinstance(gated, Product)
    assert (gated.second.height, gated.second.width, gated.terms) == (1, 1, ())
    assert isinstance(emphasised, Product)
    assert (emphasised.first.channels, emphasised.second.name) == (1, "added")
    assert [term.tensor.name for term in emphasised.terms] == ["added"]
    assert "seen" not in layers
    # A hard sigmoid after a convolution is the convolution's own bias, shift and clip.
    gate = layers["gate"]
    assert isinstance(gate, Conv)
    assert (gate.epilogue.low, gate.epilogue.high) == (0, 127)


def test_parts_that_exporters_write_separately_become_one_operator(
    networks: dict[str, Network],
) -> None:
    operators = match_operators(quantized(networks["exporter_habits"]).module)
    first = next(o for o in operators if o.name == "first" or o.name == "relu")
    assert isinstance(first.layer, Conv)
    assert first.inputs == ("image.int8",)
    assert first.layer.padding == (0, 1, 2, 1)
    found = kinds(operators)
    assert found["pool"] == "max_pool"
    assert found["up"] == "transposed_conv"
    assert found["mean"] == found["double"] == "conv"
    assert found["gated"] == "table"


def test_transposed_convolutions_and_global_maxima_are_integer(
    networks: dict[str, Network],
) -> None:
    operators = match_operators(quantized(networks["upsampler"]).module)
    assert list(kinds(operators).values()) == [
        *("input_table", "conv", "transposed_conv", "transposed_conv", "max_pool", "conv"),
        "generic",  # int8 to float at the output
    ]
    up, wide, largest = (operator.layer for operator in operators[2:5])
    assert isinstance(up, TransposedConv)
    assert (up.groups, up.weight.shape) == (2, (8, 3, 4, 4))
    assert isinstance(wide, TransposedConv)
    assert wide.weight.shape == (6, 10, 5, 5)  # 3x3, dilated by zeros between its taps
    assert not wide.weight[:, :, 1::2].any()
    assert isinstance(largest, MaxPool)
    assert largest.kernel == (20, 20)


def _table_then_reshape(b: small_networks.Builder) -> None:
    x = b.conv("image", "first", (8, 3, 3, 3), pads=[1] * 4)
    x = b.node("Sigmoid", [x], "gate")
    x = b.node("Reshape", [x, b.constant("flat", np.array([1, 8, 256, 1], np.int64))], "moved")
    b.conv(x, "result", (4, 8, 1, 1))


def _table_then_split(b: small_networks.Builder) -> None:
    x = b.conv("image", "first", (8, 3, 3, 3), pads=[1] * 4)
    b.node("Sigmoid", [x], "gate")
    parts = b.constant("parts", np.array([3, 5], np.int64))
    b.node("Split", ["gate", parts], "head", "tail", axis=1)
    b.conv("tail", "result", (4, 5, 1, 1))


def _picture_stays_float(b: small_networks.Builder) -> None:
    b.node("CumSum", ["image", b.constant("rows", np.array(2))], "running")
    b.conv("running", "result", (4, 3, 3, 3))


def _dead_channels(b: small_networks.Builder) -> None:
    """Batch normalisation has switched channels off: their weights are 1e-8, their biases not."""
    x = b.conv("image", "first", (8, 3, 3, 3), pads=[1] * 4)
    x = b.node("Mul", [x, b.constant("loud", np.full((1, 8, 1, 1), 40, np.float32))], "louder")
    gains = np.array([1, 1e-8, 1, 1e-8, 1, 1, 0, 1], np.float32).reshape(1, 8, 1, 1)
    y = b.conv(x, "second", (8, 8, 3, 3), pads=[1] * 4)
    y = b.node("Mul", [y, b.constant("gains", gains)], "scaled")
    y = b.node("Add", [y, b.constant("shift", np.full((1, 8, 1, 1), 0.7, np.float32))], "shifted")
    x = b.node("Add", [y, x], "sum")
    bounds = [b.constant("low", np.float32(0)), b.constant("high", np.float32(6))]
    x = b.node("Clip", [x, *bounds], "clipped")
    b.conv(x, "result", (4, 8, 3, 3))


def _dead_convolution(b: small_networks.Builder) -> None:
    """All channels of a convolution are switched off, and its Relu gives nothing but zeros."""
    x = b.conv("image", "first", (8, 3, 3, 3), pads=[1] * 4)
    weight = b.constant("second.w", b.normal(8, 8, 3, 3) * np.float32(1e-8))
    bias = b.constant("second.b", np.full(8, -2, np.float32))
    y = b.node("Conv", [x, weight, bias], "second", kernel_shape=[3, 3], pads=[1] * 4)
    y = b.node("Concat", [x, b.node("Relu", [y], "nothing")], "both", axis=1)
    b.conv(y, "result", (4, 16, 3, 3))


def _sum_that_cancels(b: small_networks.Builder) -> None:
    """A tensor is subtracted from itself, as the mean of a single channel is from the channel."""
    x = b.conv("image", "first", (8, 3, 3, 3), pads=[1] * 4)
    y = b.node("MaxPool", [x], "same", kernel_shape=[1, 1])
    y = b.node("Relu", [b.node("Sub", [x, y], "nothing")], "still_nothing")
    b.conv(b.node("Add", [x, y], "sum"), "result", (4, 8, 3, 3))


def _relu_of_nothing(b: small_networks.Builder) -> None:
    """A bias carries every pixel below zero, so that a Relu gives nothing."""
    x = b.node("Mul", ["image", b.constant("factor", np.float32(0.001))], "small")
    x = b.node("Sub", [x, b.constant("bias", np.float32(9))], "negative")
    b.conv(b.node("Relu", [x], "nothing"), "result", (4, 3, 3, 3))


def _dense_then_table(b: small_networks.Builder) -> None:
    b.node("Flatten", [b.node("GlobalAveragePool", ["image"], "mean")], "flat")
    b.node("Gemm", ["flat", b.constant("dense", b.normal(5, 3))], "dense_result", transB=1)
    b.node("Sigmoid", ["dense_result"], "result")


@pytest.mark.parametrize(
    ("make", "rank"),
    [
        (_table_then_reshape, 4),
        (_table_then_split, 4),
        (_picture_stays_float, 4),
        (_dense_then_table, 2),
        (_dead_channels, 4),
        (_dead_convolution, 4),
        (_sum_that_cancels, 4),
        (_relu_of_nothing, 4),
    ],
)
def test_an_unusual_order_of_operators_is_quantised(
    make: Callable[[small_networks.Builder], None], rank: int, tmp_path: Path
) -> None:
    builder = small_networks.Builder(7)
    make(builder)
    onnx.save(builder.model([1, 3, 16, 16], {"result": rank}), tmp_path / "net.onnx")
    assert_follows_float(load_network(tmp_path / "net.onnx"))


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_layer_keeps_the_contract(name: str, networks: dict[str, Network]) -> None:
    for operator in match_operators(quantized(networks[name]).module):
        layer = operator.layer
        if not isinstance(layer, Conv):
            continue
        shift = layer.epilogue.shift
        assert shift.min() >= 0
        assert shift.max() <= 15
        reach = 128 * np.abs(layer.weight.astype(np.int64)).reshape(shift.size, -1).sum(axis=1)
        reach += np.abs(layer.epilogue.bias.astype(np.int64))
        for term in layer.terms:
            assert np.all(np.abs(term.factor) <= 127 << 16)
            reach += 128 * np.abs(term.factor.astype(np.int64))
        assert reach.max() < 2**30


def test_same_input_same_module(networks: dict[str, Network], tmp_path: Path) -> None:
    texts = []
    for index in range(2):
        path = tmp_path / f"{index}.json"
        save_module(quantized(networks["detector"]).module, path)
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]
    frame = next(small_networks.frames(1))
    result = quantized(networks["detector"])
    reloaded = run_module(load_module(tmp_path / "0.json"), {"image": frame})
    for name, value in run_module(result.module, {"image": frame}).items():
        np.testing.assert_array_equal(reloaded[name], value)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda n: quantize(n, [], small_networks.PREPROCESS), QuantizeError, "no calibration"),
        (
            lambda n: quantize(n, [np.zeros((1, 8, 8, 3), np.uint8)], small_networks.PREPROCESS),
            MediaError,
            r"frame 0 is uint8\[1, 8, 8, 3\], expected uint8\[1, 16, 16, 3\]",
        ),
        (
            lambda n: quantize(n, [], dataclasses.replace(small_networks.PREPROCESS, width=32)),
            QuantizeError,
            "the preprocessing gives 3x16x32, the network reads 3x16x16",
        ),
        (lambda n: QuantizeOptions(threshold="best"), QuantizeError, "rule 'best' is unknown"),
        (lambda n: QuantizeOptions(frames=0), QuantizeError, "over 0 frames"),
        (lambda n: QuantizeOptions(equalise=2.0), QuantizeError, "equalise is 2.0"),
        (lambda n: QuantizeOptions(leaky_steps=9), QuantizeError, "leaky_steps is 9"),
    ],
)
def test_impossible_input_is_refused(
    call: Callable[[Network], object],
    error: type[Exception],
    message: str,
    networks: dict[str, Network],
) -> None:
    with pytest.raises(error, match=message):
        call(networks["detector"])
