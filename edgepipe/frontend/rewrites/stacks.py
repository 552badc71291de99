"""Write sums, choices and products of stacked pictures as those of the pictures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.onnx_graph import remove_unread, set_nodes, values_before
from edgepipe.frontend.rewrites.places import Picture, Places, channels_of, is_run, of_picture
from edgepipe.frontend.rewrites.rewriting import SLICE_WITH_INPUTS, Nodes, Rewriting

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_MOVES = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
_UNARY = frozenset(
    [
        *("Abs", "Clip", "Elu", "Exp", "HardSigmoid", "HardSwish", "LeakyRelu", "Neg", "Relu"),
        *("Selu", "Sigmoid", "Softplus", "Tanh"),
    ]
)
_BINARY = frozenset(["Add", "Div", "Mul", "Sub"])
_REDUCTIONS = {"ReduceMax": "Max", "ReduceMean": "Add", "ReduceSum": "Add"}
_ANY_SOFTMAX = 13
"""The opset since which a ``Softmax`` is over one axis, wherever that is."""
_MOST_PARTS = 8
"""The most pictures of a stack: each has operators of its own."""
_LARGEST = 1 << 24
"""The most elements of a tensor whose moves are followed, for each of which 8 bytes are needed."""


def unstack(model: onnx.ModelProto) -> None:
    """Replace operators on a stack [1, n, c, h, w] that a layer depends on by those on n pictures.

    before   ReduceSum(Concat(Unsqueeze(x), Unsqueeze(y), axis=1) * Softmax(s, axis=1), axes=[1])
    after    x * w[:, :c] + y * w[:, c:];   w = Reshape(Softmax(s, axis=1), [1, 2c, 1, 1])

    Stacks are joined from pictures, or are channels of one in groups; their axis may be anywhere.
    Selective kernels (SKNet), split attention (ResNeSt) and merged pyramids (FPN) are written so.
    """
    stacks = _Stacks(model)
    ends = any(stacks.may_end(node) for node in model.graph.node)
    if not ends or stacks.opset < SLICE_WITH_INPUTS:
        return
    for node in model.graph.node:
        stacks.add(node)
    set_nodes(model.graph, stacks.nodes)
    remove_unread(model.graph)
    infer_shapes(model)


class _Stacks(Rewriting):
    """The graph, where the elements of its moved tensors come from, and the nodes so far.

    Every element of every picture has a place, a number of its own. A moved tensor is known by the
    places of its elements. A part of a stack must have whole channels of pictures.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self.nodes: Nodes = []
        self._needed = values_before(model.graph, _LAYERS)
        self._taken = {value for node in model.graph.node for value in node.output}
        self._pictures: list[Picture] = []
        self._of_name: dict[str, Picture] = {}
        self._end = 0
        self._places: dict[str, Places] = {}
        self._stacked: set[str] = set()
        self._made: set[str] = set()
        self._parts: dict[tuple[tuple[str, tuple[int, ...]], ...], str] = {}

    def may_end(self, node: onnx.NodeProto) -> bool:
        """Whether a node reduces or weighs an axis of a tensor that was moved."""
        if node.op_type not in (*_REDUCTIONS, "Softmax") or node.output[0] not in self._needed:
            return False
        before = self.makers.get(node.input[0])
        moved = before is not None and before.op_type in (*_MOVES, "Concat", "Transpose")
        return moved or len(self.shapes.get(node.input[0], ())) > 4

    def add(self, node: onnx.NodeProto) -> None:
        """Append what computes ``node``; where nothing reads its own result, that is removed."""
        matters = len(node.output) == 1 and node.output[0] in self._needed
        shape = self.shapes.get(node.output[0], ()) if matters else ()
        known = bool(shape) and 0 < int(np.prod(shape)) <= _LARGEST
        rule = _RULES.get(node.op_type)
        if not known or rule is None or not rule(self, node, shape):
            self.nodes.append(node)

    # Where elements come from.

    def places(self, value: str) -> Places | None:
        """Return the places of a tensor's elements, in its shape; None for a constant."""
        if value in self._places:
            return self._places[value]
        shape = self.shapes.get(value, ())
        if len(shape) not in (2, 4) or shape[0] != 1 or self.array(value) is not None:
            return None
        if not 0 < int(np.prod(shape)) <= _LARGEST:
            return None
        return self._numbered(value, shape).reshape(shape)

    def _numbered(self, name: str, shape: tuple[int, ...]) -> Places:
        picture = self._of_name.get(name)
        if picture is None:
            picture = Picture(name, shape, self._end)
            self._pictures.append(picture)
            self._of_name[name] = picture
            self._end += int(np.prod(shape))
        return np.arange(picture.begin, picture.begin + int(np.prod(shape)), dtype=np.int64)

    def part(self, places: Places) -> str | None:
        """Return a picture [1, c, h, w] with the elements of ``places`` in their order, or None."""
        channels = channels_of(places, self._pictures)
        if channels is None:
            return None
        runs = [
            (picture, tuple(channel for _, channel in run))
            for picture, run in itertools.groupby(channels, key=lambda found: found[0])
        ]
        names = [self._selected(picture, chosen) for picture, chosen in runs]
        if len(names) == 1:
            return names[0]
        key = tuple((picture.name, chosen) for picture, chosen in runs)
        if key not in self._parts:
            size = self.shapes[names[0]][2:]
            joined = self._made_by("Concat", names, (1, len(channels), *size), axis=1)
            self._parts[key] = joined
        return self._parts[key]

    def _selected(self, picture: Picture, chosen: tuple[int, ...]) -> str:
        """Return some channels of a picture as one."""
        key = ((picture.name, chosen),)
        if key in self._parts:
            return self._parts[key]
        count, first, source = picture.shape[1], chosen[0], picture.name
        size = picture.shape[2:] or (1, 1)
        if len(picture.shape) == 2:
            whole = self.integers(self._unique(f"{source}/shape"), (1, count, 1, 1))
            source = self._made_by("Reshape", [source, whole], (1, count, 1, 1))
        shape = (1, len(chosen), *size)
        if chosen == tuple(range(first, first + len(chosen))) and len(chosen) < count:
            bounds = [
                self.integers(self._unique(f"{source}/bound"), [number])
                for number in (first, first + len(chosen), 1)
            ]
            source = self._made_by("Slice", [source, *bounds], shape)
        elif chosen != tuple(range(count)):
            index = self.integers(self._unique(f"{source}/index"), chosen)
            source = self._made_by("Gather", [source, index], shape, axis=1)
        self._parts[key] = source
        return source

    def parts(self, value: str, axis: int) -> list[str] | None:
        """Return the pictures that lie along an axis of a tensor, None if they are no pictures.

        The single channels of one picture are no stack: what reads them reads tokens.
        """
        places = self.places(value)
        if places is None or not 1 < places.shape[axis] <= _MOST_PARTS:
            return None
        if places.ndim == 3 and self._is_of_channels(places, axis):
            return None
        found = [self.part(_of(places, n, axis)) for n in range(places.shape[axis])]
        names = [name for name in found if name is not None]
        same = len({self.shapes[name] for name in names}) == 1
        return names if same and len(names) == len(found) else None

    def _is_of_channels(self, places: Places, axis: int) -> bool:
        """Return whether each part along an axis is one channel, all of the same picture."""
        found = [
            channels_of(_of(places, n, axis), self._pictures) for n in range(places.shape[axis])
        ]
        single = [channels[0][0].name for channels in found if channels and len(channels) == 1]
        return len(single) == len(found) and len(set(single)) == 1

    # What is made of pictures.

    def _unique(self, name: str) -> str:
        numbered = (f"{name}{number}" for number in itertools.count())
        found = next(each for each in numbered if each not in self._taken)
        self._taken.add(found)
        return found

    def _made_by(
        self,
        kind: str,
        inputs: Sequence[str],
        shape: tuple[int, ...],
        like: onnx.NodeProto | None = None,
        axis: int | None = None,
    ) -> str:
        """Append a node and return its result, a new value of ``shape``.

        Its attributes are ``axis``, or those of the node ``like``.
        """
        name = self._unique(f"{inputs[0]}/{kind}")
        given = {} if axis is None else {"axis": axis}
        node = helper.make_node(kind, inputs, [name], **given)
        node.attribute.extend(() if like is None else like.attribute)
        self.nodes.append(node)
        self.shapes[name] = shape
        return name

    def stacked(self, value: str, names: Sequence[str], axis: int) -> None:
        """Note that ``value`` is a stack of pictures along an axis."""
        shape = self.shapes[value]
        part = shape[:axis] + shape[axis + 1 :]
        numbered = [self._numbered(name, self.shapes[name]).reshape(part) for name in names]
        self._places[value] = np.stack(numbered, axis)
        self._stacked.add(value)
        self._made.update(names)

    def named(self, value: str, picture: str) -> bool:
        """Give a picture the name and the shape of ``value``."""
        shape = self.shapes[value]
        if self.shapes[picture] == shape:
            self.nodes.append(helper.make_node("Identity", [picture], [value]))
        else:
            wanted = self.integers(self._unique(f"{value}/shape"), shape)
            self.nodes.append(helper.make_node("Reshape", [picture, wanted], [value]))
        return True

    # The rules. Each returns whether it has computed the node's own result.

    def move(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> bool:
        """Follow a move; make a picture of what was computed for parts of a stack."""
        places = self._moved(node, shape)
        if places is None or places.shape != shape:
            return False
        self._places[node.output[0]] = places
        if len(shape) not in (2, 4) or shape[0] != 1:
            return False
        channels = channels_of(places, self._pictures)
        if channels is None or all(picture.name not in self._made for picture, _ in channels):
            return False
        picture = self.part(places)
        return picture is not None and self.named(node.output[0], picture)

    def _moved(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> Places | None:
        found = [self.places(value) for value in node.input[: _READ.get(node.op_type, 1)]]
        known = [places for places in found if places is not None]
        if len(known) < len(found) or not known:
            return None
        places = known[0]
        if node.op_type in _MOVES:
            return places.reshape(shape) if places.size == int(np.prod(shape)) else None
        if node.op_type == "Transpose":
            perms = [list(a.ints) for a in node.attribute if a.name == "perm"]
            return places.transpose(perms[0] if perms else None)
        axis = _axis(node, 0)
        if node.op_type == "Concat":
            return np.concatenate(known, axis) if len({p.ndim for p in known}) == 1 else None
        index = self.array(node.input[1])
        if index is None or (index.size and np.abs(index).max() > places.shape[axis] - 1):
            return None
        return places.take(index.astype(np.int64), axis)

    def reduce(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> bool:
        """Write a reduction over the axis of a stack as a chain of operators on two pictures."""
        given = [list(a.ints) for a in node.attribute if a.name == "axes"]
        found = self.array(node.input[1]) if len(node.input) > 1 else None
        axes = given[0] if given else [] if found is None else [int(a) for a in found.reshape(-1)]
        rank = len(self.shapes.get(node.input[0], ()))
        if len(axes) != 1 or node.input[0] not in self._places:
            return False
        names = self.parts(node.input[0], axes[0] % rank)
        if names is None:
            return False
        total = names[0]
        for name in names[1:]:
            total = self._made_by(_REDUCTIONS[node.op_type], [total, name], self.shapes[name])
        if node.op_type == "ReduceMean":
            share = self.constant(self._unique(f"{total}/share"), np.array(1 / len(names)))
            total = self._made_by("Mul", [total, share], self.shapes[total])
        self._places[node.output[0]] = self._numbered(total, self.shapes[total]).reshape(shape)
        self._made.add(total)
        return self.named(node.output[0], total)

    def softmax(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> bool:
        """Let a softmax over the parts of a stack stay, and take its result for a picture."""
        axis = _axis(node, -1 if self.opset >= _ANY_SOFTMAX else 1) % len(shape)
        names = self.parts(node.input[0], axis) if node.input[0] in self._places else None
        if names is None:
            return False
        size = self.shapes[names[0]][2:]
        if size != (1, 1) and (axis >= len(shape) - 2 or shape[-2:] != size):
            return False
        joined = self._joined(node.input[0], shape)
        if joined is not None:
            node.input[0] = joined
        value = node.output[0]
        whole = (1, int(np.prod(shape)) // int(np.prod(size)), *size)
        wanted = self.integers(self._unique(f"{value}/shape"), whole)
        self.nodes.append(node)
        picture = self._made_by("Reshape", [value, wanted], whole)
        self._places[value] = self._numbered(picture, whole).reshape(shape)
        self._stacked.add(value)
        self._made.add(picture)
        return True

    def _joined(self, value: str, shape: tuple[int, ...]) -> str | None:
        """Return a stack of ``shape`` whose pictures are joined as channels, and then reshaped."""
        channels = channels_of(self._places[value], self._pictures)
        if channels is None or len({picture.name for picture, _ in channels}) < 2:
            return None
        picture = self.part(self._places[value])
        if picture is None:
            return None
        wanted = self.integers(self._unique(f"{value}/shape"), shape)
        return self._made_by("Reshape", [picture, wanted], shape)

    def elementwise(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> bool:
        """Write a function, or an operator on two tensors, for each part of a stack."""
        given = node.input[:2] if node.op_type in _BINARY else node.input[:1]
        moved = [value for value in given if value in self._places]
        if not any(len(shape) > 4 or value in self._stacked for value in moved):
            return False
        if len(given) == 1 and is_run(self._places[given[0]]):
            return self._of_whole(node)
        for axis, count in enumerate(shape):
            if not 1 < count <= _MOST_PARTS or not any(self._lies(v, axis, count) for v in moved):
                continue
            operands = [self._operands(value, axis, shape) for value in given]
            known = [each for each in operands if each is not None]
            size = of_picture(shape[:axis] + shape[axis + 1 :])
            if len(known) < len(given) or size is None:
                continue
            made = [
                self._made_by(node.op_type, [*inputs, *node.input[len(given) :]], size, node)
                for inputs in zip(*known, strict=True)
            ]
            self.stacked(node.output[0], made, axis)
            break
        return False

    def _lies(self, value: str, axis: int, count: int) -> bool:
        """Whether each part along an axis is a picture, or neighbouring channels of one."""
        places = self._places[value]
        if axis >= places.ndim or places.shape[axis] != count:
            return False
        return all(is_run(_of(places, n, axis)) for n in range(count))

    def _of_whole(self, node: onnx.NodeProto) -> bool:
        """Write a function of a stack whose parts are the channels of one picture."""
        picture = self.part(self._places[node.input[0]])
        if picture is None:
            return False
        size = self.shapes[picture]
        made = self._made_by(node.op_type, [picture, *node.input[1:]], size, node)
        self._places[node.output[0]] = self._numbered(made, size).reshape(
            self.shapes[node.output[0]]
        )
        self._made.add(made)
        return self.named(node.output[0], made)

    def _operands(self, value: str, axis: int, shape: tuple[int, ...]) -> list[str] | None:
        """Return what an operator reads for each part, of the part's own height and width."""
        constant = self.array(value)
        if constant is not None:
            full = constant.reshape((1,) * (len(shape) - constant.ndim) + constant.shape)
            whole = np.repeat(full, shape[axis], axis) if full.shape[axis] == 1 else full
            taken = [of_picture(whole.take(n, axis).shape) for n in range(shape[axis])]
            if any(size is None for size in taken):
                return None
            return [
                self.constant(self._unique(f"{value}/part"), whole.take(n, axis).reshape(size))
                for n, size in enumerate(taken)
                if size is not None
            ]
        own = self.shapes.get(value, ())
        if len(own) != len(shape) or value not in self._places:
            return None
        size = of_picture(own[:axis] + own[axis + 1 :])
        if own[axis] == 1:
            name = self.part(self._places[value])
            names = None if name is None else [name] * shape[axis]
        else:
            names = self.parts(value, axis)
        return names if names is not None and self.shapes[names[0]] == size else None


def _of(places: Places, number: int, axis: int) -> Places:
    """Return the places of one part along an axis."""
    return np.asarray(places.take(number, axis), np.int64)


def _axis(node: onnx.NodeProto, default: int) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "axis"), default)


_READ = {"Concat": None}
_RULES: Mapping[str, Callable[[_Stacks, onnx.NodeProto, tuple[int, ...]], bool]] = {
    **dict.fromkeys((*_MOVES, "Concat", "Gather", "Transpose"), _Stacks.move),
    **dict.fromkeys((*_UNARY, *_BINARY), _Stacks.elementwise),
    **dict.fromkeys(_REDUCTIONS, _Stacks.reduce),
    "Softmax": _Stacks.softmax,
}
