"""The adapter for TVM's tensor-expression and schedule names, which the kernels here use.

``tvm.tir`` became ``tvm.tirx`` and schedules moved to ``tvm.s_tir`` in apache-tvm 0.27; if they
move again, only this file changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import te, tirx
from tvm.s_tir import Schedule, TensorIntrin
from tvm.script import tirx as script

from edgepipe.errors import FAULT, CodegenError

# An index or value expression, a tensor, a loop or block handle: untyped on TVM's side.
Expr = Any
Tensor = Any
Loop = Any
PrimFunc = Any

_ALIGNMENT = 64  # the runtime rounds scratch memory up to multiples of this
# The fewest operations that are worth waking a core for: about 30 us on a Cortex-A53.
LEAST_SHARED = 1 << 16
# The most that an iteration of a shared loop may allocate; cpp_runtime/src/stage/kernel_library.cc
# reserves as much for each thread. A tile of sums that TVM does not put on the stack needs half.
LOOP_SCRATCH_BYTES = 4096
TABLE_ENTRIES = 256
_PIPELINE = "edgepipe"

LookUp = Callable[[Sequence[Expr], Expr, str], Expr]
"""Writes ``table[index]``: 16 vectors int8x16 of the table, the index as int8xN, and ``int8xN``."""


def schedule(arguments: list[Tensor]) -> Schedule:
    """Return a schedule of the kernel whose parameters are ``arguments``, outputs last."""
    function = te.create_prim_func(arguments).with_attr("global_symbol", "main")
    return Schedule(tvm.IRModule({"main": function}), debug_mask="none")


def result(sch: Schedule) -> PrimFunc:
    """Return the scheduled kernel."""
    return sch.mod["main"]


def find_loops(sch: Schedule, block: str) -> list[Loop]:
    """Return the loops around ``block``, outermost first."""
    return list(sch.get_loops(sch.get_sblock(block)))


def share(sch: Schedule, loops: list[Loop], operations: int) -> None:
    """Fuse neighbouring ``loops``; the cores of a stage share their iterations.

    ``operations`` is their total; if they are not worth waking a core, the loops stay unchanged.
    """
    if operations >= LEAST_SHARED:
        sch.parallel(sch.fuse(*loops))


def compile_object(
    functions: Mapping[str, PrimFunc],
    target: Mapping[str, str | tuple[str, ...]],
    path: Path,
    look_up: LookUp | None = None,
) -> int:
    """Write ``functions`` as an object file; return the most scratch memory that one requests.

    Functions are exported under TVM-FFI's names, ``__tvm_ffi_<name>``. ``look_up`` writes table
    look-ups in vector instructions of the target; without it, elements are loaded one by one.
    Raises CodegenError for a shared loop that allocates more than LOOP_SCRATCH_BYTES.
    """
    chosen = tvm.target.Target(
        {k: list(v) if isinstance(v, tuple) else v for k, v in target.items()}
    )
    meter = _ScratchMeter()
    with tvm.transform.PassContext(instruments=[meter]):
        module = tvm.IRModule(dict(functions))
        executable = tvm.compile(module, target=chosen, tir_pipeline=_pipeline(look_up))
    if meter.most_loop_bytes > LOOP_SCRATCH_BYTES:
        raise CodegenError(
            f"kernels: a loop that cores share allocates {meter.most_loop_bytes} bytes, "
            f"expected {LOOP_SCRATCH_BYTES} at most",
            hint=FAULT,
        )
    executable.mod.write_to_file(str(path), "o")
    return meter.most_bytes


def _pipeline(look_up: LookUp | None) -> str:
    """Return the name of TVM's passes, with one behind them that vectorises look-ups."""
    if look_up is None:
        return "default"

    def rewrite(load: Any) -> Any:
        index = load.indices[0]
        dtype = str(load.ty)
        is_vector = dtype in ("int8x8", "int8x16") and isinstance(index, tirx.Cast)
        if not is_vector or str(index.value.ty) != f"u{dtype}":
            return load
        if [int(extent) for extent in load.source.shape] != [TABLE_ENTRIES]:
            return load
        lanes = tirx.reinterpret(dtype, index.value)
        registers = [
            tirx.BufferLoad(load.source, [tirx.Ramp(tirx.const(first, "int32"), 1, 16)])
            for first in range(0, TABLE_ENTRIES, 16)
        ]
        return look_up(registers, lanes, dtype)

    def vectorise(function: Any, _module: Any, _context: Any) -> Any:
        return tvm_ffi.structural_map(function, (tvm.ir.TensorLoad, rewrite))

    def passes() -> Any:
        first, *finalizers = tirx.get_tir_pipeline("default")
        last = tirx.transform.prim_func_pass(vectorise, opt_level=0, name="edgepipe.look_ups")
        return tvm.transform.Sequential([first, last]), *finalizers

    tirx.register_tir_pipeline(_PIPELINE, passes)
    return _PIPELINE


@tvm.instrument.pass_instrument
class _ScratchMeter:
    """Adds up the memory that each kernel allocates for itself, once its buffers are final.

    Buffers that do not fit the stack come from the workspace functions that the runtime provides.
    Counting all of them gives an upper bound for a kernel, and for a parallel loop.
    """

    def __init__(self) -> None:
        self.most_bytes = self.most_loop_bytes = 0

    def run_after_pass(self, module: Any, info: Any) -> None:
        if str(info.name) != "tirx.StorageRewrite":
            return
        for function in module.functions.values():
            if isinstance(function, tirx.PrimFunc):
                self.most_bytes = max(self.most_bytes, _allocated_bytes(function))
                tvm_ffi.structural_walk(function, (tirx.For, self._visit_loop))

    def _visit_loop(self, loop: Any) -> None:
        if loop.kind == tirx.ForKind.PARALLEL:
            self.most_loop_bytes = max(self.most_loop_bytes, _allocated_bytes(loop))


def _allocated_bytes(code: Any) -> int:
    total = 0

    def visit(node: Any) -> None:
        nonlocal total
        elements = math.prod(int(extent) for extent in node.buffer.shape)
        item_bytes = tvm_ffi.dtype(str(node.buffer.dtype)).itemsize
        total += -(-elements * item_bytes // _ALIGNMENT) * _ALIGNMENT

    tvm_ffi.structural_walk(code, (tirx.AllocBuffer, visit))
    return total


__all__ = [
    "Expr",
    "Loop",
    "PrimFunc",
    "Schedule",
    "Tensor",
    "TensorIntrin",
    "compile_object",
    "find_loops",
    "result",
    "schedule",
    "script",
    "share",
    "te",
    "tirx",
]
