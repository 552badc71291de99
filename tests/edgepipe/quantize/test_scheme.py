"""Schemes: the same integers as from pictures, changed by edits, and only for their own network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_networks
from levels import long

from edgepipe.errors import QuantizeError
from edgepipe.frontend.network import Network, load_network
from edgepipe.quantize import scheme_file
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize
from edgepipe.quantize.scheme import Scheme, TensorRange
from edgepipe.tvm_adapter import run_module

PREPROCESS = small_networks.PREPROCESS


def loaded(folder: Path, make: Callable[[], onnx.ModelProto]) -> Network:
    onnx.save(make(), folder / "net.onnx")
    return load_network(folder / "net.onnx")


def outputs(quantized: QuantizedNetwork) -> list[bytes]:
    """Return the outputs for some frames, as bytes."""
    return [
        array.tobytes()
        for frame in small_networks.frames(3, seed=5)
        for array in run_module(quantized.module, {quantized.input_name: frame}).values()
    ]


def from_pictures(network: Network) -> QuantizedNetwork:
    return quantize(network, small_networks.frames(4), PREPROCESS)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        long(small_networks.detector, "mse"),
        (small_networks.classifier, "max"),
        long(small_networks.silu_block, "percentile"),
        long(small_networks.with_float_middle, "mse"),
    ],
)
def test_a_scheme_gives_the_integers_of_its_pictures(
    tmp_path: Path, make: Callable[[], onnx.ModelProto], rule: str
) -> None:
    network = loaded(tmp_path, make)
    options = QuantizeOptions(threshold=rule, equalise=0.25)
    original = quantize(network, small_networks.frames(4), PREPROCESS, options)
    path = tmp_path / "scheme.toml"
    path.write_text(scheme_file.to_toml(original.scheme, original.scales, original.zeros))
    reloaded = load_network(tmp_path / "net.onnx")
    again = quantize(reloaded, (), PREPROCESS, None, scheme_file.read(path))
    assert outputs(again) == outputs(original)
    assert again.zeros == original.zeros
    assert again.calibration_frames == 4
    for name, scale in original.scales.items():
        assert again.scales[name].tobytes() == scale.tobytes()


@pytest.mark.networks
def test_reconstructed_weights_need_the_pictures_again(tmp_path: Path) -> None:
    network = loaded(tmp_path, small_networks.classifier)
    frames = list(small_networks.frames(4))
    options = QuantizeOptions(rounding="reconstruct")
    original = quantize(network, frames, PREPROCESS, options)
    assert outputs(original) != outputs(quantize(network, frames, PREPROCESS))
    assert original.scheme.frames_read == 4
    assert outputs(quantize(network, frames, PREPROCESS, None, original.scheme)) == outputs(
        original
    )
    with pytest.raises(
        QuantizeError,
        match='scheme: rounding "reconstruct" reads the 4 calibration pictures, found 3',
    ) as caught:
        quantize(network, frames[:3], PREPROCESS, None, original.scheme)
    assert caught.value.hint == (
        'give the same pictures, or set rounding = "nearest" in the scheme'
    )
    plain = original.scheme.rounded_by("nearest")
    assert outputs(quantize(network, (), PREPROCESS, None, plain)) == outputs(
        quantize(network, frames, PREPROCESS)
    )


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    return loaded(tmp_path_factory.mktemp("scheme"), small_networks.classifier)


@pytest.fixture(scope="module")
def original(network: Network) -> QuantizedNetwork:
    return from_pictures(network)


@pytest.mark.networks
def test_an_edited_threshold_changes_the_step(network: Network, original: QuantizedNetwork) -> None:
    name = "block_Relu"
    wider = replace(
        original.scheme.tensors[name], threshold=original.scheme.tensors[name].threshold * 4
    )
    edited = replace(original.scheme, tensors={**original.scheme.tensors, name: wider})
    found = quantize(network, (), PREPROCESS, None, edited)
    assert (found.scales[name] > original.scales[name] * 2).all()
    assert outputs(found) != outputs(original)


def without_a_tensor(scheme: Scheme) -> Scheme:
    return replace(scheme, tensors=dict(list(scheme.tensors.items())[1:]))


def with_another_tensor(scheme: Scheme) -> Scheme:
    return replace(scheme, tensors={**scheme.tensors, "block_Rel": scheme.tensors["block_Relu"]})


def with_too_few_channels(scheme: Scheme) -> Scheme:
    one = np.ones(1)
    short = TensorRange(low=one, high=one, mean=one, threshold=1.0)
    return replace(scheme, tensors={**scheme.tensors, "block_Relu": short})


def of_another_network(scheme: Scheme) -> Scheme:
    return replace(scheme, network="0" * 64)


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (without_a_tensor, r"^scheme: tensor \w+ is missing$", "restore its table, or export the"),
        (
            with_another_tensor,
            "^scheme: tensor block_Rel is not one that the quantiser measures$",
            "did you mean: block_Relu",
        ),
        (
            with_too_few_channels,
            "^scheme: tensor block_Relu: found 1 channels in low, high and mean, expected [0-9]+$",
            "restore its values, or export the scheme again, from a build with calibration",
        ),
        (
            of_another_network,
            "^scheme: network: belongs to another network: digest 0{16}..., expected [0-9a-f]{16}",
            "give the network that it was exported with, or export the scheme again",
        ),
    ],
)
def test_a_scheme_that_does_not_fit_is_refused(
    network: Network,
    original: QuantizedNetwork,
    change: Callable[[Scheme], Scheme],
    message: str,
    hint: str,
) -> None:
    with pytest.raises(QuantizeError, match=message) as caught:
        quantize(network, (), PREPROCESS, None, change(original.scheme))
    assert hint in str(caught.value.hint)


def test_another_preprocessing_is_refused(network: Network, original: QuantizedNetwork) -> None:
    other = replace(PREPROCESS, scale=PREPROCESS.scale * 2)
    with pytest.raises(QuantizeError, match="another preprocessing in a description") as caught:
        quantize(network, (), other, None, original.scheme)
    assert str(caught.value.hint).startswith("give the preprocess that it was exported with")


def test_other_weights_are_another_network(
    tmp_path: Path, network: Network, original: QuantizedNetwork
) -> None:
    model = small_networks.classifier()
    changed = model.graph.initializer[0]
    array = onnx.numpy_helper.to_array(changed).copy()
    array.flat[0] += 1
    changed.CopyFrom(onnx.numpy_helper.from_array(array, changed.name))
    with pytest.raises(QuantizeError, match="belongs to another network"):
        quantize(loaded(tmp_path, lambda: model), (), PREPROCESS, None, original.scheme)


@pytest.mark.parametrize("factor", [0.0, 1e-30])
def test_thresholds_that_no_accumulator_can_hold_are_refused(
    network: Network, original: QuantizedNetwork, factor: float
) -> None:
    with pytest.raises(QuantizeError, match="logits: an accumulator could reach"):
        quantize(network, (), PREPROCESS, None, scaled(original.scheme, factor))


def test_a_huge_threshold_gives_a_coarse_network(
    network: Network, original: QuantizedNetwork
) -> None:
    found = quantize(network, (), PREPROCESS, None, scaled(original.scheme, 1e30))
    assert all(np.isfinite(scale).all() for scale in found.scales.values())


def scaled(scheme: Scheme, factor: float) -> Scheme:
    """Return ``scheme`` with all of its thresholds multiplied."""
    tensors = {
        name: replace(found, threshold=found.threshold * factor)
        for name, found in scheme.tensors.items()
    }
    return replace(scheme, tensors=tensors)
