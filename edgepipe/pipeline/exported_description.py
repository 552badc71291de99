"""Check ``pipeline.json`` before anything of its folder is read or run.

    table = exported_description.parse((root / "pipeline.json").read_bytes(), str(root))

docs/reference/pipeline-json.md lists the keys; ``pipeline_description.cc`` reads the same file for
programs in C++.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from edgepipe import schema
from edgepipe.bundle.manifest import FOLDS, is_in_blocks
from edgepipe.errors import EdgepipeError, PipelineError
from edgepipe.integers import core_number, whole_number
from edgepipe.pipeline.stage import check_name
from edgepipe.rpc.link import RpcServer
from edgepipe.runtime.ports import Port, dense_port

_T = TypeVar("_T")

FORMAT = 4
DESCRIPTION_FILE = "pipeline.json"
_FUNCTION = re.compile(r"\w+(\.\w+)*:\w+(\.\w+)*")  # a relative module would need a package
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Control characters, and halves of surrogate pairs, which are not Unicode text.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_MOST_PORT = 65535  # of TCP


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pipeline:
    """The keys of the whole description, without ``stages`` and ``parameter_groups``."""

    format: int
    name: str
    tensors: tuple[Port, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    files: tuple[_File, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """The keys that every stage has; each kind has its own besides."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    input_names: tuple[str, ...]
    outputs: tuple[str, ...]
    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tvm:
    """A ``tvm`` stage, without ``build``, which is a note for people."""

    folder: str
    device_kind: str
    device_index: int
    order: tuple[str, ...]
    parameters: tuple[_Parameter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arm:
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bundle:
    bundle: str
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    library: str
    symbol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Python:
    """A ``python`` stage; before the export its function is only in this process."""

    folder: str
    function: str = ""
    pickle: str = ""
    python: str = ""


_REMOTE_KINDS: dict[str, type] = {
    "tvm": _Tvm,
    "arm": _Arm,
    "bundle": _Bundle,
}  # kinds that can run on a server
_KINDS = _REMOTE_KINDS | {"library": _Library, "python": _Python}
_LAYOUTS = ("nchw", "nhwc", *FOLDS)
_PATHS = ("folder", "bundle", "library", "pickle")


def parse(text: str | bytes, where: str) -> dict[str, Any]:
    """Return the table in ``text``, of which every key that Python reads has been checked.

    ``where`` names the exported folder in messages. Files are not opened. Raises PipelineError for
    text that is not JSON, another format, a key that is unknown, missing or of the wrong type, a
    tensor that does not exist, and a path that leaves the folder.
    """
    try:
        table: Any = json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise PipelineError(
            f"{where}/{DESCRIPTION_FILE}: is damaged: {cause}", hint="export the pipeline again"
        ) from cause
    found = table.get("format") if isinstance(table, dict) else None
    if found != FORMAT:
        raise PipelineError(
            f"{where}: format {found!r}, this edgepipe reads format {FORMAT}",
            hint="export the pipeline again with this edgepipe",
        )
    try:
        _check(table)
    except EdgepipeError as cause:
        raise PipelineError(
            f"{where}/{DESCRIPTION_FILE}: {cause}", hint="export the pipeline again"
        ) from cause
    checked: dict[str, Any] = table
    return checked


def _check(table: dict[str, Any]) -> None:
    whole = _from_table(_Pipeline, table, "description", but=("stages", "parameter_groups"))
    for file in whole.files:
        _inner_path("files: path", file.path)
        if not _SHA256.fullmatch(file.sha256):
            raise PipelineError(
                f"files: {file.path!r}: sha256 is {file.sha256!r}, expected 64 hex digits"
            )
    for tensor in whole.tensors:
        _check_tensor(tensor)
    tensors = {tensor.name for tensor in whole.tensors}
    if len(tensors) < len(whole.tensors):
        raise PipelineError("tensors: two have the same name")
    _check_known("inputs", whole.inputs, tensors)
    _check_known("outputs", whole.outputs, tensors)
    entries = table.get("stages")
    if not isinstance(entries, list):
        raise PipelineError("stages: expected an array")
    stages = [_check_stage(f"stages[{i}]", entry, tensors) for i, entry in enumerate(entries)]
    if len(set(stages)) < len(stages):
        raise PipelineError("stages: two have the same name")
    groups = table.get("parameter_groups")
    if not isinstance(groups, dict):
        raise PipelineError("parameter_groups: expected a table")
    for name, stage in groups.items():
        if stage not in stages:
            raise PipelineError(f"parameter_groups: {name!r}: {stage!r} is not in stages")


def _from_table(cls: type[_T], table: dict[str, Any], what: str, but: Collection[str]) -> _T:
    rest = {key: value for key, value in table.items() if key not in but}
    return schema.from_table(cls, rest, what, PipelineError)


def _check_stage(what: str, entry: object, tensors: Container[str]) -> str:
    """Check a stage's entry and return the stage's name."""
    if not isinstance(entry, dict):
        raise PipelineError(f"{what}: expected a table")
    common = {field.name for field in fields(_Stage)}
    stage = _from_table(_Stage, entry, what, but=entry.keys() - common)
    own = {key: value for key, value in entry.items() if key not in common}
    check_name("stage", stage.name)
    _check_known(f"{what}: inputs", stage.inputs, tensors)
    _check_known(f"{what}: outputs", stage.outputs, tensors)
    if len(stage.inputs) != len(stage.input_names):
        raise PipelineError(
            f"{what}: {len(stage.input_names)} input_names for {len(stage.inputs)} inputs"
        )
    for core in stage.cores:
        core_number(f"{what}: a core", core)
    if stage.kind == "remote":
        _check_remote(what, own)
    else:
        _check_kind(what, stage.kind, own, _KINDS)
    return stage.name


def _check_remote(what: str, own: dict[str, Any]) -> None:
    stage, server = own.pop("stage", None), own.pop("server", None)
    if own:
        raise PipelineError(f"{what}: unknown key {min(own)!r}")
    found = schema.from_table(RpcServer, server, f"{what}: server", PipelineError)
    whole_number(f"{what}: server: port", found.port, at_least=0, at_most=_MOST_PORT)
    if not (math.isfinite(found.timeout_s) and found.timeout_s > 0):
        raise PipelineError(
            f"{what}: server: timeout_s is {found.timeout_s}, expected more than 0 seconds"
        )
    if not isinstance(stage, dict) or not isinstance(stage.get("kind"), str):
        raise PipelineError(f"{what}: stage: expected a stage's table with its kind")
    kind = stage["kind"]
    own = {key: value for key, value in stage.items() if key != "kind"}
    _check_kind(f"{what}: stage", kind, own, _REMOTE_KINDS)


def _check_kind(what: str, kind: str, own: dict[str, Any], kinds: Mapping[str, type]) -> None:
    """Check the keys that a stage has because of its kind."""
    if kind not in kinds:
        raise PipelineError(f"{what}: kind is {kind!r}, expected one of {', '.join(kinds)}")
    found: object = _from_table(kinds[kind], own, what, but=("build",) if kind == "tvm" else ())
    for key in _PATHS:
        if path := own.get(key):
            _inner_path(f"{what}: {key}", path)
        elif key in own:
            raise PipelineError(f"{what}: {key} is empty, expected a path inside the folder")
    if isinstance(found, _Tvm):
        for parameter in found.parameters:
            dense_port(parameter.name, parameter.dtype, parameter.shape)
        if found.device_index < 0:
            raise PipelineError(f"{what}: device_index is {found.device_index}, expected 0 or more")
    if isinstance(found, _Python) and found.function and not _FUNCTION.fullmatch(found.function):
        raise PipelineError(f"{what}: function is {found.function!r}, expected module:name")
    if isinstance(found, _Python) and bool(found.pickle) != bool(found.python):
        raise PipelineError(f"{what}: expected pickle and python, or neither")


def _check_tensor(tensor: Port) -> None:
    dense = dense_port(tensor.name, tensor.dtype, tensor.shape)
    if tensor.dtype != dense.dtype:  # NumPy takes many, even the character whose code is its number
        raise PipelineError(
            f"tensor {tensor.name!r}: found dtype {tensor.dtype!r}, "
            f"expected its usual name {dense.dtype}"
        )
    if tensor.layout not in _LAYOUTS:
        raise PipelineError(
            f"tensor {tensor.name!r}: layout is {tensor.layout!r}, "
            f"expected one of {', '.join(_LAYOUTS)}"
        )
    # In the VTA's layout, channels are padded to whole blocks, whose size is the accelerator's.
    if tensor.bytes != dense.bytes and not (
        is_in_blocks(tensor.layout) and tensor.bytes > dense.bytes
    ):
        raise PipelineError(
            f"tensor {tensor.name!r}: {tensor.bytes} bytes for {tensor.type_text}, "
            f"expected {dense.bytes}"
        )


def _check_known(what: str, names: Collection[str], tensors: Container[str]) -> None:
    for name in names:
        if name not in tensors:
            raise PipelineError(f"{what}: {name!r} is not in tensors")


def _inner_path(what: str, path: str) -> None:
    """Raise PipelineError for control characters and for a path that leaves the folder."""
    if {"", ".", ".."} & {*path.split("/")} or _UNPRINTABLE.search(path):
        raise PipelineError(f"{what}: {path!r} is not a path inside the folder")
