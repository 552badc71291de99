"""Write normalisations as calls of one form, which the quantiser gathers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import set_nodes
from edgepipe.frontend.rewrites.norms import LAST_AXIS, NORMALISATION, attribute
from edgepipe.frontend.rewrites.rewriting import REDUCE_WITH_INPUTS, Nodes, Rewriting


def write_norms(model: onnx.ModelProto) -> None:
    """Replace ``Normalisation`` by calls that the quantiser gathers, or by a float operator.

    before   Normalisation(x, groups=0)
    after    c = x - ReduceMean(x, axes=[1]); c / Sqrt(ReduceMean(c * c, axes=[1]) + const)

    Groups of channels become channels of a picture in between, and so do the rows of what is no
    picture, which is normalised along its last axis.
    """
    rewriting = Rewriting(model)
    nodes: Nodes = []
    for node in model.graph.node:
        nodes += _calls(rewriting, node) if node.op_type == NORMALISATION else [node]
    set_nodes(model.graph, nodes)


def _calls(rewriting: Rewriting, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    source, name = node.input[0], node.output[0]
    shape = rewriting.shapes[source]
    groups, epsilon = attribute(node, "groups", 0), attribute(node, "epsilon", 0.0)
    is_centred = bool(attribute(node, "centred", 1))
    axes = [1] if groups == 0 else [2, 3]
    is_grouped = groups == LAST_AXIS or (groups > 0 and groups != shape[1])
    made = f"{name}/grouped" if is_grouped else name
    if is_grouped:
        if groups == LAST_AXIS:
            grouped = (1, math.prod(shape[:-1]), shape[-1], 1)
        else:
            grouped = (1, groups, shape[1] // groups * shape[2], shape[3])
        wanted = rewriting.integers(f"{name}/groups", grouped)
        yield helper.make_node("Reshape", [source, wanted], [f"{name}/groups_of"])
        source = f"{name}/groups_of"
    if is_centred:
        yield _mean(rewriting, source, f"{name}/mean", axes)
        yield helper.make_node("Sub", [source, f"{name}/mean"], [f"{name}/centred"])
        source = f"{name}/centred"
    yield helper.make_node("Mul", [source, source], [f"{name}/squares"])
    yield _mean(rewriting, f"{name}/squares", f"{name}/variance", axes)
    variance = f"{name}/variance"
    if epsilon:
        constant = rewriting.constant(f"{name}/epsilon", np.array(epsilon))
        yield helper.make_node("Add", [variance, constant], [f"{name}/positive"])
        variance = f"{name}/positive"
    yield helper.make_node("Sqrt", [variance], [f"{name}/root"])
    yield helper.make_node("Div", [source, f"{name}/root"], [made])
    if is_grouped:
        wanted = rewriting.integers(f"{name}/shape", shape)
        yield helper.make_node("Reshape", [made, wanted], [name])


def _mean(rewriting: Rewriting, source: str, name: str, axes: list[int]) -> onnx.NodeProto:
    if rewriting.opset >= REDUCE_WITH_INPUTS:
        inputs = [source, rewriting.integers(f"{name}/axes", axes)]
        return helper.make_node("ReduceMean", inputs, [name], keepdims=1)
    return helper.make_node("ReduceMean", [source], [name], axes=axes, keepdims=1)
