"""Which tensors of a network that was quantised already must keep their given steps.

A layer's shift is exact if its weights are int8 in units of the output's step times a power of two.
With scales that are powers of two, as AMD Quark makes them, every layer is like that, and keeps its
integers bit for bit. With other scales hardly any is, and then a step for each channel and a step
that makes a residual exact lose less than the given ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgepipe.frontend.given_ranges import GivenRange
from edgepipe.quantize.graph import (
    AveragePoolNode,
    ConcatNode,
    ConvNode,
    FloatNode,
    Graph,
    MaxPoolNode,
    MoveNode,
    Node,
    PickNode,
    ProductNode,
    ResizeNode,
    SumNode,
    TableNode,
)
from edgepipe.quantize.leaky import gain_for
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.weights import WHOLE, input_rows, quantise_rows

Float = NDArray[np.float64]

_KEEPING = MaxPoolNode | ResizeNode | ConcatNode | PickNode | MoveNode
_TOLERANCE = 1e-6  # of a ratio of float32 scales


def exact_steps(
    graph: Graph, given: Mapping[str, GivenRange], options: QuantizeOptions
) -> dict[str, float]:
    """Return the steps of the tensors that layers with exact shifts read and make."""
    planned: dict[str, Float] = {}
    origins: dict[str, set[str]] = {}  # the tensors whose steps a tensor has

    def plan(name: str) -> None:
        if name in given:
            planned[name] = np.full(graph.channels(name), given[name].int8_step)
            origins[name] = {name}

    plan(graph.input)
    found: set[str] = set()
    for node in graph.nodes:
        sources = [name for name in node.inputs if name in planned]
        if isinstance(node, _KEEPING):
            if len(sources) == len(node.inputs):
                planned[node.name] = _kept(node, planned, graph)
                origins[node.name] = set().union(*(origins[name] for name in sources))
                if node.name in given and (planned[node.name] == given[node.name].int8_step).all():
                    origins[node.name].add(node.name)
            continue
        plan(node.name)
        if isinstance(node, FloatNode | TableNode):
            continue
        known = node.name in planned and len(sources) == len(node.inputs)
        if known and _is_exact(node, planned, options):
            found |= origins[node.name].union(*(origins[name] for name in sources))
        elif isinstance(node, AveragePoolNode):
            planned.pop(node.name, None)  # its step follows from that of its input
    return {name: given[name].int8_step for name in sorted(found)}


def _kept(node: Node, planned: Mapping[str, Float], graph: Graph) -> Float:
    """Return the steps of a node that keeps those of its inputs."""
    steps = np.concatenate([planned[name] for name in node.inputs])
    if isinstance(node, PickNode):
        return steps[list(node.channels)]
    if isinstance(node, MoveNode):
        return np.full(graph.channels(node.name), steps.max())
    return steps


def _is_exact(node: Node, planned: Mapping[str, Float], options: QuantizeOptions) -> bool:
    """Whether the given steps make all of a layer's shifts and factors exact."""
    step = planned[node.name]
    if isinstance(node, AveragePoolNode):
        window = node.kernel[0] * node.kernel[1]
        return _are_powers(planned[node.input] / (window * step))
    if not isinstance(node, ConvNode | SumNode | ProductNode):
        return False
    if isinstance(node, ProductNode) and node.divides:
        return False
    unit = gain_for(node.activation.slope, most=options.leaky_steps) * step
    if isinstance(node, ConvNode):
        real = [input_rows(node, planned[node.input])]
        real += [part.weight * planned[part.input] for part in node.projections]
        factors = [planned[name] * factor / unit for name, factor in node.residuals]
        return are_int8(np.hstack(real) / unit[:, None]) and all(map(_are_powers, factors))
    if isinstance(node, SumNode):
        return all(_are_powers(planned[name] * factor / unit) for name, factor in node.terms)
    factors = [planned[node.first] * planned[node.second] * node.factor / unit]
    factors += [planned[name] * factor / unit for name, factor in node.residuals]
    return all(map(_are_powers, factors))


def are_int8(rows: Float) -> bool:
    """Whether every row, in units of the output's step, is int8 times a power of two.

    ``rows`` is float64[channels, n].
    """
    rounded, shift = quantise_rows(rows)
    return bool((np.abs(rows * 2.0 ** shift[:, None] - rounded) < WHOLE).all())


def _are_powers(factors: Float) -> bool:
    """Whether all factors that are not zero are powers of two."""
    logarithms = np.log2(np.abs(factors[factors != 0]))
    return bool((np.abs(logarithms - np.rint(logarithms)) < _TOLERANCE).all())
