"""Networks in half or double precision, as networks of float32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.frontend.onnx_graph import array_of

_OTHERS = {
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.DOUBLE: "double",
}
_TYPES = ("to", "dtype", "output_dtype", "stash_type")  # attributes that name a type


def single_precision(model: onnx.ModelProto) -> tuple[str, ...]:
    """Make every tensor of float16, bfloat16 or double one of float32; return a notice for each.

    A picture of bytes, and results of int8 operators, are float32 without loss. Constants of double
    beyond the range of float32 become its largest value.
    """
    found: dict[int, None] = {}
    for graph in _graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            tensor = value.type.tensor_type
            if tensor.elem_type in _OTHERS:
                found[tensor.elem_type] = None
                tensor.elem_type = TensorProto.FLOAT
        for constant in graph.initializer:
            _convert(constant, found)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    _convert(attribute.t, found)
                if attribute.name in _TYPES and attribute.i in _OTHERS:
                    found[attribute.i] = None
                    attribute.i = TensorProto.FLOAT
    return tuple(f"tensors of {_OTHERS[kind]} become float" for kind in sorted(found))


def plain_casts(model: onnx.ModelProto) -> None:
    """Make every Cast from float32 to float32 an Identity; ``value_info`` says which those are."""
    values = (*model.graph.input, *model.graph.value_info)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    for node in model.graph.node:
        to = [a.i for a in node.attribute if a.name == "to"]
        if node.op_type == "Cast" and types.get(node.input[0]) == TensorProto.FLOAT == to[0]:
            node.CopyFrom(helper.make_node("Identity", [node.input[0]], [node.output[0]]))


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _convert(constant: TensorProto, found: dict[int, None]) -> None:
    if constant.data_type not in _OTHERS:
        return
    found[constant.data_type] = None
    values = np.asarray(array_of(constant), np.float64)
    constant.CopyFrom(numpy_helper.from_array(_single(values), constant.name))


def _single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return float32 of the same shape; what is infinite stays so."""
    limit = float(np.finfo(np.float32).max)
    bounded = np.where(np.isfinite(values), np.clip(values, -limit, limit), values)
    return bounded.astype(np.float32)
