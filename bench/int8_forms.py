"""The int8 forms of one float network, all calibrated on the same frames, and their cosines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from onnxruntime.quantization import QuantType

from bench import onnxruntime_int8
from bench.figures import Figure
from bench.free_steps import free_module
from bench.onnxruntime_int8 import Outputs
from edgepipe.frontend.network import Network
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.quantize.quantizer import QuantizedNetwork, QuantizeOptions, quantize
from edgepipe.tvm_adapter import CompiledModule, IRModule

Form = Callable[[Sequence[Frame]], Iterator[Outputs]]

MOST_FOR_SHIFTS = 0.002
FREE_STEPS = "edgepipe's tensors, free steps of weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """A network, and the frames uint8[1, h, w, c] that calibrate its int8 forms."""

    network: Network
    calibration: Sequence[Frame]
    preprocess: Preprocess

    def exact(self, frames: Sequence[Frame]) -> Iterator[Outputs]:
        """Yield the float network's outputs."""
        content = self.network.onnx_model.SerializeToString()
        yield from onnxruntime_int8.run(content, frames, self.preprocess)

    def quantised(self, calibration: Sequence[Frame], rounding: str = "nearest") -> Form:
        """Return edgepipe's int8, as integer Relax, from other frames or another rounding."""
        quantized = self._quantized(calibration, rounding)
        return partial(_run, quantized, quantized.module)

    def with_free_steps(self) -> Form:
        """Return edgepipe's int8 with free steps of weights and factors (``free_steps.py``)."""
        quantized = self._quantized(self.calibration)
        return partial(_run, quantized, free_module(self.network, quantized))

    def others(self) -> dict[str, Form]:
        """Return onnxruntime's int8 and that with powers of two, by their names in figures."""
        arguments = (self.network.onnx_model, self.calibration, self.preprocess)
        contents = {
            f"onnxruntime, {kind} activations": onnxruntime_int8.quantised(*arguments, of)
            for kind, of in (("signed", QuantType.QInt8), ("unsigned", QuantType.QUInt8))
        }
        coarse = onnxruntime_int8.with_powers_of_two(*arguments)
        contents["a power of two for each tensor"] = coarse
        return {
            name: partial(onnxruntime_int8.run, content, pre=self.preprocess)
            for name, content in contents.items()
        }

    def _quantized(
        self, calibration: Sequence[Frame], rounding: str = "nearest"
    ) -> QuantizedNetwork:
        options = QuantizeOptions(frames=len(calibration), rounding=rounding)
        return quantize(self.network, calibration, self.preprocess, options)


def mean_cosine(expected: Iterable[Outputs], found: Iterable[Outputs]) -> float:
    """Return the mean over pictures and outputs of the cosine between two outputs of one size."""
    cosines = []
    for outputs in zip(expected, found, strict=True):
        for one, other in zip(*outputs, strict=True):
            a, b = one.astype(np.float64).reshape(-1), other.astype(np.float64).reshape(-1)
            cosines.append(float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-30)))
    return float(np.mean(cosines))


def price_of_shifts(what: str, found: float, free: float) -> Figure:
    """Return what free steps would gain, as a figure with its limit."""
    return Figure(
        name=f"{what}, price of shifts",
        value=max(free - found, 0),
        unit="",
        at_most=MOST_FOR_SHIFTS,
    )


def _run(
    quantized: QuantizedNetwork, module: IRModule, frames: Sequence[Frame]
) -> Iterator[Outputs]:
    machine = CompiledModule(module)
    for frame in frames:
        outputs = machine.run({quantized.input_name: frame})
        yield tuple(outputs[name] for name in quantized.output_names)
