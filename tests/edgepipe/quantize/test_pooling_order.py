"""PoolFirst: which largest values are found before a function is looked up, not after."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from small_networks import PREPROCESS, Builder, frames

from edgepipe.frontend.network import Network, load_network
from edgepipe.quantize.graph import MaxPoolNode, Node, TableNode
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize, understand
from edgepipe.tvm_adapter import run_module

HEAT_AND_PEAKS = {"heat": 4, "peaks": 4}
WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def peaks(function: str = "Sigmoid", *, last: str = "") -> Builder:
    """A head of CenterNet: a heat map, and the largest value around each of its pixels."""
    b = Builder(3)
    b.conv("image", "scores", (4, 3, 3, 3), pads=[1, 1, 1, 1])
    b.node(function, ["scores"], "heat")
    b.node("MaxPool", ["heat"], "pooled" if last else "peaks", **WINDOW)
    if last == "Conv":
        b.conv("pooled", "peaks", (4, 4, 1, 1))
    elif last:
        b.node(last, ["pooled"], "peaks", **(WINDOW if last == "MaxPool" else {}))
    return b


def loaded(b: Builder, folder: Path, outputs: dict[str, int] = HEAT_AND_PEAKS) -> Network:
    onnx.save(b.model([1, 3, 16, 16], outputs), folder / "net.onnx")
    return load_network(folder / "net.onnx")


def nodes(network: Network) -> dict[str, Node]:
    return {node.name: node for node in understand(network).nodes}


def quantised(network: Network) -> QuantizedNetwork:
    return quantize(network, frames(4), PREPROCESS)


def windows_largest(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the largest value of every 3x3 window of a picture with padding."""
    padded = np.pad(values, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    around = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.asarray(around.max(axis=(4, 5)), np.float32)


@pytest.mark.parametrize("function", ["Sigmoid", "Tanh", "Exp", "Erf"])
def test_the_largest_argument_gives_the_largest_result(function: str, tmp_path: Path) -> None:
    found = nodes(loaded(peaks(function), tmp_path))
    pool, table = found["peaks.pooled"], found["peaks"]
    assert isinstance(pool, MaxPoolNode)
    assert isinstance(table, TableNode)
    assert (pool.input, table.input) == ("scores", "peaks.pooled")
    assert table.reason == "the function before it is looked up in a table on arm"


def test_a_heat_map_and_its_peaks_are_equal_where_the_peaks_are(tmp_path: Path) -> None:
    """CenterNet keeps a pixel if both are exactly equal there."""
    made = quantised(loaded(peaks(), tmp_path))
    for frame in frames(3):
        results = run_module(made.module, {made.input_name: frame})
        np.testing.assert_array_equal(results["peaks"], windows_largest(results["heat"]))


def test_peaks_are_those_of_onnxruntime_within_a_step(tmp_path: Path) -> None:
    network = loaded(peaks(), tmp_path)
    made = quantised(network)
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    # A sigmoid is nowhere steeper than 1/4. Half a step is rounding, the rest the input's.
    step = float(made.scales["scores"].max()) / 4
    for frame in frames(4):
        (expected,) = session.run(["peaks"], {"image": PREPROCESS.normalise(frame)})
        results = run_module(made.module, {made.input_name: frame})
        assert np.abs(results["peaks"] - expected).max() <= 2 * step


def test_a_table_that_nothing_else_reads_is_gone(tmp_path: Path) -> None:
    found = nodes(loaded(peaks(), tmp_path, {"peaks": 4}))
    assert [*found] == ["scores", "peaks.pooled", "peaks"]


def test_a_function_that_falls_somewhere_stays_before_the_pool(tmp_path: Path) -> None:
    b = Builder(3)
    b.conv("image", "scores", (4, 3, 3, 3), pads=[1, 1, 1, 1])
    b.node("Sigmoid", ["scores"], "gate")
    b.node("Mul", ["scores", "gate"], "heat")  # SiLU falls below -1.28
    b.node("MaxPool", ["heat"], "peaks", **WINDOW)
    pool = nodes(loaded(b, tmp_path))["peaks"]
    assert isinstance(pool, MaxPoolNode)
    assert pool.input == "heat"


FOLLOWERS: dict[str, tuple[str, tuple[float | str, ...], bool]] = {
    "half": ("Mul", ("gate", 0.5), True),
    "half, with the constant first": ("Mul", (0.5, "gate"), True),
    "minus a half": ("Mul", ("gate", -0.5), False),
    "divided": ("Div", ("gate", 2.0), True),
    "a reciprocal": ("Div", (1.0, "gate"), False),
    "more": ("Add", ("gate", -3.0), True),
    "more, with the constant first": ("Add", (-3.0, "gate"), True),
    "less": ("Sub", ("gate", 3.0), True),
    "the rest to one": ("Sub", (1.0, "gate"), False),
    "between": ("Clip", ("gate", 0.2, 0.8), True),
    "a ramp": ("Relu", ("gate",), True),
    "a leaky ramp": ("LeakyRelu", ("gate",), True),
    "a magnitude": ("Abs", ("gate",), False),
    "with itself": ("Mul", ("gate", "gate"), False),
}


@pytest.mark.parametrize("case", FOLLOWERS)
def test_what_follows_a_function_must_not_fall_either(case: str, tmp_path: Path) -> None:
    operator, arguments, moves = FOLLOWERS[case]
    b = Builder(3)
    b.conv("image", "scores", (4, 3, 3, 3), pads=[1, 1, 1, 1])
    b.node("Sigmoid", ["scores"], "gate")
    inputs = [
        a if isinstance(a, str) else b.constant(f"c{n}", np.float32(a))
        for n, a in enumerate(arguments)
    ]
    b.node(operator, inputs, "heat")
    b.node("MaxPool", ["heat"], "peaks", **WINDOW)
    found = nodes(loaded(b, tmp_path))
    assert isinstance(found["heat"], TableNode)
    assert isinstance(found["peaks"], TableNode) == moves


@pytest.mark.parametrize("last", ["Conv", "MaxPool"])
def test_a_pool_that_an_integer_operator_reads_stays(last: str, tmp_path: Path) -> None:
    """The VTA runs again anyway, and a second table would be in vain."""
    pool = nodes(loaded(peaks(last=last), tmp_path))["pooled"]
    assert isinstance(pool, MaxPoolNode)
    assert pool.input == "heat"


def test_a_pool_of_what_stays_float_stays(tmp_path: Path) -> None:
    b = Builder(3)
    b.conv("image", "scores", (4, 3, 3, 3), pads=[1, 1, 1, 1])
    b.node("Softmax", ["scores"], "shares", axis=1)
    b.node("Sigmoid", ["shares"], "heat")
    b.node("MaxPool", ["heat"], "peaks", **WINDOW)
    pool = nodes(loaded(b, tmp_path))["peaks"]
    assert isinstance(pool, MaxPoolNode)
    assert pool.input == "heat"
