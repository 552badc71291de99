"""Operators on int8 that only ARM cores compute: what they compute, and where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import ordinary_operators
import pytest
from emulated_stage import run_emulated
from exported_networks.exact import frames
from ordinary_operators import HEIGHT, WIDTH

from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.errors import LayerError
from edgepipe.frontend.network import Network, load_network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.partition.operators import match_operators
from edgepipe.partition.reasons import VtaCheck
from edgepipe.quantize.graph import Activation, PixelNode, ProductNode, SoftmaxNode
from edgepipe.quantize.integers import Int8Form
from edgepipe.quantize.normal_forms import write_layer
from edgepipe.quantize.on_arm.forms import write
from edgepipe.quantize.on_arm.layers import integer_affine, integer_quotient, integer_softmax
from edgepipe.quantize.on_arm.records import ArmOperation, DilatedPool
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize, understand
from edgepipe.quantize.ranges import Target
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import ModuleBuilder, read_main, run_module
from vta_stages.accelerator import Accelerator
from vta_stages.layers.records import Layer, PixelAffine, Quotient, TensorSpec

PREPROCESS = Preprocess(width=WIDTH, height=HEIGHT, order="BGR", mean=(120.0,) * 3, std=(60.0,) * 3)
FLOAT_IN_INT16 = [*ordinary_operators.QUOTIENTS, *ordinary_operators.PIXELS]
MAKERS = [*FLOAT_IN_INT16, *ordinary_operators.GAPS, *ordinary_operators.SHARES]
IN_INT16 = "stays float: requested in int16, computed between int16 tensors"
FRAMES = list(frames(HEIGHT, WIDTH)[:, None])


def loaded(folder: Path, *makers: Callable[..., str]) -> Network:
    onnx.save(ordinary_operators.network(makers), folder / "net.onnx")
    return load_network(folder / "net.onnx")


def quantised(network: Network, **options: object) -> QuantizedNetwork:
    return quantize(network, FRAMES, PREPROCESS, QuantizeOptions(frames=3, **options))


def form(name: str, scale: float, size: int = 256) -> Int8Form:
    return Int8Form(name=name, shape=(1, 1, size, size), scale=np.array([scale]))


def run(layer: Layer | ArmOperation, **values: np.ndarray) -> np.ndarray:
    """Return what one operator of integer Relax computes from int8[h, w] each, in stock TVM."""
    builder = ModuleBuilder()
    for name, array in values.items():
        builder.param(name, (1, 1, *array.shape), "int8")
    if isinstance(layer, Layer):
        write_layer(builder, layer)
    else:
        write(builder, layer)
    module = builder.finish([layer.name])
    given = {name: array[None, None] for name, array in values.items()}
    return run_module(module, given)[layer.name][0, 0]


EVERY = np.arange(-128, 128, dtype=np.int8)
FIRST, SECOND = np.meshgrid(EVERY, EVERY, indexing="ij")


@pytest.mark.parametrize(("low", "slope"), [(-np.inf, 1.0), (0.0, 1.0), (-np.inf, 0.125)])
@pytest.mark.parametrize("steps", [(0.02, 0.03, 0.01), (1.0, 0.001, 40.0), (0.5, 7.0, 0.001)])
def test_a_quotient_is_rounded_once_and_by_zero_it_is_the_largest(
    steps: tuple[float, float, float], low: float, slope: float
) -> None:
    one, other, step = steps
    node = ProductNode(
        name="q",
        first="a",
        second="b",
        factor=np.ones(1),
        bias=np.zeros(1),
        divides=True,
        activation=Activation(low=low, slope=slope),
    )
    spec = TensorSpec(name="q", channels=1, height=256, width=256)
    inputs, target = [form("a", one), form("b", other)], Target(step=np.array([step]))
    layer, (found_step,) = integer_quotient(node, inputs, spec, target, QuantizeOptions())
    assert found_step == pytest.approx(step)
    found = run(layer, a=FIRST, b=SECOND)
    whole = SECOND != 0
    exact = FIRST / np.where(whole, SECOND, 1) * (one / other)
    exact = np.where(exact > 0, exact, slope * exact) / step
    clipped = np.clip(exact, 0 if low == 0 else -128, 127)
    # Rounding of the inverse and, behind a leaky ReLU, of its slope.
    assert np.abs(found - clipped)[whole].max() <= (0.51 if slope == 1 else 0.6)
    least = 0 if low == 0 else -128
    expected = np.where(FIRST > 0, 127, np.where(FIRST < 0, least, 0))
    np.testing.assert_array_equal(found[~whole], expected[~whole])


def test_constants_for_each_pixel_are_rounded_once() -> None:
    random = np.random.default_rng(0)
    shape = (1, 1, 256, 256)
    node = PixelNode(
        name="q",
        input="a",
        factor=random.normal(0, 1, shape),
        bias=random.normal(0, 0.5, shape),
        activation=Activation(low=-0.7),
    )
    spec = TensorSpec(name="q", channels=1, height=256, width=256)
    target = Target(step=np.array([0.01]))
    layer, (step,) = integer_affine(node, form("a", 0.02), spec, target, QuantizeOptions())
    found = run(layer, a=FIRST)
    exact = (FIRST * 0.02 * node.factor + node.bias)[0, 0]
    exact = np.maximum(exact, -0.7) / step
    assert np.abs(found - np.clip(exact, -128, 127)).max() <= 0.51


def test_a_maximum_with_gaps_ignores_the_border() -> None:
    pool = DilatedPool(
        name="m",
        input=TensorSpec(name="a", channels=1, height=9, width=5),
        output=TensorSpec(name="m", channels=1, height=5, width=3),
        kernel=(3, 2),
        stride=(2, 3),
        padding=(4, 3, 2, 3),
        dilation=(3, 4),
    )
    values = np.random.default_rng(0).integers(-128, -20, (9, 5), np.int8)
    expected = [
        [
            max(
                values[y, x]
                for y in (top, top + 3, top + 6)
                for x in (left, left + 4)
                if 0 <= y < 9 and 0 <= x < 5
            )
            for left in (-3, 0, 3)
        ]
        for top in (-4, -2, 0, 2, 4)
    ]
    np.testing.assert_array_equal(run(pool, a=values), expected)


@pytest.mark.parametrize("zero", [0, -128])
@pytest.mark.parametrize("scale", [0.001, 0.03, 2.0])
@pytest.mark.parametrize("count", [4, 300, 4000])
def test_a_softmax_is_rounded_once(count: int, scale: float, zero: int) -> None:
    values = np.random.default_rng(count).integers(-128, 128, (3, count), np.int8)
    values[0] = [127, *[-127] * (count - 1)]  # one large share and many small ones
    exact = np.exp(scale * values.astype(np.float64))
    exact /= exact.sum(axis=1, keepdims=True)
    spec = TensorSpec(name="q", channels=1, height=3, width=count)
    source = Int8Form(name="a", shape=(1, 1, 3, count), scale=np.array([scale]))
    target = Target(step=np.array([exact.max() / 127]), zero=zero)
    node = SoftmaxNode(name="q", input="a", axis=3)
    layer, (step,) = integer_softmax(node, source, spec, target)
    assert step == pytest.approx(exact.max() / 127, rel=0.005)
    found = run(layer, a=values).astype(np.int64) - zero
    assert np.abs(found - np.minimum(exact / step, 127 - zero)).max() <= 0.51


def test_the_inverse_of_a_function_is_not_rounded_before(tmp_path: Path) -> None:
    graph = understand(loaded(tmp_path, ordinary_operators.quotient_by_a_function))
    (node,) = (n for n in graph.nodes if isinstance(n, ProductNode))
    assert [binding.op for binding in node.divisor] == ["sigmoid", "add"]
    assert (node.first, node.second) == ("u", "v")


def test_what_only_arm_computes_says_so(tmp_path: Path) -> None:
    network = loaded(tmp_path, *MAKERS)
    made = quantised(network)
    operators = match_operators(made.module)
    check = VtaCheck(Accelerator(), network, operators, made.reasons)
    found = {}
    for operator in operators:
        is_special = operator.layer is None or isinstance(operator.layer, Quotient | PixelAffine)
        if is_special and operator.name in network.values:
            with pytest.raises(LayerError) as refused:
                check(operator)
            found[str(refused.value)] = found.get(str(refused.value), 0) + 1
    moves = ("decoding", "Reshape")
    assert {why: n for why, n in found.items() if not why.startswith(moves)} == REASONS


ONLY_ON_ARM = (
    "tensors are divided on arm",
    "constants for each pixel are applied on arm",
    "constant channels are appended on arm",
    "windows with gaps are pooled on arm",
    "a softmax is computed on arm",
)
REASONS = {
    "Div: tensors are divided on arm": 1,
    "Relu: tensors are divided on arm": 1,
    "Add: tensors are divided on arm": 1,
    "Relu: constants for each pixel are applied on arm": 1,
    "Mul: constants for each pixel are applied on arm": 2,
    "Concat: constant channels are appended on arm": 1,
    "MaxPool: windows with gaps are pooled on arm": 1,
    "Softmax: a softmax is computed on arm": 3,
}


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> QuantizedNetwork:
    return quantised(loaded(tmp_path_factory.mktemp("every"), *MAKERS))


def outputs(made: QuantizedNetwork) -> dict[str, np.ndarray]:
    return run_module(made.module, {made.input_name: FRAMES[0]})


@pytest.mark.networks
def test_kernels_have_the_bits_of_integer_relax(every: QuantizedNetwork, tmp_path: Path) -> None:
    compile_arm_stage(every.module, arches=("x86_64",)).write(tmp_path / "stage")
    with ArmStage(tmp_path / "stage", threads=2) as stage:
        found = stage.run({every.input_name: FRAMES[0]})
    for name, value in outputs(every).items():
        assert found[name].tobytes() == value.tobytes(), name


@pytest.mark.cross
@pytest.mark.networks
def test_boards_have_the_bits_of_integer_relax(
    architecture: str, every: QuantizedNetwork, tmp_path: Path
) -> None:
    compile_arm_stage(every.module, arches=(architecture,)).write(tmp_path / "stage")
    expected = outputs(every)
    given = {every.input_name: FRAMES[0]}
    found = run_emulated(architecture, tmp_path / "stage", given, expected)
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes(), name


@pytest.mark.parametrize("make", MAKERS)
def test_a_layer_stays_float_on_request(make: Callable[..., str], tmp_path: Path) -> None:
    network = loaded(tmp_path, make)
    (layer,) = (n.name for n in understand(network).nodes if n.reason in ONLY_ON_ARM)
    made = quantised(network, float_layers=(layer,))
    calls = {binding.name: binding for binding in read_main(made.module).bindings}
    assert calls[layer].dtype == "float32"
    assert made.reasons[layer] == "stays float: requested"


def test_a_maximum_with_gaps_is_found_in_int16_on_request(tmp_path: Path) -> None:
    network = loaded(tmp_path, ordinary_operators.sparse_maximum)
    made = quantised(network, int16_layers=("u..y0",))
    pools = [b for b in read_main(made.module).bindings if b.op == "nn.max_pool2d"]
    assert [(pool.dtype, pool.attributes["dilation"]) for pool in pools] == [("int16", (2, 3))]


@pytest.mark.parametrize("make", ordinary_operators.SHARES)
def test_a_softmax_inside_an_int16_region_is_float(
    make: Callable[..., str], tmp_path: Path
) -> None:
    network = loaded(tmp_path, make)
    (layer,) = (n.name for n in understand(network).nodes if isinstance(n, SoftmaxNode))
    made = quantised(network, int16_layers=("u..y0",))
    calls = {binding.name: binding for binding in read_main(made.module).bindings}
    assert calls[layer].dtype == "float32"
    assert made.reasons[layer] == IN_INT16


@pytest.mark.parametrize("make", [*FLOAT_IN_INT16, *ordinary_operators.SHARES])
def test_what_has_no_form_in_int16_is_float_there(make: Callable[..., str], tmp_path: Path) -> None:
    network = loaded(tmp_path, make)
    (layer,) = (n.name for n in understand(network).nodes if n.reason in ONLY_ON_ARM)
    made = quantised(network, int16_layers=(layer,))
    calls = {binding.name: binding for binding in read_main(made.module).bindings}
    assert calls[layer].dtype == "float32"
    assert made.reasons[layer] == IN_INT16
