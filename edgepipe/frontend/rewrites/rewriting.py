"""The graph that rules rewrite: its constants and shapes, and constants that they add."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.frontend.onnx_graph import array_of, constants_of, opset_of, shapes_of

SLICE_WITH_INPUTS = 10
"""The opset since which a ``Slice`` has its bounds as inputs; before, they are attributes."""

REDUCE_WITH_INPUTS = 18
"""The opset since which reductions have their axes as an input."""

Nodes = list[onnx.NodeProto]


class Rewriting:
    """The graph that is being rewritten: its constants and shapes, and constants to add."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.shapes = shapes_of(model)
        self.opset = opset_of(model)
        self._graph = model.graph
        self._constants: dict[str, TensorProto] = constants_of(model.graph)
        self.makers = {value: node for node in model.graph.node for value in node.output}

    def array(self, value: str) -> NDArray[np.float64] | None:
        """Return a constant as float64 of its own shape, or None."""
        found = self._constants.get(value)
        return None if found is None else np.asarray(array_of(found), np.float64)

    def constant(self, name: str, values: NDArray[np.floating]) -> str:
        """Add a float32 constant of the shape of ``values`` and return its name."""
        return self._added(name, np.ascontiguousarray(values, np.float32))

    def integers(self, name: str, values: Sequence[int]) -> str:
        """Add an int64 constant of one axis and return its name."""
        return self._added(name, np.array(values, np.int64))

    def _added(self, name: str, values: NDArray[np.generic]) -> str:
        """Add a constant; another name is taken if an earlier pass has used this one."""
        while name in self._constants:
            name += "_"
        tensor = numpy_helper.from_array(values, name)
        self._graph.initializer.append(tensor)
        self._constants[name] = tensor
        return name

    def note_shape(self, name: str, shape: Sequence[int], *, like: str = "") -> None:
        """Note the shape of a new value for later passes: a float one, or of ``like``'s type."""
        typed = [*self._graph.value_info, *self._graph.output] if like else []
        types = [value.type.tensor_type.elem_type for value in typed if value.name == like]
        made = helper.make_tensor_value_info(name, (*types, TensorProto.FLOAT)[0], list(shape))
        self._graph.value_info.append(made)
