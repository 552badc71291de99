"""What the rest of edgepipe sees of TVM: plain values, and none of its unstable names.

A Relax ``main`` is read into :class:`Main` (parameters, bindings and outputs as names, numpy arrays
and tuples) and written by :class:`ModuleBuilder`. edgepipe's passes never use TVM objects, so if
TVM renames a class, only this file and its neighbours ``tvm_*.py`` change. Written against
apache-tvm 0.27.0.post1.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import math
import os
import secrets
import socket
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
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

# LLVM's level 3 gives code that is no faster here, and takes up to half as long again.
HOST_TARGET: Mapping[str, str | int] = {"kind": "llvm", "mcpu": "x86-64-v3", "opt-level": 2}
# With fewer multiplications in all of a module's runs, optimising it takes longer than it saves.
# NanoDet-g at 416x416, which has 2,200 million, takes 6.5 s without it and 7.3 s with it;
# MobileNetV2, 330 million, 3.1 s and 5.8 s (2026-11, one core of an AMD EPYC).
_WORTH_OPTIMISING = 2_000_000_000
_ATTRIBUTE_METHODS = {"get_int", "get_int_tuple", "get_str", "id_", "is_", "same_as"}


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

    @property
    def multiplications(self) -> int:
        """Those for one element of the result, or 1 for an operator that does something else."""
        weights = next((a for a in self.args if isinstance(a, np.ndarray) and a.ndim > 1), None)
        if self.op == "matmul":
            second = self.args[1]
            shape = second.shape if isinstance(second, np.ndarray) else self.shapes[str(second)]
            return shape[-2 if len(shape) > 1 else -1]
        if self.op == "nn.conv2d" and weights is not None:
            return math.prod(weights.shape[1:])
        return 1


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
    names = variable_names(function)
    params = [Tensor(names[var], *tensor_type(var.ty)) for var in function.params]
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


def variable_names(function: Any) -> dict[Any, str]:
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
    shape, dtype = tensor_type(value.ty)
    attributes: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    if isinstance(value, tvm.ir.Call):
        is_operator = isinstance(value.op, tvm.ir.Op)
        op = str(value.op.name).removeprefix("relax.") if is_operator else "call"
        args = tuple(_read_argument(a, names) for a in value.args)
        variables = [a for a in value.args if isinstance(a, relax.Var)]
        shapes = {names[var]: tensor_type(var.ty)[0] for var in variables}
        if value.attrs is not None:
            attributes = {
                key: plain_value(getattr(value.attrs, key))
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
    plain: Argument = plain_value(value)
    return plain


def plain_value(value: Any) -> Any:
    """Convert TVM's scalars, strings and arrays to Python's."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return value.value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "__len__") and hasattr(value, "__getitem__"):
        return tuple(plain_value(v) for v in value)
    return str(value)


def tensor_type(ty: Any) -> tuple[tuple[int, ...], str]:
    """Return the shape and dtype of a type, ((), "tuple") or ((), "dynamic") for others."""
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


@contextlib.contextmanager
def quiet() -> Iterator[None]:
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


class CompiledModule:
    """A Relax module compiled by stock TVM for this machine; its outputs define the bits.

    ``runs`` is how often it will run, if that is seldom: then little work is not optimised.
    """

    def __init__(self, module: IRModule, runs: int | None = None) -> None:
        main = read_main(module)
        self._params, self._outputs = main.params, main.outputs
        target = dict(HOST_TARGET)
        work = sum(math.prod(b.shape) * b.multiplications for b in main.bindings)
        if runs is not None and runs * work < _WORTH_OPTIMISING:
            target["opt-level"] = 0
        # Without the checks of arguments in each function, most of the code of a small one: `run`
        # checks those of main, and Relax has derived the others from them.
        unchecked = tvm.transform.PassContext(config={"tirx.disable_assert": True})
        with quiet(), unchecked:
            executable = tvm.compile(legalise(module), target=tvm.target.Target(target))
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
    return CompiledModule(module, runs=1).run(inputs)


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


def serve_rpc_tracker(listener: socket.socket) -> None:
    """Run TVM's RPC tracker on a listening socket, in this thread, and do not return."""
    import asyncio

    from tvm.rpc.tracker import TrackerServerHandler

    asyncio.set_event_loop(asyncio.new_event_loop())
    TrackerServerHandler(listener, secrets.token_hex()).run()  # nobody knows the key that stops it


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
