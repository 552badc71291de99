"""The static plan of an ARM stage: which kernel runs when, on which bytes.

plan.json (format 2):

* ``inputs``, ``outputs``: {name, dtype, shape} of the slot's buffers, in order;
* ``tensors``: the arguments of kernels, {storage, index, offset, dtype, shape}. ``storage`` is
  ``input`` or ``output`` (the index-th of those), ``constant`` (in weights.bin) or ``temporary``
  (in the stage's workspace); offset in bytes, a multiple of 64, 0 in an input or output. Tensors
  at the same place are views;
* ``weights_bytes``, ``workspace_bytes``, ``scratch_bytes`` (the most that one kernel allocates);
* ``architectures``: {name: [{kernels: file name, cpu_features}, ...]}, the best first: the runtime
  takes the first one whose features the processor has;
* ``calls``: {operator, kernel, args}, args being indices into ``tensors``, the output last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FORMAT = 2
ALIGNMENT = 64
Storage = Literal["input", "output", "constant", "temporary"]


@dataclass(frozen=True, slots=True)
class Library:
    """A library of kernels, and the processor features (as in /proc/cpuinfo) that they need."""

    file: str
    cpu_features: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """An input or output of the stage: its name, dtype and shape in memory."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as a kernel sees it: the ``index``-th of its storage, its dtype and shape."""

    storage: Storage
    index: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of the tensor in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    def reshaped(self, shape: Sequence[int]) -> Operand:
        """Return the same bytes in another shape."""
        return Operand(self.storage, self.index, self.dtype, tuple(shape))


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a kernel."""

    operator: str
    kernel: str
    args: tuple[Operand, ...]


@dataclass(slots=True)
class PlanBuilder:
    """Collects tensors and calls; :meth:`finish` places the temporaries."""

    inputs: list[Named] = field(default_factory=list)
    outputs: list[Named] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    _temporary_bytes: list[int] = field(default_factory=list)
    _constants: list[NDArray[Any]] = field(default_factory=list)
    _constant_index: dict[tuple[str, tuple[int, ...], bytes], int] = field(default_factory=dict)

    def add_input(self, name: str, dtype: str, shape: Sequence[int]) -> Operand:
        """Add an input of the stage; return its operand."""
        self.inputs.append(Named(name, dtype, tuple(shape)))
        return Operand("input", len(self.inputs) - 1, dtype, tuple(shape))

    def add_output(self, name: str, dtype: str, shape: Sequence[int]) -> Operand:
        """Add an output of the stage; return its operand."""
        self.outputs.append(Named(name, dtype, tuple(shape)))
        return Operand("output", len(self.outputs) - 1, dtype, tuple(shape))

    def add_constant(self, array: NDArray[Any]) -> Operand:
        """Return the operand of a constant; equal constants are stored once.

        ``array`` has any dtype and shape; its bytes are stored in C order.
        """
        array = np.asarray(array, order="C")
        key = (str(array.dtype), array.shape, array.tobytes())
        index = self._constant_index.setdefault(key, len(self._constants))
        if index == len(self._constants):
            self._constants.append(array)
        return Operand("constant", index, str(array.dtype), array.shape)

    def add_temporary(self, dtype: str, shape: Sequence[int]) -> Operand:
        """Add a tensor between two calls; return its operand. :meth:`finish` places it."""
        operand = Operand("temporary", len(self._temporary_bytes), dtype, tuple(shape))
        self._temporary_bytes.append(operand.bytes)
        return operand

    def add_call(self, operator: str, kernel: str, args: Sequence[Operand]) -> None:
        """Add a run of ``kernel``, after those already added; ``operator`` names it in traces."""
        self.calls.append(Call(operator, kernel, tuple(args)))

    def finish(
        self, scratch_bytes: int, architectures: Mapping[str, Sequence[Library]]
    ) -> tuple[str, bytes]:
        """Return plan.json's text and weights.bin's bytes.

        ``architectures`` maps a name to its libraries, the best first.
        """
        temporaries, workspace_bytes = self._place_temporaries()
        weights, constants = bytearray(), []
        for constant in self._constants:
            weights += bytes(-len(weights) % ALIGNMENT)
            constants.append(len(weights))
            weights += constant.tobytes()
        offsets = {"constant": constants, "temporary": temporaries}
        tensors = {operand: i for i, operand in enumerate(self._operands())}
        plan = {
            "format": FORMAT,
            "inputs": [_described(t) for t in self.inputs],
            "outputs": [_described(t) for t in self.outputs],
            "weights_bytes": len(weights),
            "workspace_bytes": workspace_bytes,
            "scratch_bytes": scratch_bytes,
            "architectures": {
                name: [
                    {"kernels": library.file, "cpu_features": list(library.cpu_features)}
                    for library in libraries
                ]
                for name, libraries in architectures.items()
            },
            "tensors": [
                {
                    "storage": t.storage,
                    "index": 0 if t.storage in offsets else t.index,
                    "offset": offsets[t.storage][t.index] if t.storage in offsets else 0,
                    "dtype": t.dtype,
                    "shape": list(t.shape),
                }
                for t in tensors
            ],
            "calls": [
                {
                    "operator": call.operator,
                    "kernel": call.kernel,
                    "args": [tensors[a] for a in call.args],
                }
                for call in self.calls
            ],
        }
        return _text(plan), bytes(weights)

    def _operands(self) -> list[Operand]:
        return list(dict.fromkeys(a for call in self.calls for a in call.args))

    def _place_temporaries(self) -> tuple[list[int], int]:
        """Place every temporary, the largest first, in the lowest gap free over its lifetime."""
        lives: dict[int, tuple[int, int]] = {}
        for moment, call in enumerate(self.calls):
            for operand in call.args:
                if operand.storage == "temporary":
                    first, _ = lives.get(operand.index, (moment, moment))
                    lives[operand.index] = (first, moment)
        offsets = [0] * len(self._temporary_bytes)
        placed: list[tuple[int, int, int]] = []  # temporary, start, end
        for index in sorted(lives, key=lambda i: (-self._temporary_bytes[i], i)):
            needed = -(-self._temporary_bytes[index] // ALIGNMENT) * ALIGNMENT
            first, last = lives[index]
            start = 0
            for other, low, high in sorted(placed, key=lambda p: p[1]):
                is_alive = lives[other][0] <= last and first <= lives[other][1]
                if is_alive and low < start + needed and start < high:
                    start = high
            offsets[index] = start
            placed.append((index, start, start + needed))
        return offsets, max((end for _, _, end in placed), default=0)


def _described(tensor: Named) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape)}


def _text(plan: Mapping[str, Any]) -> str:
    """Write one line per tensor and call, which is readable and keeps differences small."""
    lines = []
    for key, value in plan.items():
        if isinstance(value, list) and value:
            items = ",\n".join(f"    {json.dumps(item)}" for item in value)
            lines.append(f'  "{key}": [\n{items}\n  ]')
        else:
            lines.append(f'  "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"
