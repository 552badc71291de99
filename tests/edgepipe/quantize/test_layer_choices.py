"""Layers with choices of their own: what changes, what does not, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import quantised_networks
import small_networks
from small_networks import PREPROCESS, frames

from edgepipe.errors import QuantizeError
from edgepipe.frontend.network import Network, load_network
from edgepipe.partition.operators import match_operators
from edgepipe.quantize import scheme_file
from edgepipe.quantize.options import LayerOptions, QuantizeOptions
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize
from edgepipe.quantize.scheme import Scheme

FRAMES = list(frames(4))
LEAVE_OUT = "leave the key out"


def loaded(folder: Path, make: Callable[[], onnx.ModelProto]) -> Network:
    onnx.save(make(), folder / "net.onnx")
    return load_network(folder / "net.onnx")


def quantised(network: Network, rounding: str = "nearest", **layers: LayerOptions):
    options = QuantizeOptions(layers=layers, rounding=rounding)
    return quantize(network, FRAMES, PREPROCESS, options)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    """stem_relu, block_relu, block_out (it reads both), head: four convolutions."""
    return loaded(tmp_path_factory.mktemp("layers"), small_networks.projected)


@pytest.fixture(scope="module")
def plain(network: Network) -> QuantizedNetwork:
    return quantised(network)


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Network:
    """Convolutions (``_conv``) and their functions (``_mul``), a sum and a concatenation."""
    return loaded(tmp_path_factory.mktemp("gated"), small_networks.silu_block)


@pytest.fixture(scope="module")
def plain_gated(gated: Network) -> QuantizedNetwork:
    return quantised(gated)


def constants(made: QuantizedNetwork) -> dict[str, tuple[bytes, ...]]:
    """Return all constants of every operator, by its name."""
    return {
        operator.name: tuple(
            array for binding in operator.bindings for array in arrays(binding.args)
        )
        for operator in match_operators(made.module)
    }


def arrays(argument: object) -> Iterator[bytes]:
    if isinstance(argument, tuple | list):
        for each in argument:
            yield from arrays(each)
    elif isinstance(argument, np.ndarray):
        yield argument.tobytes()


def changed(one: QuantizedNetwork, other: QuantizedNetwork) -> set[str]:
    """Return the operators whose constants differ."""
    before, after = constants(one), constants(other)
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def changed_steps(one: QuantizedNetwork, other: QuantizedNetwork) -> set[str]:
    assert one.scales.keys() == other.scales.keys()
    return {n for n in one.scales if one.scales[n].tobytes() != other.scales[n].tobytes()}


def test_constants_show_every_layer(plain: QuantizedNetwork) -> None:
    assert {"stem_relu", "block_relu", "block_out"} < constants(plain).keys()
    assert all(constants(plain)[name] for name in ("stem_relu", "block_relu", "block_out"))


@pytest.mark.parametrize(
    ("layer", "own"),
    [
        ("stem_relu", LayerOptions(rounding="reconstruct")),
        ("block_relu", LayerOptions(rounding="reconstruct")),
        ("block_out", LayerOptions(rounding="reconstruct", bias_correction=False)),
        ("block_relu", LayerOptions(bias_correction=False)),
    ],
)
def test_a_choice_about_weights_changes_exactly_its_layer(
    network: Network, plain: QuantizedNetwork, layer: str, own: LayerOptions
) -> None:
    made = quantised(network, **{layer: own})
    assert changed(plain, made) == {layer}
    assert not changed_steps(plain, made)


def test_a_layer_that_is_rounded_to_the_nearest_leaves_the_reconstructed_ones_alone(
    network: Network,
) -> None:
    every = quantised(network, "reconstruct")
    made = quantised(network, "reconstruct", stem_relu=LayerOptions(rounding="nearest"))
    assert changed(every, made) == {"stem_relu"}


@pytest.mark.parametrize(
    ("layer", "own", "same_steps", "readers"),
    [
        ("cv1_conv", LayerOptions(threshold="max"), set(), {"cv1_mul"}),
        ("stem_mul", LayerOptions(threshold="max"), set(), {"cv1_conv"}),
        ("added", LayerOptions(threshold="max"), {"joined"}, {"cv2_conv"}),  # a concatenation
        ("stem_mul", LayerOptions(equalise=0.0), set(), {"cv1_conv"}),
        ("first_mul", LayerOptions(equalise=1.0), set(), {"second_conv"}),
    ],
)
def test_a_choice_about_a_result_changes_its_steps_and_its_readers(
    gated: Network,
    plain_gated: QuantizedNetwork,
    layer: str,
    own: LayerOptions,
    same_steps: set[str],
    readers: set[str],
) -> None:
    made = quantised(gated, **{layer: own})
    assert changed_steps(plain_gated, made) == {layer, *same_steps}
    assert changed(plain_gated, made) == {layer, *readers}
    steps, before = made.scales[layer], plain_gated.scales[layer]
    ratio, last_bits = steps / before, 1e-6
    assert (ratio <= 1 + last_bits if own.equalise == 1.0 else ratio >= 1 - last_bits).all()


def test_without_equalising_all_channels_have_one_step(network: Network) -> None:
    made = quantised(network, block_relu=LayerOptions(equalise=0.0))
    assert len(np.unique(made.scales["block_relu"])) == 1
    assert len(np.unique(made.scales["stem_relu"])) > 1


def test_the_rule_of_a_layer_is_that_of_the_whole_network_there(
    gated: Network, plain_gated: QuantizedNetwork
) -> None:
    whole = quantize(gated, FRAMES, PREPROCESS, QuantizeOptions(threshold="max"))
    made = quantised(gated, stem_conv=LayerOptions(threshold="max"))
    steps = made.scales["stem_conv"]
    assert steps.tobytes() == whole.scales["stem_conv"].tobytes()
    assert steps.tobytes() != plain_gated.scales["stem_conv"].tobytes()


def read_again(made: QuantizedNetwork, folder: Path) -> Scheme:
    path = folder / "net.scheme.toml"
    path.write_text(scheme_file.to_toml(made.scheme, made.scales, made.zeros))
    read = scheme_file.read(path)
    assert scheme_file.to_toml(read, made.scales, made.zeros) == path.read_text()
    return read


def test_a_scheme_keeps_every_choice(network: Network, tmp_path: Path) -> None:
    own = {
        "stem_relu": LayerOptions(rounding="reconstruct", threshold="max"),
        "block_relu": LayerOptions(equalise=0.25, bias_correction=False),
        "head": LayerOptions(threshold="percentile"),
    }
    made = quantised(network, **own)
    read = read_again(made, tmp_path)
    assert read.options.layers == own
    again = quantize(network, FRAMES, PREPROCESS, None, read)
    assert not changed(made, again)
    assert not changed_steps(made, again)
    with pytest.raises(QuantizeError, match='rounding "reconstruct" reads the 4 calibration'):
        quantize(network, (), PREPROCESS, None, read)


def test_choices_that_are_added_to_a_scheme_need_no_pictures(
    gated: Network, plain_gated: QuantizedNetwork, tmp_path: Path
) -> None:
    read = read_again(plain_gated, tmp_path)
    own = {"cv1_conv": LayerOptions(threshold="max", bias_correction=False)}
    edited = replace(read, options=replace(read.options, layers=own))
    made = quantize(gated, (), PREPROCESS, None, edited)
    assert changed(made, plain_gated) == {"cv1_conv", "cv1_mul"}
    assert not changed(made, quantised(gated, **own))
    exported = read_again(made, tmp_path)
    assert exported.tensors["cv1_conv"].threshold == read.tensors["cv1_conv"].thresholds["max"]
    assert not changed(made, quantize(gated, (), PREPROCESS, None, exported))


def test_rounding_all_layers_otherwise_leaves_no_layer_its_own() -> None:
    options = QuantizeOptions(
        layers={
            "a": LayerOptions(rounding="reconstruct"),
            "b": LayerOptions(rounding="reconstruct", equalise=0.0),
        }
    )
    assert options.reconstructs
    nearest = options.rounded_by("nearest")
    assert not nearest.reconstructs
    assert nearest.layers == {"b": LayerOptions(equalise=0.0)}
    assert nearest.of("b") == QuantizeOptions(equalise=0.0)
    assert nearest.of("a") == QuantizeOptions()


def refused(
    network: Network, scheme: Scheme | None = None, **layers: LayerOptions
) -> QuantizeError:
    with pytest.raises(QuantizeError) as caught:
        if scheme is None:
            quantised(network, **layers)
        else:
            edited = replace(scheme, options=replace(scheme.options, layers=layers))
            quantize(network, FRAMES, PREPROCESS, None, edited)
    return caught.value


@pytest.mark.parametrize(
    ("make", "layer", "own", "message", "hint"),
    [
        (
            small_networks.classifier,
            "block_Rel",
            LayerOptions(equalise=0.0),
            "layer block_Rel is unknown",
            "did you mean: block_Relu",
        ),
        (
            small_networks.classifier,
            "logits.int8",
            LayerOptions(threshold="max"),
            "layer logits.int8 is unknown",
            "did you mean: logits",
        ),
        (
            small_networks.classifier,
            "pool_Pool",
            LayerOptions(rounding="nearest"),
            "layer pool_Pool: rounding: the layer has no weights",
            LEAVE_OUT,
        ),
        (
            small_networks.classifier,
            "pool_Pool",
            LayerOptions(bias_correction=True),
            "layer pool_Pool: bias_correction: the layer has no weights",
            LEAVE_OUT,
        ),
        (
            small_networks.classifier,
            "stem_Clip",
            LayerOptions(bias_correction=True),
            "layer stem_Clip: bias_correction: the mean of what the layer reads is not measured",
            LEAVE_OUT,
        ),
        (
            small_networks.classifier,
            "stem_Clip",  # only a depthwise convolution and a residual read it
            LayerOptions(equalise=0.0),
            "layer stem_Clip: equalise: has no effect there, expected a result that only "
            "convolutions, sums and functions read, and one convolution that is not depthwise",
            LEAVE_OUT,
        ),
        (
            small_networks.detector,
            "stem_pool",
            LayerOptions(threshold="max"),
            "layer stem_pool: threshold_rule: the steps of its result follow from what it reads",
            LEAVE_OUT,
        ),
        (
            small_networks.detector,
            "stem_pool",
            LayerOptions(equalise=0.0),
            "layer stem_pool: equalise: the steps of its result follow from what it reads",
            LEAVE_OUT,
        ),
        (
            small_networks.exporter_habits,
            "up",
            LayerOptions(rounding="reconstruct"),
            "layer up: rounding: the layer's weights can only be rounded to the nearest",
            LEAVE_OUT,
        ),
        (
            quantised_networks.powers_of_two,
            "second_relu",
            LayerOptions(threshold="max"),
            "layer second_relu: threshold_rule: the ONNX file gives the range of its result",
            LEAVE_OUT,
        ),
    ],
)
def test_what_a_layer_cannot_have_is_refused(
    make: Callable[[], onnx.ModelProto],
    layer: str,
    own: LayerOptions,
    message: str,
    hint: str,
    tmp_path: Path,
) -> None:
    error = refused(loaded(tmp_path, make), **{layer: own})
    assert message in str(error)
    assert hint in str(error.hint)


def test_errors_of_a_scheme_name_its_file(network: Network, plain: QuantizedNetwork) -> None:
    scheme = replace(plain.scheme, where="net.scheme.toml")
    error = refused(network, scheme, stem_rel=LayerOptions(equalise=0.0))
    assert str(error) == "net.scheme.toml: layer stem_rel is unknown"
    assert str(error.hint).startswith("did you mean: stem_relu")


def test_a_rule_needs_the_thresholds_that_the_rules_gave(
    network: Network, plain: QuantizedNetwork
) -> None:
    own = LayerOptions(threshold="max")
    found = plain.scheme.tensors["block_relu"]
    older = replace(found, thresholds={})
    scheme = replace(plain.scheme, tensors={**plain.scheme.tensors, "block_relu": older})
    error = refused(network, scheme, block_relu=own)
    assert str(error) == (
        "scheme: layer block_relu: threshold_rule: the thresholds of its tensor by rule are missing"
    )
    assert error.hint == (
        "give its tensor another threshold, or export the scheme again, from a build with "
        "calibration pictures"
    )
    by_hand = replace(found, threshold=2.125)
    scheme = replace(plain.scheme, tensors={**plain.scheme.tensors, "block_relu": by_hand})
    error = refused(network, scheme, block_relu=own)
    assert str(error) == (
        "scheme: layer block_relu: threshold_rule: its tensor has the threshold 2.125, which no "
        "rule gave"
    )
    assert error.hint == "remove threshold_rule to use it, or restore the tensor's threshold"
