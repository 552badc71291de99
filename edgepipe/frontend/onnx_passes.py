"""Rewrites of the ONNX graph before import, for what TVM or the quantiser cannot handle."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import array_of, constants_of, set_nodes


def fold_pads(model: onnx.ModelProto) -> None:
    """Fold a zero Pad before a Conv into the convolution's own padding.

    ``Conv(Pad(x, zeros))`` becomes ``Conv(x)`` with wider pads. A Pad that nothing else reads is
    removed.
    """
    graph = model.graph
    constants = constants_of(graph)
    pads = {node.output[0]: node for node in graph.node if node.op_type == "Pad"}
    for node in graph.node:
        pad = pads.get(node.input[0]) if node.op_type == "Conv" else None
        more = _zero_border(pad, constants) if pad is not None else None
        if pad is None or more is None or _text(node, "auto_pad", "NOTSET") != "NOTSET":
            continue
        own = next((list(a.ints) for a in node.attribute if a.name == "pads"), [0] * 4)
        kept = [a for a in node.attribute if a.name != "pads"]
        wider = [a + b for a, b in zip(own, more, strict=True)]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute("pads", wider)])
        node.input[0] = pad.input[0]
    read = {name for node in graph.node for name in node.input} | {o.name for o in graph.output}
    unread = [name for name in pads if name not in read]
    set_nodes(graph, [node for node in graph.node if node.output[0] not in unread])


def _zero_border(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> list[int] | None:
    """Return (top, left, bottom, right) of a Pad that only adds zeros around pictures, or None."""
    names = [*node.input, "", ""]
    if (
        names[1] not in constants
        or len(node.input) > 3
        or _text(node, "mode", "constant") != "constant"
    ):
        return None
    if names[2] and (names[2] not in constants or np.any(array_of(constants[names[2]]))):
        return None
    amounts = [int(v) for v in array_of(constants[names[1]]).reshape(-1)]
    if len(amounts) != 8 or min(amounts) < 0 or any(amounts[:2] + amounts[4:6]):
        return None
    return [*amounts[2:4], *amounts[6:8]]


def _text(node: onnx.NodeProto, name: str, default: str) -> str:
    found = [a.s.decode() for a in node.attribute if a.name == name]
    return str(found[0]) if found else default
