"""Kernels that call a user's functions in C, and the files that define these.

A function gets the shapes of all arrays, then a pointer to each: first the tensors that its
operators read, then their constants in the order of the calls, and last the result. All are in C
order.

    int32_t add(const int64_t (*shapes)[4], const int8_t *x, const int32_t *constant, int8_t *made);
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.codegen.arm.intrinsics import InstructionSet
from edgepipe.codegen.arm.tensor_ir import PrimFunc, result, schedule, te, tirx
from edgepipe.errors import CodegenError
from edgepipe.partition.operator import Operator

_FLAGS = ("-c", "-O2", "-fPIC", "-fno-ident", "-fwrapv", "-ffp-contract=off", "-std=c11")

Typed = tuple[tuple[int, ...], str]
"""The shape and the dtype of an array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKernel:
    """A call of ``function`` with arrays of these types; ``made`` is that of the result."""

    function: str
    read: tuple[Typed, ...]
    made: Typed

    stem = "foreign"

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the kernel: (arrays, result)."""
        arrays = [
            te.placeholder(shape, dtype, name=f"x{number}")
            for number, (shape, dtype) in enumerate(self.read)
        ]

        def call(read: Sequence[Any], made: Sequence[Any]) -> Any:
            pointers = [*(buffer.access_ptr("r") for buffer in read), made[0].access_ptr("w")]
            return tirx.call_extern("int32", self.function, *pointers)

        shape, dtype = self.made
        made = te.extern([shape], arrays, call, name="made", dtype=[dtype])
        return result(schedule([*arrays, made]))


def shapes(arrays: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    """Return int64[arrays, 4], ones in front; what is beyond four extents is in the first."""
    rows = []
    for shape in arrays:
        first, last = shape[:-3], shape[-3:]
        rows.append([math.prod(first), *(1 for _ in range(3 - len(last))), *last])
    return np.array(rows, np.int64)


def constants(operators: Sequence[Operator]) -> list[NDArray[Any]]:
    """Return the constants of operators, each of any dtype and shape, in the order of the calls."""
    return [
        argument
        for operator in operators
        for binding in operator.bindings
        for argument in binding.args
        if isinstance(argument, np.ndarray)
    ]


def inputs(operators: Sequence[Operator]) -> tuple[str, ...]:
    """Return the tensors that a chain of operators reads from elsewhere, each once."""
    made = {operator.output for operator in operators}
    reads = (name for operator in operators for name in operator.inputs if name not in made)
    return tuple(dict.fromkeys(reads))


def compile_sources(sources: Sequence[Path], compiler: str, folder: Path) -> list[Path]:
    """Compile C files into ``folder`` and return the objects.

    Raises CodegenError with the compiler's first error.
    """
    objects = []
    for number, source in enumerate(sources):
        # The same name everywhere, so that the same files give the same bytes.
        copied, made = folder / f"foreign{number}.c", folder / f"foreign{number}.o"
        copied.write_bytes(source.read_bytes())
        command = [compiler, *_FLAGS, f"-I{source.parent.resolve()}", "-o", made.name, copied.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            error = next((line for line in lines if "error" in line), (lines or ["no message"])[0])
            words = error.replace(copied.name, source.name)
            raise CodegenError(
                f"{source}: {Path(compiler).name} refuses it: {words}",
                hint="correct the C file of the code generator",
            )
        objects.append(made)
    return objects
