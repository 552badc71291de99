"""``network.json``: what the builder knew about the operators of a bundle's network.

Only people read it, through ``edgepipe report``: no program needs it to run the bundle.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepipe import schema
from edgepipe.boards import Board
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import Manifest
from edgepipe.errors import BundleError, EdgepipeError

FILE = "network.json"
FORMAT = 1
_MOST = 1e15  # no cost is larger
_REBUILD = "build the bundle again with this version of edgepipe"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRecord:
    """An operator: the tensors that it reads and computes, and its costs on both devices.

    ``shape`` and ``dtype`` are those of its output, which has the operator's name. ``products`` are
    those of weights with elements of its inputs, padding excluded. ``arm_ms`` is its time on one
    core, ``vta_cycles`` the tiler's estimate for the operator alone. If the VTA cannot run it,
    ``refusal`` says why and ``vta_cycles`` is 0. ``arm_refusal`` says why ARM cannot run it, "" if
    it can, as in records from before 2026-11-28.
    """

    name: str
    inputs: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    products: int
    constant_bytes: int
    depthwise: bool
    arm_ms: float
    vta_cycles: float
    refusal: str
    arm_refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRecord:
    """The operators in the network's order, and the board whose costs they were placed by."""

    format: int
    board: Board
    operators: tuple[OperatorRecord, ...]


def to_json(record: NetworkRecord) -> str:
    """Return the record's text; equal records give equal bytes."""
    return json.dumps(dataclasses.asdict(record), indent=1) + "\n"


def read(path: Path, manifest: Manifest) -> NetworkRecord:
    """Read the record of the bundle at ``path`` and check it against its manifest.

    Raises BundleError if the bundle has none, or one that is damaged, of another format, or about
    other operators than the manifest's.
    """
    entry = next((entry for entry in manifest.files if entry.path == FILE), None)
    if entry is None:
        raise BundleError(
            f"{path}: {FILE} is missing, expected the costs of its operators", hint=_REBUILD
        )
    where = f"{path}: {FILE}"
    content = storage.read_file(path, entry)
    try:
        table: Any = json.loads(content, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as cause:
        raise BundleError(f"{where} is damaged: {cause}", hint="build the bundle again") from cause
    found = table.get("format") if isinstance(table, dict) else None
    if found != FORMAT:
        raise BundleError(f"{where}: format {found}, expected {FORMAT}", hint=_REBUILD)
    try:
        record = schema.from_table(NetworkRecord, table, where, BundleError)
    except EdgepipeError as cause:  # a value that the board refuses, or a key it does not know
        raise BundleError(str(cause), hint=_REBUILD) from cause
    try:
        _check(record, manifest)
    except _ContradictionError as cause:
        raise BundleError(f"{where}: {cause}", hint="build the bundle again") from cause
    return record


class _ContradictionError(Exception):
    """A record that does not fit itself or its manifest."""


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def _check(record: NetworkRecord, manifest: Manifest) -> None:
    """Raise ``_ContradictionError`` if operators or stages could not run in their order."""
    names = [operator.name for operator in record.operators]
    placed = [placement.operator for placement in manifest.placement]
    if len({*names}) != len(names) or sorted(names) != sorted(placed):
        raise _ContradictionError(
            f"{len(names)} operators, expected the {len(placed)} operators of the manifest"
        )
    kinds = {stage.name: stage.kind for stage in manifest.stages}
    at = {name: number for number, name in enumerate(kinds)}
    stage_of = {}
    for placement in manifest.placement:
        if kinds.get(placement.stage) != placement.device:
            raise _ContradictionError(
                f"{placement.operator} is on {placement.device}, expected the device of its stage"
            )
        stage_of[placement.operator] = at[placement.stage]
    seen: set[str] = set()
    for operator in record.operators:
        for name in operator.inputs:
            is_later = name in stage_of and (
                name not in seen or stage_of[name] > stage_of[operator.name]
            )
            if is_later:
                raise _ContradictionError(
                    f"{operator.name} reads {name}, expected it to be earlier"
                )
        for value in (operator.arm_ms, operator.vta_cycles, operator.products):
            if not 0 <= value <= _MOST:
                raise _ContradictionError(
                    f"{operator.name}: a cost of {value}, expected 0 to {_MOST:.0e}"
                )
        seen.add(operator.name)
    written: set[str] = {*manifest.inputs}
    for stage in manifest.stages:
        for name in stage.inputs:
            if name not in written:
                raise _ContradictionError(
                    f"stage {stage.name} reads {name}, expected it from an earlier stage"
                )
        written.update(stage.outputs)
