"""Networks that were exported as they are trained, so their results are not those of inference."""

from __future__ import annotations

from pathlib import Path

import onnx

from edgepipe.errors import FrontendError
from edgepipe.frontend.onnx_graph import all_constants_of, array_of

_HINT = "export the network for inference, from PyTorch after model.eval(), without `training=`"


def require_inference(path: Path, model: onnx.ModelProto) -> None:
    """Raise ``FrontendError`` for a layer that says that it trains, if that changes its result."""
    graph = model.graph
    constants = all_constants_of(graph)

    def is_set(value: str, default: bool) -> bool:
        """Whether a constant is not 0; an input that is computed has the default."""
        return bool(array_of(constants[value]).any()) if value in constants else default

    for node in graph.node:
        why = ""
        if node.op_type == "Dropout" and len(node.input) > 2:
            if is_set(node.input[2], False) and is_set(node.input[1], True):
                why = "drops values at random"
        elif trains(node):
            why = "takes mean and variance from each picture"
        if why:
            raise FrontendError(f"{path}: {node.op_type} {node.output[0]!r} {why}", hint=_HINT)


def trains(node: onnx.NodeProto) -> bool:
    """Return whether a node is a batch normalisation that takes mean and variance from its input.

    Before opset 14, which added an attribute, more outputs than one said so.
    """
    is_set = any(a.name == "training_mode" and a.i for a in node.attribute)
    return node.op_type == "BatchNormalization" and (is_set or any(node.output[1:]))
