"""The operator that computes a value, behind those that only move it."""

from __future__ import annotations

import onnx

_MOVES = frozenset(
    ["Cast", "Concat", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"]
)
_PROBABILITIES = ("HardSigmoid", "Sigmoid", "Softmax")


def are_probabilities(model: onnx.ModelProto) -> tuple[bool, ...]:
    """Return for each output of ``model`` whether Softmax or a sigmoid computes it."""
    return tuple(maker(model, output.name) in _PROBABILITIES for output in model.graph.output)


def maker(model: onnx.ModelProto, value: str) -> str:
    """Return the kind of node that computes ``value``, apart from nodes that only move values.

    Empty for an input of the network.
    """
    makers = {output: node for node in model.graph.node for output in node.output}
    for _ in range(len(makers)):
        node = makers.get(value)
        if node is None:
            return ""
        if node.op_type not in _MOVES:
            return str(node.op_type)
        value = str(node.input[0])
    return ""
