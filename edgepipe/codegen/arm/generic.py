"""Operators without a layer record: TVM's own legalisation, fused, one kernel per fused group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from edgepipe.codegen.arm.intrinsics import InstructionSet
from edgepipe.codegen.arm.plan import Operand, PlanBuilder
from edgepipe.codegen.arm.tensor_ir import PrimFunc, result, schedule, te
from edgepipe.errors import FAULT, CodegenError
from edgepipe.partition.operators import Operator
from edgepipe.tvm_adapter import IRModule, ModuleBuilder

# Operators that RewriteDataflowReshape leaves: the same bytes in another shape.
_VIEWS = ("relax.reshape", "relax.memory.view")


@dataclass(frozen=True, slots=True, eq=False)
class GenericKernel:
    """A kernel that TVM made; two are equal when their TIR is."""

    function: PrimFunc

    stem = "generic"

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the kernel as TVM legalised it."""
        return self.function

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GenericKernel) and bool(
            tvm_ffi.structural_equal(self.function, other.function)
        )

    def __hash__(self) -> int:
        return hash(tvm_ffi.structural_hash(self.function))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatCopyKernel:
    """Copy bytes, for an output that is a view of an input."""

    shape: tuple[int, ...]
    dtype: str

    stem = "flat_copy"

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the kernel: (x, output)."""
        source = te.placeholder(self.shape, self.dtype, "x")
        copy = te.compute(self.shape, lambda *i: source[i], name="out")
        return result(schedule([source, copy]))


def generic_module(
    operators: Sequence[Operator],
    inputs: Mapping[str, tuple[tuple[int, ...], str]],
    outputs: Sequence[str],
    source: IRModule,
) -> IRModule:
    """Return a Relax module of ``operators`` alone; ``inputs`` maps names to shape and dtype."""
    builder = ModuleBuilder()
    for name, (shape, dtype) in inputs.items():
        builder.param(name, shape, dtype)
    for operator in operators:
        for binding in operator.bindings:
            builder.copy(binding, binding.name, {}, source)
    return builder.finish(outputs, returns_tuple=True)


def lower_generic(
    module: IRModule,
    operator: str,
    inputs: Sequence[Operand],
    outputs: Sequence[Operand | None],
    plan: PlanBuilder,
    name_kernel: Callable[[Any], str],
) -> list[Operand]:
    """Add the calls of ``module`` to ``plan``; return where its outputs lie.

    ``outputs[i]`` is where output i is to be written, or None for a temporary.
    ``name_kernel`` gives a kernel its symbol. Raises CodegenError for what TVM cannot lower.
    """
    try:
        low = _lowered(module)
    except Exception as cause:  # TVM's passes raise many kinds, down to plain ValueError
        reason = str(cause).strip().splitlines()
        raise CodegenError(
            f"{operator}: TVM cannot lower it: {reason[-1] if reason else type(cause).__name__}",
            hint=FAULT,
        ) from cause
    return _Reader(low, operator, plan, name_kernel).read(inputs, outputs)


def _lowered(module: IRModule) -> IRModule:
    """Make ``main`` a list of kernel calls on allocated tensors."""
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
        relax.transform.RewriteDataflowReshape(),
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
    ]
    return tvm.transform.Sequential(passes)(module)


class _Reader:
    """Reads the lowered ``main`` binding by binding."""

    def __init__(
        self, low: IRModule, operator: str, plan: PlanBuilder, name_kernel: Callable[[Any], str]
    ) -> None:
        self._module, self._operator, self._plan = low, operator, plan
        self._name_kernel = name_kernel
        self._values: dict[Any, Any] = {}

    def read(self, inputs: Sequence[Operand], outputs: Sequence[Operand | None]) -> list[Operand]:
        function = self._module["main"]
        for param, operand in zip(function.params, inputs, strict=True):
            self._values[param] = operand
        bindings = [b for block in function.body.blocks for b in block.bindings]
        returned = _returned(function, bindings)
        self._bind_outputs(bindings, returned, outputs)
        for binding in bindings:
            self._read(binding)
        found = []
        for var, wanted in zip(returned, outputs, strict=True):
            operand = self._value(var)
            if wanted is not None and operand.reshaped(wanted.shape) != wanted:
                kernel = FlatCopyKernel(shape=wanted.shape, dtype=wanted.dtype)
                source = operand.reshaped(wanted.shape)
                self._plan.add_call(self._operator, self._name_kernel(kernel), [source, wanted])
                operand = wanted
            found.append(operand)
        return found

    def _bind_outputs(
        self, bindings: Sequence[Any], returned: Sequence[Any], outputs: Sequence[Operand | None]
    ) -> None:
        """Let what an output is a view of be written straight into the output's buffer."""
        definitions = {b.var: b.value for b in bindings}
        self._wanted: dict[Any, Operand] = {}
        for var, wanted in zip(returned, outputs, strict=True):
            root = var
            while root in definitions and (source := _viewed(definitions[root])) is not None:
                root = source
            if wanted is not None and root in definitions and root not in self._wanted:
                self._wanted[root] = wanted

    def _read(self, binding: Any) -> None:
        var, value = binding.var, binding.value
        if isinstance(value, relax.Var):
            self._values[var] = self._value(value)
        elif isinstance(value, tvm.ir.GenericConst):
            self._values[var] = self._plan.add_constant(value.value.numpy())
        elif isinstance(value, tvm.ir.Tuple):
            self._values[var] = [self._value(f) for f in value.fields]
        elif isinstance(value, tvm.ir.TupleGetItem):
            self._values[var] = self._values[value.tuple_value][int(value.index)]
        elif isinstance(value.op, tvm.ir.GlobalVar):
            kernel = GenericKernel(self._module[value.op].without_attr("global_symbol"))
            args = [self._value(a) for a in value.args]
            self._plan.add_call(self._operator, self._name_kernel(kernel), args)
        elif value.op.name == "relax.builtin.alloc_tensor":
            shape, dtype = _tensor(var.ty)
            wanted = self._wanted.get(var)
            self._values[var] = (
                wanted.reshaped(shape) if wanted else self._plan.add_temporary(dtype, shape)
            )
        elif _viewed(value) is not None:
            shape, _ = _tensor(var.ty)
            self._values[var] = self._value(value.args[0]).reshaped(shape)
        else:
            raise CodegenError(
                f"{self._operator}: {value.op.name} has no kernel on the ARM cores", hint=FAULT
            )

    def _value(self, argument: Any) -> Any:
        if isinstance(argument, tvm.ir.GenericConst):
            return self._plan.add_constant(argument.value.numpy())
        return self._values[argument]


def _viewed(value: Any) -> Any | None:
    """Return the variable that ``value`` is a view of, if it is one."""
    if isinstance(value, relax.Var):
        return value
    is_operator = isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op)
    if is_operator and value.op.name in _VIEWS and isinstance(value.args[0], relax.Var):
        return value.args[0]
    return None


def _returned(function: Any, bindings: Sequence[Any]) -> list[Any]:
    body = function.body.body
    for binding in bindings:
        if binding.var == body and isinstance(binding.value, tvm.ir.Tuple):
            body = binding.value
    return list(body.fields) if isinstance(body, tvm.ir.Tuple) else [body]


def _tensor(ty: Any) -> tuple[tuple[int, ...], str]:
    return tuple(int(d) for d in ty.shape.values), str(ty.dtype)
