"""Means and maxima over whole pictures, and means over windows, as pools."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from edgepipe.frontend.folding import CannotRunError, differences, runner
from edgepipe.frontend.onnx_graph import constants_of, remove_unread, set_nodes, values_before
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

Float = NDArray[np.float64]

MAX_POOL_WINDOW = 4096
"""The most pixels of a window whose mean one layer computes."""

MAX_POOL_TILE = 1024
"""The most pixels of a window whose maximum every accelerator computes at once."""

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_GATHERING = ("GatherND", "Where")
_LINEAR = frozenset(
    [
        *("Add", "Concat", "Div", "Gather", "GatherND", "Identity", "Mul", "ReduceMean"),
        *("ReduceSum", "Reshape", "Slice", "Squeeze", "Sub", "Sum", "Transpose", "Unsqueeze"),
        "Where",
    ]
)
_ROUNDING = 1e-4  # of a weight
_MOST_PROBES = 8  # of chains that begin with the same picture and are no pool
_MOST_RUNS = 256  # of a chain, to find its weights
_MOST_UNLIKE = 2  # times the pixels of a window's side that another has; adaptive pools have less


def mean(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return one mean for one of columns and then one of rows, which drop their axes."""
    before = rewriting.makers.get(node.input[0])
    if before is not None and before.op_type == "ReduceMean":
        shape = rewriting.shapes.get(before.input[0], ())
        axes = [_dropped_axes(rewriting, each) for each in (before, node)]
        if len(shape) == 4 and axes in ([[3], [2]], [[-1], [2]], [[3], [-1]], [[-1], [-1]]):
            whole = helper.make_node(
                "GlobalAveragePool", [before.input[0]], [f"{node.output[0]}/all"]
            )
            flat = helper.make_node("Flatten", [whole.output[0]], [node.output[0]], axis=1)
            large = shape[2] * shape[3] > MAX_POOL_WINDOW
            return None if large else [whole, flat]
    return global_pool(rewriting, node)


def _dropped_axes(rewriting: Rewriting, node: onnx.NodeProto) -> list[int]:
    """Return the axes over which a ReduceMean is if it drops them, else none."""
    attributes = {a.name: a for a in node.attribute}
    if "keepdims" not in attributes or attributes["keepdims"].i:
        return []
    return _axes(rewriting, node)


def _axes(rewriting: Rewriting, node: onnx.NodeProto) -> list[int]:
    """Return the axes that a ReduceMean names."""
    attributes = {a.name: a for a in node.attribute}
    given = rewriting.array(node.input[1]) if len(node.input) > 1 else None
    axes = attributes["axes"].ints if "axes" in attributes else given
    return [] if axes is None else [int(axis) for axis in np.ravel(axes)]


def global_pool(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return two means, one after the other, for a picture that is too large for one layer.

    The first takes tiles; zeros fill up the last ones, and a factor makes up for them.
    """
    shape = rewriting.shapes.get(node.input[0], ())
    if len(shape) != 4 or shape[2] * shape[3] <= MAX_POOL_WINDOW:
        return None
    if not _takes_all(rewriting, node, shape):
        return None
    name, sizes = node.output[0], shape[2:]
    tiles, short = _tiles(sizes)
    filled = math.prod(size + less for size, less in zip(sizes, short, strict=True))
    factor = rewriting.constant(f"{name}/factor", np.array(filled / math.prod(sizes)))
    flat = len(rewriting.shapes.get(name, shape)) == 2
    result = f"{name}/picture" if flat else name
    nodes = [
        helper.make_node(
            "AveragePool",
            [node.input[0]],
            [f"{name}/tiles"],
            kernel_shape=tiles,
            strides=tiles,
            pads=[0, 0, *short],
            count_include_pad=1,
        ),
        helper.make_node("GlobalAveragePool", [f"{name}/tiles"], [f"{name}/mean"]),
        helper.make_node("Mul", [f"{name}/mean", factor], [result]),
    ]
    return [*nodes, helper.make_node("Flatten", [result], [name], axis=1)] if flat else nodes


def global_maximum(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return two maxima, one after the other, for a picture that is too large for one layer."""
    shape = rewriting.shapes.get(node.input[0], ())
    if len(shape) != 4 or shape[2] * shape[3] <= MAX_POOL_TILE or any(node.output[1:]):
        return None
    if not _takes_all(rewriting, node, shape):
        return None
    name = node.output[0]
    tiles, short = _tiles(shape[2:])
    flat = len(rewriting.shapes.get(name, shape)) == 2
    result = f"{name}/picture" if flat else name
    windows = {"kernel_shape": tiles, "strides": tiles, "pads": [0, 0, *short]}
    nodes = [
        helper.make_node("MaxPool", [node.input[0]], [f"{name}/tiles"], **windows),
        helper.make_node("GlobalMaxPool", [f"{name}/tiles"], [result]),
    ]
    return [*nodes, helper.make_node("Flatten", [result], [name], axis=1)] if flat else nodes


def _tiles(sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the height and width of tiles, and by how much the last ones exceed the picture."""
    tiles = [math.isqrt(size - 1) + 1 for size in sizes]
    return tiles, [-size % tile for size, tile in zip(sizes, tiles, strict=True)]


def _takes_all(rewriting: Rewriting, node: onnx.NodeProto, shape: tuple[int, ...]) -> bool:
    """Whether a pool or a reduction of a picture [1, c, h, w] is over its height and width."""
    attributes = {a.name: a for a in node.attribute}
    if node.op_type.startswith("Global"):
        return True
    if node.op_type.startswith("Reduce"):
        given = rewriting.array(node.input[1]) if len(node.input) > 1 else None
        axes = attributes["axes"].ints if "axes" in attributes else given
        return axes is not None and sorted(int(a) % 4 for a in axes) == [2, 3]
    pads = attributes["pads"].ints if "pads" in attributes else ()
    return tuple(attributes["kernel_shape"].ints) == shape[2:] and not any(pads)


def pool_windows(model: onnx.ModelProto) -> None:
    """Replace adaptive means as PyTorch's exporter writes them, for a layer that depends on them.

    before   ReduceMean(GatherND(x, pixels), axes=[-3, -1])
             sum of the parts of Where(outside, 0, GatherND(x, pixels)) / pixels of the window
    after    AveragePool(x)
             AveragePool(rows @ x @ cols) * factor

    What such operators compute together is found by pictures with a single row or column of ones,
    and compared on a random picture; where it is no mean over windows, they stay.
    """
    if not any(node.op_type in _GATHERING for node in model.graph.node):
        return
    chains = _Chains(model)
    made: dict[str, Nodes] = {}
    inside: set[str] = set()
    for node in reversed(model.graph.node):
        value = node.output[0]
        chain = None if value in inside else chains.behind(node)
        found = None if chain is None else chains.windows(chain)
        if chain is None or found is None:
            continue
        inside.update(output for each in chain.nodes for output in each.output)
        made[value] = list(_pooled(chains, chain, found))
    if made:
        nodes = [made.get(node.output[0], [node]) for node in model.graph.node]
        set_nodes(model.graph, itertools.chain.from_iterable(nodes))
        remove_unread(model.graph)


@dataclass(frozen=True, slots=True)
class _Chain:
    """Nodes, in order, that compute ``value`` from ``source`` and constants alone.

    ``before`` and ``after`` are the shapes of the two pictures, [1, c, h, w].
    """

    nodes: Sequence[onnx.NodeProto]
    source: str
    value: str
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Side:
    """A pool along one axis of a picture whose pixels ``gathered`` [pixels, size] has arranged."""

    gathered: Float | None
    kernel: int
    stride: int
    factor: float


class _Chains(Rewriting):
    """The graph, and the pictures that it computes from others by gathering pixels."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._model = model
        self._constants_by_name = constants_of(model.graph)
        self._failed = Counter[str]()
        self._needed = values_before(model.graph, _LAYERS)
        self._places = {
            value: index for index, node in enumerate(model.graph.node) for value in node.output
        }

    def behind(self, node: onnx.NodeProto) -> _Chain | None:
        """Return the chain that ends with ``node`` and begins at the nearest picture, or None."""
        value = node.output[0]
        after = self.shapes.get(value, ())
        if value not in self._needed or len(after) != 4 or after[0] != 1:
            return None
        waiting, nodes = {value}, list[onnx.NodeProto]()
        while waiting:
            last = max(waiting, key=lambda name: self._places.get(name, -1))
            before = self.shapes.get(last, ())
            is_source = len(waiting) == 1 and len(before) == 4 and before[:2] == after[:2]
            if is_source and any(each.op_type in _GATHERING for each in nodes):
                return _Chain(nodes[::-1], last, value, before, after)
            maker = self.makers.get(last)
            if maker is None or maker.op_type not in _LINEAR:
                return None
            waiting.remove(last)
            nodes.append(maker)
            waiting.update(v for v in maker.input if v and v not in self._constants_by_name)
        return None

    def windows(self, chain: _Chain) -> tuple[_Side, _Side] | None:
        """Return the pools along height and width that compute what ``chain`` does, or None."""
        if self._failed[chain.source] >= _MOST_PROBES:
            return None
        try:
            found = self._matrices(chain)
        except CannotRunError:
            found = None
        down, across = (None, None) if found is None else map(_side, found)
        if down is None or across is None:
            self._failed[chain.source] += 1
            return None
        return down, across

    def _matrices(self, chain: _Chain) -> tuple[Float, Float] | None:
        """Return ``rows`` and ``cols`` if the chain computes ``rows @ x @ cols.T``."""
        run = runner(self._part(chain))
        _, channels, height, width = chain.before
        if height + width > _MOST_RUNS * channels:
            return None
        units = np.zeros((height + width, *chain.after[2:]))
        for begin in range(0, height + width, channels):
            given = np.zeros(chain.before, np.float32)
            for channel, index in enumerate(range(begin, min(begin + channels, height + width))):
                line = (index, slice(None)) if index < height else (slice(None), index - height)
                given[(0, channel, *line)] = 1
            (answer,) = run({chain.source: given})
            units[begin : begin + channels] = answer[0, : height + width - begin]
        total = units[:height].sum(axis=0)
        y, x = np.unravel_index(np.abs(total).argmax(), total.shape)
        if not np.isfinite(units).all() or total[y, x] == 0:
            return None
        rows = units[:height, :, x].T
        cols = units[height:, y, :].T / total[y, x]
        picture = np.random.default_rng(0).normal(0, 1, chain.before).astype(np.float32)
        expected = run({chain.source: picture})
        return None if list(differences([rows @ picture @ cols.T], expected)) else (rows, cols)

    def _part(self, chain: _Chain) -> onnx.ModelProto:
        part = onnx.ModelProto(
            ir_version=self._model.ir_version, opset_import=self._model.opset_import
        )
        part.graph.name = "chain"
        part.graph.node.extend(chain.nodes)
        read = dict.fromkeys(value for node in chain.nodes for value in node.input)
        part.graph.initializer.extend(
            self._constants_by_name[value] for value in read if value in self._constants_by_name
        )
        given = helper.make_tensor_value_info(chain.source, TensorProto.FLOAT, chain.before)
        part.graph.input.append(given)
        part.graph.output.append(onnx.ValueInfoProto(name=chain.value))
        return part


def _side(matrix: Float) -> _Side | None:
    """Return the pool whose windows are the rows of ``matrix`` [out, size], or None.

    Where the windows differ in size or distance, each gets pixels of its own, as many as the
    largest needs. Zeros fill up the others, and the pixels of larger ones count less.
    """
    windows = [np.flatnonzero(np.abs(row) > _ROUNDING * np.abs(row).max()) for row in matrix]
    for row, window in zip(matrix, windows, strict=True):
        if not len(window) or window[-1] - window[0] >= len(window):
            return None
        if not np.allclose(row[window], 1 / len(window), rtol=_ROUNDING, atol=0):
            return None
    sizes = {len(window) for window in windows}
    begins = [int(window[0]) for window in windows]
    least, most, size = min(sizes), max(sizes), matrix.shape[1]
    steps = {b - a for a, b in itertools.pairwise(begins)} or {size}
    if len(sizes) == len(steps) == 1 and begins[0] == 0 and min(steps) > 0:
        (step,) = steps
        if (size - most) // step + 1 == len(windows):
            return _Side(None, most, step, 1.0)
    if most > _MOST_UNLIKE * least:
        return None
    gathered = np.zeros((len(windows), most, size))
    for index, window in enumerate(windows):
        gathered[index, np.arange(len(window)), window] = least / len(window)
    return _Side(gathered.reshape(-1, size), most, most, most / least)


def _pooled(
    rewriting: Rewriting, chain: _Chain, sides: tuple[_Side, _Side]
) -> Iterator[onnx.NodeProto]:
    """Yield the nodes that compute the value of ``chain``."""
    down, across = sides
    steps: list[tuple[str, list[str], dict[str, list[int]]]] = []
    if down.gathered is not None:
        rows = rewriting.constant(f"{chain.value}/rows_weight", down.gathered)
        steps.append(("MatMul", [rows, ""], {}))
    if across.gathered is not None:
        cols = rewriting.constant(f"{chain.value}/cols_weight", across.gathered.T)
        steps.append(("MatMul", ["", cols], {}))
    pools = [((down.kernel, across.kernel), (down.stride, across.stride))]
    if down.kernel * across.kernel > MAX_POOL_WINDOW:
        pools = [((down.kernel, 1), (down.stride, 1)), ((1, across.kernel), (1, across.stride))]
    for kernel, strides in pools:
        if kernel != (1, 1) or strides != (1, 1):
            window = {"kernel_shape": list(kernel), "strides": list(strides)}
            steps.append(("AveragePool", [""], window))
    if down.factor * across.factor != 1:
        by = rewriting.constant(f"{chain.value}/factor", np.array(down.factor * across.factor))
        steps.append(("Mul", ["", by], {}))
    source = chain.source
    for index, (kind, inputs, attributes) in enumerate(steps or [("Identity", [""], {})]):
        made = chain.value if index >= len(steps) - 1 else f"{chain.value}/{kind}{index}"
        yield helper.make_node(kind, [v or source for v in inputs], [made], **attributes)
        source = made
