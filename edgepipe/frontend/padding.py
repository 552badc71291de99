"""Write the padding of convolutions and poolings into the operators themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.onnx_graph import (
    array_of,
    constants_of,
    set_attribute,
    set_nodes,
    shapes_of,
    text_of,
)

_WINDOWED = ("AveragePool", "Conv", "ConvTranspose", "MaxPool")
_SAME = ("SAME_UPPER", "SAME_LOWER")
_LOWEST = -1e30  # a border below this never wins a maximum
_LARGEST_SHIFT = 1e3  # a border above this would make what is shifted by it coarse
_MODES = ("constant", "edge", "reflect", "wrap")
_NOT_NEGATIVE = ("Relu", "Sigmoid", "HardSigmoid")


def explicit_padding(model: onnx.ModelProto) -> None:
    """Replace ``auto_pad`` of convolutions and poolings by the pads that it stands for.

    before   Conv(x, auto_pad="SAME_UPPER")
    after    Conv(x, pads=[0, 0, 1, 1])

    before   ConvTranspose(x, output_shape=[32, 32])
    after    ConvTranspose(x, pads=[1, 1, 0, 0])
    """
    shapes = shapes_of(model)
    for node in model.graph.node:
        if node.op_type == "ConvTranspose":
            _pad_transposed(node, shapes)
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


def _pad_transposed(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Give a transposed convolution the pads that follow from its shape or rule.

    By the operator's definition: what is more than the wanted extent is cut off, the larger half of
    it in front unless the rule is ``SAME_UPPER``.
    """
    ints = {a.name: list(a.ints) for a in node.attribute}
    rule = text_of(node, "auto_pad", "NOTSET")
    wanted = ints.get("output_shape", [])
    size = shapes.get(node.input[0], ())[2:]
    kernel = ints.get("kernel_shape") or list(shapes.get(node.input[1], ())[2:])
    axes = len(size)
    if (rule not in _SAME and not wanted) or not axes or len(kernel) != axes:
        return
    strides, dilations = (ints.get(name) or [1] * axes for name in ("strides", "dilations"))
    more = ints.get("output_padding") or [0] * axes
    wanted = wanted[-axes:] or [n * s for n, s in zip(size, strides, strict=True)]
    if not len(wanted) == len(strides) == len(dilations) == len(more) == axes:
        return
    totals = [
        (n - 1) * stride + extra + (k - 1) * dilation + 1 - out
        for n, stride, extra, k, dilation, out in zip(
            size, strides, more, kernel, dilations, wanted, strict=True
        )
    ]
    if min(totals) < 0:
        return
    less, rest = [t // 2 for t in totals], [-(-t // 2) for t in totals]
    begin, end = (less, rest) if rule == "SAME_UPPER" else (rest, less)
    set_attribute(node, "auto_pad", None)
    set_attribute(node, "output_shape", None)
    set_attribute(node, "pads", [*begin, *end])


def dilated_padding(model: onnx.ModelProto) -> None:
    """Replace ``auto_pad`` where a dilated convolution has it, which onnxruntime does not run.

    The input must have a static size; ``value_info`` gets the shapes that follow from it.
    """
    for node in model.graph.node:
        dilations = [d for a in node.attribute if a.name == "dilations" for d in a.ints]
        if max(dilations, default=1) > 1 and text_of(node, "auto_pad", "NOTSET") in _SAME:
            infer_shapes(model)
            explicit_padding(model)
            return


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
    node: onnx.NodeProto, __: Sequence[int], value: float, maker: onnx.NodeProto | None
) -> bool:
    rounded_up = any(a.name == "ceil_mode" and a.i for a in node.attribute)
    if rounded_up or any(node.output[1:]):  # the positions of the maxima count the border
        return False
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
        if names[2] and array_of(constants[names[2]]).size:
            value = float(np.asarray(array_of(constants[names[2]]), np.float64).reshape(-1)[0])
    else:
        return None
    if len(amounts) != 8 or min(amounts) < 0 or any(amounts[:2] + amounts[4:6]):
        return None
    return [*amounts[2:4], *amounts[6:8]], value


def split_pads(model: onnx.ModelProto) -> None:
    """Write what a Pad does to channels as a selection of them, and its border as one of zeros.

    before   Pad(x, two channels of 0 behind)
    after    Gather(x, [0, 1, 2, 0, 0], axis=1) * [1, 1, 1, 0, 0]

    before   Pad(x, a border of 0.5 above)
    after    Pad(x + -0.5, a border of 0 above) + 0.5
    """
    graph = model.graph
    shapes, constants = shapes_of(model), constants_of(graph)
    nodes: list[onnx.NodeProto] = []
    changed = False
    for node in graph.node:
        shape = shapes.get(node.input[0], ()) if node.op_type == "Pad" else ()
        amounts = _amounts(node, constants) if len(shape) == 4 else None
        value = _value(node, constants) if amounts is not None else None
        made = None
        if amounts is not None and value is not None:
            made = _split(graph, node, shape[1], amounts, value)
        changed = changed or made is not None
        nodes += made or [node]
    if changed:
        set_nodes(graph, nodes)
        infer_shapes(model)


def _amounts(node: onnx.NodeProto, constants: Mapping[str, TensorProto]) -> list[int] | None:
    """Return what a Pad of four axes adds before and behind each, or None if it is not constant."""
    names = [*node.input, "", "", ""]
    if names[1] not in constants or (names[3] and names[3] not in constants):
        return None
    given = [int(v) for v in array_of(constants[names[1]]).reshape(-1)]
    axes = [0, 1, 2, 3]
    if names[3]:
        axes = [int(v) % 4 for v in array_of(constants[names[3]]).reshape(-1)]
    if len(given) != 2 * len(axes):
        return None
    amounts = [0] * 8
    for index, axis in enumerate(axes):
        amounts[axis], amounts[4 + axis] = given[index], given[len(axes) + index]
    return amounts


def _value(node: onnx.NodeProto, constants: Mapping[str, TensorProto]) -> float | None:
    """Return the value of a constant border, or None if it depends on the picture."""
    name = node.input[2] if len(node.input) > 2 else ""
    if name and name not in constants:
        return None
    given = np.asarray(array_of(constants[name]), np.float64) if name else np.zeros(1)
    return float(given.flat[0]) if given.size else None


def _split(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    channels: int,
    amounts: Sequence[int],
    value: float,
) -> list[onnx.NodeProto] | None:
    """Return the nodes for one Pad, or None if it stays as it is."""
    name, mode = node.output[0], text_of(node, "mode", "constant")
    before, behind = amounts[1], amounts[5]
    around = [*amounts[2:4], *amounts[6:8]]
    reach = channels - 1 if mode in ("reflect", "wrap") else np.inf
    if mode not in _MODES or amounts[0] or amounts[4] or max(before, behind) > reach:
        return None
    if before + behind <= -channels:
        return None
    shift = value if any(around) and mode == "constant" and abs(value) < _LARGEST_SHIFT else 0.0
    has_axes = len(node.input) > 3 and bool(node.input[3])
    if not before and not behind and not shift and not has_axes:
        return None

    def constant(what: str, values: NDArray[np.generic]) -> str:
        graph.initializer.append(numpy_helper.from_array(values, f"{name}/{what}"))
        return f"{name}/{what}"

    made: list[tuple[str, list[str], dict[str, object]]] = []
    if before or behind:
        kept = np.arange(channels)[max(-before, 0) : channels - max(-behind, 0)]
        grown = (max(before, 0), max(behind, 0))
        order = np.pad(kept, grown, mode=mode)  # type: ignore[call-overload]
        made.append(("Gather", [constant("channels", order.astype(np.int64))], {"axis": 1}))
        if mode == "constant" and any(grown):
            own = np.pad(np.ones(len(kept), np.float32), grown).reshape(1, -1, 1, 1)
            made.append(("Mul", [constant("own", own)], {}))
            if value:
                rest = np.where(own == 0, np.float32(value), np.float32(0))
                made.append(("Add", [constant("rest", rest)], {}))
    if shift:
        made.append(("Add", [constant("shift", np.array(-shift, np.float32))], {}))
    if any(around):
        wanted = constant("around", np.array([0, 0, *around[:2], 0, 0, *around[2:]], np.int64))
        filled = [node.input[2]] if value and not shift else []
        made.append(("Pad", [wanted, *filled], {"mode": mode}))
    if shift:
        made.append(("Add", [constant("shift_back", np.array(shift, np.float32))], {}))
    if not made:
        made = [("Identity", [], {})]
    nodes, source = [], node.input[0]
    for index, (kind, inputs, attributes) in enumerate(made):
        target = name if index == len(made) - 1 else f"{name}/{kind.lower()}{index}"
        nodes.append(helper.make_node(kind, [source, *inputs], [target], **attributes))
        source = target
    return nodes
