"""Write layers on a batch of pictures as layers on one picture."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.onnx_graph import (
    readers_of,
    remove_unread,
    set_attribute,
    set_nodes,
    stretches,
    text_of,
    values_before,
)
from edgepipe.frontend.rewrites.batch_layouts import (
    Layout,
    Shape,
    Window,
    grids,
    spread,
    usual_grid,
)
from edgepipe.frontend.rewrites.composed_moves import MOVES, RESHAPES, Axes, axes_of, moved
from edgepipe.frontend.rewrites.places import Places
from edgepipe.frontend.rewrites.rewriting import SLICE_WITH_INPUTS, Nodes, Rewriting

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_GLOBAL_POOLS = ("GlobalAveragePool", "GlobalMaxPool")
_POOLS = ("AveragePool", "MaxPool", *_GLOBAL_POOLS)
_UNARY = frozenset(
    [
        *("Abs", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu"),
        *("Mish", "Neg", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh"),
    ]
)
_BINARY = frozenset(["Add", "Div", "Max", "Min", "Mul", "PRelu", "Sub"])
_OF_CHANNELS = frozenset(["Concat", "Slice", "Split"])
_LARGEST = 1 << 22
"""The most elements of a batch: the place of each needs 8 bytes while its moves are followed."""
_OF_PICTURE = 2
"""The axes that are moved where a picture is made of one whose channels are first or last."""
_MOST_WEIGHTS = 1 << 18
"""The most weights of a depthwise layer that has a copy of them for each picture of a batch."""


def batches_as_pictures(model: onnx.ModelProto) -> None:
    """Replace layers on a batch [n, c, h, w], and what stands between them, by those on a picture.

    before   Conv(x[4, 16, 7, 7], w[48, 16, 1, 1]) -> Relu
    after    Reshape(Transpose(x, 1 0 2 3), [1, 16, 28, 7]) -> Conv(w) -> Relu, and back

    before   Conv(x[4, 16, 7, 7], w[16, 1, 5, 5], group=16)
    after    Reshape(x, [1, 64, 7, 7]) -> Conv(w four times, group=64), and back

    before   Conv(windows of y[1, 16, 14, 14], w[8, 16, 3, 3], pads=1)
    after    y with a row and a column of zeros between windows -> Conv(w), without their results

    Windows, heads and patches are such batches. Layers in a row share a picture, and the moves that
    make windows of a picture and a picture of windows are omitted where they cancel.
    """
    batches = _Batches(model)
    if batches.opset < SLICE_WITH_INPUTS or not any(map(batches.is_layer, model.graph.node)):
        return
    for node in model.graph.node:
        batches.add(node)
    set_nodes(model.graph, batches.nodes)
    remove_unread(model.graph)
    infer_shapes(model)


class _Batches(Rewriting):
    """The graph, the pictures that batches were laid in, and the nodes so far."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self.nodes: Nodes = []
        self._needed = values_before(model.graph, _LAYERS)
        self._readers = readers_of(model.graph)
        self._outputs = {output.name for output in model.graph.output}
        self._taken = {value for node in model.graph.node for value in node.output}
        self._taken.update(constant.name for constant in model.graph.initializer)
        self._laid: dict[str, dict[Layout, str]] = {}
        self._made: set[str] = set()
        self._grids: dict[tuple[int, int, int], Layout] = {}
        self._turns: dict[tuple[str, Shape], str] = {}
        self._reshapes: dict[tuple[str, Shape], str] = {}
        self._wanted = self._wanted_layouts(model.graph)

    # Which nodes.

    def _is_batch(self, value: str) -> bool:
        shape = self.shapes.get(value, ())
        return len(shape) == 4 and shape[0] > 1 and 0 < int(np.prod(shape)) <= _LARGEST

    def is_layer(self, node: onnx.NodeProto) -> bool:
        """Whether a node is a convolution or pool of a batch that can be one of a picture."""
        if not node.output or not self._is_batch(node.output[0]) or any(node.output[1:]):
            return False
        constants = [self.array(value) for value in node.input[1:] if value]
        if not self._is_batch(node.input[0]) or any(found is None for found in constants):
            return False
        if text_of(node, "auto_pad", "NOTSET") != "NOTSET":
            return False
        if node.op_type == "ConvTranspose":
            sized = any(a.name == "output_shape" for a in node.attribute)
            return not sized and self._has_few_weights(node)
        if node.op_type == "Conv":
            return True
        is_pool = node.op_type in _POOLS or self._is_mean(node) or self._is_of_pixels(node)
        return is_pool and node.output[0] in self._needed

    def _is_of_pixels(self, node: onnx.NodeProto) -> bool:
        """Whether a node adds a border to each picture, or resizes it."""
        inputs = [self.array(value) for value in node.input[1:] if value]
        if any(a.name == "axes" for a in node.attribute) or not inputs or inputs[0] is None:
            return False
        if node.op_type == "Pad":
            amounts = inputs[0].reshape(-1)
            return amounts.size == 8 and len(inputs) < 3 and not amounts[[0, 1, 4, 5]].any()
        found = [values for values in inputs if values is not None and values.size]
        is_plain = node.op_type == "Resize" and len(found) == 1 and found[0].size == 4
        return is_plain and stretches(node)

    def _has_few_weights(self, node: onnx.NodeProto) -> bool:
        """Whether there may be a copy of a layer's weights for each picture."""
        count, weights = self.shapes[node.input[0]][0], self.shapes[node.input[1]]
        return count * int(np.prod(weights)) <= _MOST_WEIGHTS

    def _is_mean(self, node: onnx.NodeProto) -> bool:
        """Whether a node reduces the pixels of each channel, as a global pool does."""
        if node.op_type not in ("ReduceMax", "ReduceMean"):
            return False
        given = [list(a.ints) for a in node.attribute if a.name == "axes"]
        found = self.array(node.input[1]) if len(node.input) > 1 else None
        axes = given[0] if given else [] if found is None else found.reshape(-1).tolist()
        return {int(axis) % 4 for axis in axes} == {2, 3}

    def _is_depthwise(self, node: onnx.NodeProto) -> bool:
        """Whether a layer, or a copy of it for each picture, treats each channel by itself."""
        if node.op_type != "Conv":
            return True
        channels = self.shapes[node.input[0]][1]
        return _integer(node, "group", 1) == channels and self._has_few_weights(node)

    def _passes(self, node: onnx.NodeProto) -> bool:
        """Whether a node can stand between layers on the same picture."""
        if len(node.output) != 1 and node.op_type != "Split":
            return False
        computed = [value for value in node.input if value and self.array(value) is None]
        if not all(map(self._is_batch, node.output)) or not node.output or not computed:
            return False
        shape = self.shapes[node.output[0]]
        if node.op_type in _OF_CHANNELS:
            return self._is_of_channels(node, computed)
        if node.op_type in _BINARY and len(node.input) == 2:
            first, *others = sorted(computed, key=lambda v: self.shapes.get(v) != shape)
            if self.shapes.get(first) != shape:
                return False
            gate = (*shape[:2], 1, 1)
            return all(self.shapes.get(value) in (shape, gate) for value in others)
        known = node.op_type in _UNARY or node.op_type == "BatchNormalization" or _is_same(node)
        return known and computed == [node.input[0]] and self.shapes[node.input[0]] == shape

    def _is_of_channels(self, node: onnx.NodeProto, computed: Sequence[str]) -> bool:
        """Whether a node joins or takes channels of batches alone."""
        if not all(map(self._is_batch, computed)):
            return False
        if node.op_type == "Concat":
            return len(computed) == len(node.input) and _integer(node, "axis", 0) % 4 == 1
        if computed != [node.input[0]]:
            return False
        if node.op_type == "Split":
            return _integer(node, "axis", 0) % 4 == 1
        axes = self.array(node.input[3]) if len(node.input) > 3 else None
        return axes is not None and axes.size == 1 and int(axes.flat[0]) % 4 == 1

    def _wanted_layouts(self, graph: onnx.GraphProto) -> dict[str, set[bool]]:
        """Return for each batch that layers depend on whether they read a grid of it, or channels.

        Between them are only operators that pass.
        """
        wanted: dict[str, set[bool]] = {}
        for node in reversed(graph.node):
            if self.is_layer(node):
                wanted.setdefault(node.input[0], set()).add(not self._is_depthwise(node))
                continue
            kinds = set().union(*(wanted.get(value, set()) for value in node.output))
            if not kinds or not self._passes(node):
                continue
            for value in node.input:
                if value and self._is_batch(value) and self.array(value) is None:
                    kept = {True} if node.op_type in _OF_CHANNELS else kinds
                    wanted.setdefault(value, set()).update(kept)
        return wanted

    # Pictures.

    def _traced(self, value: str) -> tuple[str, Places]:
        """Return what a value was moved from, and the order of its elements in that."""
        shape = self.shapes[value]
        for layout, picture in self._laid.get(value, {}).items():
            if picture in self._made:
                return picture, layout.places(shape)
        node = self.makers.get(value)
        if node is not None and node.op_type in MOVES and self._is_known(node.input[0]):
            root, order = self._traced(node.input[0])
            index = self.array(node.input[1]) if node.op_type == "Gather" else None
            found = moved(node, order, shape, index)
            if found is not None:
                return root, found
        return value, np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)

    def _axes(self, root: str, order: Places) -> Axes | None:
        return axes_of(order, int(np.prod(self.shapes[root])))

    def _is_known(self, value: str) -> bool:
        size = int(np.prod(self.shapes.get(value, (0,))))
        return 0 < size <= _LARGEST and self.array(value) is None

    def _grid(self, values: Sequence[str]) -> Layout:
        """Return the grid of batches: that of one of them, of a picture, or of the ones before."""
        laid = [layout for value in values for layout in self._laid.get(value, {})]
        known = [layout for layout in laid if layout.is_grid]
        if known:
            return known[0]
        count, _, height, width = self.shapes[values[0]]
        for value, grid in itertools.product(values, grids(count)):
            if self._traced(value)[0] != value and self._moving(value, grid) <= _OF_PICTURE:
                self._grids[count, height, width] = grid
                return grid
        return self._grids.get((count, height, width), usual_grid(count, height))

    def _moving(self, value: str, layout: Layout) -> int:
        """Return how many axes a batch has while it is moved into a layout."""
        root, order = self._traced(value)
        axes = self._axes(root, layout.laid(order))
        return _OF_PICTURE + 1 if axes is None else len(axes.sizes)

    def picture(self, value: str, layout: Layout) -> str:
        """Return the picture of a batch."""
        laid = self._laid.setdefault(value, {})
        if layout not in laid:
            shape = self.shapes[value]
            root, order = self._traced(value)
            place = layout.laid(order)
            if self._axes(root, place) is None:
                root, place = value, layout.laid(np.arange(order.size).reshape(shape))
            laid[layout] = self._moved(root, place, f"{value}/picture")
        return laid[layout]

    def _moved(self, root: str, order: Places, name: str, *, exact: bool = False) -> str:
        """Append the moves that put a value's elements into ``order``; return the result.

        That has the name if it is ``exact``, and may be the value itself otherwise.
        """
        axes = self._axes(root, order)
        assert axes is not None
        shape, source = self.shapes[root], root
        if len(axes.sizes) > 1:
            source = self._reshaped(source, axes.sizes)
            kept = exact and tuple(axes.sizes[axis] for axis in axes.perm) == order.shape
            source = self._turned(source, axes, name if kept else "")
            shape = self.shapes[source]
            if kept:
                return name
        if not exact:
            return self._reshaped(source, order.shape)
        if shape == order.shape:
            return self._append(helper.make_node("Identity", [source], [name]), shape)
        return self._reshaped(source, order.shape, name)

    def _turned(self, source: str, axes: Axes, name: str = "") -> str:
        key, shape = (source, axes.perm), tuple(axes.sizes[axis] for axis in axes.perm)
        if key not in self._turns or name:
            self._turns[key] = name or self._unique(f"{source}/turned")
            node = helper.make_node("Transpose", [source], [self._turns[key]], perm=axes.perm)
            self._append(node, shape)
        return self._turns[key]

    def _reshaped(self, source: str, shape: Shape, name: str = "") -> str:
        if self.shapes[source] == shape and not name:
            return source
        key = (source, shape)
        if key not in self._reshapes or name:
            self._reshapes[key] = made = name or self._unique(f"{source}/reshaped")
            wanted = self.integers(self._unique(f"{made}/shape"), shape)
            self._append(helper.make_node("Reshape", [source, wanted], [made]), shape)
        return self._reshapes[key]

    def _append(self, node: onnx.NodeProto, shape: Shape) -> str:
        self.nodes.append(node)
        self.shapes[node.output[0]] = tuple(shape)
        return str(node.output[0])

    def _unique(self, name: str) -> str:
        numbered = (f"{name}{number or ''}" for number in itertools.count())
        found = next(each for each in numbered if each not in self._taken)
        self._taken.add(found)
        return found

    def _computed(self, value: str, picture: str, layout: Layout) -> None:
        """Note that a batch was computed in a picture, and append what makes the batch of it."""
        self._laid[value] = {layout: picture}
        self._made.add(picture)
        shape = self.shapes[value]
        self._moved(picture, layout.places(shape), value, exact=True)
        self.shapes[value] = shape

    # The nodes.

    def add(self, node: onnx.NodeProto) -> None:
        """Append what computes ``node``."""
        if self.is_layer(node):
            if self._is_depthwise(node):
                self._of_each_channel(node)
            else:
                self._convolution(node)
        elif not (self._move(node) if node.op_type in MOVES else self._between(node)):
            self.nodes.append(node)

    def _move(self, node: onnx.NodeProto) -> bool:
        """Write a chain of moves of what was computed in a picture as moves of that."""
        value = node.output[0]
        if not self._is_known(value) or not self._is_known(node.input[0]):
            return False
        if _is_same(node) and self.shapes[value] == self.shapes[node.input[0]]:
            self._laid[value] = dict(self._laid.get(node.input[0], {}))
        readers = self._readers.get(value, [])
        read = any(reader.op_type not in (*RESHAPES, "Transpose") for reader in readers)
        if not read and value not in self._outputs:
            return False
        root, order = self._traced(value)
        if root not in self._made or self._axes(root, order) is None:
            return False
        self._moved(root, order, value, exact=True)
        return True

    def _of_each_channel(self, node: onnx.NodeProto) -> None:
        """Write a layer of each channel, or of groups of them, as one of a picture with all."""
        value, count = node.output[0], self.shapes[node.input[0]][0]
        layout = Layout(count, 1, 1)
        made = _copied(node, [self.picture(node.input[0], layout)], self._unique(f"{value}/made"))
        size = layout.picture(self.shapes[value])
        if node.op_type in ("Conv", "ConvTranspose"):
            set_attribute(made, "group", count * _integer(node, "group", 1))
            for index, name in list(enumerate(node.input))[1:]:
                made.input[index] = self._repeated(name, count) if name else ""
        elif node.op_type == "Resize" and len(node.input) > 3 and node.input[3]:
            made.input[3] = self.integers(self._unique(f"{value}/sizes"), size)
        self._append(made, size)
        self._computed(value, made.output[0], layout)

    def _repeated(self, name: str, count: int) -> str:
        values = self.array(name)
        assert values is not None
        return self.constant(self._unique(f"{name}/repeated"), np.concatenate([values] * count))

    def _convolution(self, node: onnx.NodeProto) -> None:
        """Write a convolution as one of a grid, with gaps between pictures if it has padding."""
        value = node.output[0]
        before, after = self.shapes[node.input[0]], self.shapes[value]
        layout = self._grid([node.input[0]])
        source = self.picture(node.input[0], layout)
        ints = {a.name: list(a.ints) for a in node.attribute}
        kernel = self.shapes[node.input[1]][2:]
        strides, dilations = (ints.get(name) or [1, 1] for name in ("strides", "dilations"))
        pads = ints.get("pads") or [0] * 4
        found = [
            spread(
                count,
                before[2 + axis],
                after[2 + axis],
                Window(dilations[axis] * (kernel[axis] - 1) + 1, strides[axis], pads[axis]),
            )
            for axis, count in enumerate((layout.rows, layout.columns))
        ]
        source = self._selected(source, [each.taken for each in found])
        made = _copied(node, [source], self._unique(f"{value}/made"))
        set_attribute(made, "pads", [*pads[:2], *(each.behind for each in found)])
        size = [each.kept[-1] + 1 for each in found]
        picture = self._append(made, (1, after[1], *size))
        picture = self._selected(picture, [each.kept for each in found])
        self._computed(value, picture, layout)

    def _selected(self, source: str, pixels: Sequence[tuple[int, ...]]) -> str:
        """Return a picture with some rows and columns of another one, zeros where they are -1."""
        shape = list(self.shapes[source])
        chosen = list(map(np.array, pixels))
        more = [int((index < 0).any()) for index in chosen]
        if any(more):
            amounts = self.integers(self._unique(f"{source}/zeros"), [0] * 6 + more)
            padded = helper.make_node("Pad", [source, amounts], [self._unique(f"{source}/padded")])
            source = self._append(padded, (*shape[:2], shape[2] + more[0], shape[3] + more[1]))
        for axis, index in zip((2, 3), chosen, strict=True):
            positions = np.where(index < 0, shape[axis], index)
            if np.array_equal(positions, np.arange(self.shapes[source][axis])):
                continue
            name = self.integers(self._unique(f"{source}/pixels"), positions.tolist())
            made = self._unique(f"{source}/selected")
            size = (*self.shapes[source][:axis], len(index), *self.shapes[source][axis + 1 :])
            source = self._append(
                helper.make_node("Gather", [source, name], [made], axis=axis), size
            )
        return source

    def _between(self, node: onnx.NodeProto) -> bool:
        """Write an operator between layers as one on the picture that they have."""
        if not self._passes(node):
            return False
        value = node.output[0]
        computed = [name for name in node.input if name and self.array(name) is None]
        laid = [layout for name in computed for layout in self._laid.get(name, {})]
        wanted = set().union(*(self._wanted.get(name, set()) for name in node.output))
        if not laid and not wanted:
            return False
        fitting = [layout for layout in laid if layout.is_grid in wanted] or laid
        shape = self.shapes[value]
        whole = [name for name in computed if self.shapes[name] == shape]
        if node.op_type in _OF_CHANNELS:
            layout = self._grid(computed)
        elif len(whole) < len(computed):
            layout = Layout(shape[0], 1, 1)
        elif fitting:
            layout = fitting[0]
        else:
            layout = self._grid(computed) if True in wanted else Layout(shape[0], 1, 1)
        inputs = [self._operand(node, name, layout) for name in node.input]
        made = _copied(node, inputs, self._unique(f"{value}/made"))
        for index, other in list(enumerate(node.output))[1:]:
            made.output[index] = self._unique(f"{other}/made")
        self.nodes.append(made)
        for name, picture in zip(node.output, made.output, strict=True):
            self.shapes[picture] = layout.picture(self.shapes[name])
            self._computed(name, picture, layout)
        return True

    def _operand(self, node: onnx.NodeProto, name: str, layout: Layout) -> str:
        """Return what an operator on a picture reads for an input."""
        values = self.array(name) if name else None
        if name and values is None:
            return self.picture(name, layout)
        if values is None or node.op_type not in (*_BINARY, "BatchNormalization"):
            return name
        if node.op_type == "BatchNormalization":
            return self._repeated(name, layout.channels) if layout.channels > 1 else name
        full = np.broadcast_to(values, self.shapes[node.output[0]])
        return self.constant(self._unique(f"{name}/laid"), _shortest(layout.laid(full)))


def _copied(node: onnx.NodeProto, inputs: Sequence[str], output: str) -> onnx.NodeProto:
    """Return a node with other inputs, the further ones its own, and another first output."""
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    copy.input[:] = [*inputs, *node.input[len(inputs) :]]
    copy.output[0] = output
    copy.name = ""
    return copy


def _shortest(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a constant [1, c, h, w] with one element on axes along which nothing changes."""
    for axis in range(values.ndim):
        first = np.asarray(values.take([0], axis), np.float64)
        values = first if bool((values == first).all()) else values
    return values


def _is_same(node: onnx.NodeProto) -> bool:
    return node.op_type in RESHAPES


def _integer(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((int(a.i) for a in node.attribute if a.name == name), default)
