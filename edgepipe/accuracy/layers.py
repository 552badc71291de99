"""The values of every layer of a network, in float and in integers.

Integers are computed by integer Relax on stock TVM, which defines every bit of a bundle. An int8
value less its tensor's zero point, times the tensor's step, is a real value. In the mode *so far*,
a layer reads what the integer layers before it computed. In the mode *alone*, it reads the float
network's values, rounded to the steps of its inputs, so its error is its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.accuracy.networks import NetworkPair
from edgepipe.frontend.preprocess import Frame
from edgepipe.partition.operator import Operator
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.calibrate import float_session
from edgepipe.tvm_adapter import CompiledModule, IRModule, ModuleBuilder, read_main

Array = NDArray[Any]
Float = NDArray[np.float64]

# What the mode "alone" adds to the names of the tensors that it is given, and that it computes.
_GIVEN, _ALONE = ".given", ".alone"
_FORMS = ("", ".int8", ".int16", ".float")  # what the quantiser adds to the name of a float tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """An operator of the integer network whose output has a value in the float network, too.

    ``value`` is the ONNX value; it is empty for the picture that the network reads. ``dtype`` is
    int8, int16 or float32. ``step`` is the real value of one step for each channel of an integer
    output, and None for a float one; ``zero`` is the int8 value that stands for 0.
    """

    operator: Operator = field(repr=False)
    value: str
    dtype: str
    step: Float | None = field(repr=False)
    zero: int = 0

    @property
    def name(self) -> str:
        """The operator's name, which is that of its output."""
        return self.operator.name

    def real(self, found: Array) -> Float:
        """Return the real values of the integer network's output ``found``, float64.

        ``found`` has the dtype and shape of the operator's output.
        """
        return (found.astype(np.float64) - self.zero) * self._steps(found.ndim)

    def given(self, value: NDArray[np.float32], shape: tuple[int, ...]) -> Array:
        """Return the float network's ``value`` as the tensor of ``shape`` that an operator reads.

        ``value`` is float32 of any shape with as many elements; the result has the layer's dtype.
        """
        value = value.reshape(shape)
        if self.step is None:
            return value
        steps: Float = np.rint(value / self._steps(len(shape))) + self.zero
        limits = np.iinfo(self.dtype)
        clipped: Array = np.clip(steps, limits.min, limits.max).astype(self.dtype)
        return clipped

    def _steps(self, rank: int) -> Float:
        step = np.ones(1) if self.step is None else self.step
        return step.reshape((1, -1) + (1,) * (rank - 2)) if rank > 1 else step


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerValues:
    """One layer's output for one picture, as real values of one shape, float64."""

    layer: Layer
    expected: Float
    so_far: Float
    alone: Float


class LayerRunner:
    """Computes the values of all layers of a network, picture by picture; compiled once."""

    def __init__(self, pair: NetworkPair) -> None:
        """Compile both modes. Raises ``QuantizeError`` if onnxruntime cannot run the network."""
        self._pair = pair
        module = pair.quantized.module
        operators = match_operators(module)
        self._input = pair.quantized.input_name
        self._shapes = _shapes(module)
        found = (_layer(operator, self._shapes[operator.output][1], pair) for operator in operators)
        self.layers = tuple(layer for layer in found if layer)
        known = {layer.name: layer for layer in self.layers}
        self._read = {
            tensor: known[tensor]
            for operator in operators
            for tensor in operator.inputs
            if tensor in known
        }
        self._module = CompiledModule(
            _both_modes(module, operators, [layer.name for layer in self.layers], self._read)
        )
        self._values = list(dict.fromkeys(layer.value for layer in self.layers if layer.value))
        self._float = float_session(pair.network, self._values)

    def run(self, frame: Frame) -> list[LayerValues]:
        """Return the values of every layer for ``frame: uint8[1, h, w, c]``, in program order."""
        picture = self._pair.manifest.preprocess.normalise(frame)
        results = self._float.run(None, {self._pair.network.onnx_input: picture})
        expected = dict(zip(self._values, results, strict=True)) | {"": picture}
        given: dict[str, Array] = {
            tensor + _GIVEN: layer.given(expected[layer.value], self._shapes[tensor][0])
            for tensor, layer in self._read.items()
        }
        found = self._module.run({self._input: frame} | given)
        return [
            LayerValues(
                layer=layer,
                expected=expected[layer.value].astype(np.float64).reshape(found[layer.name].shape),
                so_far=layer.real(found[layer.name]),
                alone=layer.real(found[layer.name + _ALONE]),
            )
            for layer in self.layers
        ]


def _layer(operator: Operator, dtype: str, pair: NetworkPair) -> Layer | None:
    """Return an operator as a layer, or None if the float network has no value to compare with."""
    scales = {"int8": pair.quantized.scales, "int16": pair.quantized.int16_scales, "float32": {}}
    if dtype not in scales:
        return None
    step = scales[dtype].get(operator.output)
    if dtype != "float32" and step is None:
        return None
    values = dict(pair.network.values) | {pair.network.input_name: ""}
    for form in _FORMS:
        value = values.get(operator.output.removesuffix(form))
        if value is not None:
            zero = pair.quantized.zeros.get(operator.output, 0)
            return Layer(operator=operator, value=value, dtype=dtype, step=step, zero=zero)
    return None


def _shapes(module: IRModule) -> dict[str, tuple[tuple[int, ...], str]]:
    main = read_main(module)
    found = {param.name: (param.shape, param.dtype) for param in main.params}
    return found | {binding.name: (binding.shape, binding.dtype) for binding in main.bindings}


def _both_modes(
    module: IRModule,
    operators: tuple[Operator, ...],
    outputs: list[str],
    given: Iterable[str],
) -> IRModule:
    """Return a module that computes every operator twice, and returns ``outputs`` of both modes.

    The second time, operators read each tensor in ``given`` from a parameter. All other tensors,
    such as parts that have no value in the float network, are computed from those. Both modes are
    in one module because TVM then compiles a kernel once for both.
    """
    shapes = _shapes(module)
    builder = ModuleBuilder()
    for param in read_main(module).params:
        builder.param(param.name, param.shape, param.dtype)
    for tensor in given:
        builder.param(tensor + _GIVEN, *shapes[tensor])
    bindings = [binding for operator in operators for binding in operator.bindings]
    renamed = {binding.name: binding.name + _ALONE for binding in bindings}
    renamed |= {tensor: tensor + _GIVEN for tensor in given}
    for binding in bindings:
        builder.copy(binding, binding.name, {}, module)
        builder.copy(binding, binding.name + _ALONE, renamed, module)
    return builder.finish([*outputs, *(output + _ALONE for output in outputs)], returns_tuple=True)
