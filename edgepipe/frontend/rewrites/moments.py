"""Write normalisations of Keras in the order of others: the mean is subtracted first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.onnx_graph import set_nodes
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

_TO_LAST, _TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]

Float = NDArray[np.float64]


def subtract_means_first(model: onnx.ModelProto) -> None:
    """Replace normalisations whose mean is moved behind the scale.

    before   x * inv + (beta - mean * inv), inv = Reciprocal(root) * gamma;  x * inv
    after    Div(x - mean, root) * gamma + beta;                            Div(x, root) * gamma

    That of groups of channels, [1, h, w, groups, c / groups], becomes an InstanceNormalization of
    the picture.
    """
    found = _Moments(model)
    nodes: Nodes = []
    for node in model.graph.node:
        rule = _RULES.get(node.op_type)
        made = list(rule(found, node)) if rule is not None and len(node.output) == 1 else []
        nodes += made or [node]
    if len(nodes) != len(model.graph.node):
        set_nodes(model.graph, nodes)
        infer_shapes(model)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    """``(source - mean) / sqrt(variance + epsilon) * scale + shift``, as nodes and constants."""

    source: str
    mean: onnx.NodeProto
    variance: onnx.NodeProto
    epsilon: Float
    scale: Float | None
    shift: Float


class _Moments(Rewriting):
    """The graph, and what is a normalisation in it."""

    def made(self, value: str, kind: str) -> onnx.NodeProto | None:
        """Return the node that computes a value if it is of a kind."""
        node = self.makers.get(value)
        return node if node is not None and node.op_type == kind else None

    def beside_constant(self, node: onnx.NodeProto | None) -> tuple[str, Float] | None:
        """Return the tensor and the constant that a node of two inputs combines."""
        for index in (0, 1) if node is not None else ():
            assert node is not None
            number = self.array(node.input[1 - index])
            if number is not None and self.array(node.input[index]) is None:
                return node.input[index], number
        return None

    def inverse(self, value: str) -> tuple[str, Float | None] | None:
        """Return the root below a reciprocal, and the scale that it is multiplied with."""
        scaled = self.beside_constant(self.made(value, "Mul"))
        node = self.made(value if scaled is None else scaled[0], "Reciprocal")
        root = self.made(node.input[0], "Sqrt") if node is not None else None
        if root is None:
            return None
        return root.output[0], None if scaled is None else scaled[1]

    def moved(self, node: onnx.NodeProto) -> _Moved | None:
        """Return the normalisation that a sum ends, if it ends one."""
        for scaled, rest in (tuple(node.input), tuple(reversed(node.input))):
            product = self.made(scaled, "Mul")
            found = self._negated(rest)
            if product is None or found is None:
                continue
            mean, inverse, shift = found
            if inverse not in product.input:
                continue
            source = product.input[1 - list(product.input).index(inverse)]
            below = self.inverse(inverse)
            if below is None:
                continue
            parts = self._variance(below[0], source, mean)
            if parts is not None:
                variance, epsilon = parts
                middle = self.makers[mean]
                return _Moved(
                    source=source,
                    mean=middle,
                    variance=variance,
                    epsilon=epsilon,
                    scale=below[1],
                    shift=shift,
                )
        return None

    def _negated(self, value: str) -> tuple[str, str, Float] | None:
        """Return mean, inverse and shift of ``shift - mean * inverse``."""
        less = self.made(value, "Sub")
        shift = self.array(less.input[0]) if less is not None else None
        taken = less.input[1] if less is not None and shift is not None else ""
        more = self.beside_constant(self.made(value, "Add"))
        if more is not None:
            taken, shift = more
        product = self.made(taken, "Mul")
        if product is None or shift is None:
            return None
        for mean, inverse in (tuple(product.input), tuple(reversed(product.input))):
            if more is not None:
                negative = self.made(mean, "Neg")
                if negative is None:
                    continue
                mean = negative.input[0]
            if self.made(mean, "ReduceMean") is not None:
                return mean, inverse, shift
        return None

    def _variance(self, root: str, source: str, mean: str) -> tuple[onnx.NodeProto, Float] | None:
        """Return the mean of squared distances from ``mean`` below a root, and the epsilon."""
        more = self.beside_constant(self.made(self.makers[root].input[0], "Add"))
        variance = self.made(more[0], "ReduceMean") if more is not None else None
        square = self.made(variance.input[0], "Mul") if variance is not None else None
        if more is None or variance is None or square is None or more[1].size != 1:
            return None
        distance = self.made(square.input[0], "Sub")
        if distance is None or square.input[0] != square.input[1] or distance.input[0] != source:
            return None
        copied = self.made(distance.input[1], "Reshape")
        same = copied is not None and self.shapes.get(copied.output[0]) == self.shapes.get(mean)
        middle = copied.input[0] if copied is not None and same else distance.input[1]
        first = self.makers[mean]
        is_norm = middle == mean and first.input[0] == source and self.axes(first)
        return (variance, more[1]) if is_norm and self.axes(first) == self.axes(variance) else None

    def axes(self, node: onnx.NodeProto) -> list[int]:
        """Return the axes that a reduction keeps with extent 1; none if it drops them."""
        rank = len(self.shapes.get(node.input[0], ()))
        given = {a.name: a for a in node.attribute}
        if not rank or ("keepdims" in given and not given["keepdims"].i):
            return []
        found = self.array(node.input[1]) if len(node.input) > 1 and node.input[1] else None
        axes = given["axes"].ints if "axes" in given else () if found is None else found.reshape(-1)
        return sorted(int(axis) % rank for axis in axes)


def _sum(found: _Moments, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    norm = found.moved(node)
    if norm is None:
        return
    name = node.output[0]
    centred, root, value = f"{name}/centred", f"{name}/root", f"{name}/normalised"
    variance = onnx.NodeProto.FromString(norm.variance.SerializeToString())
    variance.input[0], variance.output[0] = f"{name}/squares", f"{name}/variance"
    least = found.constant(f"{name}/epsilon", norm.epsilon)
    yield helper.make_node("Sub", [norm.source, norm.mean.output[0]], [centred])
    yield helper.make_node("Mul", [centred, centred], [f"{name}/squares"])
    yield variance
    yield helper.make_node("Add", [f"{name}/variance", least], [f"{name}/positive"])
    yield helper.make_node("Sqrt", [f"{name}/positive"], [root])
    yield helper.make_node("Div", [centred, root], [value])
    if norm.scale is not None:
        scale = found.constant(f"{name}/scale", norm.scale)
        yield helper.make_node("Mul", [value, scale], [f"{name}/scaled"])
        value = f"{name}/scaled"
    yield helper.make_node("Add", [value, found.constant(f"{name}/shift", norm.shift)], [name])


def _product(found: _Moments, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yield a quotient times a scale for a product with a scaled inverse."""
    name = node.output[0]
    for source, inverse in (tuple(node.input), tuple(reversed(node.input))):
        below = found.inverse(inverse)
        if below is None or below[1] is None:
            continue
        if found.shapes.get(source) != found.shapes.get(name) or found.array(source) is not None:
            continue
        scale = found.constant(f"{name}/scale", below[1])
        yield helper.make_node("Div", [source, below[0]], [f"{name}/normalised"])
        yield helper.make_node("Mul", [f"{name}/normalised", scale], [name])
        return


def _groups(found: _Moments, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yield the normalisation of groups of the last axis of a picture."""
    last = found.made(node.input[0], "Add")
    norm = found.moved(last) if last is not None else None
    outer = found.made(norm.source, "Reshape") if norm is not None else None
    shape = found.shapes.get(node.output[0], ())
    if norm is None or outer is None or found.shapes.get(outer.input[0]) != shape:
        return
    grouped = found.shapes.get(norm.source, ())
    if len(shape) != 4 or shape[0] != 1 or len(grouped) != 5 or grouped[:3] != shape[:3]:
        return
    if found.axes(norm.variance) != [1, 2, 4] or grouped[3] * grouped[4] != shape[3]:
        return
    groups, channels, name = grouped[3], shape[3], node.output[0]
    scale = np.ones(channels) if norm.scale is None else norm.scale
    if any(array.size not in (1, channels) for array in (scale, norm.shift)):
        return
    first = (1, channels, *shape[1:3])
    inner = found.integers(f"{name}/grouped", (1, groups, int(np.prod(shape)) // groups))
    plain = [
        found.constant(f"{name}/{what}", np.full(groups, value))
        for what, value in (("ones", 1.0), ("zeros", 0.0))
    ]
    by, plus = (
        found.constant(
            f"{name}/{what}", np.broadcast_to(array.reshape(-1), channels)[:, None, None]
        )
        for what, array in (("scale", scale), ("shift", norm.shift))
    )
    back = found.integers(f"{name}/picture_shape", first)
    parts = [f"{name}/{part}" for part in ("first", "groups", "normalised", "whole", "scaled", "y")]
    epsilon = float(norm.epsilon.flat[0])
    yield helper.make_node("Transpose", [outer.input[0]], [parts[0]], perm=_TO_FIRST)
    yield helper.make_node("Reshape", [parts[0], inner], [parts[1]])
    yield helper.make_node("InstanceNormalization", [parts[1], *plain], [parts[2]], epsilon=epsilon)
    yield helper.make_node("Reshape", [parts[2], back], [parts[3]])
    yield helper.make_node("Mul", [parts[3], by], [parts[4]])
    yield helper.make_node("Add", [parts[4], plus], [parts[5]])
    yield helper.make_node("Transpose", [parts[5]], [name], perm=_TO_LAST)


_RULES: dict[str, Callable[[_Moments, onnx.NodeProto], Iterator[onnx.NodeProto]]] = {
    "Add": _sum,
    "Mul": _product,
    "Reshape": _groups,
}
