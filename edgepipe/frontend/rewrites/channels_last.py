"""Write what is computed between two transpositions, with the channels last, without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.onnx_graph import readers_of, set_nodes
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

_TO_LAST, _TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
_UNARY = (
    *("Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Relu"),
    *("Selu", "Sigmoid", "Softplus", "Tanh"),
)
_BINARY = ("Add", "Div", "Mul", "Sub")


def channels_stay_first(model: onnx.ModelProto) -> None:
    """Replace a chain of operators between transpositions to [n, h, w, c] and back.

    before   Transpose(Relu(MatMul(Transpose(x), const) + const))
    after    Relu(Conv(x, const) + const)

    Exporters of Keras and of transformers write so. Every operator of the chain has one reader, and
    works on each pixel alone: a function, a constant for each channel, a dense layer, or a border.
    """
    rewriting = Rewriting(model)
    readers = readers_of(model.graph)
    outputs = {output.name for output in model.graph.output}
    replaced: dict[str, Nodes] = {}
    for node in model.graph.node:
        if _permutation(node) != _TO_LAST:
            continue
        chain = _chain(node, readers, outputs)
        made = None if chain is None else _written(rewriting, node.input[0], chain)
        if chain is not None and made is not None:
            replaced |= {each.output[0]: [] for each in chain}
            replaced[chain[-1].output[0]] = made
    if replaced:
        nodes = [n for node in model.graph.node for n in replaced.get(node.output[0], [node])]
        set_nodes(model.graph, nodes)
        infer_shapes(model)


def _permutation(node: onnx.NodeProto) -> list[int]:
    perms = [list(a.ints) for a in node.attribute if a.name == "perm"]
    return perms[0] if node.op_type == "Transpose" and perms else []


def _chain(
    first: onnx.NodeProto, readers: Mapping[str, Sequence[onnx.NodeProto]], outputs: set[str]
) -> Nodes | None:
    """Return the operators after ``first``, up to the transposition back; None if there is none."""
    chain: Nodes = []
    value = first.output[0]
    while len(readers.get(value, ())) == 1 and value not in outputs:
        (node,) = readers[value]
        if list(node.input).count(value) != 1 or len(node.output) != 1:
            return None
        chain.append(node)
        value = node.output[0]
        if node.op_type == "Transpose":
            return chain if _permutation(node) == _TO_FIRST else None
        if node.op_type not in (*_UNARY, *_BINARY, "MatMul", "Pad"):
            return None
    return None


def _written(rewriting: Rewriting, source: str, chain: Nodes) -> Nodes | None:
    """Return the chain with the channels first, without the transposition that ends it."""
    made: Nodes = []
    for node in chain[:-1]:
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        shape = rewriting.shapes.get(node.output[0], ())
        position = 0 if rewriting.array(node.input[0]) is None else 1
        if len(shape) != 4 or shape[0] != 1:
            return None
        if node.op_type in _BINARY:
            constant = rewriting.array(node.input[1 - position])
            moved = None if constant is None else _moved(constant, shape)
            if moved is None:
                return None
            copy.input[1 - position] = rewriting.constant(f"{node.output[0]}/by_channel", moved)
        elif node.op_type == "MatMul":
            weight = rewriting.array(node.input[1])
            if weight is None or weight.ndim != 2:
                return None
            kernel = weight.T[:, :, None, None]
            inputs = [node.input[0], rewriting.constant(f"{node.output[0]}/kernel", kernel)]
            copy = helper.make_node("Conv", inputs, list(node.output), kernel_shape=[1, 1])
            position = 0
        elif node.op_type == "Pad":
            amounts = rewriting.array(node.input[1]) if len(node.input) > 1 else None
            if amounts is None or amounts.size != 8 or any(node.input[3:]):
                return None
            order = [*_TO_FIRST, *(4 + axis for axis in _TO_FIRST)]
            wanted = [int(amounts.flat[index]) for index in order]
            copy.input[1] = rewriting.integers(f"{node.output[0]}/amounts", wanted)
        copy.input[position] = source
        copy.output[0] = f"{node.output[0]}/first" if node is not chain[-2] else chain[-1].output[0]
        source = copy.output[0]
        made.append(copy)
    return made or [helper.make_node("Identity", [source], [chain[-1].output[0]])]


def _moved(constant: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """Return a number, or one for each channel [.., c], for a tensor with the channels first."""
    if constant.size == 1:
        return constant.reshape(())
    if constant.size != constant.shape[-1] or constant.size != shape[3]:
        return None
    return constant.reshape(1, -1, 1, 1)
