"""Write operators on tensors that are no pictures as operators on pictures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgepipe.frontend.onnx_graph import readers_of, remove_unread, set_nodes
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting
from edgepipe.frontend.rewrites.token_values import ELEMENTWISE, MOVES

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_ARITHMETIC = frozenset(["Add", "Div", "Mul", "Sub"])
_AXES = 3
"""The axes of a picture [1, c, h, w] that may have an extent."""

_LARGEST = 1 << 22
"""The most elements of a constant that is written out."""

_OF_BOXES = 16
"""The weights of a matrix that turns the four numbers of a box into others."""

_MOST_COPIES = 1 << 12
"""The most copies of a tensor that a repetition makes."""

_DEFAULT_AXIS = 1  # of a concatenation that does not say it

Shape = tuple[int, ...]


def pictures_of_any_shape(model: onnx.ModelProto) -> None:
    """Let what a layer depends on be computed on pictures, between reshapes.

    before   x [n, h, t, d] * y [n, h, t, 1]
    after    Reshape(Reshape(x, [1, n h, t, d]) * Reshape(y, [1, n h, t, 1]), [n, h, t, d])

    before   Concat(x [n, s, d], y [n, t, d], axis=1)
    after    x and y as pictures [1, s, n, d] and [1, t, n, d], joined by channels, and moved back

    Elementwise operators, joined tensors and copies have an integer form on pictures alone. So
    neighbouring axes that an operator does not tell apart are made one. What attention takes as a
    part of itself stays: factors and sums between a product and its softmax, the quotient of two
    products of linear attention, and numbers that a matrix is multiplied with before a product.
    """
    rewriting = _AnyShape(model)
    set_nodes(model.graph, [made for node in model.graph.node for made in rewriting.of(node)])
    remove_unread(model.graph)


class _AnyShape(Rewriting):
    """The graph, the values that stay as they are, and the pictures that exist of the others."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._needed = self._before_layers(model.graph)
        self._readers = readers_of(model.graph)
        self._kept = self._scores(model.graph)
        self._pictures: dict[str, dict[Shape, str]] = {}
        self._others = {
            value.name
            for value in (*model.graph.input, *model.graph.value_info)
            if value.type.tensor_type.elem_type != TensorProto.FLOAT
        }

    def of(self, node: onnx.NodeProto) -> Nodes:
        """Return the nodes that compute what ``node`` computes."""
        rule = _RULES.get(node.op_type, _elementwise if node.op_type in ELEMENTWISE else None)
        if rule is None or len(node.output) != 1:
            return [node]
        name = node.output[0]
        shape = self.shapes.get(name, ())
        if name not in self._needed or name in self._kept or len(shape) < 2 or is_picture(shape):
            return [node]
        tensors = self.tensors(node)
        shapes = [self.shapes.get(value, ()) for value in (name, *tensors)]
        if not tensors or self._others & {name, *tensors}:
            return [node]
        if not all(shape and math.prod(shape) for shape in shapes):
            return [node]
        return rule(self, node) or [node]

    def tensors(self, node: onnx.NodeProto) -> list[str]:
        """Return what a node reads that is no constant."""
        return [value for value in node.input if value and self.array(value) is None]

    def picture(self, value: str, shape: Shape, name: str) -> tuple[str, Nodes]:
        """Return a value as a picture of a shape, and the node that makes it if none has yet."""
        known = self._pictures.setdefault(value, {self.shapes[value]: value})
        if shape in known:
            return known[shape], []
        known[shape] = self.unique(name)
        return known[shape], [self._reshape(value, shape, known[shape])]

    def unique(self, name: str) -> str:
        """Return ``name``, or one like it that no value has."""
        while name in self.makers or name in self.shapes:
            name += "_"
        return name

    def picture_shapes(self, value: str) -> list[Shape]:
        """Return the shapes of the pictures that exist of a value."""
        known = (self.shapes[value], *self._pictures.get(value, ()))
        return [shape for shape in known if is_picture(shape) and len(shape) > 2]

    def back(self, picture: str, shape: Shape, name: str) -> Nodes:
        """Return the node that makes a value of a picture of ``shape``, and note the picture."""
        self._pictures[name] = {shape: picture}
        return [self._reshape(picture, self.shapes[name], name)]

    def transposed(self, value: str, shape: Shape, name: str) -> onnx.NodeProto:
        """Return the node that exchanges channels and rows; ``shape`` is that of its result."""
        self.note_shape(name, shape)
        return helper.make_node("Transpose", [value], [name], perm=[0, 2, 1, 3])

    def _reshape(self, value: str, shape: Shape, name: str) -> onnx.NodeProto:
        if name not in self.shapes:
            self.note_shape(name, shape)
        wanted = self.integers(f"{name}/as", shape)
        return helper.make_node("Reshape", [value, wanted], [name])

    def _before_layers(self, graph: onnx.GraphProto) -> set[str]:
        """Return the values that a layer depends on, apart from what decodes boxes.

        That is the mean of places that a softmax weighs (YOLOv8), and a product with a matrix of
        corners and sizes (YOLOv7). Between them and the results, int8 would only cost precision.
        """
        found: set[str] = set()
        for node in reversed(graph.node):
            is_layer = node.op_type in _LAYERS and not self._decodes(node)
            if is_layer or any(value in found for value in node.output):
                found.update(node.input)
        return found

    def _decodes(self, node: onnx.NodeProto) -> bool:
        """Whether a layer has a matrix of boxes, or weighs places by a softmax."""
        weight = self.array(node.input[1])
        if weight is None:
            return False
        value = node.input[0]
        while (made := self.makers.get(value)) is not None and made.op_type in MOVES:
            value = made.input[0]
        is_of_boxes = weight.ndim == 2 and weight.size <= _OF_BOXES
        return is_of_boxes or (made is not None and made.op_type == "Softmax")

    def _scores(self, graph: onnx.GraphProto) -> set[str]:
        """Return the values from a product to its softmax or quotient, and factors before one."""
        found: set[str] = set()
        for node in graph.node:
            if node.op_type == "Softmax":
                found.update(self._unscaled(node.input[0])[:-1])
            elif node.op_type == "Div" and len(self.tensors(node)) > 1:
                sides = [self._unscaled(value) for value in node.input]
                made = [self.makers.get(values[-1]) for values in sides]
                if all(maker is not None and self._is_product(maker) for maker in made):
                    found.update((node.output[0], *itertools.chain(*sides)))
            elif node.op_type in ("Div", "Mul") and self._is_scaled(node):
                numbers = [a.size for v in node.input if (a := self.array(v)) is not None]
                readers = self._readers.get(node.output[0], ())
                if numbers == [1] and readers and all(map(self._is_product, readers)):
                    found.add(node.output[0])
        return found

    def _unscaled(self, value: str) -> list[str]:
        """Return a value, and what it was before each constant was added or multiplied."""
        found = [value]
        while (made := self.makers.get(found[-1])) is not None and self._is_scaled(made):
            found.append(self.tensors(made)[0])
        return found

    def _is_product(self, node: onnx.NodeProto) -> bool:
        """Whether a node multiplies two computed matrices."""
        return node.op_type == "MatMul" and len(self.tensors(node)) > 1

    def _is_scaled(self, node: onnx.NodeProto) -> bool:
        """Whether a node combines a tensor with a constant."""
        return node.op_type in _ARITHMETIC and len(self.tensors(node)) == 1


def is_picture(shape: Shape) -> bool:
    """Return whether a shape is [1, c, h, w] or [1, k]."""
    return len(shape) in (2, 4) and shape[0] == 1


def _elementwise(graph: _AnyShape, node: onnx.NodeProto) -> Nodes | None:
    """Return an operator that works element by element on pictures."""
    name = node.output[0]
    shape = graph.shapes[name]
    arrays = {value: array for value in node.input if (array := graph.array(value)) is not None}
    wide = [value for value in node.input if value in arrays and arrays[value].size > 1]
    if wide and node.op_type not in _ARITHMETIC:
        return None
    tensors = graph.tensors(node)
    operands = {value: graph.shapes[value] for value in tensors}
    operands |= {value: arrays[value].shape for value in wide}
    if any(len(own) > len(shape) for own in operands.values()):
        return None
    operands = {value: (1,) * (len(shape) - len(own)) + own for value, own in operands.items()}
    groups = _groups(shape, list(operands.values()))
    if len(groups) > _AXES and wide and math.prod(shape) <= _LARGEST:
        operands |= dict.fromkeys(wide, shape)
        arrays |= {value: np.broadcast_to(arrays[value], shape) for value in wide}
        groups = _groups(shape, list(operands.values()))
    if len(groups) > _AXES:
        return None
    if all(own == shape for own in operands.values()):
        made = next((s for value in tensors for s in graph.picture_shapes(value)), None)
        seen = dict.fromkeys(operands, made or _leading(shape))
    else:
        seen = {value: _grouped(own, groups) for value, own in operands.items()}
    nodes: Nodes = []
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    for index, value in enumerate(node.input):
        if value not in seen:
            continue
        if value in arrays:
            constant = np.reshape(arrays[value], seen[value])
            copy.input[index] = graph.constant(f"{name}/constant{index}", constant)
            continue
        copy.input[index], made_of = graph.picture(value, seen[value], f"{name}/of{index}")
        nodes += made_of
    picture = tuple(map(max, *seen.values())) if len(seen) > 1 else next(iter(seen.values()))
    copy.output[0] = graph.unique(f"{name}/picture")
    graph.note_shape(copy.output[0], picture)
    return [*nodes, copy, *graph.back(copy.output[0], picture, name)]


def _groups(shape: Shape, operands: Sequence[Shape]) -> list[list[int]]:
    """Return neighbouring axes in which the same operands have an extent, as lists."""
    found: list[list[int]] = []
    last: list[bool] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        extents = [own[axis] > 1 for own in operands]
        if found and extents == last:
            found[-1].append(axis)
        else:
            found.append([axis])
        last = extents
    return found


def _grouped(shape: Shape, groups: Sequence[Sequence[int]]) -> Shape:
    """Return the picture that a shape is if each group of its axes is one."""
    sizes = [math.prod(shape[axis] for axis in group) for group in groups]
    return (1, *sizes, *(1,) * (_AXES - len(groups)))


def _leading(shape: Shape) -> Shape:
    """Return a picture whose channels are the first axis that has an extent."""
    first = next((index for index, size in enumerate(shape) if size > 1), 0)
    return (1, shape[first], math.prod(shape[first + 1 :]), 1)


def _concat(graph: _AnyShape, node: onnx.NodeProto) -> Nodes | None:
    """Return pictures that are joined by channels, which are the axis of the parts."""
    name = node.output[0]
    shape = graph.shapes[name]
    axis = next((int(a.i) for a in node.attribute if a.name == "axis"), _DEFAULT_AXIS) % len(shape)
    before, behind = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    nodes: Nodes = []
    parts = []
    for index, value in enumerate(node.input):
        array = graph.array(value)
        count = (graph.shapes[value] if array is None else array.shape)[axis]
        part = f"{name}/part{index}"
        if array is not None:
            moved = array.reshape(1, before, count, behind).transpose(0, 2, 1, 3)
            parts.append(graph.constant(part, moved))
            continue
        picture = (1, before, count, behind) if before > 1 else (1, count, 1, behind)
        source, made = graph.picture(value, picture, f"{name}/of{index}")
        nodes += made
        if before > 1:
            nodes.append(graph.transposed(source, (1, count, before, behind), part))
            source = part
        parts.append(source)
    joined = f"{name}/joined"
    nodes.append(helper.make_node("Concat", parts, [joined], axis=1))
    return [*nodes, *_moved_back(graph, joined, name, (shape[axis], before, behind))]


def _moved_back(graph: _AnyShape, picture: str, name: str, sizes: Shape) -> Nodes:
    """Return the nodes that make a value of a picture whose channels are one of its axes.

    ``sizes`` are those of the axis, of what is before it, and of what is behind it.
    """
    count, before, behind = sizes
    graph.note_shape(picture, (1, count, before, behind))
    if before == 1:
        return graph.back(picture, (1, count, 1, behind), name)
    turned = (1, before, count, behind)
    node = graph.transposed(picture, turned, f"{name}/turned")
    return [node, *graph.back(f"{name}/turned", turned, name)]


def _repeated(graph: _AnyShape, node: onnx.NodeProto) -> Nodes | None:
    """Return a selection of the same channel, again and again, for copies along one axis."""
    name, source = node.output[0], node.input[0]
    shape, own = graph.shapes[name], graph.shapes[source]
    if len(own) > len(shape):
        return None
    own = (1,) * (len(shape) - len(own)) + own
    grown = [axis for axis, size in enumerate(shape) if size != own[axis]]
    if not grown:
        return [helper.make_node("Reshape", [source, graph.integers(f"{name}/as", shape)], [name])]
    if len(grown) != 1 or not own[grown[0]] > 0 or shape[grown[0]] % own[grown[0]]:
        return None
    axis = grown[0]
    copies = shape[axis] // own[axis]
    if (node.op_type == "Expand" and own[axis] != 1) or copies > _MOST_COPIES:
        return None
    before, behind = math.prod(own[:axis]), math.prod(own[axis:])
    picture, nodes = graph.picture(source, (1, 1, before, behind), f"{name}/of0")
    index = graph.integers(f"{name}/copies", [0] * copies)
    nodes.append(helper.make_node("Gather", [picture, index], [f"{name}/copied"], axis=1))
    return [*nodes, *_moved_back(graph, f"{name}/copied", name, (copies, before, behind))]


_RULES: Mapping[str, Callable[[_AnyShape, onnx.NodeProto], Nodes | None]] = {
    "Concat": _concat,
    "Expand": _repeated,
    "Tile": _repeated,
}
