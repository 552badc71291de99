"""The price of shifts: int8 networks whose weights and factors may have any step.

edgepipe requantises by shifts, so a channel's weights have a step that is the output's times a
power of two, divided by the input's. Here the same network, with the same steps of all tensors, has
weights in steps of a channel's largest weight / 127, as onnxruntime's, and float factors: a float
multiplication brings each accumulator to the output's steps. All that remains of edgepipe's error
is then that of int8 itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgepipe.frontend.network import Network
from edgepipe.quantize import float_layers
from edgepipe.quantize.graph import Activation, ConvNode, Node, ProductNode, SumNode
from edgepipe.quantize.integers import IntegerNetwork, Operation
from edgepipe.quantize.normal_forms import write_weighted
from edgepipe.quantize.quantizer import QuantizedNetwork, understand
from edgepipe.quantize.scheme import Scheme
from edgepipe.quantize.to_integers import ToIntegers
from edgepipe.quantize.weights import as_weight, expected_error, input_rows
from edgepipe.quantize.write_relax import WriteRelax
from edgepipe.tvm_adapter import IRModule, ModuleBuilder
from vta_stages.layers.records import Conv, Product, Sum, Term, TransposedConv

Float = NDArray[np.float64]

MOST = 127  # the largest int8 weight


def free_module(network: Network, quantized: QuantizedNetwork) -> IRModule:
    """Return ``quantized``, the int8 form of ``network``, with free steps of weights and factors.

    It reads and returns what integer Relax does.
    """
    scheme = quantized.scheme
    graph = understand(network, float_layers.requested(scheme.options.float_layers))
    to_integers = ToIntegers(
        measured=scheme.tensors,
        preprocess=quantized.preprocess,
        options=scheme.options,
        given=network.given,
    )
    integers = to_integers.apply(graph)
    freed = _Freed(ModuleBuilder(), integers, scheme)
    freed.builder.param(integers.input, integers.frame_shape, "uint8")
    nodes = {node.name: node for node in graph.nodes}
    relax = WriteRelax(network.module)
    for operation in integers.operations:
        node = nodes.get(operation.name) or nodes.get(operation.name.removesuffix(".int8"))
        if not freed.write(operation, node):
            relax.write(freed.builder, operation)
    return freed.builder.finish(tuple(integers.outputs), returns_tuple=len(integers.outputs) > 1)


@dataclass(frozen=True, slots=True)
class _Freed:
    """Writes operators with free steps; those of the tensors are those of ``integers``."""

    builder: ModuleBuilder
    integers: IntegerNetwork
    scheme: Scheme

    def write(self, operation: Operation, node: Node | None) -> bool:
        """Write an operator that multiplies by weights or factors; return whether it does."""
        match operation, node:
            case Conv() | TransposedConv(), ConvNode():
                value, terms = self._weighted(operation, node), node.residuals
            case Sum(), SumNode():
                value, terms = "", node.terms
            case Product(), ProductNode():
                value, terms = self._product(operation, node), node.residuals
            case _:
                return False
        factors = [factor for _, factor in terms]
        value = self._summed(operation, value, operation.terms, factors)
        self._finished(operation, value, node.bias, node.activation)
        return True

    def _weighted(self, layer: Conv | TransposedConv, node: ConvNode) -> str:
        """Write the sum of products of weights, in steps of the output; return its name."""
        projections = layer.projections if isinstance(layer, Conv) else ()
        read = [layer.input.name, *(part.tensor.name for part in projections)]
        real = [input_rows(node, self._step(read[0]))]
        real += [
            part.weight * self._step(name)
            for part, name in zip(node.projections, read[1:], strict=True)
        ]
        rows = np.hstack(real)
        step = np.maximum(np.abs(rows).max(axis=1), np.finfo(np.float64).tiny) / MOST
        rounded = np.rint(rows / step[:, None])
        borders = np.cumsum([part.shape[1] for part in real])[:-1]
        offset = np.zeros(len(rows))
        errors = np.split(rows / step[:, None] - rounded, borders, axis=1)
        parts = np.split(rounded, borders, axis=1)
        for index, (name, tensor) in enumerate(zip(read, node.weighted_inputs, strict=True)):
            offset -= self.integers.zeros.get(name, 0) * parts[index].sum(axis=1)
            measured = self.scheme.tensors.get(tensor)
            if measured is not None and self.scheme.options.bias_correction:
                mean = measured.mean / self._step(name)
                error = errors[index]
                offset += error @ mean if index else expected_error(node, error, mean)
        weighted = replace(layer, weight=as_weight(node, parts[0].astype(np.int64)))
        if projections:
            weighted = replace(
                weighted,
                projections=tuple(
                    replace(projection, weight=part.astype(np.int8))
                    for projection, part in zip(projections, parts[1:], strict=True)
                ),
            )
        acc = self.builder.emit(
            f"{layer.name}__float",
            "astype",
            write_weighted(self.builder, weighted),
            dtype="float32",
        )
        acc = self.builder.emit(f"{layer.name}__offset", "add", acc, _by_channel(offset))
        factor = _by_channel(step / self._step(layer.name))
        return self.builder.emit(f"{layer.name}__scaled", "multiply", acc, factor)

    def _product(self, layer: Product, node: ProductNode) -> str:
        """Write the product of two tensors in steps of the output; return its name."""
        parts = [
            self.builder.emit(f"{layer.name}__{part}", "astype", name, dtype="float32")
            for part, name in (("first", layer.first.name), ("second", layer.second.name))
        ]
        value = self.builder.emit(f"{layer.name}__product", "multiply", *parts)
        step = self._step(layer.first.name) * self._step(layer.second.name) * node.factor
        factor = _by_channel(step / self._step(layer.name))
        return self.builder.emit(f"{layer.name}__scaled", "multiply", value, factor)

    def _summed(
        self, layer: Operation, value: str, terms: Sequence[Term], factors: Sequence[Float]
    ) -> str:
        """Add residual terms to ``value``, in steps of the output; empty has no value yet."""
        name = layer.name
        for index, (term, real) in enumerate(zip(terms, factors, strict=True)):
            factor = _by_channel(self._step(term.tensor.name) * real / self._step(name))
            wide = self.builder.emit(
                f"{name}__wide{index}", "astype", term.tensor.name, dtype="float32"
            )
            part = self.builder.emit(f"{name}__term{index}", "multiply", wide, factor)
            sum_ = f"{name}__sum{index}"
            value = self.builder.emit(sum_, "add", value, part) if value else part
        return value

    def _finished(
        self,
        layer: Conv | TransposedConv | Sum | Product,
        value: str,
        bias: Float,
        activation: Activation,
    ) -> None:
        """Write bias and activation, and round to int8."""
        name, builder = layer.name, self.builder
        value = builder.emit(f"{name}__biased", "add", value, _by_channel(bias / self._step(name)))
        if activation.slope != 1.0:
            slope = np.full((1, 1, 1, 1), activation.slope, np.float32)
            leak = builder.emit(f"{name}__leak", "multiply", value, slope)
            value = builder.emit(f"{name}__leaky", "maximum", value, leak)
        value = builder.emit(f"{name}__rounded", "round", value)
        zero = np.full((1, 1, 1, 1), self.integers.zeros.get(name, 0), np.float32)
        value = builder.emit(f"{name}__moved", "add", value, zero)
        low, high = float(layer.epilogue.low), float(layer.epilogue.high)
        value = builder.emit(f"{name}__clipped", "clip", value, low, high)
        builder.emit(name, "astype", value, dtype="int8")

    def _step(self, tensor: str) -> Float:
        return self.integers.scales[tensor]


def _by_channel(values: Float) -> NDArray[np.float32]:
    """Shape float64[c] as the constant float32[1, c, 1, 1] that broadcasts over a picture."""
    return np.ascontiguousarray(values, np.float32).reshape(1, -1, 1, 1)
