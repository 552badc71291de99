"""Which values of a graph are pictures whose elements were moved, as tokens are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
from numpy.typing import NDArray

from edgepipe.frontend.onnx_graph import array_of, constants_of, readers_of, shapes_of
from edgepipe.frontend.rewrites.linear_weights import band_matrix, dense_weight
from edgepipe.frontend.rewrites.moved_pictures import Moved, tokens_of
from edgepipe.frontend.rewrites.norms import NORMALISATION, is_norm_of_picture

MOVES = frozenset(["Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"])
ELEMENTWISE = frozenset(
    [
        *("Abs", "Add", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish"),
        *("LeakyRelu", "Mish", "Mul", "Neg", "Pow", "Relu", "Selu", "Sigmoid", "Softplus"),
        *("Softsign", "Sqrt", "Sub", "Tanh"),
    ]
)
OF_PICTURES = frozenset(
    [
        *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "GlobalAveragePool"),
        *("GlobalMaxPool", "MaxPool", "Resize"),
    ]
)
_LARGEST = 1 << 24
"""The most elements of a picture whose moves are followed, for each of which 8 bytes are needed."""


def is_affine(node: onnx.NodeProto) -> bool:
    """Return whether a node adds or multiplies, so its constants may differ from pixel to pixel."""
    return node.op_type in ("Add", "Mul", "Sub")


class TokenValues:
    """A graph, and its values that are moved pictures, or can be made pictures of.

    ``moved`` has the moved ones, ``pictures`` the names of those with channels first, ``layers``
    the results of linear layers, and ``made`` the names of pictures that the graph lacks so far.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.graph = model.graph
        self.shapes = shapes_of(model)
        self.constants = constants_of(model.graph)
        self.moved: dict[str, Moved] = {}
        self.pictures = {value.name for value in model.graph.input}
        self.layers: set[str] = set()
        self.made: set[str] = set()
        self.makers = {value: node for node in model.graph.node for value in node.output}
        self.readers = readers_of(model.graph)
        self._taken = set(self.makers)

    def follow(self) -> None:
        """Find the values that are moved pictures, in the order of the nodes."""
        for node in self.graph.node:
            if len(node.output) != 1 or not node.input:
                continue
            found = self._of(node)
            if found is not None:
                self.moved[node.output[0]] = found
            elif (
                node.op_type in OF_PICTURES
                or is_norm_of_picture(node)
                or (
                    node.op_type in ELEMENTWISE
                    and any(value in self.pictures for value in node.input)
                )
            ):
                self.pictures.add(node.output[0])

    def _of(self, node: onnx.NodeProto) -> Moved | None:
        shape = self.shapes.get(node.output[0]) or self._result_shape(node)
        if shape is None:
            return None
        if node.op_type in MOVES:
            return self._of_move(node, shape)
        if node.op_type in ELEMENTWISE:
            return self._of_elementwise(node, shape)
        if node.op_type in ("MatMul", "Gemm"):
            return self._of_linear(node, shape)
        if node.op_type == NORMALISATION and not is_norm_of_picture(node):
            return self._of_norm(node)
        if node.op_type == "Concat":
            return self._of_joined(node, shape)
        if node.op_type == "Slice":
            return self._of_part(node, shape)
        return self._of_band(node, shape) if node.op_type == "Conv" else None

    def _result_shape(self, node: onnx.NodeProto) -> tuple[int, ...] | None:
        """Note and return the shape of a layer or sum that is a result: no file needs to say it."""
        if node.op_type not in ("Add", "MatMul"):
            return None
        first, second = (self.shapes.get(value, ()) for value in node.input)
        weight = dense_weight(node, self.constants) if node.op_type == "MatMul" else None
        if weight is not None and first[-1:] == weight.shape[:1]:
            self.shapes[node.output[0]] = (*first[:-1], weight.shape[1])
        elif node.op_type == "Add" and len(first) != len(second) and first and second:
            larger, other = sorted((first, second), key=len, reverse=True)
            if other == larger[-len(other) :]:  # a bias
                self.shapes[node.output[0]] = larger
        return self.shapes.get(node.output[0])

    def _of_move(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> Moved | None:
        source = node.input[0]
        found = self.moved.get(source)
        if found is None:
            before = self.shapes.get(source, ())
            if len(before) != 4 or before[0] != 1 or not 0 < int(np.prod(before)) <= _LARGEST:
                return None
            places = np.arange(int(np.prod(before)), dtype=np.int64).reshape(before)
            found = Moved(source, before, places)
        order = found.order
        if node.op_type == "Transpose":
            perms = [list(a.ints) for a in node.attribute if a.name == "perm"]
            order = order.transpose(perms[0] if perms else None)
        return replace(found, order=order.reshape(shape))

    def _of_elementwise(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> Moved | None:
        tensors = [value for value in node.input if value and value not in self.constants]
        self._share_extents(tensors)
        self._align(tensors, shape)
        found = [self.moved.get(value) for value in tensors]
        first = found[0] if found else None
        if first is None or not (first.is_flat or first.is_tokens) or first.order.shape != shape:
            return None
        for other in found:
            if other is None or other.shape != first.shape:
                return None
            if not np.array_equal(other.order, first.order):
                return None
        for value in node.input:
            constant = self.constants.get(value)
            if constant is None:
                continue
            laid = first.constant(array_of(constant))
            if laid is None or (laid.ndim and laid.shape[2:] != (1, 1) and not is_affine(node)):
                return None
        return replace(first, picture=self._name(node), source="")

    def _align(self, tensors: Sequence[str], shape: tuple[int, ...]) -> None:
        """Give tokens that an operator reads with others the order of the others' pixels."""
        known = [self.moved[value] for value in tensors if value in self.moved]
        first = next((found for found in known if found.is_tokens), None)
        if first is None or first.order.shape != shape:
            return
        for value in tensors:
            found = self.moved.get(value)
            same = found is not None and found.shape == first.shape
            if found is not None and same and np.array_equal(found.order, first.order):
                continue
            if value not in self.pictures and self.shapes.get(value) == shape:
                name = self.unique(f"{value}/picture")
                self.moved[value] = Moved(name, first.shape, first.order.copy(), value)

    def _share_extents(self, tensors: Sequence[str]) -> None:
        """Give what layers made of tokens that are no picture the height and width of others.

        The result of attention is [1, n, c], so that a layer behind it makes a picture [1, c, 1, n]
        until it is added to a picture's own tokens.
        """
        known = {value: self.moved[value] for value in tensors if value in self.moved}
        if len({found.shape for found in known.values()}) < 2:
            return
        for first in known.values():
            changed: dict[str, Moved] = {}
            others = [value for value, found in known.items() if found.shape != first.shape]
            if all(self._resized(value, first.shape[2:], changed) for value in others):
                self.moved.update(changed)
                return

    def _resized(self, value: str, size: tuple[int, ...], changed: dict[str, Moved]) -> bool:
        """Add to ``changed`` a value and what it is made of with another height and width.

        Return whether that is possible: everything that is known of it is part of ``changed``.
        """
        found = self.moved.get(value)
        if found is None or not found.is_tokens or value in self.pictures:
            return False
        if int(np.prod(found.shape[2:])) != int(np.prod(size)):
            return False
        made = (*found.shape[:2], *size)
        changed[value] = replace(
            found, shape=made, order=tokens_of(made).reshape(found.order.shape)
        )
        if found.source != value:
            maker = self.makers.get(value)
            if maker is None or maker.op_type in MOVES:
                return False
            read = [v for v in maker.input if v in self.moved and v not in changed]
            if not all(self._resized(v, size, changed) for v in read):
                return False
        readers = (node.output[0] for node in self.readers.get(value, ()))
        return all(output in changed or output not in self.moved for output in readers)

    def _of_linear(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> Moved | None:
        """Return the result of a linear layer on the channels of several pixels."""
        weight = dense_weight(node, self.constants)
        source, before = node.input[0], self.shapes.get(node.input[0], ())
        if weight is None or before[-1:] != weight.shape[:1]:
            return None
        is_matrix = len(before) == 2 and before[0] > 1  # of rows, as nn.MultiheadAttention has them
        known = node.op_type == "Gemm" and not is_matrix
        found = self.moved.get(source) if known else self._tokens(source)
        if found is None or not found.is_tokens:
            return None
        if len(before) == 2 and found.order.size == before[-1]:
            return None
        made = (1, weight.shape[1], *found.shape[2:])
        self.layers.add(node.output[0])
        return Moved(self._name(node), made, tokens_of(made).reshape(shape))

    def _of_norm(self, node: onnx.NodeProto) -> Moved | None:
        """Return the result of a normalisation of the channels of every pixel."""
        found = self._tokens(node.input[0])
        if found is None or not found.is_tokens:
            return None
        return replace(found, picture=self._name(node), source="")

    def _tokens(self, source: str) -> Moved | None:
        """Return a value as a moved picture: one is made of tokens that are none, as of windows."""
        found = self.moved.get(source)
        if source in self.pictures or source in self.constants or (found and found.is_tokens):
            return found
        before = self.shapes.get(source, ())
        if len(before) < 2 or (len(before) == 2 and before[0] == 1):
            return None
        picture = (1, before[-1], int(np.prod(before[:-2])), before[-2])
        if not 0 < int(np.prod(before)) <= _LARGEST:
            return None
        if self._is_function_of_tokens(source, before):
            return self.moved[source]
        name = self.unique(f"{source}/picture")
        self.moved[source] = Moved(name, picture, tokens_of(picture).reshape(before), source)
        return self.moved[source]

    def _is_function_of_tokens(self, source: str, shape: tuple[int, ...]) -> bool:
        """Return whether a value is computed element by element from tokens, which it then is."""
        maker = self.makers.get(source)
        if maker is None or maker.op_type not in ELEMENTWISE or source in self.moved:
            return False
        tensors = [v for v in maker.input if v and v not in self.constants]
        if not tensors or any(self.shapes.get(value) != shape for value in tensors):
            return False
        if any(value in self.pictures or self._tokens(value) is None for value in tensors):
            return False
        found = self._of_elementwise(maker, shape)
        if found is not None:
            self.moved[source] = found
        return found is not None

    def _of_joined(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> Moved | None:
        """Return tokens [1, n, c] behind one another: constant ones, or those of several values."""
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if len(shape) != 3 or shape[0] != 1 or axis % 3 != 1 or len(node.input) == 1:
            return None
        tensors = [value for value in node.input if value not in self.constants]
        found = [self.moved.get(value) for value in tensors]
        if not any(known is not None and known.is_tokens for known in found):
            return None
        if len(tensors) not in (1, len(node.input)):
            return None
        found = [self._tokens(value) for value in tensors]
        if any(known is None or not known.is_tokens or known.order.ndim != 3 for known in found):
            return None
        return self._row(node, shape)

    def _of_part(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> Moved | None:
        """Return some tokens of [1, n, c], as the class token alone."""
        found = self.moved.get(node.input[0])
        if found is None or not found.is_tokens or found.order.ndim != 3 or shape[0] != 1:
            return None
        return None if self.places(node) is None else self._row(node, shape)

    def places(self, node: onnx.NodeProto) -> tuple[int, int, int] | None:
        """Return begin, end and step of the tokens that a node takes, None if it does not."""
        given = [self.constants.get(value) for value in node.input[1:]]
        if not given or any(found is None for found in given):
            return None
        arrays = [array_of(found).reshape(-1) for found in given if found is not None]
        tokens = self.shapes[node.input[0]][1]
        starts, ends, axes, steps = (*arrays, np.ones(1, np.int64))[:4]
        if len(arrays) < 3 or axes.size != 1 or int(axes[0]) % 3 != 1 or int(steps[0]) < 1:
            return None
        taken = range(tokens)[int(starts[0]) : int(ends[0]) : int(steps[0])]
        return (taken.start, taken.stop, taken.step) if len(taken) else None

    def _row(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> Moved:
        """Return tokens [1, n, c] as a picture [1, c, 1, n] that a node makes."""
        made = (1, shape[2], 1, shape[1])
        return Moved(self._name(node), made, tokens_of(made).reshape(shape))

    def _of_band(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> Moved | None:
        """Return the result of a convolution along the channels of [1, c, 1, 1]."""
        found = self.moved.get(node.input[0])
        if found is None or found.order.size != found.shape[1] or not found.is_flat:
            return None
        if shape != found.order.shape or self.band(node, found.shape[1]) is None:
            return None
        return replace(found, picture=self._name(node), source="", order=found.order.copy())

    def band(self, node: onnx.NodeProto, channels: int) -> NDArray[np.float32] | None:
        """Return the weights float32[c, c] of a convolution along c channels, or None."""
        return band_matrix(node, self.constants, self.shapes[node.input[0]], channels)

    def _name(self, node: onnx.NodeProto) -> str:
        return self.unique(f"{node.output[0]}/picture")

    def unique(self, name: str) -> str:
        """Return ``name``, or one like it, for a picture that the graph does not have yet."""
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        self.made.add(name)
        return name
