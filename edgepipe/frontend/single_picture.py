"""One picture at a time: no inputs beside it, and no other pictures in its batch."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

import numpy as np
import onnx

from edgepipe.errors import FrontendError
from edgepipe.frontend.folding import CannotRunError, differences, run_model
from edgepipe.frontend.onnx_graph import array_of, set_nodes, shape_of, values_read

SQUEEZE_WITH_INPUTS = 13  # the opset from which Squeeze reads its axes
LEAST_EXTENT = 8  # the least height and width of what is taken for a picture without more axes
_LONGEST_SHAPE = 8  # elements
_MOST_ELEMENTS = 1 << 27  # of a batch that onnxruntime runs for a comparison


def keep_picture(path: Path, model: onnx.ModelProto) -> list[str]:
    """Leave the picture, with four axes, as the only input; return a sentence about each change.

    Inputs that nothing reads are removed, and axes of one element are added where an input lacks
    them: [n, height, width] is grey, [3, height, width] and [height, width, 3] are one picture.
    Inputs that have an initialiser count as constants. Raises ``FrontendError`` unless there is
    exactly one other input.
    """
    constants = {constant.name for constant in model.graph.initializer}
    read = {name for node in model.graph.node for name in values_read(node)}
    given = [value for value in model.graph.input if value.name not in constants]
    kept = [value for value in given if value.name in read] or given[:1]
    if len(kept) != 1:
        raise _several(path, kept)
    copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in kept]
    unread = [value.name for value in given if value.name != copies[0].name]
    del model.graph.input[:]
    model.graph.input.extend(copies)
    omitted = [f"{name}: nothing reads this input; it is omitted" for name in unread]
    return [*omitted, *_four_axes(model)]


def _four_axes(model: onnx.ModelProto) -> list[str]:
    """Give a picture that lacks axes four of them, which a Squeeze takes away again."""
    value = model.graph.input[0]
    dims = [dim.dim_value if dim.dim_value > 0 else 0 for dim in value.type.tensor_type.shape.dim]
    added = _lacking(dims)
    if not added:
        return []
    name = f"{value.name}/without_axes"
    for node in model.graph.node:
        for index, read in enumerate(node.input):
            if read == value.name:
                node.input[index] = name
    inputs, attributes = [value.name], {"axes": added}
    opset = next((found.version for found in model.opset_import if not found.domain), 1)
    if opset >= SQUEEZE_WITH_INPUTS:
        axes = onnx.numpy_helper.from_array(np.array(added, np.int64), f"{name}/axes")
        model.graph.initializer.append(axes)
        inputs, attributes = [value.name, axes.name], {}
    squeeze = onnx.helper.make_node("Squeeze", inputs, [name], **attributes)
    set_nodes(model.graph, [squeeze, *model.graph.node])
    found = ", ".join(
        str(dim.dim_value or dim.dim_param or "?") for dim in value.type.tensor_type.shape.dim
    )
    for axis in added:
        value.type.tensor_type.shape.dim.insert(axis, onnx.TensorShapeProto.Dimension(dim_value=1))
    shown = ", ".join(
        str(dim.dim_value or dim.dim_param or "?") for dim in value.type.tensor_type.shape.dim
    )
    return [f"{value.name}: input [{found}] becomes [{shown}]"]


def _lacking(sizes: Sequence[int]) -> list[int]:
    """Return the axes of a picture [1, c, h, w] or [1, h, w, c] that ``sizes`` lack, if any.

    A size of 0 is dynamic. One axis before height and width is the batch of grey pictures, except
    that of three colours.
    """
    if len(sizes) == 2 and min(sizes) >= LEAST_EXTENT:
        return [0, 1]
    if len(sizes) != 3:
        return []
    if 3 in (sizes[0], sizes[2]):
        return [0]
    is_grey = sizes[0] in (0, 1) and all(size == 0 or size >= LEAST_EXTENT for size in sizes[1:])
    return [1] if is_grey else []


def _several(path: Path, values: Sequence[onnx.ValueInfoProto]) -> FrontendError:
    """Return the error for other inputs; its hint makes them constants if one is a picture."""
    found = ", ".join(value.name for value in values) or "none"
    hint = "export the network with the picture as its only input, all others as constants"
    others = [value for value in values if len(value.type.tensor_type.shape.dim) != 4]
    if len(others) == len(values) - 1:
        names = " and ".join(value.name for value in others)
        fixed = path.with_name(f"{path.stem}-fixed.onnx")
        lines = ["import numpy, onnx", f"net = onnx.load({json.dumps(str(path))})"]
        for value in others:
            lines.append(
                f"net.graph.initializer.append(onnx.numpy_helper.from_array({_ones(value)}, "
                f"{json.dumps(value.name)}))"
            )
        lines.append(f"onnx.save(net, {json.dumps(str(fixed))})")
        hint = (
            f"make {names} constant, with the values that the network has for every picture; "
            f"for ones: python -c {quote('; '.join(lines))}"
        )
    return FrontendError(
        f"{path}: inputs are {found}; expected exactly one picture input", hint=hint
    )


def _ones(value: onnx.ValueInfoProto) -> str:
    """Return the expression for an array of ones of the input's type and shape."""
    tensor = value.type.tensor_type
    sizes = [max(dim.dim_value, 1) for dim in tensor.shape.dim]
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    except KeyError:
        dtype = "float32"
    return f'numpy.ones({sizes}, "{dtype}")'


def single_picture(path: Path, model: onnx.ModelProto) -> list[str]:
    """Make a batch of several pictures one of a single picture; return a sentence about that.

    Reshapes whose constants begin with the batch get a 1 instead. onnxruntime must then compute
    the same for each picture, else ``FrontendError`` is raised.
    """
    value = model.graph.input[0]
    shape = shape_of(value)
    if shape is None or len(shape) != 4 or shape[0] < 2 or 0 in shape:
        return []
    batch = shape[0]
    if math.prod(shape) > _MOST_ELEMENTS:
        raise _refused(path, value.name, batch, "it is not compared: together they are too large")
    before = onnx.ModelProto()
    before.CopyFrom(model)
    value.type.tensor_type.shape.dim[0].dim_value = 1
    _reshape_one(model, batch)
    forget_shapes(model)
    _require_same(path, before, model)
    return [f"{value.name}: batch of {batch} pictures becomes 1"]


def forget_shapes(model: onnx.ModelProto) -> None:
    """Drop the shapes that were inferred for another size of the input."""
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")


def _reshape_one(model: onnx.ModelProto, batch: int) -> None:
    """Replace the batch by 1 in the shapes that reshapes read."""
    shapes = {node.input[1] for node in model.graph.node if _is_reshape(node)}
    tensors = [constant for constant in model.graph.initializer if constant.name in shapes]
    for node in model.graph.node:
        if node.op_type == "Constant" and node.output[0] in shapes:
            tensors += [attribute.t for attribute in node.attribute if attribute.HasField("t")]
    for tensor in tensors:
        if np.prod(tensor.dims) > _LONGEST_SHAPE:
            continue
        sizes = np.array(array_of(tensor)).reshape(-1)
        if sizes.size and sizes[0] == batch:
            sizes[0] = 1
            tensor.CopyFrom(onnx.numpy_helper.from_array(sizes, tensor.name))


def _is_reshape(node: onnx.NodeProto) -> bool:
    return node.op_type == "Reshape" and len(node.input) > 1


def _require_same(path: Path, before: onnx.ModelProto, model: onnx.ModelProto) -> None:
    """Raise ``FrontendError`` if one picture gives other results than a batch of copies of it."""
    value = before.graph.input[0]
    shape = shape_of(value)
    assert shape is not None
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        picture = np.random.default_rng(0).uniform(0, 255, (1, *shape[1:])).astype(dtype)
        expected = run_model(before, {value.name: np.repeat(picture, shape[0], axis=0)})
        found = run_model(model, {value.name: picture})
    except (CannotRunError, KeyError) as cause:
        raise _refused(path, value.name, shape[0], "onnxruntime cannot run it") from cause
    pairs = [*zip(found, expected, strict=True)]
    shrunk = all(one.ndim and len(one) * shape[0] == len(array) for one, array in pairs)
    if not shrunk or any(differences(found, [array[: len(one)] for one, array in pairs])):
        raise _refused(path, value.name, shape[0], "the results are others")


def _refused(path: Path, name: str, batch: int, reason: str) -> FrontendError:
    return FrontendError(
        f"{path}: input {name} is a batch of {batch} pictures; with one picture, {reason}",
        hint="export the network for one picture: with a batch size of 1",
    )
