"""Lengths over pixels in integers: rounded once, no overflow, the same bits everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from eager_relax import EagerRelax
from emulated_stage import run_emulated
from numpy.typing import NDArray
from small_networks import PREPROCESS, Builder, frames

from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.frontend.network import Network, load_network
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.graph import ConvNode, FloatNode, LengthNode, MoveNode
from edgepipe.quantize.integers import Int8Form
from edgepipe.quantize.normalising import forms
from edgepipe.quantize.normalising.gather import MOST_VALUES
from edgepipe.quantize.normalising.layers import integer_length
from edgepipe.quantize.normalising.records import Length
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize, understand
from edgepipe.quantize.ranges import Target
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import CompiledModule, ModuleBuilder, read_main, run_module
from vta_stages.layers.records import TensorSpec

Shape = tuple[int, int, int, int]
Int8 = NDArray[np.int8]
CHANNELS = 8
IN_INT16 = "stays float: requested in int16, computed between int16 tensors"
FRAMES = list(frames(4, seed=9))


def in_integers(
    node: LengthNode,
    shape: Shape,
    step: float,
    scale: float = 0.03,
    zeros: tuple[int, int] = (0, 0),
) -> Length:
    """Return the operator; ``zeros`` are the zero points of its input and of its result."""
    channels = shape[1]
    source = Int8Form(name="x", shape=shape, scale=np.full(channels, scale), zero=zeros[0])
    output = TensorSpec(name="y", channels=channels, height=1, width=1)
    target = Target(step=np.full(channels, step), zero=zeros[1])
    length, found = integer_length(node, source, output, target)
    assert (found == step).all()
    return length


def in_float(node: LengthNode, x: Int8, scale: float, zero: int) -> NDArray[np.float64]:
    values = (x.astype(np.float64) - zero) * scale
    total = (np.abs(values) ** node.power).sum((2, 3), keepdims=True)
    return np.asarray(np.sqrt(total + node.epsilon) if node.is_root else total)


def computed(length: Length, x: Int8) -> Int8:
    builder: Any = EagerRelax(x)
    found: Int8 = builder.values[forms.write(builder, length)]
    return found


def pictures(shape: Shape, seed: int = 0) -> Int8:
    """Return noise whose size differs from channel to channel, down to zeros."""
    random = np.random.default_rng(seed)
    sizes = np.linspace(0, 1, shape[1]).reshape(1, -1, 1, 1)
    return np.rint(random.integers(-128, 128, shape) * sizes).astype(np.int8)


def node_of(power: int, is_root: bool, epsilon: float = 0.0) -> LengthNode:
    return LengthNode(name="y", input="x", power=power, is_root=is_root, epsilon=epsilon)


@pytest.mark.parametrize("zeros", [(0, 0), (-128, -128), (5, 0)])
@pytest.mark.parametrize(
    ("power", "is_root", "epsilon"),
    [(2, True, 0.0), (2, True, 0.7), (2, False, 0.0), (1, False, 0.0), (1, True, 1e-12)],
)
def test_a_length_is_rounded_once(
    power: int, is_root: bool, epsilon: float, zeros: tuple[int, int]
) -> None:
    node = node_of(power, is_root, epsilon)
    for scale, shape in ((0.03, (1, 40, 7, 9)), (3e-5, (1, 3, 1, 1)), (2.0, (1, 5, 1, 30))):
        x = pictures(shape)
        exact = in_float(node, x, scale, zeros[0])
        # Some results are beyond the largest.
        step = float(exact.max()) * 0.8 / (127 - zeros[1])
        found = computed(in_integers(node, shape, step, scale, zeros), x)
        wanted = np.clip(exact / step, 0, 127 - zeros[1])
        assert found.shape == wanted.shape
        assert np.abs(found.astype(np.float64) - zeros[1] - wanted).max() <= 0.5 + 1e-9


@pytest.mark.parametrize(("power", "is_root"), [(2, True), (2, False), (1, False)])
def test_the_most_values_that_are_added_do_not_overflow(power: int, is_root: bool) -> None:
    shape, node = (1, 2, 512, 512), node_of(power, is_root)
    x = np.full(shape, 127, np.int8)
    x[:, 1] = pictures((1, 1, 512, 512))
    exact = in_float(node, x, 0.03, -128)
    step = float(exact.max()) / 127
    found = computed(in_integers(node, shape, step, zeros=(-128, 0)), x)
    assert MOST_VALUES == 512 * 512
    assert np.abs(found - exact / step).max() <= 0.5 + 1e-9
    with pytest.raises(ValueError, match=r"^y: adds 262656 values, at most 262144$"):
        in_integers(node, (1, 2, 513, 512), step)


def test_any_step_gives_a_result() -> None:
    """A ReLU may have removed all that calibration saw, or another picture is far larger."""
    x = pictures((1, 4, 6, 6))
    finest = computed(in_integers(node_of(2, True), x.shape, 1e-10), x)
    assert finest.ravel().tolist() == [0, 127, 127, 127]
    assert not computed(in_integers(node_of(2, True), x.shape, 1e10), x).any()


def test_stock_tvm_computes_these_integers() -> None:
    shape = (1, 20, 5, 6)
    x = pictures(shape, 3)
    for power, zeros in ((1, (0, 0)), (2, (-128, -128))):
        length = in_integers(node_of(power, is_root=False), shape, 0.4, zeros=zeros)
        builder = ModuleBuilder()
        builder.param("x", shape, "int8")
        forms.write(builder, length)
        found = run_module(builder.finish(["y"]), {"x": x})["y"]
        np.testing.assert_array_equal(found, computed(length, x))


# Networks.


def reduced(b: Builder, kind: str, x: str, name: str, axes: list[int], opset: int = 13) -> str:
    if opset < 18 and kind != "ReduceSum":
        return b.node(kind, [x], name, axes=axes)
    return b.node(kind, [x, b.constant(f"{name}.axes", np.array(axes, np.int64))], name)


def response(b: Builder, x: str, name: str, length: str, opset: int = 13) -> str:
    """Append global response normalisation of a picture with these lengths."""
    mean = reduced(b, "ReduceMean", length, f"{name}.mean", [1], opset)
    guarded = b.node("Add", [mean, b.constant(f"{name}.least", np.float32(1e-6))], f"{name}.g")
    share = b.node("Div", [length, guarded], f"{name}.share")
    weighed = b.node("Mul", [x, share], f"{name}.weighed")
    scale = b.constant(f"{name}.scale", 0.8 * b.normal(1, CHANNELS, 1, 1))
    shift = b.constant(f"{name}.shift", 0.3 * b.normal(1, CHANNELS, 1, 1))
    scaled = b.node("Mul", [scale, weighed], f"{name}.scaled")
    return b.node("Add", [x, b.node("Add", [shift, scaled], f"{name}.shifted")], name)


def root_of_sum(b: Builder, x: str, name: str, opset: int) -> str:
    squares = b.node("Mul", [x, x], f"{name}.squares")
    total = reduced(b, "ReduceSum", squares, f"{name}.total", [2, 3])
    return b.node("Sqrt", [total], f"{name}.length")


def root_of_powers(b: Builder, x: str, name: str, opset: int) -> str:
    squares = b.node("Pow", [x, b.constant(f"{name}.two", np.float32(2))], f"{name}.squares")
    total = reduced(b, "ReduceSum", squares, f"{name}.total", [2, 3])
    return b.node("Sqrt", [total], f"{name}.length")


def root_of_square_sum(b: Builder, x: str, name: str, opset: int) -> str:
    total = reduced(b, "ReduceSumSquare", x, f"{name}.total", [2, 3], opset)
    least = b.constant(f"{name}.positive", np.float32(1e-5))
    return b.node("Sqrt", [b.node("Add", [total, least], f"{name}.above")], f"{name}.length")


def plain(b: Builder, x: str, name: str, opset: int) -> str:
    return reduced(b, "ReduceL2", x, f"{name}.length", [2, 3], opset)


Maker = Callable[[Builder, str, str, int], str]
SPELLINGS: dict[str, tuple[Maker, int]] = {
    "ReduceL2 in opset 13": (plain, 13),
    "ReduceL2 in opset 18": (plain, 18),
    "the root of a sum": (root_of_sum, 17),
    "the root of a sum of powers": (root_of_powers, 17),
    "the root of a sum of squares": (root_of_square_sum, 18),
}


def blocks(made_of: Maker = plain, opset: int = 13, count: int = 2) -> onnx.ModelProto:
    """Residual blocks with global response normalisation between two layers, as in ConvNeXt V2."""
    b = Builder(41)
    x = b.conv("image", "stem", (4, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    for index in range(count):
        name = f"block{index}"
        inner = b.conv(x, f"{name}.wide", (CHANNELS, 4, 1, 1))
        inner = b.node("Mul", [inner, b.node("Sigmoid", [inner], f"{name}.gate")], f"{name}.act")
        length = made_of(b, inner, name, opset)
        inner = response(b, inner, f"{name}.grn", length, opset)
        x = b.node("Add", [x, b.conv(inner, f"{name}.narrow", (4, CHANNELS, 1, 1))], name)
    b.conv(x, "head", (4, 4, 3, 3), pads=[1] * 4)
    return b.model([1, 3, 16, 16], {"head": 4}, opset=opset)


def loaded(model: onnx.ModelProto, folder: Path) -> Network:
    onnx.save(model, folder / "net.onnx")
    return load_network(folder / "net.onnx")


def quantised(network: Network, **options: Any) -> QuantizedNetwork:
    return quantize(network, FRAMES, PREPROCESS, QuantizeOptions(**options))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_global_response_normalisation_is_recognised(spelling: str, tmp_path: Path) -> None:
    maker, opset = SPELLINGS[spelling]
    kinds = [type(node) for node in understand(loaded(blocks(maker, opset), tmp_path)).nodes]
    assert kinds.count(LengthNode) == 2
    assert FloatNode not in kinds


def test_it_is_recognised_with_the_channels_last(tmp_path: Path) -> None:
    """As ConvNeXt V2's own repository and Keras write it."""
    b = Builder(44)
    stem = b.conv("image", "stem", (4, 3, 3, 3), pads=[1] * 4)
    x = b.node("Transpose", [stem], "last", perm=[0, 2, 3, 1])
    x = b.node("MatMul", [x, b.constant("wide.w", b.normal(4, CHANNELS))], "wide")
    x = b.node("Relu", [x], "act")
    length = reduced(b, "ReduceL2", x, "length", [1, 2])
    mean = reduced(b, "ReduceMean", length, "mean", [-1])
    guarded = b.node("Add", [mean, b.constant("least", np.float32(1e-6))], "guarded")
    weighed = b.node("Mul", [x, b.node("Div", [length, guarded], "share")], "weighed")
    scaled = b.node("Mul", [b.constant("scale", b.normal(1, 1, 1, CHANNELS)), weighed], "scaled")
    shifted = b.node("Add", [scaled, b.constant("shift", b.normal(1, 1, 1, CHANNELS))], "shifted")
    x = b.node("Add", [shifted, x], "grn")
    x = b.node("MatMul", [x, b.constant("narrow.w", b.normal(CHANNELS, 4))], "narrow")
    x = b.node("Transpose", [x], "first", perm=[0, 3, 1, 2])
    b.conv(b.node("Add", [stem, x], "block"), "head", (4, 4, 3, 3), pads=[1] * 4)
    graph = understand(loaded(b.model([1, 3, 16, 16], {"head": 4}), tmp_path))
    kinds = [type(node) for node in graph.nodes]
    assert kinds.count(LengthNode) == 1
    assert not {FloatNode, MoveNode} & set(kinds)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lengths")


@pytest.fixture(scope="module")
def network(folder: Path) -> Network:
    return loaded(blocks(), folder)


@pytest.fixture(scope="module")
def made(network: Network) -> QuantizedNetwork:
    return quantised(network)


def test_nothing_inside_is_float(made: QuantizedNetwork) -> None:
    in_float = [
        operator.output
        for operator in match_operators(made.module)
        if any("float" in binding.dtype for binding in operator.bindings)
    ]
    assert in_float == ["head"]
    assert made.reasons["block0.length"] == "lengths are computed on arm"


def test_it_is_near_to_the_float_network(made: QuantizedNetwork, folder: Path) -> None:
    session = onnxruntime.InferenceSession(str(folder / "net.onnx"))
    compiled = CompiledModule(made.module, runs=len(FRAMES))
    pairs = []
    for frame in FRAMES:
        (expected,) = session.run(None, {"image": PREPROCESS.normalise(frame)})
        pairs.append((compiled.run({"image": frame})["head"].ravel(), expected.ravel()))
    one, other = map(np.concatenate, zip(*pairs, strict=True))
    assert np.corrcoef(one, other)[0, 1] > 0.995


def outputs(made: QuantizedNetwork) -> dict[str, np.ndarray]:
    return run_module(made.module, {made.input_name: FRAMES[0]})


def test_the_kernels_have_the_bits_of_integer_relax(made: QuantizedNetwork, tmp_path: Path) -> None:
    compile_arm_stage(made.module, arches=("x86_64",)).write(tmp_path)
    with ArmStage(tmp_path) as stage:
        found = stage.run({made.input_name: FRAMES[0]})
    assert np.asarray(found["head"]).tobytes() == outputs(made)["head"].tobytes()


@pytest.mark.cross
def test_boards_compute_the_same_bits(
    architecture: str, made: QuantizedNetwork, tmp_path: Path
) -> None:
    compile_arm_stage(made.module, arches=(architecture,)).write(tmp_path)
    expected = outputs(made)
    found = run_emulated(architecture, tmp_path, {made.input_name: FRAMES[0]}, expected)
    assert found["head"].tobytes() == expected["head"].tobytes()


def test_a_length_stays_float_on_request(network: Network) -> None:
    floats = quantised(network, float_layers=("block1.length",))
    kinds = {binding.name: binding.dtype for binding in read_main(floats.module).bindings}
    assert kinds["block1.length"] == "float32"
    assert floats.reasons["block1.length"] == "stays float: requested"


def test_a_length_in_int16_is_float(network: Network) -> None:
    made = quantised(network, int16_layers=("block1.length",))
    kinds = {binding.name: binding.dtype for binding in read_main(made.module).bindings}
    assert kinds["block1.length"] == "float32"
    assert made.reasons["block1.length"] == IN_INT16


def headed(kind: str, axes: list[int], size: int = 16, keeps: int = 1, **after: Any) -> Any:
    """Return a network whose head reads sums of a picture, and the operators in between."""
    b = Builder(42)
    x = b.conv("image", "stem", (CHANNELS, 3, 1, 1))
    b.node(kind, [x], "sums", axes=axes, keepdims=keeps)
    x = b.node(after["op"], ["sums"], "after") if after else "sums"
    if keeps:
        b.conv(x, "head", (4, CHANNELS, 1, 1))
    else:
        b.node("MatMul", [x, b.constant("weight", b.normal(CHANNELS, 4))], "head")
    return b.model([1, 3, size, size], {"head": 4 if keeps else 2})


@pytest.mark.parametrize("keeps", [1, 0])
@pytest.mark.parametrize("kind", ["ReduceL1", "ReduceL2", "ReduceSumSquare"])
def test_sums_over_pixels_are_int8_by_themselves(kind: str, keeps: int, tmp_path: Path) -> None:
    network = loaded(headed(kind, [2, 3], keeps=keeps), tmp_path)
    kinds = [type(node) for node in understand(network).nodes]
    assert kinds == [ConvNode, LengthNode, ConvNode]
    made = quantised(network)
    assert made.zeros["sums"] == -128  # a length is not negative
    found, step = (
        outputs(made)["head"],
        made.scales["head" if "head" in made.scales else "head.int8"],
    )
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    (expected,) = session.run(None, {"image": PREPROCESS.normalise(FRAMES[0])})
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 3 * step.max()


@pytest.mark.parametrize("axes", [[2], [3]])
def test_lengths_over_other_axes_stay_float(axes: list[int], tmp_path: Path) -> None:
    """Those of rows can be tokens of attention."""
    graph = understand(loaded(headed("ReduceL2", axes), tmp_path))
    assert FloatNode in [type(node) for node in graph.nodes]


@pytest.mark.parametrize(
    ("kind", "op"), [("ReduceSumSquare", "Log"), ("ReduceL1", "Log"), ("ReduceL1", "Reciprocal")]
)
def test_sums_below_a_logarithm_or_in_a_divisor_stay_float(
    kind: str, op: str, tmp_path: Path
) -> None:
    graph = understand(loaded(headed(kind, [2, 3], op=op), tmp_path))
    nodes = {node.name: node for node in graph.nodes}
    assert nodes["sums"].reason == "stays float: it has no integer form"


def test_a_length_that_only_results_depend_on_stays_float(tmp_path: Path) -> None:
    b = Builder(43)
    b.node("ReduceL2", [b.conv("image", "stem", (4, 3, 1, 1))], "sums", axes=[2, 3])
    nodes = understand(loaded(b.model([1, 3, 16, 16], {"sums": 4}), tmp_path)).nodes
    assert nodes[-1].reason == "stays float: only results depend on it"


def test_a_length_of_too_many_values_stays_float(tmp_path: Path) -> None:
    graph = understand(loaded(headed("ReduceL2", [2, 3], size=513), tmp_path))
    reasons = {node.name: node.reason for node in graph.nodes}
    assert reasons["sums"] == "stays float: it adds 263169 values, expected at most 262144"
