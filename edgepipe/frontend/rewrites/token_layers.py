"""Write layers whose channels are the last axis as layers of pictures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.frontend.onnx_graph import array_of, remove_unread, set_attribute, set_nodes
from edgepipe.frontend.rewrites.linear_weights import dense_weight
from edgepipe.frontend.rewrites.moved_pictures import TO_LAST, Moved
from edgepipe.frontend.rewrites.norms import NORMALISATION
from edgepipe.frontend.rewrites.token_values import MOVES, TokenValues
from edgepipe.frontend.rewrites.wanted_values import is_permuted_dense, wanted_values

_TO_FIRST = (0, 3, 1, 2)


def token_layers(model: onnx.ModelProto) -> None:
    """Replace what is computed on [1, h, w, c], [1, n, c] or [1, k] and is made of a picture.

    before   Transpose(x, 0 2 3 1) -> MatMul(w) -> Add(b) -> Transpose(0 3 1 2)
    after    Conv(x, w as 1x1) -> Add(b)

    before   Transpose(x, 0 2 3 1) -> Reshape([1, k]) -> MatMul(w)
    after    Flatten(x) -> MatMul(w, its rows in another order)

    before   Concat(class token, tokens, axis=1) -> MatMul(w) -> Slice(axis=1, 0 to 1)
    after    Pad(x, left) -> Add(class token)    -> Conv(w)   -> Slice(axis=3, 0 to 1)

    A linear layer on [1, h, w, c] becomes a convolution even where its input is made by something
    else. A one-dimensional convolution over the channels of [1, c, 1, 1] becomes a 1x1 convolution
    whose weights are a band. Operators that nothing of this kind reads stay as they are.
    """
    values = TokenValues(model)
    values.follow()
    set_nodes(model.graph, _Rewritten(model.graph, values, wanted_values(values)).nodes())
    remove_unread(model.graph)


class _Rewritten:
    """The nodes of a graph whose ``wanted`` values are pictures."""

    def __init__(self, graph: onnx.GraphProto, values: TokenValues, wanted: set[str]) -> None:
        self._graph = graph
        self._values = values
        self._wanted = wanted

    def nodes(self) -> Iterator[onnx.NodeProto]:
        """Yield the nodes; values that only others used to read may be left without a reader."""
        transposed: set[str] = set()
        for node in self._graph.node:
            for value in node.input:
                found = self._values.moved.get(value)
                if found is None or found.source != value or found.picture in transposed:
                    continue
                if value in self._wanted:
                    transposed.add(found.picture)
                    yield from self._turned(value, found)
            yield from self._replaced(node)

    def _replaced(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        found = self._values.moved.get(node.output[0]) if len(node.output) == 1 else None
        if found is None or found.source == node.output[0]:
            dense = (
                bool(node.input) and len(node.output) == 1 and is_permuted_dense(self._values, node)
            )
            yield from self._dense(node) if dense else (node,)
        elif node.op_type in MOVES:
            if (
                node.output[0] in self._wanted
                and found.is_flat
                and found.picture in self._values.made
            ):
                yield from self._laid(node.output[0], found)
            else:
                yield node
        elif node.op_type in ("MatMul", "Gemm", "Conv"):
            yield from self._layer(node, found)
            yield from self._laid(node.output[0], found)
        elif node.op_type in ("Concat", "Slice"):
            yield from self._joined_or_part(node, found)
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
        copy.input[0], copy.output[0] = self._values.moved[node.input[0]].picture, made.picture
        set_attribute(copy, "groups", 0)
        self._shaped(made.picture, made.shape)
        return copy

    def _elementwise(self, node: onnx.NodeProto, made: Moved) -> onnx.NodeProto:
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        copy.output[0] = made.picture
        copy.name = made.picture if node.name else ""
        for index, value in enumerate(node.input):
            if value in self._values.moved:
                copy.input[index] = self._values.moved[value].picture
            elif value in self._values.constants:
                array = made.constant(array_of(self._values.constants[value]))
                assert array is not None
                copy.input[index] = self._add(f"{made.picture}/constant{index}", array)
        self._shaped(made.picture, made.shape)
        return copy

    def _layer(self, node: onnx.NodeProto, made: Moved) -> Iterator[onnx.NodeProto]:
        source = self._values.moved[node.input[0]]
        if node.op_type == "Conv":
            matrix = self._values.band(node, made.shape[1])
        else:
            weight = dense_weight(node, self._values.constants)
            matrix = None if weight is None else weight.T
        assert matrix is not None
        inputs = [source.picture, self._add(f"{made.picture}/weight", matrix[:, :, None, None])]
        if len(node.input) > 2 and node.input[2]:
            bias = array_of(self._values.constants[node.input[2]]).astype(np.float32).reshape(-1)
            bias = np.broadcast_to(bias, made.shape[1:2])
            inputs.append(self._add(f"{made.picture}/bias", bias))
        self._shaped(made.picture, made.shape)
        yield helper.make_node("Conv", inputs, [made.picture], kernel_shape=[1, 1])

    def _joined_or_part(self, node: onnx.NodeProto, made: Moved) -> Iterator[onnx.NodeProto]:
        """Yield the nodes that join rows of pixels, add constant ones, or take some of them."""
        read = [value for value in node.input if value not in self._values.constants]
        rows = []
        for index, value in enumerate(read):
            found = self._values.moved[value]
            rows.append(found.picture)
            if found.shape[2] != 1:
                _, tokens, channels = found.order.shape
                rows[-1] = self._values.unique(f"{made.picture}/row{index}")
                size = self._add(f"{rows[-1]}/size", np.array((1, channels, 1, tokens), np.int64))
                self._shaped(rows[-1], (1, channels, 1, tokens))
                yield helper.make_node("Reshape", [found.picture, size], [rows[-1]])
        self._shaped(made.picture, made.shape)
        taken = None if node.op_type == "Concat" else self._values.places(node)
        if taken is not None:
            bounds = [
                self._add(f"{made.picture}/{what}", np.array([value], np.int64))
                for what, value in zip(
                    ("begin", "end", "axis", "step"), (*taken[:2], 3, taken[2]), strict=True
                )
            ]
            yield helper.make_node("Slice", [*rows, *bounds], [made.picture])
        elif len(read) > 1:
            yield helper.make_node("Concat", rows, [made.picture], axis=3)
        else:
            yield from self._with_constants(node, rows[0], made)

    def _with_constants(
        self, node: onnx.NodeProto, row: str, made: Moved
    ) -> Iterator[onnx.NodeProto]:
        """Yield the nodes that add constant pixels before and behind a row."""
        place = next(i for i, value in enumerate(node.input) if value not in self._values.constants)
        arrays = {
            index: array_of(self._values.constants[value]).astype(np.float32)
            for index, value in enumerate(node.input)
            if index != place
        }
        before = sum(array.shape[1] for index, array in arrays.items() if index < place)
        behind = sum(array.shape[1] for index, array in arrays.items() if index > place)
        tokens = np.zeros((1, made.shape[3], made.shape[1]), np.float32)
        others = [array for _, array in sorted(arrays.items())]
        outside = np.concatenate(others, axis=1)
        tokens[:, :before], tokens[:, made.shape[3] - behind :] = (
            outside[:, :before],
            outside[:, before:],
        )
        pads = self._add(f"{made.picture}/pads", np.array([0, 0, 0, before, 0, 0, 0, behind]))
        padded = self._values.unique(f"{made.picture}/padded")
        self._shaped(padded, made.shape)
        yield helper.make_node("Pad", [row, pads], [padded])
        constant = self._add(f"{made.picture}/tokens", tokens.transpose(0, 2, 1)[:, :, None])
        yield helper.make_node("Add", [padded, constant], [made.picture])

    def _dense(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Yield a linear layer that reads the picture as it is, with its rows in that order."""
        found, weight = (
            self._values.moved[node.input[0]],
            dense_weight(node, self._values.constants),
        )
        assert weight is not None
        flat = self._values.unique(f"{node.output[0]}/flat")
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
            turned = name if shape == last else self._values.unique(f"{name}/channels_last")
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
        """Add a constant; another name is taken if an earlier pass has used this one."""
        while name in self._values.constants:
            name += "_"
        tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        self._graph.initializer.append(tensor)
        self._values.constants[name] = tensor
        return name

    def _shaped(self, name: str, shape: tuple[int, ...]) -> None:
        if name not in self._values.shapes:
            self._graph.value_info.append(
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            )
