"""Layers that stay float on request: their calls, their bits on every level, and their scheme."""

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
from levels import every
from small_networks import PREPROCESS, frames

from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.errors import QuantizeError
from edgepipe.frontend.network import Network, load_network
from edgepipe.quantize import scheme_file
from edgepipe.quantize.float_layers import requested
from edgepipe.quantize.graph import is_integer
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize, understand
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import read_main, run_module

FRAME = next(iter(frames(1, seed=9)))


def loaded(folder: Path, make: Callable[[], onnx.ModelProto]) -> Network:
    onnx.save(make(), folder / "net.onnx")
    return load_network(folder / "net.onnx")


def quantised(network: Network, *layers: str) -> QuantizedNetwork:
    return quantize(network, frames(4), PREPROCESS, QuantizeOptions(float_layers=layers))


def outputs(made: QuantizedNetwork) -> dict[str, np.ndarray]:
    return run_module(made.module, {made.input_name: FRAME})


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    return loaded(tmp_path_factory.mktemp("float"), small_networks.classifier)


@pytest.fixture(scope="module")
def in_int8(network: Network) -> QuantizedNetwork:
    return quantised(network)


CASES = {
    # A convolution, its bias and its activation are three calls of the importer and one layer.
    "a convolution with a clip": (
        small_networks.classifier,
        "block_depth_Clip",
        {"block_depth_Conv", "block_depth_Clip"},
    ),
    "a convolution with a residual": (
        small_networks.classifier,
        "block_Relu",
        {"block_Conv", "block_Add", "block_Relu"},
    ),
    "a function of several calls": (
        small_networks.silu_block,
        "stem_mul",
        {"stem_sigmoid", "stem_mul"},
    ),
    "a resize": (small_networks.detector, "up_resize", {"up_resize"}),
}


@pytest.mark.parametrize(("make", "layer", "calls"), CASES.values(), ids=CASES)
def test_all_calls_of_a_layer_stay_float_and_no_others(
    make: Callable[[], onnx.ModelProto], layer: str, calls: set[str], tmp_path: Path
) -> None:
    network = loaded(tmp_path, make)
    graph = understand(network, requested([layer]))
    floats = {n.name for n in graph.nodes if n.reason == "stays float: requested"}
    assert {name for name in floats if "__" not in name} == calls
    plain = {node.name for node in understand(network).nodes if is_integer(node)}
    assert {node.name for node in graph.nodes if is_integer(node)} == plain - {layer}


@pytest.mark.parametrize(("make", "layer", "calls"), every(3, CASES.values()))
def test_the_kernels_of_a_float_layer_have_the_bits_of_integer_relax(
    make: Callable[[], onnx.ModelProto], layer: str, calls: set[str], tmp_path: Path
) -> None:
    made = quantised(loaded(tmp_path, make), layer)
    compile_arm_stage(made.module, arches=("x86_64",)).write(tmp_path / "stage")
    found = ArmStage(tmp_path / "stage").run({made.input_name: FRAME})
    for name, expected in outputs(made).items():
        assert np.asarray(found[name]).tobytes() == expected.tobytes()


@pytest.mark.cross
@pytest.mark.parametrize(
    "make",
    every(3, [small_networks.activations, small_networks.detector, small_networks.upsampler]),
)
def test_boards_compute_the_bits_of_float_layers(
    architecture: str, make: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    """Also a processor without fused multiply-adds: each product is rounded before it is added."""
    network = loaded(tmp_path, make)
    layers = [node.name for node in understand(network).nodes if is_integer(node)]
    made = quantised(network, *layers)
    compile_arm_stage(made.module, arches=(architecture,)).write(tmp_path / "stage")
    expected = outputs(made)
    found = run_emulated(architecture, tmp_path / "stage", {made.input_name: FRAME}, expected)
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes()


def test_a_float_layer_is_nearer_to_the_float_network(tmp_path: Path) -> None:
    """With every layer float, only the picture is rounded."""
    network = loaded(tmp_path, small_networks.classifier)
    layers = [node.name for node in understand(network).nodes if is_integer(node)]
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    (exact,) = session.run(None, {network.onnx_input: PREPROCESS.normalise(FRAME)})
    whole, none = quantised(network, *layers), quantised(network)
    errors = [np.abs(outputs(made)["logits"] - exact).max() for made in (whole, none)]
    assert errors[0] < errors[1] / 2


def test_the_other_layers_keep_their_ranges(network: Network, in_int8: QuantizedNetwork) -> None:
    made = quantised(network, "block_depth_Clip")
    assert "block_depth_Clip.int8" in made.scales  # its reader is integer
    np.testing.assert_array_equal(made.scales["stem_Clip"], in_int8.scales["stem_Clip"])
    for name in ("block_Relu", "pool_Pool"):
        # The step of a sum moves by a tenth at most, so that the factor of its residual is exact
        # beside its weights. Those have other steps if what they are multiplied with does.
        np.testing.assert_allclose(made.scales[name], in_int8.scales[name], rtol=0.1)


def test_a_layer_that_is_read_by_a_float_layer_keeps_a_step_for_each_channel(
    tmp_path: Path,
) -> None:
    network = loaded(tmp_path, small_networks.projected)
    made, in_int8 = quantised(network, "block_out"), quantised(network)
    steps = made.scales["block_relu"]
    assert len(np.unique(steps)) > 1
    np.testing.assert_array_equal(steps, in_int8.scales["block_relu"])


def test_a_layer_is_also_known_by_its_int8_form(network: Network) -> None:
    by_form, by_name = quantised(network, "logits.int8"), quantised(network, "logits")
    assert outputs(by_form)["logits"].tobytes() == outputs(by_name)["logits"].tobytes()
    ops = {b.name: b.op for b in read_main(by_form.module).bindings}
    assert "logits.int8" not in ops


def test_a_scheme_names_float_layers_and_fits_with_any_of_them(
    network: Network, in_int8: QuantizedNetwork, tmp_path: Path
) -> None:
    made = quantised(network, "logits")
    path = tmp_path / "net.scheme.toml"
    path.write_text(scheme_file.to_toml(made.scheme, made.scales, made.zeros))
    read = scheme_file.read(path)
    assert read.options.float_layers == ("logits",)
    assert read.tensors.keys() == in_int8.scheme.tensors.keys()
    again = quantize(network, (), PREPROCESS, None, read)
    assert outputs(again)["logits"].tobytes() == outputs(made)["logits"].tobytes()
    without = replace(read, options=replace(read.options, float_layers=()))
    edited = quantize(network, (), PREPROCESS, None, without)
    assert outputs(edited)["logits"].tobytes() == outputs(in_int8)["logits"].tobytes()


def test_layers_of_the_options_add_to_those_of_the_scheme(
    network: Network, in_int8: QuantizedNetwork
) -> None:
    scheme = replace(
        in_int8.scheme, options=replace(in_int8.scheme.options, float_layers=("logits",))
    )
    more = QuantizeOptions(float_layers=("stem_Clip", "logits"))
    made = quantize(network, (), PREPROCESS, more, scheme)
    assert made.scheme.options.float_layers == ("logits", "stem_Clip")


def test_a_region_is_every_layer_from_one_to_another(network: Network) -> None:
    by_region = understand(network, requested(["block_depth_Clip..pool_Pool"]))
    one_by_one = understand(network, requested(["block_depth_Clip", "block_Relu", "pool_Pool"]))
    kinds = [(node.name, type(node), node.reason) for node in by_region.nodes]
    assert kinds == [(node.name, type(node), node.reason) for node in one_by_one.nodes]
    assert not {"block_depth_Clip", "block_Relu", "pool_Pool"} & {
        node.name for node in by_region.nodes if is_integer(node)
    }


def test_a_region_has_no_layers_that_its_last_does_not_depend_on(tmp_path: Path) -> None:
    network = loaded(tmp_path, small_networks.projected)
    graph = understand(network, requested(["block_relu..block_relu"]))
    plain = {node.name for node in understand(network).nodes if is_integer(node)}
    assert {node.name for node in graph.nodes if is_integer(node)} == plain - {"block_relu"}
    graph = understand(network, requested(["stem_relu..block_relu", "head.int8..head"]))
    assert {node.name for node in graph.nodes if is_integer(node)} == {"block_out"}


def test_a_scheme_keeps_a_region_as_it_was_given(network: Network, tmp_path: Path) -> None:
    made = quantised(network, "stem_Clip..block_Relu")
    path = tmp_path / "net.scheme.toml"
    path.write_text(scheme_file.to_toml(made.scheme, made.scales, made.zeros))
    assert 'float_layers = ["stem_Clip..block_Relu"]' in path.read_text()
    again = quantize(network, (), PREPROCESS, None, scheme_file.read(path))
    assert outputs(again)["logits"].tobytes() == outputs(made)["logits"].tobytes()


def test_a_region_against_the_order_of_its_layers_is_refused(network: Network) -> None:
    message = (
        r"^layers logits\.\.stem_Clip: stem_Clip does not depend on logits, expected a region from "
        "a layer to one that does$"
    )
    with pytest.raises(QuantizeError, match=message) as caught:
        quantised(network, "logits..stem_Clip")
    assert caught.value.hint == "name the layer nearest to the network's input first"


@pytest.mark.parametrize("region", ["stem_Cli..logits", "logits..stem_Cli", "..stem_Cli"])
def test_a_region_of_an_unknown_layer_names_it(region: str, network: Network) -> None:
    with pytest.raises(QuantizeError, match=r"^layer (stem_Cli)?: is unknown, so it cannot stay"):
        quantised(network, region)


def test_an_unknown_layer_is_refused_with_the_nearest_names(network: Network) -> None:
    with pytest.raises(QuantizeError, match=r"^layer block_Rel: is unknown") as caught:
        quantised(network, "block_Rel")
    assert str(caught.value.hint).startswith("did you mean: block_Relu")


def test_what_computes_nothing_in_int8_is_refused(tmp_path: Path) -> None:
    network = loaded(tmp_path, small_networks.detector)
    message = "^layer scores: bytes are moved on arm, expected one that computes in int8$"
    with pytest.raises(QuantizeError, match=message) as caught:
        quantised(network, "scores")
    assert caught.value.hint == "leave it out of the layers that stay float"
