"""Write layers whose channels are the last axis as layers of pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.frontend.onnx_graph import (
    array_of,
    constants_of,
    readers_of,
    remove_unread,
    set_attribute,
    set_nodes,
    shapes_of,
)
from edgepipe.frontend.rewrites.linear_weights import band_matrix, dense_weight
from edgepipe.frontend.rewrites.moved_pictures import TO_LAST, Moved, tokens_of
from edgepipe.frontend.rewrites.norms import NORMALISATION, is_norm_of_picture

_MOVES = frozenset(["Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"])
_ELEMENTWISE = frozenset(
    [
        *("Abs", "Add", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish"),
        *("LeakyRelu", "Mish", "Mul", "Neg", "Pow", "Relu", "Selu", "Sigmoid", "Softplus"),
        *("Softsign", "Sqrt", "Sub", "Tanh"),
    ]
)
_OF_PICTURES = frozenset(
    [
        *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "GlobalAveragePool"),
        *("GlobalMaxPool", "MaxPool", "Resize"),
    ]
)
_TO_FIRST = (0, 3, 1, 2)
_LARGEST = 1 << 24
"""The most elements of a picture whose moves are followed, for each of which 8 bytes are needed."""


def token_layers(model: onnx.ModelProto) -> None:
    """Replace what is computed on [1, h, w, c], [1, n, c] or [1, k] and is made of a picture.

    before   Transpose(x, 0 2 3 1) -> MatMul(w) -> Add(b) -> Transpose(0 3 1 2)
    after    Conv(x, w as 1x1) -> Add(b)

    before   Transpose(x, 0 2 3 1) -> Reshape([1, k]) -> MatMul(w)
    after    Flatten(x) -> MatMul(w, its rows in another order)

    A linear layer on [1, h, w, c] becomes a convolution even where its input is made by something
    else. A one-dimensional convolution over the channels of [1, c, 1, 1] becomes a 1x1 convolution
    whose weights are a band. Operators that nothing of this kind reads stay as they are.
    """
    tokens = _Tokens(model)
    tokens.follow()
    tokens.find_wanted()
    set_nodes(model.graph, tokens.rewritten())
    remove_unread(model.graph)


def is_affine(node: onnx.NodeProto) -> bool:
    """Return whether a node adds or multiplies, so its constants may differ from pixel to pixel."""
    return node.op_type in ("Add", "Mul", "Sub")


class _Tokens:
    """The graph, what is known of its values, and which of them are wanted as pictures."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._graph = model.graph
        self._shapes = shapes_of(model)
        self._constants = constants_of(model.graph)
        self._moved: dict[str, Moved] = {}
        self._pictures = {value.name for value in model.graph.input}
        self._layers: set[str] = set()
        self._made: set[str] = set()
        self._wanted: set[str] = set()
        self._makers = {value: node for node in model.graph.node for value in node.output}
        self._readers = readers_of(model.graph)
        self._taken = set(self._makers)

    # What is known of values.

    def follow(self) -> None:
        """Find the values that are moved pictures, in the order of the nodes."""
        for node in self._graph.node:
            if len(node.output) != 1 or not node.input:
                continue
            found = self._of(node)
            if found is not None:
                self._moved[node.output[0]] = found
            elif (
                node.op_type in _OF_PICTURES
                or is_norm_of_picture(node)
                or (
                    node.op_type in _ELEMENTWISE
                    and any(value in self._pictures for value in node.input)
                )
            ):
                self._pictures.add(node.output[0])

    def _of(self, node: onnx.NodeProto) -> Moved | None:
        shape = self._shapes.get(node.output[0])
        if shape is None:
            return None
        if node.op_type in _MOVES:
            return self._of_move(node, shape)
        if node.op_type in _ELEMENTWISE:
            return self._of_elementwise(node, shape)
        if node.op_type in ("MatMul", "Gemm"):
            return self._of_linear(node, shape)
        if node.op_type == NORMALISATION and not is_norm_of_picture(node):
            return self._of_norm(node)
        return self._of_band(node, shape) if node.op_type == "Conv" else None

    def _of_move(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> Moved | None:
        source = node.input[0]
        found = self._moved.get(source)
        if found is None:
            before = self._shapes.get(source, ())
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
        tensors = [value for value in node.input if value and value not in self._constants]
        self._share_extents(tensors)
        self._align(tensors, shape)
        found = [self._moved.get(value) for value in tensors]
        first = found[0] if found else None
        if first is None or not (first.is_flat or first.is_tokens) or first.order.shape != shape:
            return None
        for other in found:
            if other is None or other.shape != first.shape:
                return None
            if not np.array_equal(other.order, first.order):
                return None
        for value in node.input:
            constant = self._constants.get(value)
            if constant is None:
                continue
            laid = first.constant(array_of(constant))
            if laid is None or (laid.ndim and laid.shape[2:] != (1, 1) and not is_affine(node)):
                return None
        return replace(first, picture=self._name(node), source="")

    def _align(self, tensors: Sequence[str], shape: tuple[int, ...]) -> None:
        """Give tokens that an operator reads with others the order of the others' pixels."""
        known = [self._moved[value] for value in tensors if value in self._moved]
        first = next((found for found in known if found.is_tokens), None)
        if first is None or first.order.shape != shape:
            return
        for value in tensors:
            found = self._moved.get(value)
            same = found is not None and found.shape == first.shape
            if found is not None and same and np.array_equal(found.order, first.order):
                continue
            if value not in self._pictures and self._shapes.get(value) == shape:
                name = self._unique(f"{value}/picture")
                self._moved[value] = Moved(name, first.shape, first.order.copy(), value)

    def _share_extents(self, tensors: Sequence[str]) -> None:
        """Give what layers made of tokens that are no picture the height and width of others.

        The result of attention is [1, n, c], so that a layer behind it makes a picture [1, c, 1, n]
        until it is added to a picture's own tokens.
        """
        known = {value: self._moved[value] for value in tensors if value in self._moved}
        if len({found.shape for found in known.values()}) < 2:
            return
        for first in known.values():
            changed: dict[str, Moved] = {}
            others = [value for value, found in known.items() if found.shape != first.shape]
            if all(self._resized(value, first.shape[2:], changed) for value in others):
                self._moved.update(changed)
                return

    def _resized(self, value: str, size: tuple[int, ...], changed: dict[str, Moved]) -> bool:
        """Add to ``changed`` a value and what it is made of with another height and width.

        Return whether that is possible: everything that is known of it is part of ``changed``.
        """
        found = self._moved.get(value)
        if found is None or not found.is_tokens or value in self._pictures:
            return False
        if int(np.prod(found.shape[2:])) != int(np.prod(size)):
            return False
        made = (*found.shape[:2], *size)
        changed[value] = replace(
            found, shape=made, order=tokens_of(made).reshape(found.order.shape)
        )
        if found.source != value:
            maker = self._makers.get(value)
            if maker is None or maker.op_type in _MOVES:
                return False
            read = [v for v in maker.input if v in self._moved and v not in changed]
            if not all(self._resized(v, size, changed) for v in read):
                return False
        readers = (node.output[0] for node in self._readers.get(value, ()))
        return all(output in changed or output not in self._moved for output in readers)

    def _of_linear(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> Moved | None:
        """Return the result of a linear layer on the channels of several pixels."""
        weight = dense_weight(node, self._constants)
        source, before = node.input[0], self._shapes.get(node.input[0], ())
        if weight is None or before[-1:] != weight.shape[:1]:
            return None
        is_matrix = len(before) == 2 and before[0] > 1  # of rows, as nn.MultiheadAttention has them
        known = node.op_type == "Gemm" and not is_matrix
        found = self._moved.get(source) if known else self._tokens(source)
        if found is None or not found.is_tokens or found.order.size == before[-1]:
            return None
        made = (1, weight.shape[1], *found.shape[2:])
        self._layers.add(node.output[0])
        return Moved(self._name(node), made, tokens_of(made).reshape(shape))

    def _of_norm(self, node: onnx.NodeProto) -> Moved | None:
        """Return the result of a normalisation of the channels of every pixel."""
        found = self._tokens(node.input[0])
        if found is None or not found.is_tokens:
            return None
        return replace(found, picture=self._name(node), source="")

    def _tokens(self, source: str) -> Moved | None:
        """Return a value as a moved picture: one is made of tokens that are none, as of windows."""
        found = self._moved.get(source)
        if source in self._pictures or source in self._constants or (found and found.is_tokens):
            return found
        before = self._shapes.get(source, ())
        if len(before) not in (2, 3, 4) or (len(before) == 4 and before[0] != 1):
            return None
        if len(before) == 2 and before[0] == 1:
            return None
        picture = (1, before[-1], *(1, *before)[-3:-1])
        if not 0 < int(np.prod(before)) <= _LARGEST:
            return None
        if self._is_function_of_tokens(source, before):
            return self._moved[source]
        name = self._unique(f"{source}/picture")
        self._moved[source] = Moved(name, picture, tokens_of(picture).reshape(before), source)
        return self._moved[source]

    def _is_function_of_tokens(self, source: str, shape: tuple[int, ...]) -> bool:
        """Return whether a value is computed element by element from tokens, which it then is."""
        maker = self._makers.get(source)
        if maker is None or maker.op_type not in _ELEMENTWISE or source in self._moved:
            return False
        tensors = [v for v in maker.input if v and v not in self._constants]
        if not tensors or any(self._shapes.get(value) != shape for value in tensors):
            return False
        if any(value in self._pictures or self._tokens(value) is None for value in tensors):
            return False
        found = self._of_elementwise(maker, shape)
        if found is not None:
            self._moved[source] = found
        return found is not None

    def _of_band(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> Moved | None:
        """Return the result of a convolution along the channels of [1, c, 1, 1]."""
        found = self._moved.get(node.input[0])
        if found is None or found.order.size != found.shape[1] or not found.is_flat:
            return None
        if shape != found.order.shape or self._band(node, found.shape[1]) is None:
            return None
        return replace(found, picture=self._name(node), source="", order=found.order.copy())

    def _band(self, node: onnx.NodeProto, channels: int) -> NDArray[np.float32] | None:
        return band_matrix(node, self._constants, self._shapes[node.input[0]], channels)

    def _name(self, node: onnx.NodeProto) -> str:
        return self._unique(f"{node.output[0]}/picture")

    def _unique(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        self._made.add(name)
        return name

    # What is wanted as a picture.

    def find_wanted(self) -> None:
        """Find the values whose pictures a layer reads, or what is moved back to a picture."""
        for node in reversed(self._graph.node):
            if len(node.output) != 1 or not node.input:
                continue
            found = self._moved.get(node.output[0])
            if found is not None and found.source == node.output[0]:
                if node.op_type in _MOVES and node.output[0] in self._wanted:
                    self._wanted.add(node.input[0])
                continue
            if node.op_type in _MOVES:
                if found is not None and (node.output[0] in self._wanted or self._is_back(node)):
                    self._wanted.update((node.output[0], node.input[0]))
            elif found is not None and node.op_type in _ELEMENTWISE:
                if node.output[0] in self._wanted or self._is_bias(node):
                    self._wanted.add(node.output[0])
                    self._wanted.update(value for value in node.input if value in self._moved)
            elif node.op_type == NORMALISATION:
                if found is not None and node.output[0] in self._wanted:
                    self._wanted.add(node.input[0])
            elif found is not None or self._is_permuted_dense(node) or self._reads_made(node):
                self._wanted.add(node.input[0])

    def _is_back(self, node: onnx.NodeProto) -> bool:
        """Whether a move ends in a picture that a layer or function computed."""
        found = self._moved[node.output[0]]
        made = self._shapes[node.output[0]]
        return len(made) == 4 and found.is_flat and found.picture in self._made

    def _reads_made(self, node: onnx.NodeProto) -> bool:
        """Whether a layer reads a picture whose pixels were moved since a layer made them."""
        found = self._moved.get(node.input[0])
        return node.op_type in _OF_PICTURES and found is not None and found.picture in self._made

    def _is_bias(self, node: onnx.NodeProto) -> bool:
        """Whether a node and those before it scale or add constants to a linear layer's result."""
        while is_affine(node):
            tensors = [value for value in node.input if value not in self._constants]
            if len(tensors) != 1:
                return False
            value = tensors[0]
            while value not in self._layers:
                maker = self._makers.get(value)
                if maker is None or maker.op_type not in _MOVES:
                    break
                value = maker.input[0]
            if value in self._layers:
                return True
            if value not in self._makers:
                return False
            node = self._makers[value]
        return False

    def _is_permuted_dense(self, node: onnx.NodeProto) -> bool:
        """Whether a node is a linear layer on all elements of a picture in another order."""
        if node.op_type not in ("MatMul", "Gemm"):
            return False
        found = self._moved.get(node.input[0])
        if found is None or found.is_flat or found.order.shape != (1, found.order.size):
            return False
        return dense_weight(node, self._constants) is not None

    # The nodes afterwards.

    def rewritten(self) -> Iterator[onnx.NodeProto]:
        """Yield the nodes; values that only others used to read may be left without a reader."""
        transposed: set[str] = set()
        for node in self._graph.node:
            for value in node.input:
                found = self._moved.get(value)
                if found is None or found.source != value or found.picture in transposed:
                    continue
                if value in self._wanted:
                    transposed.add(found.picture)
                    yield from self._turned(value, found)
            yield from self._replaced(node)

    def _replaced(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        found = self._moved.get(node.output[0]) if len(node.output) == 1 else None
        if found is None or found.source == node.output[0]:
            dense = bool(node.input) and len(node.output) == 1 and self._is_permuted_dense(node)
            yield from self._dense(node) if dense else (node,)
        elif node.op_type in _MOVES:
            if node.output[0] in self._wanted and found.is_flat and found.picture in self._made:
                yield from self._laid(node.output[0], found)
            else:
                yield node
        elif node.op_type in ("MatMul", "Gemm", "Conv"):
            yield from self._layer(node, found)
            yield from self._laid(node.output[0], found)
        elif node.op_type == NORMALISATION and node.output[0] in self._wanted:
            yield self._norm(node, found)
            yield from self._laid(node.output[0], found)
        elif node.output[0] in self._wanted:
            yield self._elementwise(node, found)
            yield from self._laid(node.output[0], found)
        else:
            yield node

    def _turned(self, value: str, found: Moved) -> Iterator[onnx.NodeProto]:
        """Yield the nodes that make a picture of tokens."""
        last = tuple(found.shape[axis] for axis in TO_LAST)
        if found.order.shape != last:
            wanted = self._add(f"{found.picture}/shape", np.array(last, np.int64))
            yield helper.make_node("Reshape", [value, wanted], [f"{found.picture}/last"])
            value = f"{found.picture}/last"
            self._shaped(value, last)
        yield self._transposed(value, found.picture, _TO_FIRST, found.shape)

    def _norm(self, node: onnx.NodeProto, made: Moved) -> onnx.NodeProto:
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        copy.input[0], copy.output[0] = self._moved[node.input[0]].picture, made.picture
        set_attribute(copy, "groups", 0)
        self._shaped(made.picture, made.shape)
        return copy

    def _elementwise(self, node: onnx.NodeProto, made: Moved) -> onnx.NodeProto:
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        copy.output[0] = made.picture
        copy.name = made.picture if node.name else ""
        for index, value in enumerate(node.input):
            if value in self._moved:
                copy.input[index] = self._moved[value].picture
            elif value in self._constants:
                array = made.constant(array_of(self._constants[value]))
                assert array is not None
                copy.input[index] = self._add(f"{made.picture}/constant{index}", array)
        self._shaped(made.picture, made.shape)
        return copy

    def _layer(self, node: onnx.NodeProto, made: Moved) -> Iterator[onnx.NodeProto]:
        source = self._moved[node.input[0]]
        if node.op_type == "Conv":
            matrix = self._band(node, made.shape[1])
        else:
            weight = dense_weight(node, self._constants)
            matrix = None if weight is None else weight.T
        assert matrix is not None
        inputs = [source.picture, self._add(f"{made.picture}/weight", matrix[:, :, None, None])]
        if len(node.input) > 2 and node.input[2]:
            bias = array_of(self._constants[node.input[2]]).astype(np.float32).reshape(-1)
            bias = np.broadcast_to(bias, made.shape[1:2])
            inputs.append(self._add(f"{made.picture}/bias", bias))
        self._shaped(made.picture, made.shape)
        yield helper.make_node("Conv", inputs, [made.picture], kernel_shape=[1, 1])

    def _dense(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Yield a linear layer that reads the picture as it is, with its rows in that order."""
        found, weight = self._moved[node.input[0]], dense_weight(node, self._constants)
        assert weight is not None
        flat = self._unique(f"{node.output[0]}/flat")
        rows = np.empty_like(weight)
        rows[found.order.reshape(-1)] = weight
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        copy.input[0], copy.input[1] = flat, self._add(f"{node.output[0]}/rows", rows)
        kept = [a for a in node.attribute if a.name != "transB"]
        del copy.attribute[:]
        copy.attribute.extend(kept)
        self._shaped(flat, found.order.shape)
        yield helper.make_node("Flatten", [found.picture], [flat], axis=1)
        yield copy

    def _laid(self, name: str, made: Moved) -> Iterator[onnx.NodeProto]:
        """Yield the moves that make a value of its picture."""
        shape, source = made.order.shape, made.picture
        if made.is_flat:
            if shape == made.shape:
                yield helper.make_node("Identity", [source], [name])
                return
        else:
            last = tuple(made.shape[axis] for axis in TO_LAST)
            turned = name if shape == last else self._unique(f"{name}/channels_last")
            yield self._transposed(source, turned, TO_LAST, last)
            source = turned
        if source != name:
            wanted = self._add(f"{name}/shape", np.array(shape, np.int64))
            yield helper.make_node("Reshape", [source, wanted], [name])

    def _transposed(
        self, source: str, name: str, perm: tuple[int, ...], shape: tuple[int, ...]
    ) -> onnx.NodeProto:
        self._shaped(name, shape)
        return helper.make_node("Transpose", [source], [name], perm=list(perm))

    def _add(self, name: str, array: NDArray[np.generic]) -> str:
        tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        self._graph.initializer.append(tensor)
        return name

    def _shaped(self, name: str, shape: tuple[int, ...]) -> None:
        if name not in self._shapes:
            self._graph.value_info.append(
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            )
