"""Networks in the forms that quantisation tools write compute here what they compute there.

The forms were taken from files that AMD Quark 0.13, Brevitas 0.13 and tf2onnx 1.17 wrote.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import quantised_networks
import small_networks
from exported_networks.exact import frames, options
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from edgepipe import description
from edgepipe.frontend.network import load_network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.loading import load
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize
from edgepipe.recipe import build_bundle
from edgepipe.tvm_adapter import CompiledModule

HALVES = Preprocess(width=16, height=16, order="BGR", mean=(128.0,) * 3, std=(64.0,) * 3)
UNITS = Preprocess(width=16, height=16, order="BGR", mean=(127.0,) * 3, std=(127.5,) * 3)


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def quantized(path: Path, preprocess: Preprocess) -> QuantizedNetwork:
    return quantize(load_network(path), small_networks.frames(8), preprocess)


def here(found: QuantizedNetwork) -> NDArray[np.float64]:
    """Return the only output of the integer network for some pictures."""
    compiled = CompiledModule(found.module, runs=6)
    (name,) = found.output_names
    pictures = small_networks.frames(6, seed=3)
    return np.stack([compiled.run({found.input_name: frame})[name] for frame in pictures])


def session_for(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def there(path: Path, preprocess: Preprocess) -> NDArray[np.float64]:
    """Return what onnxruntime computes from the original, with float input, for the same."""
    session = session_for(path)
    pictures = [preprocess.normalise(frame) for frame in small_networks.frames(6, seed=3)]
    return np.stack([session.run(None, {"image": picture})[0] for picture in pictures])


def assert_close(one: NDArray[np.float64], other: NDArray[np.float64], step: float) -> None:
    """Require equal values for most elements, and one step of difference for the others."""
    assert other.std() > 4 * step
    assert np.abs(one - other).max() <= step
    assert (one == other).mean() > 0.5


def test_a_network_of_quark_keeps_all_its_integers(tmp_path: Path) -> None:
    path = saved(quantised_networks.like_quark(), tmp_path)
    found = quantized(path, HALVES)
    assert found.notices == (
        "quantised network: 5 of 5 layers keep their int8 weights and steps exactly",
    )
    assert_close(here(found), there(path, HALVES), 2.0**-5)


@pytest.mark.parametrize(
    ("scales", "first"),
    [
        (np.array([2.0**-6, 2.0**-9]), "weights exact, output in steps of 2 times the given one"),
        (
            np.stack([np.full(16, 0.0171), np.linspace(0.001, 0.003, 16)]),
            "weights re-quantised with a signal-to-noise ratio of ",
        ),
    ],
)
def test_a_network_of_brevitas_is_read(
    scales: NDArray[np.float64], first: str, tmp_path: Path
) -> None:
    path = saved(quantised_networks.like_brevitas(scales.astype(np.float32)), tmp_path)
    found = quantized(path, HALVES)
    assert [layer.name for layer in found.fidelities] == ["first_relu", "second_relu", "result"]
    assert found.notices[1].startswith(f"first_relu: {first}")
    one, other = here(found), there(path, HALVES)
    assert np.corrcoef(one.reshape(-1), other.reshape(-1))[0, 1] > 0.998


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_a_network_of_tflite_is_read(kind: type[np.int8 | np.uint8], tmp_path: Path) -> None:
    path = saved(quantised_networks.like_tf2onnx(kind), tmp_path)
    found = quantized(path, UNITS)
    assert len(found.fidelities) == 5
    assert all(layer.snr_db > 35 for layer in found.fidelities)
    session = session_for(path)
    offset = 128 if kind is np.int8 else 0
    # With these values of a picture, its bytes are the integers of the input.
    pictures = [
        (frame.astype(np.int16) - offset).astype(kind) for frame in small_networks.frames(6, seed=3)
    ]
    integers = np.stack([session.run(None, {"image": picture})[0] for picture in pictures])
    shares = (integers.astype(np.float64) + offset) / 256
    one = here(found)
    assert np.abs(one - shares).max() < 2 / 256
    assert np.corrcoef(one.reshape(-1), shares.reshape(-1))[0, 1] > 0.99


@pytest.mark.sim
def test_weights_of_minus_128_are_exact_on_the_accelerator(tmp_path: Path) -> None:
    """The simulator of the VTA gives the bits that onnxruntime computes from the original."""
    path = saved(quantised_networks.powers_of_two(residual=False), tmp_path)
    given = options(tmp_path, path, 16, 16)
    assert "vta" in [stage.kind for stage in build_bundle(given).stages]
    assert given.description is not None
    preprocess = description.load(given.description).preprocess
    session = session_for(path)
    with load(given.output) as pipeline:
        for frame in frames(16, 16)[:, None]:
            found = pipeline.submit(frame).result().outputs["result"]
            (expected,) = session.run(None, {"image": preprocess.normalise(frame)})
            assert_array_equal(found, expected)
