"""Convolutions of pictures whose pixels were moved to channels, as convolutions of the pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.frontend.folding import CannotRunError, run_model
from edgepipe.frontend.onnx_graph import (
    array_of,
    constants_of,
    set_attribute,
    set_nodes,
    shapes_of,
    text_of,
)

_MOVES = ("Concat", "Gather", "Reshape", "Slice", "SpaceToDepth", "Transpose")
_MOST = 32  # nodes that move one picture
_MOST_COLOURS = 4
_EXACT = 1 << 24  # float32 counts as far as this


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Channel k of the result is channel ``channel[k]`` of ``source``, ``rows[k]`` and ``cols[k]``
    pixels into each block of ``step`` (height, width)."""

    source: str
    channels: int
    step: tuple[int, int]
    channel: NDArray[np.int64]
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]

    @property
    def place(self) -> NDArray[np.int64]:
        """The channels of the result in the order of a ``SpaceToDepth``."""
        return (self.rows * self.step[1] + self.cols) * self.channels + self.channel

    @property
    def is_whole(self) -> bool:
        """Whether the blocks are square, and every pixel of one is there once."""
        count = self.channels * self.step[0] * self.step[1]
        return self.step[0] == self.step[1] and sorted(self.place) == list(range(count))


def gather_blocks(model: onnx.ModelProto) -> None:
    """Let convolutions read a picture instead of the blocks of its pixels.

    before   Conv(Concat(x[::2, ::2], x[1::2, ::2], x[::2, 1::2], x[1::2, 1::2]), 3x3)
    after    Conv(x, 6x6, strides=[2, 2])

    Such blocks are ``SpaceToDepth``, a pixel-unshuffle of reshapes and a transposition, and the
    slices of a Focus (YOLOv5, YOLOX). What else reads the blocks still does. Blocks of the picture
    itself stay, as a ``SpaceToDepth``: the accelerator multiplies 16 channels at once, and 3 would
    waste most of them. (YOLOX-nano at 416x416 on the Ultra96, by the timing model, 2026-11: 24 ms a
    frame, else 32 ms.)
    """
    graph = model.graph
    shapes, constants = shapes_of(model), constants_of(graph)
    makers = {value: node for node in graph.node for value in node.output}
    moved: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        if node.op_type != "Conv" or not _is_plain(node, constants):
            continue
        blocks = _blocks(model, node.input[0], makers, shapes, constants)
        if blocks is None:
            continue
        if blocks.channels > _MOST_COLOURS:
            _read_source(graph, node, blocks, constants)
        elif blocks.is_whole:
            moved |= {node.output[0]: _read_blocks(graph, node, blocks, constants)}
    if moved:
        placed = [n for node in graph.node for n in (*moved.get(node.output[0], ()), node)]
        set_nodes(graph, placed)


def _is_plain(node: onnx.NodeProto, constants: Mapping[str, TensorProto]) -> bool:
    """Whether a convolution has constant weights, one group, no gaps and explicit padding."""
    ints = {a.name: list(a.ints) or [a.i] for a in node.attribute if a.name != "auto_pad"}
    weight = constants.get(node.input[1])
    return (
        weight is not None
        and len(weight.dims) == 4
        and ints.get("group", [1]) == [1]
        and set(ints.get("dilations", [1])) == {1}
        and text_of(node, "auto_pad", "NOTSET") == "NOTSET"
    )


def _blocks(
    model: onnx.ModelProto,
    value: str,
    makers: Mapping[str, onnx.NodeProto],
    shapes: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, TensorProto],
) -> _Blocks | None:
    """Return how ``value`` takes blocks of another picture, or None if it does something else."""
    found: dict[str, onnx.NodeProto] = {}
    sources: set[str] = set()
    waiting = [value]
    while waiting:
        name = waiting.pop()
        node = makers.get(name)
        if name in constants or not name or name in found:
            continue
        if node is None or node.op_type not in _MOVES or len(found) > _MOST:
            sources.add(name)
            continue
        found[name] = node
        waiting += node.input
    if len(sources) != 1 or not found:
        return None
    (source,) = sources
    before, after = shapes.get(source, ()), shapes.get(value, ())
    if len(before) != 4 or len(after) != 4 or before[0] != 1 or np.prod(before) > _EXACT:
        return None
    if 0 in after[2:]:
        return None
    step = (before[2] // after[2], before[3] // after[3])
    if step == (1, 1) or before[2:] != (after[2] * step[0], after[3] * step[1]):
        return None
    nodes = {id(node): node for node in found.values()}
    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.graph.name = "moves"
    part.graph.node.extend(node for node in model.graph.node if id(node) in nodes)
    read = {name for node in nodes.values() for name in node.input if name in constants}
    part.graph.initializer.extend(constants[name] for name in sorted(read))
    given = helper.make_tensor_value_info(source, TensorProto.FLOAT, before)
    part.graph.input.append(given)
    part.graph.output.append(onnx.ValueInfoProto(name=value))
    places = np.arange(np.prod(before), dtype=np.float32).reshape(before)
    try:
        (moved,) = run_model(part, {source: places})
    except CannotRunError:
        return None
    return _as_blocks(source, before, step, moved.astype(np.int64))


def _as_blocks(
    source: str, shape: tuple[int, ...], step: tuple[int, int], moved: NDArray[np.int64]
) -> _Blocks | None:
    """Return the blocks if ``moved``, places in the source [1, c, h, w], has them everywhere."""
    _, channels, height, width = shape
    channel, place = np.divmod(moved[0, :, 0, 0], height * width)
    rows, cols = np.divmod(place, width)
    down = np.arange(moved.shape[2])[:, None] * (step[0] * width)
    across = np.arange(moved.shape[3]) * step[1]
    if (rows >= step[0]).any() or (cols >= step[1]).any():
        return None
    if not np.array_equal(moved[0], moved[0, :, :1, :1] + down + across):
        return None
    return _Blocks(source, channels, step, channel, rows, cols)


def _read_source(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    blocks: _Blocks,
    constants: Mapping[str, TensorProto],
) -> None:
    """Make a convolution of blocks one of their source; its kernel and strides grow."""
    weight = array_of(constants[node.input[1]])
    out, _, height, width = weight.shape
    (down, across) = blocks.step
    grown = np.zeros((out, blocks.channels, height * down, width * across), weight.dtype)
    for k, (c, row, col) in enumerate(zip(blocks.channel, blocks.rows, blocks.cols, strict=True)):
        grown[:, c, row::down, col::across] += weight[:, k]
    name = f"{node.output[0]}/weight"
    graph.initializer.append(numpy_helper.from_array(grown, name))
    ints = {a.name: list(a.ints) for a in node.attribute}
    by = [down, across]
    pads = [a * b for a, b in zip(ints.get("pads") or [0] * 4, by * 2, strict=True)]
    strides = [a * b for a, b in zip(ints.get("strides") or [1, 1], by, strict=True)]
    node.input[0], node.input[1] = blocks.source, name
    set_attribute(node, "kernel_shape", list(grown.shape[2:]))
    set_attribute(node, "pads", pads)
    set_attribute(node, "strides", strides)


def _read_blocks(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    blocks: _Blocks,
    constants: Mapping[str, TensorProto],
) -> list[onnx.NodeProto]:
    """Return a node that makes the blocks at once, and let a convolution read it."""
    weight = array_of(constants[node.input[1]])
    ordered = np.empty_like(weight)
    ordered[:, blocks.place] = weight
    name, made = f"{node.output[0]}/weight", f"{node.output[0]}/blocks"
    graph.initializer.append(numpy_helper.from_array(ordered, name))
    source, node.input[0], node.input[1] = blocks.source, made, name
    return [helper.make_node("SpaceToDepth", [source], [made], blocksize=blocks.step[0])]
