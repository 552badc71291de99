"""The only module that uses TVM's unstable names; everything else sees plain values.

A Relax ``main`` is read into :class:`Main` (parameters, bindings and outputs as names, numpy arrays
and tuples) and written by :class:`ModuleBuilder`. edgepipe's passes never use TVM objects, so if
TVM renames a class, only this file changes. Written against apache-tvm 0.27.0.post1.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray
from tvm import relax

from edgepipe.names import unique_name
from edgepipe.tvm_legalisation import legalise

if TYPE_CHECKING:
    IRModule: TypeAlias = Any
else:
    IRModule = tvm.IRModule
Array = NDArray[Any]

# Ctrl-C in Python code that TVM calls passes through TVM unchanged, not as a RuntimeError.
tvm_ffi.register_error(KeyboardInterrupt)


_QUIETENING = threading.RLock()


@dataclass(frozen=True, slots=True)
class Kernel:
    """An argument that names another function of the module, as in ``call_tir(kernel, ...)``."""

    name: str


# A variable's name, a constant, a scalar, a kernel, or a tuple of these (a Relax tuple or shape).
Argument = str | Array | int | float | Kernel | tuple[Any, ...]

HOST_TARGET = {"kind": "llvm", "mcpu": "x86-64-v3"}
_ATTRIBUTE_METHODS = {"get_int", "get_int_tuple", "get_str", "id_", "is_", "same_as"}


class ImporterError(Exception):
    """TVM's ONNX importer refused a model; the text is the reason in one line."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A parameter of ``main``: name, static shape, dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One variable binding of ``main``: ``name = op(*args, **attributes)``.

    ``op`` is the Relax operator without its ``relax.`` prefix; calls of other kinds are ``tuple``,
    ``tuple_get_item``, or the lower-case name of TVM's class. ``shape`` is empty and ``dtype`` is
    ``"tuple"`` or ``"dynamic"`` if the value is not a tensor of static shape. ``raw`` is TVM's
    binding with the names of its variables, for :meth:`ModuleBuilder.copy` only. ``shapes`` are
    those of the tensors that it reads, by name.
    """

    name: str
    op: str
    args: tuple[Argument, ...]
    attributes: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: str
    raw: Any
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the variables that the binding reads, in order, without duplicates."""
        return tuple(dict.fromkeys(_names(self.args)))


@dataclass(frozen=True, slots=True, eq=False)
class Main:
    """A Relax ``main`` as values; ``returns_tuple`` distinguishes ``(y,)`` from ``y``."""

    params: tuple[Tensor, ...]
    bindings: tuple[Binding, ...]
    outputs: tuple[str, ...]
    returns_tuple: bool

    def users(self) -> dict[str, tuple[str, ...]]:
        """Map every variable to the bindings that read it, in order."""
        found: dict[str, list[str]] = {p.name: [] for p in self.params}
        found |= {b.name: [] for b in self.bindings}
        for binding in self.bindings:
            for name in binding.inputs:
                found[name].append(binding.name)
        return {name: tuple(users) for name, users in found.items()}


def _names(args: Sequence[Argument]) -> list[str]:
    found: list[str] = []
    for arg in args:
        if isinstance(arg, str):
            found.append(arg)
        elif isinstance(arg, tuple):
            found.extend(_names(arg))
    return found


def is_module(value: object) -> bool:
    """Return whether a value is a module of TVM's."""
    return isinstance(value, tvm.IRModule)


def relax_functions(module: IRModule) -> tuple[str, ...]:
    """Return the names of a module's Relax functions."""
    found = ((str(name.name_hint), function) for name, function in module.functions.items())
    return tuple(name for name, function in found if isinstance(function, relax.Function))


def read_main(module: IRModule) -> Main:
    """Read ``main`` of a Relax module: its blocks in order, a returned tuple resolved."""
    function = module["main"]
    names = _unique_names(function)
    params = [Tensor(names[var], *_tensor_type(var.ty)) for var in function.params]
    bindings = [
        _read_binding(raw, names) for block in function.body.blocks for raw in block.bindings
    ]
    body = function.body.body
    last = bindings[-1] if bindings else None
    if (
        not isinstance(body, tvm.ir.Tuple)
        and last
        and last.op == "tuple"
        and last.raw[0].var == body
    ):
        body = last.raw[0].value  # `gv = (a, b)` is only the block's way to return outputs
        bindings.pop()
    is_tuple = isinstance(body, tvm.ir.Tuple)
    fields = list(body.fields) if is_tuple else [body]
    outputs = tuple(names[field] for field in fields)
    return Main(tuple(params), tuple(bindings), outputs, is_tuple)


def _unique_names(function: Any) -> dict[Any, str]:
    """Name every variable; if TVM's passes used a name twice, later ones get a number."""
    variables = list(function.params)
    variables += [raw.var for block in function.body.blocks for raw in block.bindings]
    names: dict[Any, str] = {}
    taken: set[str] = set()
    for var in variables:
        names[var] = unique_name(str(var.name), taken)
        taken.add(names[var])
    return names


def _read_binding(raw: Any, names: Mapping[Any, str]) -> Binding:
    value = raw.value
    shape, dtype = _tensor_type(value.ty)
    attributes: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    if isinstance(value, tvm.ir.Call):
        is_operator = isinstance(value.op, tvm.ir.Op)
        op = str(value.op.name).removeprefix("relax.") if is_operator else "call"
        args = tuple(_read_argument(a, names) for a in value.args)
        variables = [a for a in value.args if isinstance(a, relax.Var)]
        shapes = {names[var]: _tensor_type(var.ty)[0] for var in variables}
        if value.attrs is not None:
            attributes = {
                key: _plain(getattr(value.attrs, key))
                for key in dir(value.attrs)
                if not key.startswith("_") and key not in _ATTRIBUTE_METHODS
            }
    elif isinstance(value, tvm.ir.Tuple):
        op, args = "tuple", tuple(_read_argument(f, names) for f in value.fields)
    elif isinstance(value, tvm.ir.TupleGetItem):
        op, args = "tuple_get_item", (_read_argument(value.tuple_value, names), int(value.index))
    else:
        op = "constant" if isinstance(value, tvm.ir.GenericConst) else type(value).__name__.lower()
        args = (_read_argument(value, names),)
    return Binding(names[raw.var], op, args, attributes, shape, dtype, (raw, names), shapes)


def _read_argument(value: Any, names: Mapping[Any, str]) -> Argument:
    if isinstance(value, relax.Var):
        return names[value]
    if isinstance(value, tvm.ir.GenericConst):
        array: Array = value.value.numpy()
        return array
    if isinstance(value, tvm.ir.Tuple):
        return tuple(_read_argument(f, names) for f in value.fields)
    if isinstance(value, relax.ShapeExpr):
        return tuple(int(v) for v in value.values)
    if isinstance(value, tvm.ir.GlobalVar):
        return Kernel(str(value.name_hint))
    plain: Argument = _plain(value)
    return plain


def _plain(value: Any) -> Any:
    """Convert TVM's scalars, strings and arrays to Python's."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return value.value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "__len__") and hasattr(value, "__getitem__"):
        return tuple(_plain(v) for v in value)
    return str(value)


def _tensor_type(ty: Any) -> tuple[tuple[int, ...], str]:
    if not isinstance(ty, relax.TensorType):
        return (), "tuple"
    shape = ty.shape
    if not isinstance(shape, relax.ShapeExpr) or not all(
        isinstance(d, tvm.tirx.IntImm) for d in shape.values
    ):
        return (), "dynamic"
    return tuple(int(d) for d in ty.shape.values), str(ty.dtype)


class ModuleBuilder:
    """Write a Relax module with one dataflow block, binding by binding, under exact names.

    :meth:`emit` and :meth:`copy` only record calls. :meth:`finish` creates them, because it knows
    which variables leave the block.
    """

    def __init__(self) -> None:
        self._params: list[Tensor] = []
        self._records: list[tuple[str, tuple[Any, ...]]] = []
        self._names: set[str] = set()
        self._functions: dict[Any, Any] = {}

    def param(self, name: str, shape: Sequence[int], dtype: str) -> str:
        """Declare a parameter and return its name."""
        self._claim(name)
        self._params.append(Tensor(name, tuple(shape), dtype))
        return name

    def emit(self, name: str, op: str, *args: Any, **attributes: Any) -> str:
        """Bind ``name = op(*args)``; ``op`` is a path below ``relax.op``, e.g. ``nn.conv2d``.

        Arguments: str is a variable, a numpy array a constant, a list of these a tuple,
        anything else is passed on unchanged.
        """
        self._claim(name)
        self._records.append((name, (op, args, attributes)))
        return name

    def copy(self, binding: Binding, name: str, names: Mapping[str, str], source: IRModule) -> str:
        """Bind ``name`` to the same call as ``binding``, with variables renamed by ``names``."""
        self._claim(name)
        self._records.append((name, (binding.raw, dict(names), source)))
        return name

    def _claim(self, name: str) -> None:
        if name in self._names:
            raise ValueError(f"{name}: bound twice in one Relax module")
        self._names.add(name)

    def finish(self, outputs: Sequence[str], *, returns_tuple: bool | None = None) -> IRModule:
        """Return the module; one output is returned bare unless ``returns_tuple``."""
        builder = relax.BlockBuilder()
        variables: dict[str, Any] = {
            p.name: relax.Var(p.name, relax.TensorType(p.shape, p.dtype)) for p in self._params
        }
        params = list(variables.values())
        bindings = []
        for name, record in self._records:
            first, second, third = record
            if isinstance(first, str):
                value = _call(first, second, third, variables)
            else:
                value = self._copied(first, second, third, variables)
            value = builder.normalize(value)
            kind = relax.Var if name in outputs else relax.DataflowVar
            variables[name] = kind(name, value.ty)
            bindings.append(relax.VarBinding(variables[name], value))
        as_tuple = len(outputs) != 1 if returns_tuple is None else returns_tuple
        left = [variables[name] for name in outputs]
        body = relax.Tuple(left) if as_tuple else left[0]
        sequence = builder.normalize(relax.SeqExpr([relax.DataflowBlock(bindings)], body))
        function = relax.Function(params, sequence, sequence.ty, is_pure=True)
        function = function.with_attr("global_symbol", "main")
        return IRModule({"main": function, **self._functions})

    def _copied(
        self, raw: Any, names: Mapping[str, str], source: IRModule, variables: Mapping[str, Any]
    ) -> Any:
        binding, old = raw

        def renamed(value: Any) -> Any:
            if isinstance(value, relax.Var):
                return variables[names.get(old[value], old[value])]
            if isinstance(value, tvm.ir.Tuple):
                return relax.Tuple([renamed(f) for f in value.fields])
            if isinstance(value, tvm.ir.GlobalVar):
                self._functions[value] = source[value]
            return value

        value = binding.value
        if isinstance(value, tvm.ir.Call):
            return relax.Call(
                value.op, [renamed(a) for a in value.args], value.attrs, value.ty_args
            )
        if isinstance(value, tvm.ir.TupleGetItem):
            return relax.TupleGetItem(renamed(value.tuple_value), value.index)
        return renamed(value)


def _call(
    op: str, args: Sequence[Any], attributes: Mapping[str, Any], variables: Mapping[str, Any]
) -> Any:
    def converted(arg: Any) -> Any:
        if isinstance(arg, str):
            return variables[arg]
        if isinstance(arg, np.ndarray | np.generic):
            return relax.const(np.ascontiguousarray(arg) if arg.ndim else arg, str(arg.dtype))
        if isinstance(arg, list) and any(isinstance(a, str | np.ndarray) for a in arg):
            return relax.Tuple([converted(a) for a in arg])
        return arg

    function: Any = relax.op
    for part in op.split("."):
        function = getattr(function, part)
    return function(*[converted(a) for a in args], **attributes)


def import_onnx(model: Any, values: Sequence[str]) -> tuple[IRModule, dict[str, str]]:
    """Import an ONNX model of static shapes; return the simplified module and value -> variable.

    ``values`` are the ONNX value names to track: the model is imported with each of them as
    an output, so that the position in the returned tuple identifies the variable of a value. Values
    that turn out to be constant are not in the map. The module still returns all of them. Batch
    normalisation and similar operators are decomposed, and constants are folded.

    Raises ``ImporterError`` with TVM's reason.
    """
    from tvm.relax.frontend.onnx import from_onnx

    with _quiet():
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
    names = _unique_names(function)
    known = {
        value: names[field]
        for value, field in zip(values, fields, strict=True)
        if isinstance(field, relax.Var)
    }
    return module, known


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drop what TVM prints and warns of; its C++ code writes to the process's standard error.

    One thread at a time, because that is one for all of them.
    """
    with _QUIETENING, contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, AttributeError):  # there is none
            sys.stderr.flush()
            kept = os.dup(2)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, 2)
            with Path(os.devnull).open("wb") as nothing:
                os.dup2(nothing.fileno(), 2)
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        warnings.simplefilter("ignore")
        yield


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
                shape, dtype = _tensor_type(call.args[0].ty)
                return call if dtype == "dynamic" else relax.ShapeExpr(shape)
            compute = _ON_CONSTANTS.get(str(getattr(call.op, "name", "")))
            given = [self._constant(arg) for arg in call.args] if compute else []
            shape, dtype = _tensor_type(self.builder_.normalize(call).ty) if given else ((), "")
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
    "relax.permute_dims": lambda given, attrs: np.transpose(given[0], _plain(attrs.axes)),
    "relax.reshape": _same,
    "relax.shape_to_tensor": _same,
    "relax.squeeze": _same,
    "relax.take": lambda given, attrs: np.take(given[0], given[1], _plain(attrs.axis)),
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


class CompiledModule:
    """A Relax module compiled by stock TVM for this machine; its outputs define the bits."""

    def __init__(self, module: IRModule) -> None:
        main = read_main(module)
        self._params, self._outputs = main.params, main.outputs
        with _quiet():
            executable = tvm.compile(legalise(module), target=tvm.target.Target(HOST_TARGET))
        self._machine = relax.VirtualMachine(executable, tvm.cpu())

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run on named arrays of the parameters' exact shapes and dtypes; return named outputs."""
        arguments = []
        for param in self._params:
            array = inputs[param.name]
            if array.shape != param.shape or str(array.dtype) != param.dtype:
                raise ValueError(
                    f"{param.name}: found {array.dtype}{list(array.shape)}, "
                    f"expected {param.dtype}{list(param.shape)}"
                )
            arguments.append(tvm.runtime.tensor(np.ascontiguousarray(array)))
        result = self._machine["main"](*arguments)
        results = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        return {name: r.numpy() for name, r in zip(self._outputs, results, strict=True)}


def run_module(module: IRModule, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compile ``module`` with stock TVM, run it once on named arrays, return its named outputs.

    The arrays have the dtypes and shapes of main's parameters and outputs.
    """
    return CompiledModule(module).run(inputs)


def save_module(module: IRModule, path: Path) -> None:
    """Write a Relax module with its constants as TVM's JSON (no pickle)."""
    path.write_text(tvm.ir.save_json(module), encoding="utf-8")


def load_module(path: Path) -> IRModule:
    """Read a module written by :func:`save_module`."""
    return tvm.ir.load_json(path.read_text(encoding="utf-8"))


# The exceptions of TVM's client: its own errors are RuntimeErrors, a missing function is an
# AttributeError.
RPC_ERRORS = (RuntimeError, AttributeError, ValueError)
# Part of the message that a server sends on its own when a session reaches its time limit.
RPC_FAREWELL = b"RPCSessionTimeoutError"


def is_rpc_answer(cause: BaseException) -> bool:
    """Whether an error is the server's answer, or occurred before anything was sent.

    Any other error leaves client and server in the middle of a message.
    """
    return isinstance(cause, tvm.error.RPCError | AttributeError | ValueError)


def connect_rpc(host: str, port: int, key: str, limit_s: float) -> Any:
    """Open a session with a TVM RPC server; return TVM's ``RPCSession``."""
    from tvm import rpc  # slow to load, and needed only here

    return rpc.connect(host, port, key, session_timeout=limit_s)


def fetch_remote(function: Any, *arguments: object) -> Array:
    """Return the array of a tensor on the server, and free the tensor there.

    If the interpreter freed the tensor, it would do so over the network while holding the
    interpreter lock, and a slow or silent server would stop all threads of this process. The array
    has the tensor's dtype and shape.
    """
    library = _ffi_library()
    tensor = function(*arguments)
    array: Array = tensor.numpy()
    handle = ctypes.c_void_p(tensor.__chandle__())
    library.TVMFFIObjectIncRef(handle)
    del tensor  # no longer the last reference
    library.TVMFFIObjectDecRef(handle)  # the last reference, without the lock
    return array


@cache
def _ffi_library() -> ctypes.CDLL:
    return ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())


def close_rpc(remote: Any) -> None:
    """Close a session's connection, even if objects of the session are still referenced."""
    remote._sess["CloseRPCConnection"]()
