"""The input of an ONNX network: one float picture, its size fixed, its channels first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from edgepipe.errors import FrontendError
from edgepipe.frontend.onnx_graph import array_of, constants_of, set_nodes, values_read
from edgepipe.frontend.single_picture import forget_shapes, keep_picture, single_picture

Size = tuple[int, int, int]
"""Channels, height and width."""

COLOURS = (1, 3)
"""The numbers of channels that a picture can have."""


def fix_size(path: Path, model: onnx.ModelProto, picture: Size | None) -> list[str]:
    """Fix the dynamic dimensions of the only input; return a sentence about each change.

    The batch becomes 1; channels, height and width become those of ``picture``. Inputs that have an
    initialiser count as constants, and those that nothing reads are dropped. Raises
    ``FrontendError`` unless there is exactly one other input, and if it is a batch of several
    pictures that cannot become one.
    """
    notices = keep_picture(path, model)
    value = model.graph.input[0]
    dims = value.type.tensor_type.shape.dim
    if len(dims) != 4:
        return notices
    names, sizes = _NAMES, (1, *picture) if picture else (1,)
    if picture and is_channels_last(model, value, picture):
        channels, height, width = picture
        names, sizes = _NAMES_LAST, (1, height, width, channels)
    for name, dim, size in zip(names, dims, sizes, strict=False):
        if dim.dim_value < 1:
            symbol = dim.dim_param or "?"
            dim.Clear()
            dim.dim_value = size
            notices.append(f"{value.name}: dynamic {name} {symbol!r} fixed to {size}")
            forget_shapes(model)
    return notices + single_picture(path, model)


_NAMES = ("batch dimension", "channels", "height", "width")
_NAMES_LAST = ("batch dimension", "height", "width", "channels")
_TO_CHANNELS_FIRST = [0, 3, 1, 2]
_TO_CHANNELS_LAST = [0, 2, 3, 1]
# What networks do to a picture before they move its channels.
_BEFORE_MOVE = ("Add", "Cast", "Clip", "Div", "Gather", "Identity", "Mul", "Pad", "Resize", "Sub")


def is_channels_last(
    model: onnx.ModelProto, value: onnx.ValueInfoProto, picture: Size | None = None
) -> bool:
    """Whether the input is [n, h, w, c].

    It is if the network begins by moving the channels to the front, if ``picture`` is only so of
    the input's size, or if the last dimension is 1 or 3 and the second is not.
    """
    sizes = [max(dim.dim_value, 0) for dim in value.type.tensor_type.shape.dim]
    if len(sizes) != 4:
        return False
    if _begins_by_moving_channels(model, value.name):
        return True
    if picture is not None:
        channels, height, width = picture
        last, first = (
            all(known in (0, size) for known, size in zip(sizes[1:], order, strict=True))
            for order in ((height, width, channels), picture)
        )
        if last != first:
            return last
    return sizes[3] in COLOURS and sizes[1] not in COLOURS


def _begins_by_moving_channels(model: onnx.ModelProto, name: str) -> bool:
    """Whether all paths from a value lead to transpositions from [n, h, w, c] to [n, c, h, w]."""
    on_the_way, ends = {name}, 0
    for node in model.graph.node:
        if not on_the_way.intersection(node.input):
            continue
        perms = [list(a.ints) for a in node.attribute if a.name == "perm"]
        if node.op_type == "Transpose" and perms == [_TO_CHANNELS_FIRST]:
            ends += 1
        elif node.op_type in _BEFORE_MOVE:
            on_the_way.update(node.output)
        else:
            return False
    return ends > 0


def channels_first(model: onnx.ModelProto, picture: Size | None) -> None:
    """Turn an input [1, h, w, c] into [1, c, h, w], from which a transposition makes the former."""
    value = model.graph.input[0]
    if not is_channels_last(model, value, picture):
        return
    last = f"{value.name}/channels_last"
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            if name == value.name:
                node.input[index] = last
    move = helper.make_node("Transpose", [value.name], [last], perm=_TO_CHANNELS_LAST)
    set_nodes(model.graph, [move, *model.graph.node])
    dims = value.type.tensor_type.shape.dim
    sizes = [dims[axis].dim_value for axis in _TO_CHANNELS_FIRST]
    for dim, size in zip(dims, sizes, strict=True):
        dim.dim_value = size


def picture_shape(
    path: Path, value: onnx.ValueInfoProto, *, channels_last: bool = False
) -> tuple[int, int, int, int]:
    """Return the input's shape (1, c, h, w), even if the file has the channels last.

    Raises ``FrontendError`` unless the input is one float picture.
    """
    tensor = value.type.tensor_type
    dims = [
        d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim
    ]
    text = ", ".join(str(d) for d in dims)
    if any(not isinstance(d, int) or d < 1 for d in dims):
        raise FrontendError(
            f"{path}: input {value.name} has the dynamic shape [{text}]; its height and width "
            "are unknown",
            hint="give the size of the picture, or export with a fixed height and width",
        )
    if tensor.elem_type != TensorProto.FLOAT or len(dims) != 4 or dims[0] != 1:
        known = TensorProto.DataType.values()
        number = tensor.elem_type
        kind = TensorProto.DataType.Name(number).lower() if number in known else f"type {number}"
        raise FrontendError(
            f"{path}: input {value.name} is {kind}[{text}], "
            "expected float[1, channels, height, width]",
            hint="export it with one float32 picture, channels first, as its input",
        )
    sizes = [int(dims[axis]) for axis in (_TO_CHANNELS_FIRST if channels_last else range(4))]
    return (1, sizes[1], sizes[2], sizes[3])


def remove_identities(model: onnx.ModelProto) -> None:
    """Make readers of an Identity, a Dropout, or a Pad by nothing read its input instead.

    One that computes an output of the graph stays.
    """
    graph = model.graph
    constants = constants_of(graph)
    outputs = {output.name for output in graph.output}
    read = outputs.union(*(values_read(node) for node in graph.node))
    source: dict[str, str] = {}
    kept = []
    for node in graph.node:
        for index, value in enumerate(node.input):
            if value in source:
                node.input[index] = source[value]
        same = (
            node.op_type == "Identity"
            or (node.op_type == "Pad" and _adds_nothing(node, constants))
            or (
                node.op_type == "Dropout"
                and read.isdisjoint(node.output[1:])  # masks, which old exporters name
                and not (len(node.input) > 2 and _may_be_true(node.input[2], constants))
            )
        )
        if same and node.output[0] not in outputs:
            source[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    if len(kept) < len(graph.node):
        set_nodes(graph, kept)


def _adds_nothing(node: onnx.NodeProto, constants: Mapping[str, TensorProto]) -> bool:
    """Whether a Pad has constant amounts, which are all zero: exporters write some so."""
    amounts = constants.get(node.input[1]) if len(node.input) > 1 else None
    return amounts is not None and not array_of(amounts).any()


def _may_be_true(value: str, constants: Mapping[str, TensorProto]) -> bool:
    """Whether an input that says whether a network is being trained may say so."""
    return bool(value) and (value not in constants or bool(array_of(constants[value]).any()))
