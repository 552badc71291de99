"""Small readers and writers of ONNX graphs that the front end's rewrites share."""

from __future__ import annotations

from collections.abc import Container, Iterable
from graphlib import CycleError, TopologicalSorter

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper


def constants_of(graph: onnx.GraphProto) -> dict[str, TensorProto]:
    """Return the initialisers by name."""
    return {constant.name: constant for constant in graph.initializer}


def all_constants_of(graph: onnx.GraphProto) -> dict[str, TensorProto]:
    """Return the initialisers and the tensors of ``Constant`` nodes, by name."""
    constants = constants_of(graph)
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("t"):
                constants[node.output[0]] = attribute.t
    return constants


def array_of(tensor: TensorProto) -> NDArray[np.generic]:
    """Return a constant as an array of the same dtype and shape."""
    return np.asarray(numpy_helper.to_array(tensor))


def shape_of(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """Return the static shape of a tensor, or None if it is unknown or dynamic."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    if any(not d.HasField("dim_value") or d.dim_value < 0 for d in tensor.shape.dim):
        return None
    return tuple(int(d.dim_value) for d in tensor.shape.dim)


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of ONNX's own operators that a model uses, 0 if it uses none."""
    versions = (int(o.version) for o in model.opset_import if o.domain in ("", "ai.onnx"))
    return max(versions, default=0)


def set_nodes(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Replace all nodes; ``nodes`` may contain nodes of the graph."""
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def sort_nodes(graph: onnx.GraphProto) -> None:
    """Put every node behind those whose outputs it reads; a graph with a cycle stays as it is.

    ONNX demands that order, but tools append nodes at the end, and onnxruntime reads such files.
    """
    makers = {value: i for i, node in enumerate(graph.node) for value in node.output if value}
    sources = [{makers[v] for v in values_read(n) if v in makers} for n in graph.node]
    if all(max(found, default=-1) < i for i, found in enumerate(sources)):
        return
    try:
        order = list(TopologicalSorter(dict(enumerate(sources))).static_order())
    except CycleError:
        return
    set_nodes(graph, [graph.node[i] for i in order])


def remove_unread(graph: onnx.GraphProto) -> None:
    """Remove nodes and initialisers that no output depends on."""
    needed = {output.name for output in graph.output}
    kept = []
    for node in reversed(graph.node):
        if any(value in needed for value in node.output if value):
            needed.update(values_read(node))
            kept.append(node)
    if len(kept) < len(graph.node):
        set_nodes(graph, reversed(kept))
    constants = [c for c in graph.initializer if c.name in needed]
    if len(constants) < len(graph.initializer):
        copies = [TensorProto.FromString(c.SerializeToString()) for c in constants]
        del graph.initializer[:]
        graph.initializer.extend(copies)


def values_read(node: onnx.NodeProto) -> set[str]:
    """Return the values that a node reads, including those in its subgraphs."""
    found = {value for value in node.input if value}
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                found |= values_read(inner)
    return found


def readers_of(graph: onnx.GraphProto) -> dict[str, list[onnx.NodeProto]]:
    """Return the nodes that read each value."""
    found: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for value in values_read(node):
            found.setdefault(value, []).append(node)
    return found


def values_before(graph: onnx.GraphProto, kinds: Container[str]) -> set[str]:
    """Return the values that a node of one of ``kinds`` depends on."""
    found: set[str] = set()
    for node in reversed(graph.node):
        if node.op_type in kinds or any(value in found for value in node.output):
            found.update(node.input)
    return found


def shapes_of(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Return the static shapes of constants, inputs and inferred values, by name."""
    known = {constant.name: tuple(constant.dims) for constant in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.value_info):
        shape = shape_of(value)
        if shape is not None:
            known[value.name] = shape
    return known


def stretches(node: onnx.NodeProto) -> bool:
    """Return whether a ``Resize`` takes its sizes as they are, whatever the aspect ratio."""
    return text_of(node, "keep_aspect_ratio_policy", "stretch") == "stretch"


def text_of(node: onnx.NodeProto, name: str, default: str) -> str:
    """Return a text attribute of a node."""
    found = [a.s.decode(errors="replace") for a in node.attribute if a.name == name]
    return str(found[0]) if found else default


def set_attribute(node: onnx.NodeProto, name: str, value: object) -> None:
    """Set an attribute of a node; None removes it."""
    kept = [a for a in node.attribute if a.name != name]
    if value is not None:
        kept.append(helper.make_attribute(name, value))
    copies = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in kept]
    del node.attribute[:]
    node.attribute.extend(copies)
