"""Find the calls that together normalise a picture."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgepipe.quantize.graph import FloatNode, Graph, Node, NormNode, picture_shape
from edgepipe.tvm_adapter import Binding

MOST_VALUES = 1 << 18
"""The most values that share a mean: int64 then holds the statistics of any int8 input."""


@dataclass(frozen=True, slots=True)
class GatherNorms:
    """Make one node of the calls that divide a tensor by the root of its variance.

    before   m = mean(x); c = x - m; v = mean(c * c); s = sqrt(v + const); y = c / s
    after    NormNode y = (x - mean) / sqrt(variance + const); the inner calls stay, too

    ``frontend.rewrites.norms`` writes normalisations of pictures with these calls: over channels,
    or over height and width, for groups between two reshapes. ``keep_float`` names calls that are
    to stay float.
    """

    keep_float: Container[str] = ()

    def requires(self, before: Graph) -> Iterator[str]:
        """Nothing is recognised yet."""
        for node in before.nodes:
            if not isinstance(node, FloatNode):
                yield f"{node.name} is a {type(node).__name__} already"

    def apply(self, before: Graph) -> Graph:
        """Return the graph with a NormNode for the last call of every normalisation."""
        bindings = {n.name: n.binding for n in before.nodes if isinstance(n, FloatNode)}
        finder = _Finder(before.shapes, bindings)
        return replace(before, nodes=tuple(self._gathered(n, finder) for n in before.nodes))

    def ensures(self, before: Graph, after: Graph) -> Iterator[str]:
        """The same tensors; a normalisation keeps the picture's shape."""
        if [node.name for node in after.nodes] != [node.name for node in before.nodes]:
            yield "the tensors are not the same as before"
        for node in after.nodes:
            if isinstance(node, NormNode) and after.shapes[node.name] != after.shapes[node.input]:
                yield f"{node.name} has another shape than {node.input}"

    def _gathered(self, node: Node, finder: _Finder) -> Node:
        assert isinstance(node, FloatNode)
        found = finder.norm(node.binding)
        if found is None or node.name in self.keep_float:
            return node
        shape = finder.shapes[found.input]
        count = shape[1] if found.groups == 0 else math.prod(shape) // found.groups
        if count > MOST_VALUES:
            reason = f"it normalises over {count} values, expected at most {MOST_VALUES}"
            return replace(node, reason=f"stays float: {reason}")
        return found


@dataclass(frozen=True, slots=True)
class _Finder:
    """The calls of the network, by the tensors that they compute."""

    shapes: Mapping[str, tuple[int, ...]]
    bindings: Mapping[str, Binding]

    def norm(self, last: Binding) -> NormNode | None:
        """Return the normalisation that a call ends, if it ends one."""
        if last.op == "divide":
            found = self._divided(last)
            if found is None:
                return None
            source, axes, epsilon, is_centred = found
            groups = {(1,): 0, (2, 3): self.shapes[source][1]}.get(axes)
        elif last.op == "reshape":
            quotient = self.bindings.get(str(last.args[0]))
            found = self._divided(quotient) if quotient and quotient.op == "divide" else None
            if found is None:
                return None
            source, axes, epsilon, is_centred = found
            inner = self.bindings.get(source)
            if inner is None or inner.op != "reshape" or axes != (2, 3):
                return None
            groups, source = self.shapes[source][1], str(inner.args[0])
            if self.shapes.get(source) != last.shape or last.shape[1] % groups:
                return None
        else:
            return None
        if groups is None or picture_shape(last.shape) is None:
            return None
        ones = np.ones(last.shape[1])
        return NormNode(
            name=last.name,
            input=source,
            groups=groups,
            epsilon=epsilon,
            is_centred=is_centred,
            factor=ones,
            bias=0 * ones,
        )

    def _divided(self, quotient: Binding) -> tuple[str, tuple[int, ...], float, bool] | None:
        """Return what is normalised, over which axes, the epsilon, and whether it is centred."""
        value, root = quotient.args
        sqrt = self._made(root, "sqrt")
        if not isinstance(value, str) or sqrt is None:
            return None
        variance, epsilon = sqrt.args[0], 0.0
        added = self._made(variance, "add")
        if added is not None:
            variance, constant = added.args
            if not isinstance(constant, np.ndarray) or constant.size != 1:
                return None
            epsilon = float(constant.reshape(-1)[0])
        axes, squares = self._mean(variance)
        squared = self._made(squares, "multiply")
        if squared is None or not _is_square(squared, value) or epsilon < 0:
            return None
        centred = self._made(value, "subtract")
        if centred is not None:
            source, middle = centred.args
            if isinstance(source, str) and self._mean(middle) == (axes, source):
                return source, axes, epsilon, True
        return value, axes, epsilon, False

    def _mean(self, tensor: object) -> tuple[tuple[int, ...], str]:
        """Return the axes that a mean keeps with extent 1, and what it is of."""
        mean = self._made(tensor, "mean")
        if mean is None or not mean.attributes["keepdims"] or not mean.attributes["axis"]:
            return (), ""
        source = str(mean.args[0])
        rank = len(self.shapes[source])
        return tuple(sorted(int(a) % rank for a in mean.attributes["axis"])), source

    def _made(self, tensor: object, op: str) -> Binding | None:
        """Return the call that computes a tensor if it is ``op``."""
        found = self.bindings.get(tensor) if isinstance(tensor, str) else None
        return found if found is not None and found.op == op else None


def _is_square(product: Binding, tensor: str) -> bool:
    """Return whether a product is that of a tensor with itself, and not with a constant."""
    return all(isinstance(factor, str) and factor == tensor for factor in product.args)
