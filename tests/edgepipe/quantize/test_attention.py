"""Attention in int8: what it computes, what it is near to, and the same bits everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import ordinary_operators
import pytest
from attention_blocks import BLOCKS
from emulated_stage import run_emulated
from exported_networks.exact import build_exactly, frames, options
from levels import every as every_one_of
from levels import long
from ordinary_operators import HEIGHT, WIDTH, Parts
from small_networks import Builder
from test_float_islands import float_islands

from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.frontend.network import Network, load_network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.graph import AttentionNode, MatrixNode
from edgepipe.quantize.integers import ConstantForm, Int8Form
from edgepipe.quantize.on_arm.attention import integer_attention, integer_product_of_matrices
from edgepipe.quantize.on_arm.forms import write
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize, understand
from edgepipe.quantize.ranges import Target
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import CompiledModule, IRModule, ModuleBuilder, read_main, run_module

PREPROCESS = Preprocess(width=WIDTH, height=HEIGHT, order="BGR", mean=(120.0,) * 3, std=(60.0,) * 3)
IN_INT16 = "stays float: requested in int16, computed between int16 tensors"
FRAMES = list(frames(HEIGHT, WIDTH)[:, None])
SHAPES = {"q": (2, 24, 8), "k": (2, 8, 40), "v": (2, 40, 5)}
QUERY_STEP, KEY_STEP, VALUE_STEP = 0.03, 0.02, 0.05


def loaded(name: str, folder: Path) -> Network:
    onnx.save(ordinary_operators.network([BLOCKS[name]]), folder / "net.onnx")
    return load_network(folder / "net.onnx")


def quantised(network: Network, **wishes: object) -> QuantizedNetwork:
    return quantize(network, FRAMES, PREPROCESS, QuantizeOptions(frames=3, **wishes))


def values(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {name: random.integers(-128, 128, shape, np.int8) for name, shape in SHAPES.items()}


def module(
    factor: float, bias: np.ndarray | None, step: float, *, is_turned: bool
) -> tuple[IRModule, float]:
    """Return one operator as integer Relax, and the step of its result."""
    node = AttentionNode(
        name="y", query="q", key="k", value="v", factor=factor, bias=bias, is_turned=is_turned
    )
    shapes = dict(SHAPES)
    if is_turned:
        shapes["v"] = (2, 5, 40)
    steps = zip(shapes.items(), (QUERY_STEP, KEY_STEP, VALUE_STEP), strict=True)
    query, key, value = (
        Int8Form(name=name, shape=shape, scale=np.array([one])) for (name, shape), one in steps
    )
    target = Target(step=np.array([step]))
    layer, found = integer_attention(node, (query, key, value), "y", target)
    builder = ModuleBuilder()
    for name, shape in shapes.items():
        builder.param(name, shape, "int8")
    write(builder, layer)
    return builder.finish(["y"]), found


@pytest.mark.parametrize(
    ("factor", "is_biased", "is_turned"),
    [
        (1e-12, False, False),
        (1e-6, True, False),
        (0.35, True, False),
        (0.35, False, True),
        (30.0, True, True),
    ],
)
def test_attention_is_near_to_the_float_formula_on_the_same_integers(
    factor: float, is_biased: bool, is_turned: bool
) -> None:
    bias = np.random.default_rng(1).normal(0, 2, (24, 40)) if is_biased else None
    if bias is not None:
        bias[3:7] += 1e12  # of all in a row
        bias[8:10, 5:25] -= 1e12  # a mask
    made, step = module(factor, bias, 0.03, is_turned=is_turned)
    given = values()
    scores = np.matmul(given["q"].astype(float), given["k"].astype(float))
    scores *= factor * QUERY_STEP * KEY_STEP
    if bias is not None:
        scores += bias - bias.max(axis=-1, keepdims=True)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    expected = np.matmul(weights, given["v"] * VALUE_STEP) / step
    if is_turned:
        given["v"] = np.ascontiguousarray(given["v"].transpose(0, 2, 1))
    found = run_module(made, given)["y"].astype(float)
    if is_turned:
        found = found.transpose(0, 2, 1)
    assert step == pytest.approx(0.03)
    assert np.abs(found - np.clip(expected, -128, 127)).max() < 0.9


def test_a_result_of_almost_nothing_keeps_its_sums_in_64_bits() -> None:
    made, step = module(0.35, None, 1e-30, is_turned=False)
    given = values()
    given["v"][:] = 1
    assert step == pytest.approx(VALUE_STEP / 2**16)
    np.testing.assert_array_equal(run_module(made, given)["y"], 127)


@pytest.mark.parametrize("name", every_one_of(8, BLOCKS))
def test_nothing_in_a_block_with_attention_is_float(name: str, tmp_path: Path) -> None:
    network = loaded(name, tmp_path)
    made = quantised(network)
    assert float_islands(made) == {}
    kinds = [type(node) for node in understand(network).nodes]
    assert kinds.count(AttentionNode) == (name != "covariance")
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    compiled = CompiledModule(made.module, runs=len(FRAMES))
    found = np.stack([compiled.run({made.input_name: picture})["y0"] for picture in FRAMES])
    expected = np.stack(
        [
            session.run(None, {network.input_name: PREPROCESS.normalise(picture)})[0]
            for picture in FRAMES
        ]
    )
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.998


def ratio(b: Builder, u: str, v: str) -> str:
    """Rows of a product that another of its rows divides: no attention, as nothing is a sum."""
    p, shape = Parts(b, "ratio"), (1, 2, 4, HEIGHT * WIDTH)
    first, second = (p("Relu", p("Reshape", x, p.integers(*shape))) for x in (u, v))
    context = p("MatMul", first, p("Transpose", second, perm=[0, 1, 3, 2]))
    rows, divisor = p.split(p("MatMul", context, first), 2, 3, 1)
    x = p("Div", rows, p("Add", divisor, p.number(1)))
    return p("Reshape", x, p.integers(1, 6, HEIGHT, WIDTH))


def test_a_product_that_divides_another_stays_float(tmp_path: Path) -> None:
    """Its values can be much less than the largest of them."""
    onnx.save(ordinary_operators.network([ratio]), tmp_path / "net.onnx")
    nodes = understand(load_network(tmp_path / "net.onnx")).nodes
    assert not [node for node in nodes if isinstance(node, MatrixNode)]


def zeroed(b: Builder, u: str, v: str) -> str:
    """A product whose first matrix is multiplied by 0, as a gate that was never trained."""
    p, shape = Parts(b, "zeroed"), (1, 8, HEIGHT * WIDTH)
    first = p("Mul", p("Reshape", u, p.integers(*shape)), p.number(0))
    second = p("Transpose", p("Reshape", v, p.integers(*shape)), perm=[0, 2, 1])
    x = p("Reshape", p("MatMul", first, second), p.integers(1, 1, 8, 8))
    return p("Relu", x)


def test_a_product_that_is_scaled_by_zero_stays_float(tmp_path: Path) -> None:
    onnx.save(ordinary_operators.network([zeroed]), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    assert not [node for node in understand(network).nodes if isinstance(node, MatrixNode)]
    assert outputs(quantised(network))["y0"].shape == (1, 4, 8, 8)


@pytest.mark.parametrize(("factor", "step"), [(1.0, 0.3), (-0.25, 0.02), (1.0, 1e-30)])
def test_a_product_of_matrices_is_rounded_once(factor: float, step: float) -> None:
    forms = tuple(
        Int8Form(name=name, shape=SHAPES[name], scale=np.array([one]))
        for name, one in (("q", QUERY_STEP), ("k", KEY_STEP))
    )
    node = MatrixNode(name="y", first="q", second="k", factor=factor)
    layer, found_step = integer_product_of_matrices(node, forms, "y", Target(step=np.array([step])))
    builder = ModuleBuilder()
    for form in forms:
        builder.param(form.name, form.shape, "int8")
    write(builder, layer)
    given = {name: value for name, value in values().items() if name != "v"}
    found = run_module(builder.finish(["y"]), given)["y"]
    sums = np.matmul(given["q"].astype(float), given["k"].astype(float))
    expected = np.clip(sums * factor * QUERY_STEP * KEY_STEP / found_step, -128, 127)
    assert np.abs(found - expected).max() < 0.501


@pytest.mark.parametrize("name", ["q", "k"])
def test_a_constant_is_as_a_tensor_of_its_rounded_values(name: str) -> None:
    """Half a step of the constant at most is lost, for each of the products."""
    constant = np.random.default_rng(3).normal(0, 1, SHAPES[name])
    tensor, step = ("k", KEY_STEP) if name == "q" else ("q", QUERY_STEP)
    given = values()[tensor]
    form = Int8Form(name=tensor, shape=SHAPES[tensor], scale=np.array([step]))
    forms = (ConstantForm.of(constant), form) if name == "q" else (form, ConstantForm.of(constant))
    node = MatrixNode(
        name="y",
        first=constant if name == "q" else tensor,
        second=tensor if name == "q" else constant,
    )
    assert node.inputs == (tensor,)
    layer, found_step = integer_product_of_matrices(node, forms, "y", Target(step=np.array([0.1])))
    builder = ModuleBuilder()
    builder.param(tensor, SHAPES[tensor], "int8")
    write(builder, layer)
    found = run_module(builder.finish(["y"]), {tensor: given})["y"] * found_step
    factors = (constant, given * step) if name == "q" else (given * step, constant)
    lost = np.abs(given * step).sum(axis=1 if name == "q" else 2).max()
    lost *= np.abs(constant).max() / 127 / 2
    expected = np.clip(np.matmul(*factors), -128 * found_step, 127 * found_step)
    assert np.abs(found - expected).max() < lost + 0.501 * found_step


@pytest.mark.parametrize("name", ["with_positions", long("position_sensitive")])
def test_a_block_with_attention_is_built_exactly(name: str, tmp_path: Path) -> None:
    loaded(name, tmp_path)
    build_exactly(options(tmp_path, tmp_path / "net.onnx", HEIGHT, WIDTH))


@pytest.mark.networks
@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_with_attention_is_built_exactly(name: str, tmp_path: Path) -> None:
    loaded(name, tmp_path)
    build_exactly(options(tmp_path, tmp_path / "net.onnx", HEIGHT, WIDTH))


# One block for each form of the operators; building all of them takes minutes.
FORMS = ("position_sensitive", "with_positions", "global_context", "covariance", "learned_queries")


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> QuantizedNetwork:
    folder = tmp_path_factory.mktemp("every")
    blocks = [BLOCKS[name] for name in FORMS]
    onnx.save(ordinary_operators.network(blocks), folder / "net.onnx")
    return quantised(load_network(folder / "net.onnx"))


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


def attention_of(network: Network) -> str:
    (name,) = (n.name for n in understand(network).nodes if isinstance(n, AttentionNode))
    return name


def test_attention_says_why_it_runs_on_arm_and_is_float_on_request(tmp_path: Path) -> None:
    network = loaded("with_positions", tmp_path)
    layer = attention_of(network)
    assert quantised(network).reasons[layer] == "attention is computed on arm"
    made = quantised(network, float_layers=(layer,))
    calls = {binding.name: binding for binding in read_main(made.module).bindings}
    assert calls[layer].dtype == "float32"
    assert made.reasons[layer] == "stays float: requested"


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("name", ["with_positions", "position_sensitive"])
def test_attention_in_int16_is_float(name: str, alone: bool, tmp_path: Path) -> None:
    network = loaded(name, tmp_path)
    layer = attention_of(network)
    made = quantised(network, int16_layers=(layer if alone else "u..y0",))
    calls = {binding.name: binding for binding in read_main(made.module).bindings}
    assert calls[layer].dtype == "float32"
    assert made.reasons[layer] == IN_INT16
    assert ("int16" in {call.dtype for call in calls.values()}) is not alone


def test_attention_whose_result_is_the_output_stays_float(tmp_path: Path) -> None:
    builder = Builder()
    x = builder.conv("image", "features", (8, 3, 3, 3), pads=[1] * 4)
    parts = Parts(builder, "last")
    flat = parts("Reshape", x, parts.integers(1, 8, HEIGHT * WIDTH))
    scores = parts("MatMul", parts("Transpose", flat, perm=[0, 2, 1]), flat)
    turned = parts("Transpose", parts("Softmax", scores, axis=-1), perm=[0, 2, 1])
    builder.node("MatMul", [flat, turned], "y")
    onnx.save(builder.model([1, 3, HEIGHT, WIDTH], {"y": 3}), tmp_path / "net.onnx")
    made = quantised(load_network(tmp_path / "net.onnx"))
    assert made.reasons["y"] == "stays float: only results depend on it"
