"""What the quantiser recognises in calls that pool, resize, join, split or move pictures.

A rule returns the node of a call, or the reason why the call stays float.
"""

from __future__ import annotations

from edgepipe.quantize.call import NO_PICTURE, Call
from edgepipe.quantize.graph import (
    AveragePoolNode,
    ConcatNode,
    FloatNode,
    MaxPoolNode,
    MoveNode,
    Node,
    ResizeNode,
    SliceNode,
    TableNode,
)
from edgepipe.quantize.resampling import resize_matrices
from edgepipe.tvm_adapter import Binding
from vta_stages.layers.check import pool_padding

MAX_POOL_WINDOW = 4096


def max_pool(call: Call) -> Node | str:
    """Maximum over windows."""
    tensor = call.args[0]
    attributes = call.attributes
    if not isinstance(tensor, str) or not call.is_picture(tensor):
        return NO_PICTURE
    if attributes["dilation"] != (1, 1):
        dy, dx = attributes["dilation"]
        return f"its window is dilated {dy}x{dx}; the accelerator's windows have no gaps"
    kernel, stride = attributes["pool_size"], attributes["strides"]
    sizes = tuple(zip(call.shapes[tensor][2:], call.shape[2:], strict=True))
    return MaxPoolNode(
        name=call.name,
        input=tensor,
        kernel=kernel,
        stride=stride,
        padding=pool_padding(attributes["padding"], sizes, kernel, stride),
    )


def average_pool(call: Call) -> Node | str:
    """Mean over windows of the full size."""
    tensor = call.args[0]
    attributes = call.attributes
    if not isinstance(tensor, str) or not call.is_picture(tensor):
        return NO_PICTURE
    padding, kernel = attributes["padding"], attributes["pool_size"]
    if attributes["dilation"] != (1, 1):
        dy, dx = attributes["dilation"]
        return f"its window is dilated {dy}x{dx}; the accelerator's windows have no gaps"
    if attributes["ceil_mode"]:
        return "ceil_mode makes its last windows smaller, so their divisors differ"
    if any(padding) and not attributes["count_include_pad"]:
        return "count_include_pad=0 does not count padding, so divisors differ at the border"
    if kernel[0] * kernel[1] > MAX_POOL_WINDOW:
        return f"its window has {kernel[0] * kernel[1]} pixels, more than {MAX_POOL_WINDOW}"
    return AveragePoolNode(
        name=call.name,
        input=tensor,
        channels=call.shapes[tensor][1],
        kernel=kernel,
        stride=attributes["strides"],
        padding=padding,
    )


def whole_picture(call: Call) -> Node | str:
    """Global pooling: the mean or the maximum over height and width."""
    tensor = call.args[0]
    if not isinstance(tensor, str) or not call.is_picture(tensor):
        return NO_PICTURE
    shape = call.shapes[tensor]
    axes = {axis % len(shape) for axis in call.attributes["axis"] or range(len(shape))}
    if len(shape) != 4 or axes != {2, 3}:
        return f"it reduces axes {sorted(axes)} of {list(shape)}, expected 2 and 3 of 4"
    kernel = (shape[2], shape[3])
    if call.op == "max":
        return MaxPoolNode(
            name=call.name, input=tensor, kernel=kernel, stride=kernel, padding=(0, 0, 0, 0)
        )
    if shape[2] * shape[3] > MAX_POOL_WINDOW:
        return f"its window has {shape[2] * shape[3]} pixels, more than {MAX_POOL_WINDOW}"
    return AveragePoolNode(
        name=call.name, input=tensor, channels=shape[1], kernel=kernel, stride=kernel
    )


def resize(call: Call) -> Node | str:
    """Linear or nearest resize whose weights are multiples of a power of two."""
    tensor = call.args[0]
    attributes = call.attributes
    if not isinstance(tensor, str) or not call.is_picture(tensor):
        return NO_PICTURE
    sizes = (call.shapes[tensor][2:], call.shape[2:])
    found = resize_matrices(
        sizes,  # type: ignore[arg-type]
        attributes["method"],
        attributes["coordinate_transformation_mode"],
        attributes["rounding_method"],
    )
    if found is None:
        mode = f"{attributes['method']} with {attributes['coordinate_transformation_mode']}"
        had, made = (f"{height}x{width}" for height, width in sizes)
        return f"{mode} from {had} to {made} has weights that are not multiples of a power of two"
    rows, cols, shift = found
    return ResizeNode(name=call.name, input=tensor, rows=rows, cols=cols, shift=shift)


def concat(call: Call) -> Node | str:
    """Concatenation along channels."""
    parts = call.args[0]
    if len(call.shape) != 4 or not isinstance(parts, tuple) or not call.is_picture(*parts):
        return NO_PICTURE
    if call.attributes["axis"] not in (1, -3):
        return f"it joins along axis {call.attributes['axis']}, expected channels"
    return ConcatNode(name=call.name, parts=parts)


def split(call: Call) -> Node | str:
    """Return why a split stays float; if its parts become slices, nothing reads it."""
    return _split_refusal(call.binding, call) or "its parts are channels of its input"


def part_of_split(call: Call) -> Node | str:
    """One result of a split along channels."""
    source, index = call.args
    made_by = call.nodes.get(source) if isinstance(source, str) else None
    if not isinstance(made_by, FloatNode) or made_by.binding.op != "split":
        return "it is not a part of a split"
    split = made_by.binding
    refusal = _split_refusal(split, call)
    tensor = split.args[0]
    if refusal or not isinstance(tensor, str) or not isinstance(index, int):
        return refusal or NO_PICTURE
    channels = call.shapes[tensor][1]
    cuts = split.attributes["indices_or_sections"]
    if isinstance(cuts, int):
        step = -(-channels // cuts)
        cuts = tuple(range(step, channels, step))
    borders = (0, *cuts, channels)
    return SliceNode(name=call.name, input=tensor, begin=borders[index], end=borders[index + 1])


def _split_refusal(split: Binding, call: Call) -> str:
    """Return why the parts of ``split`` are not slices; empty if they are."""
    tensor = split.args[0]
    if not isinstance(tensor, str) or len(call.shapes[tensor]) != 4:
        return NO_PICTURE
    if split.attributes["axis"] not in (1, -3):
        return f"it splits along axis {split.attributes['axis']}, expected channels"
    return ""


def move(call: Call) -> Node | str:
    """Reshape and transposition."""
    tensor = call.args[0]
    if not isinstance(tensor, str):
        return NO_PICTURE
    return MoveNode(name=call.name, input=tensor, binding=call.binding)


def table(call: Call) -> Node | str:
    """A function of one number."""
    tensor = call.args[0]
    if not isinstance(tensor, str):
        return NO_PICTURE
    return TableNode(name=call.name, input=tensor, binding=call.binding)
