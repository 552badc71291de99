"""Second moments: windows as a convolution reads them, gathered in as many passes as needed."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import small_networks
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from edgepipe.frontend.network import Network, load_network
from edgepipe.quantize import second_moments
from edgepipe.quantize.graph import ConvNode, Graph
from edgepipe.quantize.options import LayerOptions, QuantizeOptions
from edgepipe.quantize.quantizer import quantize, understand
from edgepipe.quantize.second_moments import SecondMoments, Taps, taps_of

pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


@st.composite
def windows(draw: st.DrawFn) -> Taps:
    groups = draw(st.integers(1, 3))
    return Taps(
        tensor="x",
        channels=groups * draw(st.integers(1, 2)),
        groups=groups,
        kernel=draw(pairs),
        stride=draw(pairs),
        padding=draw(st.tuples(*[st.integers(0, 2)] * 4)),
        dilation=draw(pairs),
    )


def convolved(x: np.ndarray, weight: np.ndarray, taps: Taps) -> np.ndarray:
    """Return onnxruntime's convolution."""
    node = onnx.helper.make_node(
        "Conv",
        ["x", "w"],
        ["y"],
        group=taps.groups,
        strides=taps.stride,
        dilations=taps.dilation,
        pads=taps.padding,
    )
    values = [onnx.helper.make_tensor_value_info(n, 1, None) for n in ("x", "w", "y")]
    graph = onnx.helper.make_graph([node], "conv", values[:2], values[2:])
    opset = [onnx.helper.make_opsetid("", 13)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"x": x, "w": weight})[0]


@given(windows(), st.integers(0, 2**32 - 1))
def test_windows_are_what_a_convolution_multiplies_with(taps: Taps, seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(-8, 8, (1, taps.channels, 8, 9)).astype(np.float32)
    rows = random.integers(-8, 8, (taps.groups, 2, taps.weights)).astype(np.float32)
    inputs = taps.channels // taps.groups
    expected = convolved(x, rows.reshape(2 * taps.groups, inputs, *taps.kernel), taps)
    samples = taps.sample(x, 10_000, random)
    found = np.einsum("gpn,gon->gop", samples, rows)
    assert_allclose(found.reshape(expected.shape), expected)


def test_places_are_chosen_without_repetition() -> None:
    taps = Taps(tensor="x", channels=1)
    x = np.arange(100, dtype=np.float32).reshape(1, 1, 10, 10)
    samples = taps.sample(x, 30, np.random.default_rng(1))
    assert len(np.unique(samples)) == samples.size == 30


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    path = tmp_path_factory.mktemp("moments") / "net.onnx"
    onnx.save(small_networks.projected(), path)
    return load_network(path)


def moments_of(network: Network, graph: Graph, *, seed: int = 0) -> SecondMoments:
    return SecondMoments(
        network=network,
        graph=graph,
        frames=list(small_networks.frames(3)),
        preprocess=small_networks.PREPROCESS,
        seed=seed,
    )


def convolutions(graph: Graph) -> list[ConvNode]:
    return [node for node in graph.nodes if isinstance(node, ConvNode)]


def test_the_first_layer_reads_the_pictures(network: Network) -> None:
    graph = understand(network)
    first = convolutions(graph)[0]
    assert first.input == graph.input
    (taps,) = taps_of(first, graph)
    frames = [small_networks.PREPROCESS.normalise(f) for f in small_networks.frames(3)]
    all_windows = [taps.sample(f, 10_000, np.random.default_rng(0))[0] for f in frames]
    samples = np.concatenate(all_windows).astype(np.float64)
    found = moments_of(network, graph)
    (plain,) = found.of(first, central=False)
    (central,) = found.of(first, central=True)
    expected = samples.T @ samples / len(samples)
    assert_allclose(plain[0], expected, rtol=1e-4, atol=1e-5)
    assert_allclose(central[0], np.cov(samples.T, bias=True), rtol=1e-3, atol=1e-4)


def test_every_input_with_weights_has_moments(network: Network) -> None:
    graph = understand(network)
    found = moments_of(network, graph)
    assert any(node.projections for node in convolutions(graph))
    for node in convolutions(graph):
        parts = found.of(node, central=True)
        assert [p.shape[1] for p in parts] == [t.weights for t in taps_of(node, graph)]


def test_passes_with_little_memory_gather_the_same(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = understand(network)
    at_once, one_by_one = moments_of(network, graph), moments_of(network, graph)
    for node in convolutions(graph):
        expected = at_once.of(node, central=True)
        monkeypatch.setattr(second_moments, "_MOST_BYTES", 1)
        found = one_by_one.of(node, central=True)
        monkeypatch.undo()
        assert list(one_by_one._held) == [node.name]
        for one, other in zip(found, expected, strict=True):
            assert_allclose(one, other)


def test_a_seed_decides_the_sample(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_moments, "_FEWEST_SAMPLES", 60)  # of 192 places
    monkeypatch.setattr(second_moments, "_SAMPLES_A_WEIGHT", 1)
    graph = understand(network)
    first = convolutions(graph)[0]
    found = [
        moments_of(network, graph, seed=seed).of(first, central=True)[0].tobytes()
        for seed in (0, 1, 1)
    ]
    assert found[0] != found[1]
    assert found[1] == found[2]


def test_the_sample_of_a_layer_does_not_depend_on_other_layers(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_moments, "_FEWEST_SAMPLES", 60)
    monkeypatch.setattr(second_moments, "_SAMPLES_A_WEIGHT", 1)
    graph = understand(network)
    last = convolutions(graph)[-1]
    in_order, alone = moments_of(network, graph), moments_of(network, graph)
    in_order.of(convolutions(graph)[0], central=True)
    assert last.name in in_order._held
    (expected,) = in_order.of(last, central=True)
    (found,) = alone.of(last, central=True)
    assert found.tobytes() == expected.tobytes()


def test_what_cannot_be_measured_has_none(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = understand(network)
    monkeypatch.setattr(second_moments, "MOST_WEIGHTS", 0)
    assert moments_of(network, graph).of(convolutions(graph)[0], central=True) == ()


def test_moments_are_about_a_mean_only_if_the_bias_makes_up_for_it(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean of the picture is not measured, so the first layer's bias is not corrected."""
    asked: dict[str, bool] = {}
    original = SecondMoments.of

    def of(self: SecondMoments, node: ConvNode, *, central: bool) -> tuple[np.ndarray, ...]:
        asked[node.name] = central
        return original(self, node, central=central)

    monkeypatch.setattr(SecondMoments, "of", of)
    options = QuantizeOptions(
        rounding="reconstruct", layers={"head": LayerOptions(bias_correction=False)}
    )
    quantize(network, list(small_networks.frames(3)), small_networks.PREPROCESS, options)
    assert asked == {"stem_relu": False, "block_relu": True, "block_out": True, "head": False}
