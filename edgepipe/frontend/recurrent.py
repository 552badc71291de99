"""Recurrent layers, for which edgepipe has no kernels, and how to keep them on the host."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote

import onnx

from edgepipe.errors import FrontendError
from edgepipe.frontend.onnx_graph import remove_unread, values_read

_RECURRENT = ("GRU", "LSTM", "RNN")
_OF_SHAPES = ("Shape", "Size")  # their results are the same for every picture


def require_no_recurrence(path: Path, model: onnx.ModelProto) -> None:
    """Raise ``FrontendError`` for a network with a recurrent layer.

    The hint has the command that cuts the network in two parts before it, if there is a layer.
    """
    graph = onnx.GraphProto()
    graph.CopyFrom(model.graph)
    remove_unread(graph)
    node = next((node for node in graph.node if node.op_type in _RECURRENT), None)
    if node is None:
        return
    hint = "edgepipe builds networks of convolutions and dense layers; run this one on the host"
    border = _border(graph, node)
    if border:
        first, rest = (path.with_name(f"{path.stem}-{part}.onnx") for part in ("first", "rest"))
        outputs = [output.name for output in graph.output]
        calls = [
            (str(path), str(first), [graph.input[0].name], border),
            (str(path), str(rest), border, outputs),
        ]
        texts = [", ".join(json.dumps(argument) for argument in call) for call in calls]
        lines = ["import onnx.utils", *(f"onnx.utils.extract_model({text})" for text in texts)]
        hint = (
            f"build the part before it, and run the rest on the host with onnxruntime; to make "
            f"{first.name} and {rest.name}: python -c {quote('; '.join(lines))}"
        )
    raise FrontendError(
        f"{path}: {node.op_type} {next(filter(None, node.output))!r} is recurrent, and there is "
        "no kernel for it",
        hint=hint,
    )


def _border(graph: onnx.GraphProto, recurrent: onnx.NodeProto) -> list[str]:
    """Return the computed values that the recurrent layer and all that depends on it read.

    Values that are the same for every picture do not count; the part behind computes them itself.
    """
    of_picture = {graph.input[0].name}
    for node in graph.node:
        if node.op_type not in _OF_SHAPES and values_read(node) & of_picture:
            of_picture.update(node.output)
    after, read = set(recurrent.output), values_read(recurrent)
    for node in graph.node:
        if values_read(node) & after:
            after.update(node.output)
            read |= values_read(node)
    return sorted((read & of_picture) - after - {graph.input[0].name})
