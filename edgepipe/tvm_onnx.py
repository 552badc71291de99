"""ONNX models to Relax by TVM's importer, simplified, with constants folded."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from edgepipe.tvm_adapter import Array, IRModule, plain_value, quiet, tensor_type, variable_names


class ImporterError(Exception):
    """TVM's ONNX importer refused a model; the text is the reason in one line."""


def import_onnx(model: Any, values: Sequence[str]) -> tuple[IRModule, dict[str, str]]:
    """Import an ONNX model of static shapes; return the simplified module and value -> variable.

    ``values`` are the ONNX value names to track: the model is imported with each of them as
    an output, so that the position in the returned tuple identifies the variable of a value. Values
    that turn out to be constant are not in the map. The module still returns all of them. Batch
    normalisation and similar operators are decomposed, and constants are folded.

    Raises ``ImporterError`` with TVM's reason.
    """
    from tvm.relax.frontend.onnx import from_onnx

    with quiet():
        try:
            module = from_onnx(model)  # prints what it cannot convert
        except Exception as cause:  # the importer raises many types, even plain ValueError
            traceback.clear_frames(cause.__traceback__)  # else its builder warns when it is freed
            text = str(cause).strip()
            reason = text.splitlines()[-1] if text else type(cause).__name__
            raise ImporterError(reason) from cause
    module = _simplified(_without_clip_kernels(module))
    function = module["main"]
    results = function.body.body
    for block in function.body.blocks:
        for binding in block.bindings:
            if binding.var == results and isinstance(binding.value, tvm.ir.Tuple):
                results = binding.value
    fields = list(results.fields) if isinstance(results, tvm.ir.Tuple) else [results]
    names = variable_names(function)
    known = {
        value: names[field]
        for value, field in zip(values, fields, strict=True)
        if isinstance(field, relax.Var)
    }
    return module, known


def _without_clip_kernels(module: IRModule) -> IRModule:
    """Write the importer's TIR kernels for Clip as ``relax.maximum`` and ``relax.minimum``."""

    @relax.expr_functor.mutator
    class Rewriter(relax.expr_functor.PyExprMutator):  # type: ignore[misc]
        def visit_call_(self, call: Any) -> Any:
            if call.op == tvm.ir.Op.get("relax.call_tir"):
                kernel = str(call.args[0].name_hint).rstrip("0123456789").rstrip("_")
                operands = call.args[1]
                if kernel in ("maximum", "minimum") and isinstance(operands, tvm.ir.Tuple):
                    first, second = (self.visit_expr(f) for f in operands.fields)
                    second = self._without_nan_guard(second)
                    return self.builder_.normalize(getattr(relax.op, kernel)(first, second))
            return self.visit_expr_post_order(call)

        def _without_nan_guard(self, bound: Any) -> Any:
            """Return ``b`` for ``where(isnan(b), infinity, b)``, which avoids compiling it."""
            value = self.lookup_binding(bound) if isinstance(bound, relax.Var) else None
            if isinstance(value, tvm.ir.Call) and value.op == tvm.ir.Op.get("relax.where"):
                constant = value.args[2]
                is_constant = isinstance(constant, tvm.ir.GenericConst)
                if is_constant and not np.isnan(constant.value.numpy()).any():
                    return constant
            return bound

    rewriter = Rewriter(module)
    module = IRModule(dict(module.functions.items()), attrs=module.attrs)
    module["main"] = rewriter.visit_expr(module["main"])
    return module


def _simplified(module: IRModule) -> IRModule:
    module = relax.transform.DecomposeOpsForInference()(module)
    module = _with_constants(relax.transform.CanonicalizeBindings()(module))
    module = relax.transform.CanonicalizeBindings()(module)
    module = relax.transform.DeadCodeElimination()(module)
    if any(_is_constant(call) for call in _calls(module)):
        module = relax.transform.FoldConstant()(module)
    return relax.transform.DeadCodeElimination()(module)


def _with_constants(module: IRModule) -> IRModule:
    """Compute in numpy what the importer does to constants: FoldConstant compiles a kernel each.

    It reshapes the bias of every convolution, and looks for negative indices by a tensor's shape.
    """

    @relax.expr_functor.mutator
    class Rewriter(relax.expr_functor.PyExprMutator):  # type: ignore[misc]
        def visit_call_(self, call: Any) -> Any:
            call = self.visit_expr_post_order(call)
            if call.op == tvm.ir.Op.get("relax.shape_of"):
                shape, dtype = tensor_type(call.args[0].ty)
                return call if dtype == "dynamic" else relax.ShapeExpr(shape)
            compute = _ON_CONSTANTS.get(str(getattr(call.op, "name", "")))
            given = [self._constant(arg) for arg in call.args] if compute else []
            shape, dtype = tensor_type(self.builder_.normalize(call).ty) if given else ((), "")
            if compute is None or dtype in ("dynamic", "tuple") or not self._enough(call, given):
                return call
            found = np.asarray(compute(given, call.attrs), dtype).reshape(shape)
            return relax.const(np.ascontiguousarray(found) if shape else found, dtype)

        def _constant(self, argument: Any) -> Array | None:
            value = self.lookup_binding(argument) if isinstance(argument, relax.Var) else argument
            if isinstance(value, relax.ShapeExpr):
                if not all(isinstance(size, tvm.tirx.IntImm) for size in value.values):
                    return None
                return np.array([int(size) for size in value.values], np.int64)
            return value.value.numpy() if isinstance(value, tvm.ir.GenericConst) else None

        def _enough(self, call: Any, given: Sequence[Array | None]) -> bool:
            """Whether all tensors and shapes of a call are constant."""
            kinds = [isinstance(a.ty, relax.TensorType | relax.ShapeType) for a in call.args]
            pairs = zip(given, kinds, strict=True)
            return all(value is not None for value, has_value in pairs if has_value)

    rewriter = Rewriter(module)
    module = IRModule(dict(module.functions.items()), attrs=module.attrs)
    module["main"] = rewriter.visit_expr(module["main"])
    return module


def _same(given: Sequence[Any], _: Any) -> Array:
    moved: Array = given[0]
    return moved


# What numpy computes from constant arguments and attributes; the call's type has the shape.
_ON_CONSTANTS: dict[str, Callable[[Sequence[Any], Any], Any]] = {
    "relax.add": lambda given, _: given[0] + given[1],
    "relax.expand_dims": _same,
    "relax.less": lambda given, _: given[0] < given[1],
    "relax.permute_dims": lambda given, attrs: np.transpose(given[0], plain_value(attrs.axes)),
    "relax.reshape": _same,
    "relax.shape_to_tensor": _same,
    "relax.squeeze": _same,
    "relax.take": lambda given, attrs: np.take(given[0], given[1], plain_value(attrs.axis)),
    "relax.where": lambda given, _: np.where(given[0], given[1], given[2]),
}


def _calls(module: IRModule) -> list[Any]:
    """Return the calls of ``main``."""
    bindings = [raw for block in module["main"].body.blocks for raw in block.bindings]
    return [raw.value for raw in bindings if isinstance(raw.value, tvm.ir.Call)]


def _is_constant(call: Any) -> bool:
    """Whether a call reads constants, shapes and numbers alone."""
    arguments = [arg for arg in call.args if not isinstance(arg, tvm.ir.GlobalVar)]
    parts = [
        part
        for arg in arguments
        for part in (arg.fields if isinstance(arg, tvm.ir.Tuple) else [arg])
    ]
    return not any(isinstance(part, relax.Var) for part in parts)
