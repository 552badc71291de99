"""Ranges of operators that are measured as one piece, known by their content.

The key of a range is a digest of all that its time depends on: its operators with their shapes, the
device with its cores, and the board. The values of weights do not count, because no kernel and no
program is faster for some of them, so another training or calibration hardly changes keys. For the
VTA it counts whether all values of a constant are equal: its shifts are then immediates.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe import __version__
from edgepipe.boards import Board
from edgepipe.bundle.manifest import vta_layout
from edgepipe.partition.operator import Operator

FORMAT = 1

_EXACT = (-1, 0, 1)  # told apart: programs omit sums of 0 and products with 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRange:
    """Operators that run on a device as one stage, an ARM stage on ``threads`` cores.

    ``layouts`` are those of the tensors that it reads from elsewhere and passes on, as in a
    bundle's manifest.
    """

    device: str
    threads: int
    operators: tuple[Operator, ...]
    layouts: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the operators."""
        return tuple(operator.name for operator in self.operators)

    def key(self, board: Board) -> str:
        """Return the digest of the range's content on ``board``, 64 hexadecimal digits."""
        numbers: dict[str, int] = {}
        on_vta = self.device == "vta"
        calls = [
            [
                binding.op,
                _plain(binding.args, numbers, on_vta),
                _attribute(binding.attributes),
                list(binding.shape),
                binding.dtype,
                numbers.setdefault(binding.name, len(numbers)),
            ]
            for operator in self.operators
            for binding in operator.bindings
        ]
        ends = sorted((numbers.get(name, -1), text) for name, text in self.layouts.items())
        content = {
            "format": FORMAT,
            "version": __version__,
            "device": self.device,
            "threads": self.threads,
            "board": _board(board, self.device),
            "calls": calls,
            "ends": ends,
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def single_ranges(
    operators: Sequence[Operator], runs_on: Callable[[Operator, str], bool], frame: str
) -> list[OperatorRange]:
    """Return every operator as a range of its own, for each device that can run it.

    ``operators`` are those of a whole network, and ``runs_on`` says whether a device can run one.
    ``frame`` is the network's input. Operators that read or make a tuple are left out, because
    these cannot leave a stage. Beside an operator that the VTA can run, tensors have its layout.
    """
    types = {o.output: (o.bindings[-1].shape, o.bindings[-1].dtype) for o in operators}
    users: dict[str, list[str]] = {}
    on_vta = {operator.name for operator in operators if runs_on(operator, "vta")}
    folds = {
        operator.inputs[0]: operator.folds
        for operator in operators
        if operator.folds > 1 and operator.name in on_vta
    }
    for operator in operators:
        for name in (*operator.inputs, operator.output):
            users.setdefault(name, []).append(operator.name)

    def layout(name: str, operator: Operator, device: str) -> str:
        if name == frame:
            return "nhwc"
        shape, dtype = types[name]
        beside = any(each in on_vta for each in users[name] if each != operator.name)
        is_picture = len(shape) == 4 and dtype == "int8"
        if device == "vta" or (beside and is_picture):
            return vta_layout(folds.get(name, 1))
        return "nchw"

    found = []
    for operator in operators:
        ends = (*operator.inputs, operator.output)
        if any(types[name][1] == "tuple" for name in ends if name in types):
            continue
        found += [
            OperatorRange(
                device=device,
                threads=1,
                operators=(operator,),
                layouts={name: layout(name, operator, device) for name in ends},
            )
            for device in ("arm", "vta")
            if (operator.name in on_vta if device == "vta" else runs_on(operator, device))
        ]
    return found


def _board(board: Board, device: str) -> dict[str, Any]:
    """Return what the code of a device depends on; programs are tiled by the board's costs."""
    if device == "vta":
        return {
            "name": board.name,
            "accelerator": dataclasses.asdict(board.accelerator),
            "timing": dataclasses.asdict(board.timing),
        }
    accelerator = board.accelerator
    return {
        "name": board.name,
        "architecture": board.architecture,
        "cpu": board.cpu,
        "block": [accelerator.batch, accelerator.block_in],
    }


def _plain(value: Any, numbers: dict[str, int], on_vta: bool) -> Any:
    """Return an argument of a call as JSON has it; tensors have numbers in place of their names."""
    if isinstance(value, str):
        return {"tensor": numbers.setdefault(value, len(numbers))}
    if isinstance(value, np.ndarray):
        kind = _kind(value) if on_vta else "values"
        return {"constant": [str(value.dtype), list(value.shape), kind]}
    if isinstance(value, tuple):
        return [_plain(each, numbers, on_vta) for each in value]
    return _attribute(value)


def _attribute(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_attribute(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _attribute(each) for name, each in value.items()}
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


def _kind(values: NDArray[Any]) -> str:
    """Return how values can matter: whether they are all equal, and then -1, 0, 1 or their sign."""
    if not values.size or (values != values.flat[0]).any():
        return "values"
    value = values.flat[0]
    if value in _EXACT:
        return str(int(value))
    return "positive" if value > 0 else "negative"
