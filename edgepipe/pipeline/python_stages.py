"""PythonStage: a Python function of this process, and its export to other processes.

    d = python_stage(decode, name="decode", inputs={"x": ("int8", (1, 8))}, outputs={...})

An exported pipeline names the function if importing that name gives exactly this object.
Anything else, such as a lambda, a closure, a bound method or a decorated function, is exported by
value with cloudpickle: its code and what it refers to, for the same minor version of Python.
"""

from __future__ import annotations

import importlib
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle

from edgepipe.errors import PipelineError
from edgepipe.pipeline.stage import Entry, Stage, checked_cores
from edgepipe.runtime.ports import TensorType, dense_ports

FUNCTION_FILE = "function.pickle"
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PythonStage(Stage):
    """A Python function of this process, called on the stage's own thread."""

    function: Function

    def write(self, root: Path, folder: str) -> Entry:
        """Write nothing: the function stays in this process until the pipeline is exported."""
        return {"kind": "python", "folder": folder}


def python_stage(
    function: Function,
    *,
    inputs: Mapping[str, TensorType],
    outputs: Mapping[str, TensorType],
    name: str | None = None,
    core: int | None = None,
) -> PythonStage:
    """Make a stage from a function that takes one array per input and returns one per output.

    The arrays are read-only and belong to the pipeline; later frames overwrite them, so copy what
    you keep. A result is an array, or a tuple of arrays if there are several outputs. The
    function runs on the stage's thread and needs the interpreter lock, so Python stages overlap
    only while they are in code that releases it.

    An exception of the function ends the pipeline at that frame. The RuntimeFailure names file and
    line and has the exception as its ``__cause__``. Raises PipelineError for something that cannot
    be called.
    """
    if not callable(function):
        raise PipelineError(
            f"found {function!r}, expected a function",
            hint="pass a function of the inputs that returns the outputs",
        )
    if name is None:
        name = str(getattr(function, "__name__", "function"))
    return PythonStage(
        name=name,
        inputs=dense_ports(inputs),
        outputs=dense_ports(outputs),
        cores=checked_cores(name, core),
        function=function,
    )


def export_function(stage: str, function: Function, root: Path, folder: str) -> Entry:
    """Write a function below ``root`` for another process; return its entry for pipeline.json.

    Raises PipelineError with the reason if it refers to something that cannot be copied, such as a
    lock, an open file or a running pipeline.
    """
    if name := import_name(function):
        return {"function": name}
    try:
        content = cloudpickle.dumps(function)
        cloudpickle.loads(content)
    except Exception as cause:  # any exception of the objects that it refers to
        raise PipelineError(
            f"stage {stage!r}: its function cannot be exported: {type(cause).__name__}: {cause}",
            hint="define it at module level, or let it create what it uses in its first call",
        ) from cause
    path = f"{folder}/{FUNCTION_FILE}"
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)
    return {"pickle": path, "python": PYTHON_VERSION}


def load_function(stage: str, entry: Mapping[str, Any], root: Path) -> Function:
    """Return the function of an exported stage; runs its module or pickled code.

    Raises PipelineError if there is none, if it cannot be imported, or if it was exported by
    another version of Python.
    """
    if name := entry.get("function"):
        return _imported(stage, name)
    if "pickle" not in entry:
        raise PipelineError(
            f"stage {stage!r}: its function was not exported", hint="export the pipeline again"
        )
    if entry["python"] != PYTHON_VERSION:
        raise PipelineError(
            f"stage {stage!r}: its function was exported by Python {entry['python']}, "
            f"this is Python {PYTHON_VERSION}",
            hint=f"use Python {entry['python']}, or export the pipeline again",
        )
    try:
        function: Function = cloudpickle.loads((root / entry["pickle"]).read_bytes())
    except Exception as cause:  # any exception of the modules that it imports
        raise PipelineError(
            f"stage {stage!r}: its function cannot be loaded: {type(cause).__name__}: {cause}",
            hint="install the modules that it uses, or put them on PYTHONPATH",
        ) from cause
    return function


def import_name(function: Function) -> str:
    """Return ``module:name`` if importing that gives exactly this object, else ''."""
    module, qualified = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or not qualified:
        return ""
    try:
        found = operator.attrgetter(qualified)(sys.modules[module])
    except (KeyError, AttributeError):
        return ""
    return f"{module}:{qualified}" if found is function else ""


def _imported(stage: str, name: str) -> Function:
    module, _, qualified = name.partition(":")
    try:
        function: Function = operator.attrgetter(qualified)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as cause:
        raise PipelineError(
            f"stage {stage!r}: function {name!r} cannot be imported: {cause}",
            hint="put its module on PYTHONPATH",
        ) from cause
    return function
