"""Normalisations of all spellings as one operator while layers move.

``Normalisation`` is an operator of this file, which no other tool knows. It exists only between
``gather_norms`` and ``norm_calls.write_norms``, where no shapes are inferred.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgepipe.frontend.onnx_graph import set_nodes, values_before
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

NORMALISATION = "Normalisation"
LAST_AXIS = -1
"""The attribute ``groups`` of a normalisation over the last axis of tokens."""

_ALL = -2  # as ``groups``, before it is written: all values that there are

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_MOST_GUARD = 1e-5  # of a length: what only prevents a division by zero
_GUARD = 1e-30  # of a square: the least that does

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Norm:
    """``(x - mean) / sqrt(variance + epsilon) * factor + constant``.

    ``groups`` is 0 over the channels of a picture [1, c, h, w] at each pixel, the number of groups
    of channels whose pixels are normalised together, ``LAST_AXIS``, or ``_ALL`` for what is no
    picture but has one row of values. Without ``is_centred``, the mean counts as 0.
    """

    source: str
    groups: int
    epsilon: float
    is_centred: bool = True
    factor: Float | None = None
    constant: Float | None = None


def gather_norms(model: onnx.ModelProto) -> None:
    """Replace normalisations that a layer depends on by ``Normalisation``.

    before   LayerNormalization(x, scale, shift);             Div(x - m, Sqrt(v + const))
    after    Normalisation(x, groups=-1) * scale + shift;     Normalisation(x, groups=0)

    ``m`` and ``v`` are means of x and of squares: over the channels of a picture, its pixels, the
    pixels of groups of channels, or the last axis of tokens.
    """
    gathering = _Gathering(model)
    needed = values_before(model.graph, _LAYERS)
    nodes: Nodes = []
    for node in model.graph.node:
        rule = _RULES.get(node.op_type)
        matters = rule is not None and len(node.output) == 1 and node.output[0] in needed
        found = rule(gathering, node) if rule is not None and matters else None
        nodes += [node] if found is None else gathering.written(node.output[0], found)
    set_nodes(model.graph, nodes)


class _Gathering(Rewriting):
    """The graph, and how its normalisations are written."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._graph = model.graph

    def made(self, value: str, *kinds: str) -> onnx.NodeProto | None:
        """Return the node that computes a value if it is one of ``kinds``."""
        node = self.makers.get(value)
        return node if node is not None and node.op_type in kinds else None

    def written(self, name: str, norm: _Norm) -> Iterator[onnx.NodeProto]:
        """Yield the nodes that compute the value ``name``."""
        steps = [("Mul", "factor", norm.factor), ("Add", "constant", norm.constant)]
        left = [(op, what, array) for op, what, array in steps if array is not None]
        value = f"{name}/normalised" if left else name
        kept = {"groups": norm.groups, "epsilon": norm.epsilon, "centred": int(norm.is_centred)}
        if norm.groups == _ALL:
            yield from self._row(norm.source, value, kept | {"groups": 1})
        else:
            yield helper.make_node(NORMALISATION, [norm.source], [value], **kept)
        for index, (op, what, array) in enumerate(left):
            self.note_shape(value, self.shapes[norm.source])
            made = name if index == len(left) - 1 else f"{name}/scaled"
            yield helper.make_node(op, [value, self.constant(f"{name}/{what}", array)], [made])
            value = made

    def _row(self, source: str, value: str, kept: dict[str, Any]) -> Iterator[onnx.NodeProto]:
        """Yield the nodes that normalise all values of a tensor, as the pixels of a picture."""
        shape = self.shapes[source]
        row, normalised = f"{value}/row", f"{value}/of_row"
        for name in (row, normalised):
            self.note_shape(name, (1, 1, 1, math.prod(shape)))
        wanted = self.integers(f"{value}/row_shape", (1, 1, 1, math.prod(shape)))
        back = self.integers(f"{value}/shape_back", shape)
        yield helper.make_node("Reshape", [source, wanted], [row])
        yield helper.make_node(NORMALISATION, [row], [normalised], **kept)
        yield helper.make_node("Reshape", [normalised, back], [value])

    def groups(self, source: str, axes: set[int]) -> int | None:
        """Return the attribute ``groups`` of a normalisation over axes, or None."""
        shape = self.shapes.get(source, ())
        rank = len(shape)
        axes = {axis % rank for axis in axes} if rank else set()
        if shape[:1] == (1,) and axes == {1} and rank in (2, 4):
            return 0
        if shape[:1] == (1,) and rank == 4 and axes in ({2, 3}, {1, 2, 3}):
            return shape[1] if len(axes) == 2 else 1
        if axes == {rank - 1} and rank > 1:
            return LAST_AXIS
        is_all = bool(axes) and math.prod(shape[axis] for axis in axes) == math.prod(shape)
        return _ALL if is_all else None

    def reduced(self, node: onnx.NodeProto) -> set[int]:
        """Return the axes that a reduction keeps with extent 1; none if it drops them."""
        given = {a.name: a for a in node.attribute}
        if "keepdims" in given and not given["keepdims"].i:
            return set()
        if "axes" in given:
            return {int(axis) for axis in given["axes"].ints}
        found = self.array(node.input[1]) if len(node.input) > 1 else None
        return set() if found is None else {int(axis) for axis in found.reshape(-1)}

    def numbers(self, node: onnx.NodeProto, index: int) -> Float | None:
        """Return a constant input of a node, or None."""
        given = index < len(node.input) and bool(node.input[index])
        return self.array(node.input[index]) if given else None


def is_norm_of_picture(node: onnx.NodeProto) -> bool:
    """Whether a node normalises a picture [1, c, h, w] or [1, k], and not tokens."""
    return node.op_type == NORMALISATION and int(attribute(node, "groups", 0)) != LAST_AXIS


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Return the value of an attribute, or ``default`` if the node has none."""
    found = [helper.get_attribute_value(a) for a in node.attribute if a.name == name]
    return found[0] if found else default


def _layer_norm(gathering: _Gathering, node: onnx.NodeProto) -> _Norm | None:
    """Return a layer normalisation, or one by the root of squares.

    It is over the last axis, or over height and width of a picture, with its channels or without,
    with a scale for each element.
    """
    shape = gathering.shapes.get(node.input[0], ())
    scale, shift = gathering.numbers(node, 1), gathering.numbers(node, 2)
    axis = int(attribute(node, "axis", -1)) % len(shape) if shape else 0
    if len(shape) < 2 or axis == 0 or (axis != len(shape) - 1 and len(shape) != 4):
        return None
    if scale is None or scale.shape != shape[axis:] or (len(node.input) > 2 and shift is None):
        return None
    groups = gathering.groups(node.input[0], set(range(axis, len(shape))))
    return (
        None
        if groups is None
        else _Norm(
            source=node.input[0],
            groups=groups,
            epsilon=float(attribute(node, "epsilon", 1e-5)),
            is_centred=node.op_type == "LayerNormalization",
            factor=scale,
            constant=shift,
        )
    )


def _instance_norm(gathering: _Gathering, node: onnx.NodeProto) -> _Norm | None:
    """Return a normalisation of each channel of a picture."""
    shape = gathering.shapes.get(node.input[0], ())
    if len(shape) != 4 or shape[0] != 1:
        return None
    return _of_channels(gathering, node, node.input[0], shape, shape[1])


def _reshaped(gathering: _Gathering, node: onnx.NodeProto) -> _Norm | None:
    """Return a normalisation of groups that is written as one of instances of another shape."""
    inner = gathering.made(node.input[0], "InstanceNormalization", "Div", "Mul")
    shape = gathering.shapes.get(node.output[0], ())
    if inner is None or len(shape) != 4 or shape[0] != 1:
        return None
    found = None if inner.op_type == "InstanceNormalization" else _quotient(gathering, inner)
    if found is None and inner.op_type != "InstanceNormalization":
        return None
    outer = gathering.made(inner.input[0] if found is None else found.source, "Reshape")
    grouped = gathering.shapes.get(outer.output[0], ()) if outer is not None else ()
    if outer is None or gathering.shapes.get(outer.input[0]) != shape or grouped[:1] != (1,):
        return None
    groups = grouped[1]
    if found is None:
        return _of_channels(gathering, inner, outer.input[0], shape, groups)
    kinds = {3: LAST_AXIS, 4: groups}
    if found.groups != kinds.get(len(grouped)) or shape[1] % groups:
        return None
    return replace(found, source=outer.input[0], groups=groups)


def _of_channels(
    gathering: _Gathering, node: onnx.NodeProto, source: str, shape: tuple[int, ...], groups: int
) -> _Norm | None:
    """Return the normalisation of a picture whose scale and shift are by group or by channel."""
    channels = shape[1]
    arrays = [gathering.numbers(node, index) for index in (1, 2)]
    if channels % groups or any(a is None or a.size not in (groups, channels) for a in arrays):
        return None
    scale, shift = (
        np.repeat(a.reshape(-1), channels // a.size).reshape(1, -1, 1, 1)
        for a in arrays
        if a is not None
    )
    return _Norm(
        source=source,
        groups=groups,
        epsilon=float(attribute(node, "epsilon", 1e-5)),
        factor=None if (scale == 1).all() else scale,
        constant=None if (shift == 0).all() else shift,
    )


def _lp_norm(gathering: _Gathering, node: onnx.NodeProto) -> _Norm | None:
    """Return a division by the length."""
    axes = {int(attribute(node, "axis", -1))}
    if int(attribute(node, "p", 2)) != 2:
        return None
    return _by_length(gathering, node.input[0], axes)


def _by_length(gathering: _Gathering, source: str, axes: set[int], by: float = 1.0) -> _Norm | None:
    """Return the division by the length over axes, times a number."""
    groups = gathering.groups(source, axes)
    if groups is None or gathering.array(source) is not None:
        return None
    shape = gathering.shapes[source]
    count = math.prod(shape[axis] for axis in axes)
    factor = np.array(1 / math.sqrt(count) / by)
    return _Norm(source=source, groups=groups, epsilon=_GUARD, is_centred=False, factor=factor)


def _quotient(gathering: _Gathering, node: onnx.NodeProto) -> _Norm | None:
    """Return the normalisation that a division by a root, or by a length, ends."""
    if node.op_type == "Div":
        return _divided(gathering, *node.input)
    for value, other in (tuple(node.input), tuple(reversed(node.input))):
        most = _bound(gathering, other, "Min", "max")
        is_bounded = most is not None and most >= 1 / _MOST_GUARD
        other = gathering.makers[other].input[0] if is_bounded else other
        inverse = gathering.made(other, "Div", "Reciprocal")
        ones = gathering.numbers(inverse, 0) if inverse is not None else None
        if inverse is None or (inverse.op_type == "Div" and (ones is None or (ones != 1).any())):
            continue
        found = _divided(gathering, value, inverse.input[-1])
        if found is not None and is_bounded:
            return replace(found, epsilon=max(found.epsilon, _GUARD))
        return found
    return None


def _bound(gathering: _Gathering, value: str, kind: str, attribute_name: str) -> float | None:
    """Return the number beside a value in a ``Max`` or ``Min``, or in a ``Clip`` of that side."""
    node = gathering.made(value, kind, "Clip")
    if node is None:
        return None
    given = attribute(node, attribute_name, None)
    place = 2 if (node.op_type, attribute_name) == ("Clip", "max") else 1
    if node.op_type == "Clip":  # it must have no bound on its other side
        inputs = [*node.input, "", ""]
        if inputs[3 - place] or len(node.attribute) > (given is not None):
            return None
    found = gathering.numbers(node, place) if given is None else np.array(given)
    return float(found.flat[0]) if found is not None and found.size == 1 else None


def _divided(gathering: _Gathering, value: str, root: str) -> _Norm | None:
    length, by = _guarded(gathering, root)
    if length is not None:
        axes = gathering.reduced(length)
        if length.input[0] != value or not axes or not by > 0:
            return None
        return _by_length(gathering, value, axes, by)
    found = _variance(gathering, root)
    if found is None:
        return None
    squared, axes, epsilon, share = found
    factor = None if share == 1 else np.array(1 / math.sqrt(share))
    epsilon /= share
    centred = gathering.made(value, "Sub")
    same = gathering.made(squared, "Sub")
    is_same = squared == value or (
        centred is not None and same is not None and list(centred.input) == list(same.input)
    )
    if not is_same:
        return None
    if centred is not None:
        mean = gathering.made(centred.input[1], "ReduceMean")
        if mean is not None and mean.input[0] == centred.input[0]:
            groups = gathering.groups(centred.input[0], axes)
            if groups is None or gathering.reduced(mean) != axes:
                return None
            return _Norm(source=centred.input[0], groups=groups, epsilon=epsilon, factor=factor)
    groups = gathering.groups(value, axes)
    if groups is None or gathering.array(value) is not None:
        return None
    return _Norm(source=value, groups=groups, epsilon=epsilon, is_centred=False, factor=factor)


def _guarded(gathering: _Gathering, root: str) -> tuple[onnx.NodeProto | None, float]:
    """Return the length that is a divisor, and what it is multiplied with.

    That is without what makes it positive and copies it.
    """
    for kinds in (("Expand",), ("Clip", "Max")):
        node = gathering.made(root, *kinds)
        if node is None:
            continue
        least = gathering.numbers(node, 1)
        given = attribute(node, "min", None)
        least = least if given is None else np.array(given)
        if node.op_type != "Expand" and (least is None or not (least >= 0).all()):
            return None, 1.0
        if node.op_type != "Expand" and least is not None and float(least.max()) > _MOST_GUARD:
            return None, 1.0
        root = node.input[0]
    root, by = _unscaled(gathering, root)
    return gathering.made(root, "ReduceL2"), by


def _variance(gathering: _Gathering, root: str) -> tuple[str, set[int], float, float] | None:
    """Return what is squared below a root, the axes of the mean of squares, epsilon and a factor.

    The factor is that of the mean: n / (n - 1) for a variance without bias, n for a sum, else 1.
    """
    node = gathering.made(root, "Sqrt", "Pow")
    half = gathering.numbers(node, 1) if node is not None else None
    if node is None or (node.op_type == "Pow" and (half is None or not (half == 0.5).all())):
        return None
    value, epsilon = node.input[0], 0.0
    added = gathering.made(value, "Add")
    if added is not None:
        constants = [gathering.numbers(added, index) for index in (0, 1)]
        place = 1 if constants[1] is not None else 0
        constant = constants[place]
        if constant is None or constant.size != 1 or float(constant.flat[0]) < 0:
            return None
        value, epsilon = added.input[1 - place], float(constant.flat[0])
    least = _bound(gathering, value, "Max", "min")
    if least is not None and 0 <= least <= _MOST_GUARD**2:
        value, epsilon = gathering.makers[value].input[0], max(epsilon, _GUARD)
    value, share = _unscaled(gathering, value)
    mean = gathering.made(value, "ReduceMean", "ReduceSum")
    axes = gathering.reduced(mean) if mean is not None else set()
    if mean is not None and mean.op_type == "ReduceSum":
        shape = gathering.shapes.get(mean.input[0], ())
        share *= math.prod(shape[axis] for axis in axes) if shape else 0
    square = gathering.made(mean.input[0], "Mul", "Pow") if mean is not None else None
    if square is None or not axes:
        return None
    exponent = gathering.numbers(square, 1)
    if square.op_type == "Pow":
        is_square = exponent is not None and bool((exponent == 2).all())
    else:
        is_square = square.input[0] == square.input[1]
    return (square.input[0], axes, epsilon, share) if is_square and share > 0 else None


def _unscaled(gathering: _Gathering, value: str) -> tuple[str, float]:
    """Return a value without the numbers that it is multiplied with and divided by, and these."""
    factor = 1.0
    while (node := gathering.made(value, "Mul", "Div")) is not None:
        number = gathering.numbers(node, 1)
        if number is None or number.size != 1 or not float(number.flat[0]):
            break
        by = float(number.flat[0])
        factor = factor * by if node.op_type == "Mul" else factor / by
        value = node.input[0]
    return value, factor


_RULES: dict[str, Callable[[_Gathering, onnx.NodeProto], _Norm | None]] = {
    "Div": _quotient,
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "LpNormalization": _lp_norm,
    "Mul": _quotient,
    "RMSNormalization": _layer_norm,
    "Reshape": _reshaped,
}
