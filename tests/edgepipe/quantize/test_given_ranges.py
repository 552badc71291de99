"""Networks that were quantised already keep their integers, or each layer's error is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import quantised_networks
import small_networks
from numpy.testing import assert_array_equal
from onnxruntime.quantization import QuantFormat, QuantType

from edgepipe import boards, description, recipe
from edgepipe.bundle.decoder_files import DecoderFiles
from edgepipe.description import Postprocess
from edgepipe.forecast import ForecastOptions, forecast
from edgepipe.frontend.given_ranges import GivenRange
from edgepipe.frontend.network import load_network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.partition.operators import match_operators
from edgepipe.quantize import fidelity
from edgepipe.quantize.fidelity import LayerFidelity
from edgepipe.quantize.given_steps import exact_steps
from edgepipe.quantize.graph import ConvNode, Graph, MaxPoolNode, SumNode
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize
from edgepipe.tvm_adapter import CompiledModule
from vta_stages.layers.records import Conv

SAME = GivenRange(low=-12.8, high=12.7, step=0.1)


def quantized(path: Path) -> QuantizedNetwork:
    return quantize(load_network(path), small_networks.frames(8), small_networks.PREPROCESS)


def results(found: QuantizedNetwork, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs of the integer network and of the original for some pictures."""
    compiled = CompiledModule(found.module, runs=6)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (name,) = found.output_names
    pairs = [
        (
            compiled.run({found.input_name: frame})[name],
            session.run(None, {"image": small_networks.PREPROCESS.normalise(frame)})[0],
        )
        for frame in small_networks.frames(6, seed=3)
    ]
    return np.stack([one for one, _ in pairs]), np.stack([other for _, other in pairs])


def test_scales_that_are_powers_of_two_keep_every_bit(tmp_path: Path) -> None:
    """The integer network computes exactly what onnxruntime computes from the original."""
    model = quantised_networks.powers_of_two(residual=False)
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    found = quantized(path)
    assert [layer.name for layer in found.fidelities] == ["first_relu", "second_relu", "result"]
    assert all(layer.is_exact for layer in found.fidelities)
    assert found.notices == (
        "quantised network: 3 of 3 layers keep their int8 weights and steps exactly",
    )
    integers = {c.name: onnx.numpy_helper.to_array(c) for c in model.graph.initializer}
    for operator in match_operators(found.module):
        original = {"first_relu": "first.w.i", "second_relu": "second.w.i"}.get(operator.name)
        if original is not None:
            assert isinstance(operator.layer, Conv)
            weight = integers[original].astype(np.int64)
            factor = operator.layer.weight.astype(np.int64)[weight != 0] // weight[weight != 0]
            assert set(factor.tolist()) <= {1, 2, 4}
    assert_array_equal(*results(found, path))


def test_a_residual_with_powers_of_two_is_exact_but_for_its_one_rounding(tmp_path: Path) -> None:
    """The original rounds before the sum and after it, the integer network only after it."""
    path = tmp_path / "net.onnx"
    onnx.save(quantised_networks.powers_of_two(), path)
    found = quantized(path)
    assert all(layer.is_exact for layer in found.fidelities)
    one, other = results(found, path)
    assert np.abs(one - other).max() <= 3 * 0.125
    assert (one == other).mean() > 0.5


def test_other_scales_are_quantised_again_and_each_layer_says_how_well(tmp_path: Path) -> None:
    path = quantised_networks.by_onnxruntime(
        tmp_path,
        small_networks.classifier(1),
        QuantFormat.QDQ,
        QuantType.QInt8,
        per_channel=True,
    )
    found = quantized(path)
    assert len(found.fidelities) == 4
    assert all(layer.snr_db > 30 for layer in found.fidelities)
    assert "quantised network: 0 of 4 layers keep their int8 weights and steps" in found.notices[0]
    assert "weights re-quantised with a signal-to-noise ratio of" in found.notices[1]
    one, other = results(found, path)
    assert np.corrcoef(one.reshape(-1), other.reshape(-1))[0, 1] > 0.99


def conv(name: str, source: str, weight: float) -> ConvNode:
    return ConvNode(name=name, input=source, weight=np.full((2, 2, 1, 1), weight), bias=np.zeros(2))


def graph(*nodes: ConvNode | MaxPoolNode | SumNode) -> Graph:
    names = ("x", *(node.name for node in nodes))
    return Graph(
        input="x", nodes=nodes, outputs=(nodes[-1].name,), shapes=dict.fromkeys(names, (1, 2, 4, 4))
    )


def pool(name: str, source: str) -> MaxPoolNode:
    return MaxPoolNode(name=name, input=source, kernel=(2, 2), stride=(1, 1), padding=(0, 0, 0, 0))


@pytest.mark.parametrize(
    ("weight", "steps", "expected"),
    [
        (100 / 128, {"x": 0.1, "y": 0.1}, {"x", "y"}),
        (100 / 128, {"x": 0.1, "y": 0.4}, {"x", "y"}),
        (100 / 128, {"x": 0.1, "y": 0.3}, set()),
        (0.77, {"x": 0.1, "y": 0.1}, set()),
        (100 / 128, {"y": 0.1}, set()),
    ],
)
def test_steps_stay_where_shifts_are_exact(
    weight: float, steps: dict[str, float], expected: set[str]
) -> None:
    given = {
        name: GivenRange(low=-128 * step, high=127 * step, step=step)
        for name, step in steps.items()
    }
    found = exact_steps(graph(conv("y", "x", weight)), given, QuantizeOptions())
    assert set(found) == expected
    assert all(found[name] == given[name].step for name in found)


def test_a_pool_hands_the_step_of_its_input_on() -> None:
    nodes = (conv("y", "x", 0.77), pool("p", "y"), conv("z", "p", 0.5))
    found = exact_steps(graph(*nodes), {"x": SAME, "y": SAME, "z": SAME}, QuantizeOptions())
    assert set(found) == {"y", "z"}


def test_sums_are_exact_with_factors_that_are_powers_of_two() -> None:
    two = np.ones(2)
    for factor, expected in ((0.5, {"x", "y"}), (0.3, set())):
        sum_ = SumNode(name="y", terms=(("x", two), ("x", two * factor)), bias=np.zeros(2))
        given = {"x": SAME, "y": SAME}
        assert set(exact_steps(graph(sum_), given, QuantizeOptions())) == expected


def test_notices_name_each_layer_that_differs() -> None:
    layers = (
        LayerFidelity(name="a", snr_db=np.inf, coarser=1.0),
        LayerFidelity(name="b", snr_db=np.inf, coarser=2.0),
        LayerFidelity(name="c", snr_db=43.21, coarser=1.0),
        LayerFidelity(name="d", snr_db=40.0, coarser=2.008),
        LayerFidelity(name="e", snr_db=np.inf, coarser=1.0004),
    )
    assert fidelity.notices(layers, None, small_networks.PREPROCESS) == (
        "quantised network: 1 of 5 layers keep their int8 weights and steps exactly",
        "b: weights exact, output in steps of 2 times the given one",
        "c: weights re-quantised with a signal-to-noise ratio of 43.2 dB",
        "d: weights re-quantised with a signal-to-noise ratio of 40.0 dB, output in steps of 2.01 "
        "times the given one",
        "e: weights exact, output in steps of 1.0004 times the given one",
    )


@pytest.mark.parametrize(
    ("mean", "std", "fits"),
    [(127.5, 127.5, True), (0.0, 1.0, False), (128.0, 2000.0, False), (127.5, 60.0, False)],
)
def test_an_input_that_the_description_does_not_fit_is_noted(
    mean: float, std: float, fits: bool
) -> None:
    preprocess = Preprocess(width=16, height=16, order="GRAY", mean=(mean,), std=(std,))
    picture = GivenRange(low=-1.0, high=127 / 128, step=1 / 128)
    found = fidelity.notices((), picture, preprocess)
    low, high = (0 - mean) / std, (255 - mean) / std
    expected = (
        f"the description gives the input values from {low:.4g} to {high:.4g}, the network was "
        "quantised for -1 to 0.9922: check mean, std and scale",
    )
    assert found == (() if fits else expected)


def test_a_forecast_and_a_build_say_what_became_of_the_layers(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(quantised_networks.like_tflite(), path)
    text = small_networks.DESCRIPTION.replace("64.0", "128.0").replace("classify", "none")
    (tmp_path / "net.toml").write_text(text)
    board = boards.load("ultra96")
    found = forecast(ForecastOptions(model=path, board=board)).notices
    assert found[1] == "result: int8 output becomes float"
    assert found[2].startswith("quantised network: ")
    notices: list[str] = []
    options = recipe.BuildOptions(
        model=path, board=board, calibration=tmp_path, output=tmp_path / "net.edgepipe"
    )
    described = recipe.DescribedNetwork(
        network=load_network(path),
        description=description.load(tmp_path / "net.toml"),
        labels=(),
        decoder=DecoderFiles(postprocess=Postprocess(kind="none")),
    )
    recipe.quantized_network(described, list(small_networks.frames(2)), options, Notices(notices))
    assert notices[0].startswith("quantised network: ")


class Notices:
    """Keeps the notices of long work."""

    def __init__(self, kept: list[str]) -> None:
        self._kept = kept

    def step(self, text: str) -> None:
        """Ignore the step."""

    def update(self, done: int, total: int) -> None:
        """Ignore the update."""

    def notice(self, text: str) -> None:
        self._kept.append(text)
