"""What a network may return: tensors of floats, before anything is selected from them."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote

import onnx
from onnx import TensorProto, helper

from edgepipe.errors import FrontendError
from edgepipe.frontend.onnx_graph import constants_of, remove_unread, values_read

_INTEGERS = {
    getattr(TensorProto, name): name.lower()
    for name in ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "BOOL")
}
# Selections of the best results need sorted data, for which the ARM cores have no kernel.
_SELECTIONS = ("NonMaxSuppression", "TopK", "Unique")
_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def float_outputs(model: onnx.ModelProto) -> tuple[str, ...]:
    """Convert outputs of integers, such as those of ``ArgMax``, to float32; return notices.

    Every class number and position of a picture is a float32 without loss. Constants stay: no
    network may return them.
    """
    notices = []
    constants = constants_of(model.graph)
    for output in model.graph.output:
        found = _INTEGERS.get(output.type.tensor_type.elem_type)
        if found is None or output.name in constants:
            continue
        before = f"{output.name}/{found}"
        for node in model.graph.node:
            for names in (node.input, node.output):
                for index, name in enumerate(names):
                    if name == output.name:
                        names[index] = before
        cast = helper.make_node("Cast", [before], [output.name], to=TensorProto.FLOAT)
        model.graph.node.append(cast)
        output.type.tensor_type.elem_type = TensorProto.FLOAT
        notices.append(f"{output.name}: {found} output becomes float")
    return tuple(notices)


def require_no_selection(path: Path, model: onnx.ModelProto) -> None:
    """Raise ``FrontendError`` for a network that selects its best results itself.

    The hint has the command that cuts the selection off, if a single tensor comes before it.
    """
    graph = onnx.GraphProto()
    graph.CopyFrom(model.graph)
    remove_unread(graph)
    constants = constants_of(graph)
    for node in graph.node:
        if node.op_type in _SELECTIONS and node.input[0] not in constants:
            cut = path.with_name(f"{path.stem}-cut.onnx")
            first, border = [model.graph.input[0].name], _before(graph, node)
            arguments = ", ".join(json.dumps(a) for a in (str(path), str(cut), first, border))
            script = f"import onnx.utils; onnx.utils.extract_model({arguments})"
            raise FrontendError(
                f"{path}: {node.op_type} {node.output[0]!r} selects the best results, "
                "for which the ARM cores have no kernel",
                hint="a decoder selects them afterwards; to cut the network off before that: "
                f"python -c {quote(script)}",
            )


def _before(graph: onnx.GraphProto, selection: onnx.NodeProto) -> list[str]:
    """Return the tensors to end the network with so that the selection is no longer part of it.

    Among the places behind the last layer it is the first one with the fewest tensors on which the
    selection, and what depends on it, depend.
    """
    computed = {output.name for output in graph.output}
    computed.update(name for node in graph.node for name in node.output)
    after = set(selection.output)
    read: set[str] = set()
    for node in graph.node:
        if node is selection or values_read(node) & after:
            after.update(node.output)
            read |= values_read(node)
    border = read.intersection(computed) - after
    needed = set(border)
    before = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed |= values_read(node)
            before.append(node)
    readers = dict.fromkeys(needed, 0)
    for node in before:
        for name in values_read(node):
            readers[name] += 1
    best: set[str] = set()
    open_values: set[str] = set()
    for node in reversed(before):
        for name in values_read(node):
            readers[name] -= 1
            if not readers[name] and name not in border:
                open_values.discard(name)
        if node.input:  # constants are part of what reads them
            open_values.update(name for name in node.output if name in needed)
        if node.op_type in _LAYERS or len(open_values) < len(best):
            best = set(open_values)
    return sorted(best or border)
