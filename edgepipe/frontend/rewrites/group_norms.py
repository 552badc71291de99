"""Write normalisations of groups with operators whose shapes are known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.onnx_graph import set_nodes
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting


def plain_groups(model: onnx.ModelProto) -> None:
    """Replace ``GroupNormalization`` of pictures, behind which onnx infers no shapes.

    before   GroupNormalization(x, scale, shift)
    after    Reshape(InstanceNormalization(Reshape(x, [1, groups, n]))) * scale + shift
    """
    left = -1
    while left:
        rewriting = Rewriting(model)
        nodes: Nodes = []
        count = 0
        for node in model.graph.node:
            made = list(_plain(rewriting, node)) if node.op_type == "GroupNormalization" else []
            count += node.op_type == "GroupNormalization" and not made
            nodes += made or [node]
        if len(nodes) == len(model.graph.node):
            return
        set_nodes(model.graph, nodes)
        infer_shapes(model)
        left = count


def _plain(rewriting: Rewriting, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    shape = rewriting.shapes.get(node.input[0], ())
    given = {a.name: a for a in node.attribute}
    groups = int(given["num_groups"].i) if "num_groups" in given else 0
    scale, shift = (rewriting.array(value) for value in node.input[1:3])
    if len(shape) != 4 or shape[0] != 1 or groups < 1 or shape[1] % groups:
        return
    if scale is None or shift is None or scale.size not in (groups, shape[1]):
        return
    name = node.output[0]
    grouped = rewriting.integers(f"{name}/grouped", (1, groups, int(np.prod(shape)) // groups))
    plain = [
        rewriting.constant(f"{name}/{what}", np.full(groups, value))
        for what, value in (("ones", 1.0), ("zeros", 0.0))
    ]
    epsilon = given["epsilon"].f if "epsilon" in given else 1e-5
    parts, normed, whole, scaled = (f"{name}/{p}" for p in ("parts", "normed", "whole", "scaled"))
    yield helper.make_node("Reshape", [node.input[0], grouped], [parts])
    yield helper.make_node("InstanceNormalization", [parts, *plain], [normed], epsilon=epsilon)
    yield helper.make_node("Reshape", [normed, rewriting.integers(f"{name}/size", shape)], [whole])
    for op, source, array, made in (
        ("Mul", whole, scale, scaled),
        ("Add", scaled, shift, name),
    ):
        by_channel = np.repeat(array.reshape(-1), shape[1] // array.size).reshape(1, -1, 1, 1)
        constant = rewriting.constant(f"{made}/{op.lower()}_by", by_channel)
        yield helper.make_node(op, [source, constant], [made])
