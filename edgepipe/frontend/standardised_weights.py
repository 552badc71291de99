"""Weights that a network standardises itself, which exporters write as a layer that trains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.onnx_graph import set_nodes
from edgepipe.frontend.rewrites.rewriting import REDUCE_WITH_INPUTS, Nodes, Rewriting
from edgepipe.frontend.training import trains


def standardise_weights(model: onnx.ModelProto) -> None:
    """Write batch normalisations that train on constants with operators that can be folded.

    before   BatchNormalization(weight [1, c, n], scale, shift, ...), which takes mean and variance
             from its input
    after    (weight - mean) / Sqrt(variance + epsilon) * scale + shift

    Such are the standardised weights of BiT and NFNet: the result is the same for every picture.
    """
    graph = model.graph
    computed = _depend_on_picture(graph)
    found = [
        node
        for node in graph.node
        if trains(node) and not any(value in computed for value in node.input[:3])
    ]
    if not found:
        return
    infer_shapes(model)
    rewriting = Rewriting(model)
    read = {value for node in graph.node for value in node.input}
    read |= {output.name for output in graph.output}
    names = {
        node.output[0]
        for node in found
        if len(rewriting.shapes.get(node.input[0], ())) > 1 and not read & set(node.output[1:])
    }
    nodes: Nodes = []
    for node in graph.node:
        nodes += _plain(rewriting, node) if node.output and node.output[0] in names else [node]
    set_nodes(graph, nodes)


def _depend_on_picture(graph: onnx.GraphProto) -> set[str]:
    constants = {constant.name for constant in graph.initializer}
    found = {value.name for value in graph.input} - constants
    for node in graph.node:
        has_body = any(attribute.HasField("g") for attribute in node.attribute)
        if has_body or any(value in found for value in node.input):
            found.update(node.output)
    return found


def _plain(rewriting: Rewriting, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    source, scale, shift = node.input[:3]
    name = node.output[0]
    rank = len(rewriting.shapes[source])
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    axes = [0, *range(2, rank)]
    least = rewriting.constant(f"{name}/epsilon", np.array(epsilon))
    by_channel = rewriting.integers(f"{name}/by_channel", [1, -1, *[1] * (rank - 2)])
    yield _mean(rewriting, source, f"{name}/mean", axes)
    yield helper.make_node("Sub", [source, f"{name}/mean"], [f"{name}/centred"])
    yield helper.make_node("Mul", [f"{name}/centred", f"{name}/centred"], [f"{name}/squares"])
    yield _mean(rewriting, f"{name}/squares", f"{name}/variance", axes)
    yield helper.make_node("Add", [f"{name}/variance", least], [f"{name}/positive"])
    yield helper.make_node("Sqrt", [f"{name}/positive"], [f"{name}/root"])
    yield helper.make_node("Div", [f"{name}/centred", f"{name}/root"], [f"{name}/standard"])
    yield helper.make_node("Reshape", [scale, by_channel], [f"{name}/scale"])
    yield helper.make_node("Reshape", [shift, by_channel], [f"{name}/shift"])
    yield helper.make_node("Mul", [f"{name}/standard", f"{name}/scale"], [f"{name}/scaled"])
    yield helper.make_node("Add", [f"{name}/scaled", f"{name}/shift"], [name])


def _mean(rewriting: Rewriting, source: str, name: str, axes: list[int]) -> onnx.NodeProto:
    if rewriting.opset >= REDUCE_WITH_INPUTS:
        inputs = [source, rewriting.integers(f"{name}/axes", axes)]
        return helper.make_node("ReduceMean", inputs, [name], keepdims=1)
    return helper.make_node("ReduceMean", [source], [name], axes=axes, keepdims=1)
