"""Which moved pictures are wanted as pictures, because something computes with them."""

from __future__ import annotations

import onnx

from edgepipe.frontend.rewrites.linear_weights import dense_weight
from edgepipe.frontend.rewrites.norms import NORMALISATION
from edgepipe.frontend.rewrites.token_values import (
    ELEMENTWISE,
    MOVES,
    OF_PICTURES,
    TokenValues,
    is_affine,
)


def wanted_values(values: TokenValues) -> set[str]:
    """Return the values whose pictures a layer reads, or what is moved back to a picture."""
    wanted: set[str] = set()
    for node in reversed(values.graph.node):
        if len(node.output) != 1 or not node.input:
            continue
        found = values.moved.get(node.output[0])
        if found is not None and found.source == node.output[0]:
            if node.op_type in MOVES and node.output[0] in wanted:
                wanted.add(node.input[0])
            continue
        if node.op_type in MOVES:
            if found is not None and (node.output[0] in wanted or _is_back(values, node)):
                wanted.update((node.output[0], node.input[0]))
        elif found is not None and node.op_type in ELEMENTWISE:
            if node.output[0] in wanted or _is_bias(values, node):
                wanted.add(node.output[0])
                wanted.update(value for value in node.input if value in values.moved)
        elif node.op_type == NORMALISATION:
            if found is not None and node.output[0] in wanted:
                wanted.add(node.input[0])
        elif found is not None and node.op_type == "Concat":
            wanted.update(value for value in node.input if value in values.moved)
        elif (
            found is not None
            or is_permuted_dense(values, node)
            or _reads_made(values, node)
            or _reads_token(values, node)
        ):
            wanted.add(node.input[0])
    return wanted


def _is_back(values: TokenValues, node: onnx.NodeProto) -> bool:
    """Whether a move ends in a picture that a layer or function computed."""
    found = values.moved[node.output[0]]
    made = values.shapes[node.output[0]]
    return len(made) == 4 and found.is_flat and found.picture in values.made


def _reads_made(values: TokenValues, node: onnx.NodeProto) -> bool:
    """Whether a layer reads a picture whose pixels were moved since a layer made them."""
    found = values.moved.get(node.input[0])
    return node.op_type in OF_PICTURES and found is not None and found.picture in values.made


def _reads_token(values: TokenValues, node: onnx.NodeProto) -> bool:
    """Whether a linear layer reads one token as a row, which a layer or function made."""
    if node.op_type not in ("MatMul", "Gemm"):
        return False
    found = values.moved.get(node.input[0])
    if found is None or found.order.shape != (1, found.order.size) or not found.is_flat:
        return False
    return found.picture in values.made and dense_weight(node, values.constants) is not None


def _is_bias(values: TokenValues, node: onnx.NodeProto) -> bool:
    """Whether a node and those before it scale or add constants to a linear layer's result."""
    while is_affine(node):
        tensors = [value for value in node.input if value not in values.constants]
        if len(tensors) != 1:
            return False
        value = tensors[0]
        while value not in values.layers:
            maker = values.makers.get(value)
            if maker is None or maker.op_type not in MOVES:
                break
            value = maker.input[0]
        if value in values.layers:
            return True
        if value not in values.makers:
            return False
        node = values.makers[value]
    return False


def is_permuted_dense(values: TokenValues, node: onnx.NodeProto) -> bool:
    """Whether a node is a linear layer on all elements of a picture in another order."""
    if node.op_type not in ("MatMul", "Gemm"):
        return False
    found = values.moved.get(node.input[0])
    if found is None or found.is_flat or found.order.shape != (1, found.order.size):
        return False
    return dense_weight(node, values.constants) is not None
