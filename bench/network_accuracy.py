"""How near a network's int8 outputs are to its float outputs: cosine, and signal to noise.

int8 is integer Relax on stock TVM, which defines the bits of the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from bench.network_cases import Case
from edgepipe.frontend.network import Network, load_network
from edgepipe.frontend.preprocess import Frame
from edgepipe.quantize.quantizer import QuantizeOptions, quantize
from edgepipe.tvm_adapter import CompiledModule

Array = NDArray[np.float64]
_LEAST = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """Means over ``pictures`` and outputs: the cosine, and the signal-to-noise ratio in dB."""

    cosine: float
    snr_db: float
    pictures: int


def nearness(case: Case, path: Path) -> Nearness:
    """Quantise the network at ``path`` with the pictures of ``case`` and compare it with float.

    Raises EdgepipeError for a network that cannot be quantised, and ``LackingError`` if a package
    with pictures is missing.
    """
    pre = case.preprocess
    calibration = case.calibration()
    network = load_network(path, (pre.channels, pre.height, pre.width))
    quantized = quantize(network, calibration, pre, QuantizeOptions(frames=len(calibration)))
    machine = CompiledModule(quantized.module)
    cosines, ratios, count = [], [], 0
    for frame, exact in _float(network, case):
        if max(float(value.max()) for value in exact) < case.least:
            continue
        count += 1
        found = machine.run({quantized.input_name: frame})
        for name, value in zip(quantized.output_names, exact, strict=True):
            one, other = value.astype(np.float64).reshape(-1), found[name].reshape(-1)
            noise = float(np.square(one - other).sum())
            signal = float(np.square(one).sum())
            norms = float(np.linalg.norm(one) * np.linalg.norm(other.astype(np.float64)))
            cosines.append(float(one @ other) / max(norms, _LEAST))
            ratios.append(10 * np.log10(max(signal, _LEAST) / max(noise, _LEAST)))
    return Nearness(cosine=float(np.mean(cosines)), snr_db=float(np.mean(ratios)), pictures=count)


def _float(network: Network, case: Case) -> Iterator[tuple[Frame, list[NDArray[np.float32]]]]:
    """Yield every frame for evaluation with the float network's outputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        network.onnx_model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    name = network.onnx_input
    shape = next(entry.shape for entry in session.get_inputs() if entry.name == name)
    for frame in case.evaluation():
        values = case.preprocess.normalise(frame)
        if list(values.shape) != list(shape):  # channels last
            values = np.ascontiguousarray(values.transpose(0, 2, 3, 1))
        yield frame, session.run(None, {name: values})
