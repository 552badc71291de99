"""Write the padding of convolutions and poolings into the operators themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto

from edgepipe.frontend.onnx_graph import array_of, constants_of, set_attribute, shapes_of, text_of

_WINDOWED = ("AveragePool", "Conv", "ConvTranspose", "MaxPool")
_LOWEST = -1e30  # a border below this never wins a maximum
_NOT_NEGATIVE = ("Relu", "Sigmoid", "HardSigmoid")


def explicit_padding(model: onnx.ModelProto) -> None:
    """Replace ``auto_pad`` of convolutions and poolings by the pads that it stands for.

    before   Conv(x, auto_pad="SAME_UPPER")
    after    Conv(x, pads=[0, 0, 1, 1])
    """
    shapes = shapes_of(model)
    for node in model.graph.node:
        rule = text_of(node, "auto_pad", "NOTSET") if node.op_type in _WINDOWED else "NOTSET"
        if rule == "NOTSET":
            continue
        size = shapes.get(node.input[0], ())[2:]
        ints = {a.name: list(a.ints) for a in node.attribute}
        kernel = ints.get("kernel_shape") or list(
            shapes.get(node.input[1] if len(node.input) > 1 else "", ())[2:]
        )
        if len(size) != len(kernel) or (node.op_type == "ConvTranspose" and rule != "VALID"):
            continue
        strides = ints.get("strides") or [1] * len(size)
        dilations = ints.get("dilations") or [1] * len(size)
        if rule == "VALID":
            totals = [0] * len(size)
        else:
            reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
            totals = [
                max((-(-n // s) - 1) * s + r - n, 0)
                for n, s, r in zip(size, strides, reach, strict=True)
            ]
        less, more = [t // 2 for t in totals], [-(-t // 2) for t in totals]
        begin, end = (more, less) if rule == "SAME_LOWER" else (less, more)
        set_attribute(node, "auto_pad", None)
        set_attribute(node, "pads", [*begin, *end])


def fold_pads(model: onnx.ModelProto) -> None:
    """Fold the border that a Pad adds into the convolution or pooling that reads it.

    ``Conv(Pad(x, zeros))`` becomes ``Conv(x)`` with wider pads, as does an average that counts its
    padding. A maximum takes a border of very small values, and one of zeros if nothing in ``x`` is
    negative. The Pad itself stays for other readers.
    """
    graph = model.graph
    constants = constants_of(graph)
    pads = {node.output[0]: node for node in graph.node if node.op_type == "Pad"}
    makers = {value: node for node in graph.node for value in node.output}
    for node in graph.node:
        pad = pads.get(node.input[0]) if node.op_type in _FOLDABLE else None
        border = _border(pad, constants) if pad is not None else None
        if pad is None or border is None or text_of(node, "auto_pad", "NOTSET") != "NOTSET":
            continue
        amounts, value = border
        own = next((list(a.ints) for a in node.attribute if a.name == "pads"), [0] * 4)
        maker = makers.get(pad.input[0])
        if not _FOLDABLE[node.op_type](node, own, value, maker):
            continue
        kernel = next((list(a.ints) for a in node.attribute if a.name == "kernel_shape"), [])
        wider = [a + b for a, b in zip(own, amounts, strict=True)]
        if node.op_type != "Conv" and max(wider) >= min(kernel, default=0):
            continue
        set_attribute(node, "pads", wider)
        node.input[0] = pad.input[0]
        if node.op_type == "AveragePool":
            set_attribute(node, "count_include_pad", 1)


def _conv_takes(_: onnx.NodeProto, __: Sequence[int], value: float, ___: object) -> bool:
    return value == 0


def _average_takes(node: onnx.NodeProto, own: Sequence[int], value: float, _: object) -> bool:
    counted = any(a.name == "count_include_pad" and a.i for a in node.attribute)
    rounded_up = any(a.name == "ceil_mode" and a.i for a in node.attribute)
    return value == 0 and not rounded_up and (counted or not any(own))


def _maximum_takes(
    _: onnx.NodeProto, __: Sequence[int], value: float, maker: onnx.NodeProto | None
) -> bool:
    positive = maker is not None and maker.op_type in _NOT_NEGATIVE
    return value <= _LOWEST or (value == 0 and positive)


_FOLDABLE = {"AveragePool": _average_takes, "Conv": _conv_takes, "MaxPool": _maximum_takes}


def _border(
    node: onnx.NodeProto, constants: Mapping[str, TensorProto]
) -> tuple[list[int], float] | None:
    """Return (top, left, bottom, right) and value of a constant border around pictures, or None."""
    names = [*node.input, "", ""]
    if text_of(node, "mode", "constant") != "constant" or len(node.input) > 3:
        return None
    value = 0.0
    if len(node.input) == 1:  # opset 10 and below
        amounts = next((list(a.ints) for a in node.attribute if a.name == "pads"), [])
        value = next((a.f for a in node.attribute if a.name == "value"), 0.0)
    elif names[1] in constants and (not names[2] or names[2] in constants):
        amounts = [int(v) for v in array_of(constants[names[1]]).reshape(-1)]
        if names[2]:
            value = float(np.asarray(array_of(constants[names[2]]), np.float64).reshape(-1)[0])
    else:
        return None
    if len(amounts) != 8 or min(amounts) < 0 or any(amounts[:2] + amounts[4:6]):
        return None
    return [*amounts[2:4], *amounts[6:8]], value
