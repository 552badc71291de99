"""Compare what TVM's importer makes of an operator with what onnxruntime computes.

The importer ignores some attributes (``output_shape``, ``antialias``) and derives others again,
such as the factors of a ``Resize`` from its sizes. The network would be built, and would compute
something else.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgepipe.errors import FrontendError
from edgepipe.frontend.folding import CannotRunError, differences, run_model
from edgepipe.frontend.onnx_graph import array_of, constants_of, shapes_of
from edgepipe.names import printable
from edgepipe.tvm_adapter import CompiledModule
from edgepipe.tvm_onnx import ImporterError, import_onnx

_KINDS = frozenset(
    [
        *("AveragePool", "ConvTranspose", "DepthToSpace", "LpPool", "MaxPool", "Pad", "Resize"),
        *("Slice", "SpaceToDepth", "Tile"),
    ]
)
"""The operators that move or resample pixels: their attributes have many combinations."""

_LARGEST = 1 << 24
"""The most elements of a tensor that an operator is tried with."""

_FEW = 4
"""The channels of a transposed convolution that are tried."""


class ImportedOperators:
    """Tries the operators of a graph that move or resample pixels, each form of them once."""

    def __init__(self) -> None:
        self._tried: dict[bytes, bool] = {}

    def is_exact(self, model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
        """Return whether the importer gives a node of ``model`` the values of onnxruntime.

        True for operators that are not tried: those of other kinds, with more than one input that
        is computed, or that one of both refuses, which is an error of its own.
        """
        alone = operator_alone(model, node) if node.op_type in _KINDS else None
        if alone is None:
            return True
        if node.op_type == "ConvTranspose":
            _keep_few_channels(alone)
        key = sha256(alone.SerializeToString(deterministic=True)).digest()
        if key not in self._tried:
            self._tried[key] = _is_exact(alone)
        return self._tried[key]

    def require_exact(self, path: Path, model: onnx.ModelProto) -> None:
        """Raise ``FrontendError`` for the first node that would compute other values."""
        for node in model.graph.node:
            if not self.is_exact(model, node):
                raise FrontendError(
                    f"{path}: {node.op_type} {printable(node.output[0])!r} cannot be imported: TVM "
                    "would compute other values than onnxruntime",
                    hint="write it in another form, for example a Resize with sizes in place of "
                    "scales, without antialias or a region of interest, or use another opset",
                )


def operator_alone(model: onnx.ModelProto, node: onnx.NodeProto) -> onnx.ModelProto | None:
    """Return a model of one node of a graph, that reads a float32 picture ``x`` and makes ``y``.

    All other inputs are constants of the graph. None if they are not, if the shape of the picture
    is not known, or if somebody may read another output.
    """
    shape = shapes_of(model).get(node.input[0], ()) if node.input else ()
    constants = constants_of(model.graph)
    others = [value for value in node.input[1:] if value]
    if not shape or not all(value in constants for value in others) or any(node.output[1:]):
        return None
    if node.input[0] in constants or int(np.prod(shape)) > _LARGEST:
        return None
    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.graph.name = "operator"
    copy = part.graph.node.add()
    copy.CopyFrom(node)
    copy.name = ""
    names = ["x"]
    for number, value in enumerate(node.input[1:]):
        names.append(f"c{number}" if value else "")
        if value:
            constant = part.graph.initializer.add()
            constant.CopyFrom(constants[value])
            constant.name = names[-1]
    del copy.input[:], copy.output[:]
    copy.input.extend(names)
    copy.output.append("y")
    part.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, shape))
    part.graph.output.append(onnx.ValueInfoProto(name="y"))
    return part


def _keep_few_channels(alone: onnx.ModelProto) -> None:
    """Leave out most channels of a transposed convolution without groups: all are alike.

    With all of them, TVM's plain kernel would take seconds.
    """
    (node,) = alone.graph.node
    if any(a.name == "group" and a.i != 1 for a in node.attribute):
        return
    alone.graph.input[0].type.tensor_type.shape.dim[1].dim_value = min(
        alone.graph.input[0].type.tensor_type.shape.dim[1].dim_value, _FEW
    )
    for constant in alone.graph.initializer:
        values = array_of(constant)
        kept = values[:_FEW] if values.ndim < 2 else values[:_FEW, :_FEW]
        constant.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(kept), constant.name))


def _is_exact(alone: onnx.ModelProto) -> bool:
    shape = [d.dim_value for d in alone.graph.input[0].type.tensor_type.shape.dim]
    picture = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
    try:
        expected = run_model(alone, {"x": picture})
        module, _ = import_onnx(alone, ["y"])
    except (CannotRunError, ImporterError):
        return True
    try:
        found = CompiledModule(module).run({"x": picture})
    except Exception:  # TVM raises many types for attributes that it does not know
        return False
    return not list(differences(found.values(), expected))
