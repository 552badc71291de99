"""Arithmetic with constants between two reshapes, as arithmetic on the tensor before them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import readers_of, set_nodes
from edgepipe.frontend.rewrites.rewriting import Rewriting

_ARITHMETIC = frozenset(["Add", "Div", "Mul", "Sub"])
_MOVES = frozenset(["Reshape", "Squeeze", "Unsqueeze"])
_LARGEST = 1 << 24
"""The most elements of a constant that is written out."""


def arithmetic_before_reshapes(model: onnx.ModelProto) -> None:
    """Drop two reshapes that undo each other around arithmetic with a constant.

    before   Reshape(x, [1, n, h, t, t]) -> Add(mask [1, n, 1, t, t]) -> Reshape([n, h, t, t])
    after    Add(x, mask [n, h, t, t])

    Swin adds the mask of its moved windows so. The constant has an element for each of the
    tensor's, unless it is a number.
    """
    rewriting = Rewriting(model)
    readers = readers_of(model.graph)
    outputs = {output.name for output in model.graph.output}
    source: dict[str, str] = {}

    def is_inner(value: str) -> bool:
        return value not in outputs and len(readers.get(value, ())) == 1

    for node in model.graph.node:
        tensors = [value for value in node.input if rewriting.array(value) is None]
        if node.op_type not in _ARITHMETIC or len(node.input) != 2 or len(tensors) != 1:
            continue
        before = rewriting.makers.get(tensors[0])
        if before is None or before.op_type not in _MOVES or not is_inner(tensors[0]):
            continue
        name = node.output[0]
        after = readers[name][0] if is_inner(name) else None
        if after is None or after.op_type not in _MOVES or after.input[0] != name:
            continue
        shape, inner, made, wanted = (
            rewriting.shapes.get(value, ())
            for value in (before.input[0], tensors[0], name, after.output[0])
        )
        if not shape or inner != made or wanted != shape:
            continue
        index = list(node.input).index(tensors[0])
        constant = rewriting.array(node.input[1 - index])
        assert constant is not None
        if constant.size > 1:
            if int(np.prod(shape)) > _LARGEST:
                continue
            constant = np.broadcast_to(constant, inner).reshape(shape)
        node.input[index] = before.input[0]
        node.input[1 - index] = rewriting.constant(f"{name}/reshaped", constant.copy())
        node.output[0] = source[after.output[0]] = f"{name}/before"
        rewriting.note_shape(node.output[0], shape)
    if source:
        kept = [
            helper.make_node("Identity", [source[node.output[0]]], [node.output[0]])
            if node.output[0] in source
            else node
            for node in model.graph.node
        ]
        set_nodes(model.graph, kept)
