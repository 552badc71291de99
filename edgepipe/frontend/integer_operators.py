"""Write ONNX operators on integers as operators on floats between QuantizeLinear pairs.

    before   QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias)
    after    QuantizeLinear(Conv(DequantizeLinear(x), w, bias), y_scale, y_zero), w and bias float

onnxruntime calls networks of such operators *QOperator*. Those that quantise their input while
they run (``DynamicQuantizeLinear`` with ``ConvInteger`` or ``MatMulInteger``) become operators on
floats without a range.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from edgepipe.errors import FrontendError
from edgepipe.frontend.onnx_graph import array_of, constants_of, set_nodes

Array = NDArray[Any]

AGAIN = (
    "give the float network, which edgepipe quantises, or quantise it with onnxruntime's "
    "quantize_static(..., quant_format=QuantFormat.QDQ)"
)
"""The remedy for integers that have no float form."""

_QONNX = (
    "export the network from Brevitas with export_onnx_qcdq, or give the float network, which "
    "edgepipe quantises"
)
_SUFFIX = "_quantized"  # of onnxruntime's names for integers


def is_quantize(node: onnx.NodeProto) -> bool:
    """Whether a node is a QuantizeLinear, of ONNX or of a tool's own domain."""
    return node.op_type in ("QuantizeLinear", "ExtendedQuantizeLinear", "VitisQuantizeLinear")


def is_dequantize(node: onnx.NodeProto) -> bool:
    """Whether a node is a DequantizeLinear, of ONNX or of a tool's own domain."""
    return node.op_type in (
        "DequantizeLinear",
        "ExtendedDequantizeLinear",
        "VitisDequantizeLinear",
    )


def is_quantised(node: onnx.NodeProto) -> bool:
    """Whether a node makes integers or computes on them."""
    known = (node.op_type in _RULES and node.op_type != "Cast") or (
        node.op_type in _FOREIGN and node.domain != ""
    )
    return known or is_quantize(node) or is_dequantize(node)


def as_pairs(path: Path, model: onnx.ModelProto) -> None:
    """Replace the operators on integers of ``model``, whose constants are folded.

    Raises ``FrontendError`` for operators of quantisation tools that have no such form.
    """
    rewriting = _Rewriting(path, model)
    for node in model.graph.node:
        rule = _RULES.get(node.op_type)
        if node.op_type in _FOREIGN and node.domain:
            raise FrontendError(
                f"{path}: {node.op_type} {node.output[0]} of {node.domain} has no float form",
                hint=_FOREIGN[node.op_type],
            )
        if rule is None:
            rewriting.nodes.append(node)
        else:
            rule(rewriting, node)
    set_nodes(model.graph, rewriting.nodes)


class _Rewriting:
    """The nodes so far, and the graph's constants."""

    def __init__(self, path: Path, model: onnx.ModelProto) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._path = path
        self._graph = model.graph
        self._constants = constants_of(model.graph)
        self._values = {value for node in model.graph.node for value in node.output}
        self._dynamic: set[str] = set()  # what stands for integers, and accumulators

    # Rules: each appends the nodes that replace one.

    def conv(self, node: onnx.NodeProto) -> None:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = node.input
        result = self._real_name(node.output[0])
        inputs = [self._dequantize(x, x_scale, x_zero), self._weight(w, w_scale, w_zero, 0)]
        if bias and bias[0]:
            inputs.append(self._bias(node, bias[0], x_scale, w_scale))
        self._add("Conv", inputs, result, node)
        self._quantize(result, y_scale, y_zero, node.output[0])

    def matmul(self, node: onnx.NodeProto) -> None:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
        result = self._real_name(node.output[0])
        inputs = [self._dequantize(a, a_scale, a_zero), self._weight(b, b_scale, b_zero, -1)]
        self._add("MatMul", inputs, result, node)
        self._quantize(result, y_scale, y_zero, node.output[0])

    def gemm(self, node: onnx.NodeProto) -> None:
        names = [*node.input, "", ""]
        a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = names[:9]
        result = self._real_name(node.output[0])
        across = 0 if any(x.name == "transB" and x.i for x in node.attribute) else 1
        inputs = [self._dequantize(a, a_scale, a_zero), self._weight(b, b_scale, b_zero, across)]
        if c:
            inputs.append(self._bias(node, c, a_scale, b_scale))
        if not y_scale:  # the result is float
            self._add("Gemm", inputs, node.output[0], node)
            return
        self._add("Gemm", inputs, result, node)
        self._quantize(result, y_scale, y_zero, node.output[0])

    def of_two(self, node: onnx.NodeProto) -> None:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
        inputs = [self._dequantize(a, a_scale, a_zero), self._dequantize(b, b_scale, b_zero)]
        self._between(node, inputs, y_scale, y_zero)

    def of_one(self, node: onnx.NodeProto) -> None:
        x, x_scale, x_zero, y_scale, y_zero = [*node.input, ""][:5]
        if any(a.name == "channels_last" and a.i for a in node.attribute):
            raise FrontendError(
                f"{self._path}: {node.op_type} {node.output[0]} has its channels last, expected "
                "them first",
                hint=AGAIN,
            )
        self._between(node, [self._dequantize(x, x_scale, x_zero)], y_scale, y_zero)

    def concat(self, node: onnx.NodeProto) -> None:
        y_scale, y_zero, *parts = node.input
        triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        self._between(node, [self._dequantize(*triple) for triple in triples], y_scale, y_zero)

    def dynamic(self, node: onnx.NodeProto) -> None:
        """Let the float tensor stand for the integers, with a scale of one."""
        integers, scale, zero = node.output
        self._constant(scale, np.float32(1))
        self._constant(zero, np.uint8(0))
        self._dynamic.add(integers)
        self.nodes.append(helper.make_node("Identity", [node.input[0]], [integers]))

    def integer(self, node: onnx.NodeProto) -> None:
        """Compute on the float tensor; what follows multiplies by the weights' scale."""
        if node.input[0] not in self._dynamic or node.input[1] not in self._constants:
            raise FrontendError(
                f"{self._path}: {node.op_type} {node.output[0]} reads integers that no "
                "DynamicQuantizeLinear makes",
                hint=AGAIN,
            )
        zero = node.input[3] if len(node.input) > 3 else ""
        kind = node.op_type.removesuffix("Integer")
        weight = self._weight(node.input[1], "", zero, 0 if kind == "Conv" else -1)
        self._add(kind, [node.input[0], weight], node.output[0], node)
        self._dynamic.add(node.output[0])

    def cast(self, node: onnx.NodeProto) -> None:
        """Omit the conversion of an accumulator, which is float already."""
        if node.input[0] in self._dynamic:
            node = helper.make_node("Identity", [node.input[0]], [node.output[0]])
        self.nodes.append(node)

    # Their parts.

    def _between(self, node: onnx.NodeProto, inputs: list[str], y_scale: str, y_zero: str) -> None:
        result = self._real_name(node.output[0])
        self._add(node.op_type.removeprefix("QLinear"), inputs, result, node)
        self._quantize(result, y_scale, y_zero, node.output[0])

    def _real_name(self, integers: str) -> str:
        short = integers.removesuffix(_SUFFIX)
        if short != integers and short not in self._values:
            self._values.add(short)
            return short
        return f"{integers}/real"

    def _add(self, kind: str, inputs: list[str], result: str, original: onnx.NodeProto) -> None:
        made = helper.make_node(kind, inputs, [result])
        unknown = ("channels_last", "opset")
        made.attribute.extend(a for a in original.attribute if a.name not in unknown)
        self.nodes.append(made)

    def _dequantize(self, value: str, scale: str, zero: str) -> str:
        if value in self._constants:
            return self._weight(value, scale, zero, 0)
        result = f"{value}/dequantised/{len(self.nodes)}"
        inputs = [value, scale, *([zero] if zero else [])]
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [result]))
        return result

    def _quantize(self, value: str, scale: str, zero: str, result: str) -> None:
        inputs = [value, scale, *([zero] if zero else [])]
        self.nodes.append(helper.make_node("QuantizeLinear", inputs, [result]))

    def _weight(self, value: str, scale: str, zero: str, axis: int) -> str:
        """Return float weights: constants, or the result of a DequantizeLinear."""
        if value not in self._constants:
            return self._dequantize(value, scale, zero)
        scales = self._array(scale) if scale else np.ones(1)
        zeros = self._array(zero) if zero else np.zeros(1)
        real = dequantised(self._array(value), scales, zeros, axis)
        return self._constant(f"{value}/dequantised/{len(self.nodes)}", real)

    def _bias(self, node: onnx.NodeProto, bias: str, x_scale: str, w_scale: str) -> str:
        """Return a bias in units of the accumulator, which the operator implies, as floats."""
        if not {bias, x_scale, w_scale} <= self._constants.keys():
            raise FrontendError(
                f"{self._path}: {node.op_type} {node.output[0]} computes its bias or its scales "
                "from the picture, expected constants",
                hint=AGAIN,
            )
        alpha = next((a.f for a in node.attribute if a.name == "alpha"), 1.0)
        unit = alpha * self._array(x_scale).reshape(-1) * self._array(w_scale).reshape(-1)
        real = self._array(bias).astype(np.float32) * unit.astype(np.float32)
        return self._constant(f"{bias}/dequantised/{len(self.nodes)}", real)

    def _array(self, value: str) -> Array:
        found = self._constants.get(value)
        if found is None:
            raise FrontendError(
                f"{self._path}: {value} is computed from the picture, expected a constant",
                hint=AGAIN,
            )
        return array_of(found)

    def _constant(self, name: str, values: Array | np.generic) -> str:
        self._graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
        self._constants[name] = self._graph.initializer[-1]
        return name


def dequantised(integers: Array, scale: Array, zero: Array, axis: int) -> NDArray[np.float32]:
    """Return the float32 values that onnxruntime computes from integer constants.

    ``integers`` have any shape; ``scale`` and ``zero`` have one element, or one for each index of
    ``axis``.
    """
    shape = [1] * integers.ndim
    if max(scale.size, zero.size) > 1:
        shape[axis] = -1
    steps = integers.astype(np.int64) - zero.astype(np.int64).reshape(_like(zero, shape))
    return steps.astype(np.float32) * scale.astype(np.float32).reshape(_like(scale, shape))


def _like(values: Array, shape: list[int]) -> list[int]:
    return shape if values.size > 1 else [1] * len(shape)


_RULES: dict[str, Callable[[_Rewriting, onnx.NodeProto], None]] = {
    "Cast": _Rewriting.cast,
    "ConvInteger": _Rewriting.integer,
    "DynamicQuantizeLinear": _Rewriting.dynamic,
    "MatMulInteger": _Rewriting.integer,
    "QGemm": _Rewriting.gemm,
    "QLinearAdd": _Rewriting.of_two,
    "QLinearAveragePool": _Rewriting.of_one,
    "QLinearConcat": _Rewriting.concat,
    "QLinearConv": _Rewriting.conv,
    "QLinearGlobalAveragePool": _Rewriting.of_one,
    "QLinearLeakyRelu": _Rewriting.of_one,
    "QLinearMatMul": _Rewriting.matmul,
    "QLinearMul": _Rewriting.of_two,
    "QLinearSigmoid": _Rewriting.of_one,
    "QLinearSoftmax": _Rewriting.of_one,
}
# Operators of quantisation tools without integers of 8 or 16 bits behind them.
_FOREIGN = {
    "BFPQuantizeDequantize": AGAIN,
    "BipolarQuant": _QONNX,
    "FixNeuron": AGAIN,
    "MXQuantizeDequantize": AGAIN,
    "Quant": _QONNX,
    "Trunc": _QONNX,
}
