"""Find calls that together compute a function of one number, and evaluate such functions.

Exporters write an activation as several calls: ``x * sigmoid(x)``, ``x * clip(x + 3, 0, 6) / 6``,
``0.5 * x * (1 + erf(x / 1.41))``. Where they all depend on the same element of one tensor, they
are one function, and one table of 256 entries holds it for int8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.graph import (
    FloatNode,
    Graph,
    LengthNode,
    Node,
    NormNode,
    TableNode,
    as_channels,
    picture_shape,
)
from edgepipe.tvm_adapter import Binding

Float = NDArray[np.float64]

_erf: Callable[[Float], Float] = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Float) -> Float:
    result: Float = 1 / (1 + np.exp(-x))
    return result


def _gelu_tanh(x: Float) -> Float:
    inner: Float = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    result: Float = 0.5 * x * (1 + np.tanh(inner))
    return result


CURVES: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": _erf,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "nn.gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "nn.gelu_tanh": _gelu_tanh,
    "nn.prelu": lambda x, slope: np.where(x > 0, x, slope * x),
    "nn.silu": lambda x: x * _sigmoid(x),
    "nn.softplus": lambda x: np.logaddexp(0, x),
    "power": np.power,
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""Calls that no integer operator but a table computes."""

PARTS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "astype": lambda x: np.asarray(x, np.float64),
    "clip": np.clip,
    "divide": np.divide,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negative": np.negative,
    "nn.leakyrelu": lambda x, alpha: np.where(x > 0, x, alpha * x),
    "nn.relu": lambda x: np.maximum(x, 0),
    "subtract": np.subtract,
    "where": np.where,
}
"""Calls that a table can compute, too, with others."""

_FUNCTIONS = CURVES | PARTS
_TYPES = ("float32", "bool")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherFunctions:
    """Make one node of all calls that compute a function of one number.

    before   FloatNode s = sigmoid(x); FloatNode y = multiply(x, s)
    after    TableNode s = sigmoid(x); TableNode y = x * sigmoid(x)

    Factors, constants, sums and activations that convolutions compute stay apart, unless they
    belong to such a function or come after one. ``keep_float`` names calls that are to stay float.
    """

    keep_float: Container[str] = ()

    def requires(self, before: Graph) -> Iterator[str]:
        """Nothing is recognised yet but normalisations and lengths."""
        for node in before.nodes:
            if not isinstance(node, FloatNode | NormNode | LengthNode):
                yield f"{node.name} is a {type(node).__name__} already"

    def apply(self, before: Graph) -> Graph:
        """Return the graph with a TableNode for every function; its inner calls stay, too."""
        gathering = _Gathering(before)
        nodes = [
            node if node.name in self.keep_float else gathering.add(node) for node in before.nodes
        ]
        return replace(before, nodes=tuple(nodes))

    def ensures(self, before: Graph, after: Graph) -> Iterator[str]:
        """The same tensors; every table's calls read its input, each other and constants."""
        if [node.name for node in after.nodes] != [node.name for node in before.nodes]:
            yield "the tensors are not the same as before"
        for node in after.nodes:
            if not isinstance(node, TableNode):
                continue
            known = {node.input}
            for binding in node.bindings:
                if not known.issuperset(binding.inputs):
                    yield f"{node.name} is not a function of {node.input} alone"
                known.add(binding.name)
            if node.bindings[-1].name != node.name:
                yield f"the calls of {node.name} end with {node.bindings[-1].name}"


class _Gathering:
    """The calls so far, and which tensors each is a function of."""

    def __init__(self, graph: Graph) -> None:
        self._shapes = graph.shapes
        self._bindings: dict[str, Binding] = {}
        # The tensors that each tensor is a function of, nearest first; it is one of itself.
        self._sources: dict[str, tuple[str, ...]] = {graph.input: (graph.input,)}
        self._tables: dict[str, TableNode] = {}

    def add(self, node: Node) -> Node:
        """Return ``node``, or the table that it is."""
        self._sources[node.name] = (node.name,)
        if not isinstance(node, FloatNode) or node.reason or not self._is_function(node.binding):
            return node
        binding = node.binding
        self._bindings[node.name] = binding
        common = self._common_sources(binding)
        if not common:
            return node
        self._sources[node.name] = (node.name, *common)
        source = common[0]
        if source in self._tables:
            source = self._tables[source].input
        elif not self._needs_table(binding, source):
            return node
        table = TableNode(name=node.name, input=source, bindings=self._between(source, node.name))
        if binding.dtype != "float32":
            return node
        self._tables[node.name] = table
        return table

    def _is_function(self, binding: Binding) -> bool:
        """Return whether the call works element by element, with constants at most by channel."""
        if binding.op not in _FUNCTIONS or binding.dtype not in _TYPES:
            return False
        return all(self._fits(argument, binding) for argument in binding.args)

    def _fits(self, argument: object, binding: Binding) -> bool:
        if isinstance(argument, str):
            return self._shapes[argument] == binding.shape
        if isinstance(argument, np.ndarray):
            return _constant(argument, binding) is not None
        return isinstance(argument, int | float)

    def _common_sources(self, binding: Binding) -> tuple[str, ...]:
        first, *others = binding.inputs or ("",)
        common = self._sources.get(first, (first,) if first else ())
        for other in others:
            found = self._sources.get(other, (other,))
            common = tuple(name for name in common if name in found)
        return common

    def _needs_table(self, binding: Binding, source: str) -> bool:
        """Return whether neither a convolution nor a sum computes the call."""
        tensors = [argument for argument in binding.args if isinstance(argument, str)]
        if binding.op in CURVES or binding.op in ("negative", "where"):
            return True
        if binding.op == "nn.leakyrelu":
            return not 0.0 <= float(binding.attributes["alpha"]) < 1.0
        if binding.op == "divide":
            return binding.args[0] not in tensors or len(tensors) > 1
        if binding.op in ("maximum", "minimum"):
            bounds = [c for c in binding.args if isinstance(c, np.ndarray)]
            return len(tensors) > 1 or any(bound.size > 1 for bound in bounds)
        if binding.op in ("add", "subtract"):
            return len(set(tensors)) > 1 and not self._bends_at_zero(source, binding.name)
        return len(tensors) > 1

    def _bends_at_zero(self, source: str, last: str) -> bool:
        """Return whether it is a * x + b * Relu(x), a sum that the accelerator computes."""
        calls = self._between(source, last)
        bends = [call for call in calls if call.op == "nn.relu"]
        lines = [call for call in calls if call.op in ("add", "multiply")]
        if len(bends) != 1 or bends[0].inputs != (source,):
            return False
        return len(calls) == len(lines) + 1 and sum(c.op == "add" for c in lines) == 1

    def _between(self, source: str, last: str) -> tuple[Binding, ...]:
        """Return the calls that make ``last`` from ``source``, in order."""
        found: dict[str, Binding] = {}

        def visit(name: str) -> None:
            if name == source or name in found:
                return
            for tensor in self._bindings[name].inputs:
                visit(tensor)
            found[name] = self._bindings[name]

        visit(last)
        return tuple(found.values())


def evaluate(bindings: Sequence[Binding], source: str, values: Float) -> Float:
    """Return the last call's results where tensor ``source`` has ``values``.

    ``values`` is float64[channels, n], or float64[1, n] for all channels; so is the result, with a
    row for each channel as soon as a constant has one. What is not a number becomes the largest
    or least finite result beside it.
    """
    known: dict[str, Float] = {source: values}
    with np.errstate(all="ignore"):
        for binding in bindings:
            arguments = [_argument(argument, binding, known) for argument in binding.args]
            if binding.op == "nn.leakyrelu":
                arguments.append(float(binding.attributes["alpha"]))
            known[binding.name] = np.asarray(_FUNCTIONS[binding.op](*arguments), np.float64)
    result = known[bindings[-1].name]
    finite = result[np.isfinite(result)]
    if finite.size == result.size:
        return result
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    return np.nan_to_num(result, nan=0.0, posinf=high, neginf=low)


def _argument(argument: object, binding: Binding, known: Mapping[str, Float]) -> Any:
    if isinstance(argument, str):
        return known[argument]
    if isinstance(argument, np.ndarray):
        return _constant(argument, binding)
    return argument


def _constant(array: NDArray[Any], binding: Binding) -> Float | float | None:
    """Return a constant as a number, or as float64[channels, 1]; None if it is neither."""
    if array.size == 1 or (array.size and bool((array == array.flat[0]).all())):
        return float(array.flat[0])
    if picture_shape(binding.shape) is None:
        return None
    if binding.op == "nn.prelu":  # its slopes are those of an axis, not broadcast
        by_channel = binding.attributes["axis"] == 1
        return array.astype(np.float64)[:, np.newaxis] if by_channel else None
    channels = as_channels(array, binding.shape)
    return None if channels is None else channels[:, np.newaxis]
