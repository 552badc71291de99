"""Linear attention in int8: exact sums, one rounding, and the same bits everywhere."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from emulated_stage import run_emulated
from exported_networks.exact import build_exactly, frames, options
from levels import every, long
from linear_attention_blocks import BLOCKS
from ordinary_operators import HEIGHT, WIDTH, Maker, Parts, network
from small_networks import Builder
from test_float_islands import float_islands

from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.frontend.network import Network, load_network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize import attention
from edgepipe.quantize.graph import LinearAttentionNode
from edgepipe.quantize.integers import Int8Form
from edgepipe.quantize.on_arm.attention import integer_linear_attention
from edgepipe.quantize.on_arm.forms import write
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize, understand
from edgepipe.quantize.ranges import Target
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import CompiledModule, IRModule, ModuleBuilder, read_main, run_module

PREPROCESS = Preprocess(width=WIDTH, height=HEIGHT, order="BGR", mean=(120.0,) * 3, std=(60.0,) * 3)
FRAMES = list(frames(HEIGHT, WIDTH)[:, None])
QUERY_STEP, KEY_STEP, VALUE_STEP = 0.03, 0.02, 0.05
Given = dict[str, np.ndarray]


def values(tokens: int = 40, depth: int = 8, width: int = 5, *, signed: bool = False) -> Given:
    """Queries and keys are positive unless they are ``signed``, as behind a ReLU."""
    random = np.random.default_rng(tokens + depth)
    low = -128 if signed else 0
    return {
        "q": random.integers(low, 128, (2, 24, depth), np.int8),
        "k": random.integers(low, 128, (2, depth, tokens), np.int8),
        "v": random.integers(-128, 128, (2, tokens, width), np.int8),
    }


def module(
    given: Given, *, step: float = 0.03, factor: float = 1.0, epsilon: float = 0.0, steps=None
) -> tuple[IRModule, float]:
    """Return one operator as integer Relax, and the step of its result."""
    node = LinearAttentionNode(
        name="y", query="q", key="k", value="v", factor=factor, epsilon=epsilon
    )
    query, key, value = (
        Int8Form(name=name, shape=array.shape, scale=np.array([one]))
        for (name, array), one in zip(
            given.items(), steps or (QUERY_STEP, KEY_STEP, VALUE_STEP), strict=True
        )
    )
    target = Target(step=np.array([step]))
    layer, found = integer_linear_attention(node, (query, key, value), "y", target)
    builder = ModuleBuilder()
    for name, array in given.items():
        builder.param(name, array.shape, "int8")
    write(builder, layer)
    return builder.finish(["y"]), found


def exact(given: Given) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums and totals as integers of any size."""
    q, k, v = (given[name].astype(object) for name in ("q", "k", "v"))
    return np.matmul(q, np.matmul(k, v)), np.matmul(q, k.sum(axis=-1, keepdims=True))


def means(given: Given, step: float, factor: float, epsilon: float) -> np.ndarray:
    """Return the results in float64, in steps."""
    sums, totals = exact(given)
    totals = totals.astype(float) * QUERY_STEP * KEY_STEP + epsilon
    found = sums.astype(float) * QUERY_STEP * KEY_STEP * VALUE_STEP * factor / totals
    return np.clip(found / step, -128, 127)


@pytest.mark.parametrize("tokens", [3, 40, 3000])
@pytest.mark.parametrize(
    ("factor", "epsilon", "signed"),
    [
        (1.0, 0.0, False),
        (1.0, 1e-5, False),
        (1.0, 30.0, False),
        (-0.4, 1e-3, False),
        (1.0, 0.01, True),
        (2.5, -0.3, True),
    ],
)
def test_it_is_the_float_formula_rounded_once(
    tokens: int, factor: float, epsilon: float, signed: bool
) -> None:
    given = values(tokens, signed=signed)
    made, step = module(given, factor=factor, epsilon=epsilon)
    found = run_module(made, given)["y"]
    assert step == pytest.approx(0.03)
    assert np.abs(found - means(given, step, factor, epsilon)).max() < 0.501


def largest(tokens: int, depth: int, sign: int) -> Given:
    """Return what gives the largest sums and totals that there can be."""
    return {
        "q": np.full((1, 2, depth), -128, np.int8),
        "k": np.full((1, depth, tokens), -128, np.int8),
        "v": np.full((1, tokens, 2), -128 if sign < 0 else 127, np.int8),
    }


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(
    ("tokens", "depth", "dtype"),
    [
        pytest.param(31, 33, "int32", id="largest in int32"),
        pytest.param(32, 32, "int64", id="least in int64"),
        pytest.param(1 << 16, 1 << 6, "int64", id="most terms"),
    ],
)
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1e30, -1e30])
def test_the_largest_sums_fit(
    tokens: int, depth: int, dtype: str, sign: int, epsilon: float
) -> None:
    given = largest(tokens, depth, sign)
    made, _ = module(given, step=VALUE_STEP, epsilon=epsilon)
    calls = {binding.name: binding for binding in read_main(made).bindings}
    assert calls["y__queries"].dtype == dtype
    expected = 0 if abs(epsilon) > 1 else int(given["v"].flat[0])
    np.testing.assert_array_equal(run_module(made, given)["y"], expected)


def test_a_total_of_nothing_counts_as_the_least_that_is_positive() -> None:
    given = values(signed=True)
    given["k"][:, 1:] = 0
    given["k"][:, 0, 1::2] = -given["k"][:, 0, ::2].clip(-127, 127)
    given["k"][:, 0, ::2] = -given["k"][:, 0, 1::2]
    sums, totals = exact(given)
    assert not totals.any()
    assert (sums > 0).any()
    assert (sums < 0).any()
    expected = np.clip(np.sign(sums.astype(float)) * 999, -128, 127)
    np.testing.assert_array_equal(run_module(module(given)[0], given)["y"], expected)


def test_no_query_gives_nothing() -> None:
    """As behind a ReLU: all queries of a token are 0, so its sum and total are."""
    given = values()
    given["q"][:, 3] = 0
    found = run_module(module(given)[0], given)["y"]
    assert not found[:, 3].any()
    assert found[:, 2].any()


@pytest.mark.parametrize("signed", [False, True])
def test_nothing_but_the_result_is_rounded(signed: bool) -> None:
    """With steps of powers of two, results are the nearest integers, and halves are rounded up."""
    given = values(signed=signed)
    made, _ = module(given, step=0.5, steps=(0.25, 0.5, 0.25))
    sums, totals = exact(given)
    nearest = np.vectorize(lambda s, t: int((Fraction(int(s), int(t)) + 1) // 2), otypes=[int])
    expected = np.clip(nearest(sums, totals), -128, 127)
    np.testing.assert_array_equal(run_module(made, given)["y"], expected)


def test_a_result_of_almost_nothing_keeps_its_sums_in_64_bits() -> None:
    given = values()
    given["v"][:] = 1
    made, step = module(given, step=1e-30)
    assert step == pytest.approx(VALUE_STEP / 2**12)
    np.testing.assert_array_equal(run_module(made, given)["y"], 127)


# Whole networks.


def loaded(folder: Path, *makers: Maker) -> Network:
    onnx.save(network(makers), folder / "net.onnx")
    return load_network(folder / "net.onnx")


def quantised(given: Network, **wishes: object) -> QuantizedNetwork:
    return quantize(given, FRAMES, PREPROCESS, QuantizeOptions(frames=3, **wishes))


def attention_of(given: Network) -> str:
    (name,) = (n.name for n in understand(given).nodes if isinstance(n, LinearAttentionNode))
    return name


def likeness(given: Network, made: QuantizedNetwork) -> float:
    """Return how far the results are those of the float network: 1 if they are the same."""
    session = onnxruntime.InferenceSession(given.onnx_model.SerializeToString())
    compiled = CompiledModule(made.module, runs=len(FRAMES))
    found = [compiled.run({made.input_name: picture})["y0"] for picture in FRAMES]
    inputs = [{given.input_name: PREPROCESS.normalise(picture)} for picture in FRAMES]
    expected = [session.run(None, picture)[0] for picture in inputs]
    return float(np.corrcoef(np.ravel(found), np.ravel(expected))[0, 1])


@pytest.mark.parametrize("name", every(3, BLOCKS))
def test_nothing_in_a_block_is_float_and_nothing_is_lost_by_that(name: str, tmp_path: Path) -> None:
    given = loaded(tmp_path, BLOCKS[name])
    made, layer = quantised(given), attention_of(given)
    assert float_islands(made) == {}
    assert made.reasons[layer] == "attention is computed on arm"
    in_float = quantised(given, float_layers=(layer,))
    found = likeness(given, made)
    assert found > likeness(given, in_float) - 1e-4
    assert found > 0.996


def test_a_block_with_linear_attention_is_built_exactly(tmp_path: Path) -> None:
    loaded(tmp_path, BLOCKS["efficientvit"])
    build_exactly(options(tmp_path, tmp_path / "net.onnx", HEIGHT, WIDTH))


@pytest.mark.networks
@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_is_built_exactly(name: str, tmp_path: Path) -> None:
    loaded(tmp_path, BLOCKS[name])
    build_exactly(options(tmp_path, tmp_path / "net.onnx", HEIGHT, WIDTH))


def outputs(made: QuantizedNetwork) -> dict[str, np.ndarray]:
    return run_module(made.module, {made.input_name: FRAMES[0]})


@pytest.mark.cross
@pytest.mark.networks
def test_boards_have_the_bits_of_integer_relax(architecture: str, tmp_path: Path) -> None:
    made = quantised(loaded(tmp_path, *BLOCKS.values()))
    compile_arm_stage(made.module, arches=(architecture,)).write(tmp_path / "stage")
    expected = outputs(made)
    given = {made.input_name: FRAMES[0]}
    found = run_emulated(architecture, tmp_path / "stage", given, expected)
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes(), name


@pytest.mark.parametrize("operator", [long("efficientvit"), "largest"])
def test_kernels_have_the_bits_of_integer_relax(operator: str, tmp_path: Path) -> None:
    if operator == "largest":
        given = values(tokens=300, signed=True)
        module_of, expected = module(given)[0], run_module(module(given)[0], given)
    else:
        made = quantised(loaded(tmp_path, BLOCKS[operator]))
        given = {made.input_name: FRAMES[0]}
        module_of, expected = made.module, outputs(made)
    compile_arm_stage(module_of, arches=("x86_64",)).write(tmp_path / "stage")
    with ArmStage(tmp_path / "stage", threads=2) as stage:
        found = stage.run(given)
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes(), name


@pytest.mark.parametrize("alone", [False, True])
def test_linear_attention_in_int16_is_float(alone: bool, tmp_path: Path) -> None:
    given = loaded(tmp_path, BLOCKS["efficientvit"])
    layer = attention_of(given)
    made = quantised(given, int16_layers=(layer if alone else "u..y0",))
    calls = {binding.name: binding for binding in read_main(made.module).bindings}
    assert calls[layer].dtype == "float32"
    reason = "stays float: requested in int16, computed between int16 tensors"
    assert made.reasons[layer] == reason
    assert ("int16" in {call.dtype for call in calls.values()}) is not alone


def test_linear_attention_is_float_on_request(tmp_path: Path) -> None:
    given = loaded(tmp_path, BLOCKS["efficientvit"])
    layer = attention_of(given)
    made = quantised(given, float_layers=(layer,))
    calls = {binding.name: binding for binding in read_main(made.module).bindings}
    assert calls[layer].dtype == "float32"
    assert made.reasons[layer] == "stays float: requested"


def plain(p: Parts, query: str, value: str) -> tuple[str, str]:
    """Return sums and totals of queries that are the keys, too; both [1, heads, c, tokens]."""
    rows, value = (p("Transpose", x, perm=[0, 1, 3, 2]) for x in (query, value))
    total = p("ReduceSum", query, p.integers(3), keepdims=1)
    totals = p("Add", p("MatMul", rows, total), p.number(1e-3))
    return p("MatMul", rows, p("MatMul", query, value)), totals


def picture(p: Parts, x: str) -> str:
    return p("Reshape", p("Transpose", x, perm=[0, 1, 3, 2]), p.integers(1, 8, HEIGHT, WIDTH))


def heads(p: Parts, *pictures: str) -> tuple[str, ...]:
    return tuple(p("Reshape", x, p.integers(1, 2, 4, HEIGHT * WIDTH)) for x in pictures)


def over_float(b: Builder, u: str, v: str) -> str:
    """Linear attention whose values are computed by an operator without an integer form."""
    p = Parts(b, "over_float")
    query, value = heads(p, u, v)
    value = p("CumSum", value, p.integer(3))
    return picture(p, p("Div", *plain(p, p("Relu", query), value)))


def scaled_by_zero(b: Builder, u: str, v: str) -> str:
    """Linear attention with a factor that was never trained."""
    p = Parts(b, "zero")
    query, value = heads(p, u, v)
    sums, totals = plain(p, p("Relu", query), value)
    return picture(p, p("Div", p("Mul", sums, p.number(0)), totals))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (over_float, "its attention is over float tensors"),
        (scaled_by_zero, "its sums are scaled by 0, or by no number"),
    ],
)
def test_linear_attention_that_stays_float_says_why(
    make: Maker, reason: str, tmp_path: Path
) -> None:
    assert f"stays float: {reason}" in quantised(loaded(tmp_path, make)).reasons.values()


@pytest.mark.parametrize(("limit", "terms"), [("_MOST_SUMMED", 192), ("_MOST_WEIGHED", 768)])
def test_sums_of_too_many_terms_stay_float(
    limit: str, terms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, limit, terms)
    given = loaded(tmp_path, BLOCKS["efficientvit"])
    assert attention_of(given)
    monkeypatch.setattr(attention, limit, terms - 1)
    reasons = {node.reason for node in understand(given).nodes}
    assert f"stays float: its sums have {terms} terms, expected at most {terms - 1}" in reasons
