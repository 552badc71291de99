"""Find the calls that together normalise a picture, or compute lengths over its pixels."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgepipe.quantize.graph import FloatNode, Graph, LengthNode, Node, NormNode, picture_shape
from edgepipe.tvm_adapter import Binding

MOST_VALUES = 1 << 18
"""The most values that are added: int64 then holds the statistics of any int8 input."""

_STATISTIC = frozenset(["log", "power", "rsqrt", "sqrt"])
_PASSING = frozenset(["add", "clip", "divide", "maximum", "minimum", "multiply", "subtract"])


@dataclass(frozen=True, slots=True)
class GatherNorms:
    """Make one node of the calls that divide a tensor by the root of its variance, or add squares.

    before   m = mean(x); c = x - m; v = mean(c * c); s = sqrt(v + const); y = c / s
    after    NormNode y = (x - mean) / sqrt(variance + const); the inner calls stay, too

    before   s = sqrt(sum(x * x)); t = sum(abs(x)), both over height and width
    after    LengthNode s, the root of a sum of squares; LengthNode t, a sum of magnitudes

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
        finder = _Finder(before.shapes, bindings, before.users())
        return replace(before, nodes=tuple(self._gathered(n, finder) for n in before.nodes))

    def ensures(self, before: Graph, after: Graph) -> Iterator[str]:
        """The same tensors; a normalisation keeps the picture's shape, a length its channels."""
        if [node.name for node in after.nodes] != [node.name for node in before.nodes]:
            yield "the tensors are not the same as before"
        for node in after.nodes:
            if isinstance(node, NormNode) and after.shapes[node.name] != after.shapes[node.input]:
                yield f"{node.name} has another shape than {node.input}"
            channels = after.channels(node.name)
            if isinstance(node, LengthNode) and channels != after.channels(node.input):
                yield f"{node.name} has other channels than {node.input}"

    def _gathered(self, node: Node, finder: _Finder) -> Node:
        assert isinstance(node, FloatNode)
        found = finder.norm(node.binding) or finder.length(node.binding)
        if found is None or node.name in self.keep_float:
            return node
        shape = finder.shapes[found.input]
        if isinstance(found, LengthNode):
            count, what = shape[2] * shape[3], "adds"
        else:
            count = shape[1] if found.groups == 0 else math.prod(shape) // found.groups
            what = "normalises over"
        if count > MOST_VALUES:
            reason = f"it {what} {count} values, expected at most {MOST_VALUES}"
            return replace(node, reason=f"stays float: {reason}")
        return found


@dataclass(frozen=True, slots=True)
class _Finder:
    """The calls of the network, by the tensors that they compute, and who reads these."""

    shapes: Mapping[str, tuple[int, ...]]
    bindings: Mapping[str, Binding]
    users: Mapping[str, Sequence[Node]]

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

    def length(self, last: Binding) -> LengthNode | None:
        """Return the length, or the sum of magnitudes or squares, that a call ends, if it ends one.

        A sum below a root stays float unless the root is part of the length: with eight bits,
        the roots of small sums would be equal.
        """
        is_root = last.op == "sqrt"
        value, epsilon = self._below(last) if is_root else (last.name, 0.0)
        total = self._made(value, "sum")
        if total is None or picture_shape(last.shape) is None:
            return None
        source, power = self._powered(total.args[0])
        shape = self.shapes.get(source, ())
        if len(shape) != 4 or shape[0] != 1:
            return None
        if {int(axis) % 4 for axis in total.attributes["axis"] or ()} != {2, 3}:
            return None
        if not is_root and self._is_statistic(last.name):
            return None
        return LengthNode(
            name=last.name,
            input=source,
            power=power,
            is_root=is_root,
            epsilon=epsilon,
        )

    def _powered(self, tensor: object) -> tuple[str, int]:
        """Return the picture whose magnitudes or squares a tensor has, and 1 or 2; else no name."""
        call = self.bindings.get(tensor) if isinstance(tensor, str) else None
        if call is None or not isinstance(call.args[0], str):
            return "", 0
        source = call.args[0]
        if call.op == "abs":
            return source, 1
        if call.op == "power":
            exponent = call.args[1]
            is_square = isinstance(exponent, np.ndarray) and bool((exponent == 2).all())
        else:
            is_square = call.op == "multiply" and _is_square(call, source)
        return (source, 2) if is_square else ("", 0)

    def _is_statistic(self, tensor: str) -> bool:
        """Return whether a root, a logarithm or a divisor depends on a tensor."""
        for user in self.users[tensor]:
            call = user.binding if isinstance(user, FloatNode) else None
            if call is None:
                continue
            divides = call.op == "divide" and call.args[0] != tensor
            if call.op in _STATISTIC or divides:
                return True
            if call.op in _PASSING and self._is_statistic(call.name):
                return True
        return False

    def _below(self, root: Binding) -> tuple[object, float]:
        """Return what a root is of, without the positive constant that is added, and this."""
        added = self._made(root.args[0], "add")
        if added is not None:
            value, constant = added.args
            if isinstance(constant, np.ndarray) and constant.size == 1 and constant.flat[0] >= 0:
                return value, float(constant.flat[0])
        return root.args[0], 0.0

    def _divided(self, quotient: Binding) -> tuple[str, tuple[int, ...], float, bool] | None:
        """Return what is normalised, over which axes, the epsilon, and whether it is centred."""
        value, root = quotient.args
        sqrt = self._made(root, "sqrt")
        if not isinstance(value, str) or sqrt is None:
            return None
        variance, epsilon = self._below(sqrt)
        axes, squares = self._mean(variance)
        squared = self._made(squares, "multiply")
        if squared is None or not _is_square(squared, value):
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
