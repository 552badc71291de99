"""The kinds of stages that a pipeline is made of, as values; each writes its files when built.

    a = relax_stage(module, name="body", target="llvm")  # a Relax module on any target of TVM
    b = arm_stage(integer_module, name="stem")  # integer Relax, by the ARM code generator
    c = bundle_stage("nanodet.edgepipe", "1_vta")  # a compiled ARM or VTA stage
    d = python_stage(decode, name="decode", inputs={"x": ("int8", (1, 8))}, outputs={...})
    e = library_stage("libfilter.so", "filter", name="filter", inputs={...}, outputs={...})

A stage is itself in one place of one pipeline: two with the same content are two stages.
"""

from __future__ import annotations

import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.bundle import storage
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.errors import PipelineError
from edgepipe.names import suggest
from edgepipe.runtime.ports import (
    Port,
    TensorType,
    check_parameters,
    dense_port,
    dense_ports,
)
from edgepipe.tvm_adapter import IRModule, read_main
from edgepipe.tvm_executable import ExecutableError, Target, export_executable

Array = NDArray[Any]
Entry = dict[str, Any]  # what pipeline.json says about one stage besides name, tensors and cores

HOST_ARCHITECTURES = ("x86_64", "aarch64")
MOST_CORE = 1023  # cpu_set_t has no more
LIBRARY_FILE = "module.so"
PARAMETERS_FILE = "parameters.bin"  # one array after the other, in C order


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage(ABC):
    """What all kinds have: a name, ports, and a core for each of its threads (none: any core)."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    cores: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_name("stage", self.name)
        for core in self.cores:
            if not 0 <= core <= MOST_CORE:
                raise PipelineError(
                    f"stage {self.name!r}: core is {core}, expected 0 to {MOST_CORE}",
                    hint="leave core out to let the thread run on any",
                )
            if self.cores.count(core) > 1:
                raise PipelineError(
                    f"stage {self.name!r}: has two threads on core {core}",
                    hint="name each core once",
                )
        for role, ports in (("input", self.inputs), ("output", self.outputs)):
            names = [port.name for port in ports]
            if twice := next((n for n in names if names.count(n) > 1), None):
                raise PipelineError(f"stage {self.name!r}: has two {role}s called {twice!r}")

    @abstractmethod
    def write(self, root: Path, folder: str) -> Entry:
        """Write the stage's files below ``root``, its own into ``folder``; return its entry."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RelaxStage(Stage):
    """A Relax module, compiled by stock TVM and run by its virtual machine.

    On the CPU of this process the C++ side calls that, on other devices Python does.
    """

    module: IRModule
    target: Target
    device_kind: str
    device_index: int
    order: tuple[str, ...]  # the names of main's parameters
    parameters: Mapping[str, Array] = field(default_factory=dict)

    def write(self, root: Path, folder: str) -> Entry:
        """Compile the module; raise PipelineError with TVM's reason."""
        try:
            export_executable(self.module, self.target, root / folder / LIBRARY_FILE)
        except ExecutableError as cause:
            raise PipelineError(
                f"stage {self.name!r}: cannot be compiled for {self.target!r}: {cause}"
            ) from cause
        content = b"".join(array.tobytes() for array in self.parameters.values())
        (root / folder / PARAMETERS_FILE).write_bytes(content)
        return {
            "kind": "tvm",
            "folder": folder,
            "device_kind": self.device_kind,
            "device_index": self.device_index,
            "order": list(self.order),
            "parameters": [
                {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
                for name, array in self.parameters.items()
            ],
        }


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ArmStage(Stage):
    """Integer Relax as kernels of the ARM code generator, run by the C++ ArmStage."""

    module: IRModule
    architectures: tuple[str, ...]

    def write(self, root: Path, folder: str) -> Entry:
        """Compile the module; raises CodegenError."""
        compile_arm_stage(self.module, arches=self.architectures).write(root / folder)
        return {"kind": "arm", "folder": folder}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BundleStage(Stage):
    """A compiled ARM or VTA stage of a bundle, which goes along whole, with its digests."""

    bundle: Path
    stage: str

    def write(self, root: Path, folder: str) -> Entry:
        """Copy the bundle, unless another stage of it has done so."""
        manifest = storage.read_manifest(self.bundle)
        digest = storage.digest(repr(manifest).encode())[:8]
        relative = f"bundles/{digest}-{self.bundle.name}"
        copied = root / relative
        if not copied.exists():
            copied.parent.mkdir(exist_ok=True)
            if self.bundle.is_dir():
                shutil.copytree(self.bundle, copied)
            else:
                shutil.copyfile(self.bundle, copied)
        return {"kind": "bundle", "bundle": relative, "stage": self.stage}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PythonStage(Stage):
    """A Python function of this process, called on the stage's own thread."""

    function: Callable[..., Any]

    def write(self, root: Path, folder: str) -> Entry:
        """Note where the function can be imported from; empty when it cannot."""
        return {"kind": "python", "function": import_name(self.function)}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LibraryStage(Stage):
    """A C or C++ function of a shared library, of the type in ``edgepipe/stage_function.h``."""

    library: Path
    symbol: str

    def write(self, root: Path, folder: str) -> Entry:
        """Copy the library; raise PipelineError when it is not there."""
        try:
            shutil.copyfile(self.library, root / folder / self.library.name)
        except OSError as cause:
            raise PipelineError(
                f"stage {self.name!r}: library {self.library} cannot be read ({cause.strerror})"
            ) from cause
        return {
            "kind": "library",
            "library": f"{folder}/{self.library.name}",
            "symbol": self.symbol,
        }


def relax_stage(
    module: IRModule,
    *,
    name: str,
    target: Target = "llvm",
    device: tuple[str, int] = ("cpu", 0),
    parameters: Mapping[str, Array] | None = None,
    core: int | None = None,
) -> RelaxStage:
    """Make a stage of ``main`` of a Relax module of static shapes.

    ``parameters`` gives arrays for some of main's parameters: these are no inputs of the stage, and
    can be replaced at run time when the pipeline has a parameter group for it. ``device`` is TVM's
    kind and index. Raises PipelineError for an unknown parameter or one of another type.
    """
    main = read_main(module)
    bindings = {b.name: (b.dtype, b.shape) for b in main.bindings}
    bindings |= {p.name: (p.dtype, p.shape) for p in main.params}
    ports = {p.name: dense_port(p.name, p.dtype, p.shape) for p in main.params}
    given = {key: np.array(array) for key, array in (parameters or {}).items()}
    check_parameters(f"stage {name!r}", given, ports)
    return RelaxStage(
        name=name,
        inputs=tuple(port for port in ports.values() if port.name not in given),
        outputs=dense_ports({output: bindings[output] for output in main.outputs}),
        cores=as_cores(core),
        module=module,
        target=target,
        device_kind=device[0],
        device_index=device[1],
        order=tuple(ports),
        parameters=given,
    )


def arm_stage(
    module: IRModule,
    *,
    name: str,
    architectures: tuple[str, ...] = HOST_ARCHITECTURES,
    core: int | Sequence[int] | None = None,
) -> ArmStage:
    """Make a stage of integer Relax; its tensors are in C order.

    With several cores it has a thread on each, and its kernels share their loops.
    """
    main = read_main(module)
    bindings = {b.name: (b.dtype, b.shape) for b in main.bindings}
    return ArmStage(
        name=name,
        inputs=tuple(dense_port(p.name, p.dtype, p.shape) for p in main.params),
        outputs=dense_ports({output: bindings[output] for output in main.outputs}),
        cores=as_cores(core),
        module=module,
        architectures=architectures,
    )


def bundle_stage(
    bundle: str | Path,
    stage: str,
    *,
    name: str | None = None,
    core: int | Sequence[int] | None = None,
) -> BundleStage:
    """Make a stage of one stage of a bundle, by its name there.

    An ARM stage can have several cores, as in :func:`arm_stage`. Raises BundleError for a damaged
    bundle, PipelineError that lists the stages for another name.
    """
    path = Path(bundle)
    manifest = storage.read_manifest(path)
    entry = next((entry for entry in manifest.stages if entry.name == stage), None)
    if entry is None:
        raise PipelineError(
            f"bundle {path}: has no stage {stage!r}",
            hint=suggest(stage, [known.name for known in manifest.stages]),
        )

    def port(tensor_name: str) -> Port:
        found = manifest.tensor(tensor_name)
        return Port(
            name=found.name,
            dtype=found.dtype,
            shape=found.shape,
            layout=found.layout,
            bytes=found.bytes,
        )

    return BundleStage(
        name=name or stage,
        inputs=tuple(port(tensor) for tensor in entry.inputs),
        outputs=tuple(port(tensor) for tensor in entry.outputs),
        cores=as_cores(core),
        bundle=path,
        stage=stage,
    )


def python_stage(
    function: Callable[..., Any],
    *,
    inputs: Mapping[str, TensorType],
    outputs: Mapping[str, TensorType],
    name: str | None = None,
    core: int | None = None,
) -> PythonStage:
    """Make a stage of a function that takes one array per input and returns one per output.

    The arrays are read-only and the pipeline's own memory, which later frames overwrite: copy what
    is to be kept. A result is an array, or a tuple of arrays where there are several outputs. The
    function runs on the stage's thread and needs the interpreter lock, so Python stages overlap
    only while they are in code that releases it.
    """
    return PythonStage(
        name=name or str(getattr(function, "__name__", "function")),
        inputs=dense_ports(inputs),
        outputs=dense_ports(outputs),
        cores=as_cores(core),
        function=function,
    )


def library_stage(
    library: str | Path,
    symbol: str,
    *,
    inputs: Mapping[str, TensorType],
    outputs: Mapping[str, TensorType],
    name: str | None = None,
    core: int | None = None,
) -> LibraryStage:
    """Make a stage of the EpStageFunction ``symbol`` of a shared library, e.g. plain C++."""
    return LibraryStage(
        name=name or symbol,
        inputs=dense_ports(inputs),
        outputs=dense_ports(outputs),
        cores=as_cores(core),
        library=Path(library),
        symbol=symbol,
    )


def as_cores(core: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return the cores that a stage was given as one, as several or not at all."""
    if core is None:
        return ()
    return (core,) if isinstance(core, int) else tuple(core)


def check_name(what: str, name: str) -> None:
    """Raise PipelineError for a name that cannot be part of a path and of ``stage.output``."""
    if not re.fullmatch(r"[A-Za-z0-9_\-]+", name):
        raise PipelineError(
            f"{what} {name!r}: found other characters than letters, digits, _ and -",
            hint="give it another name",
        )


def import_name(function: Callable[..., Any]) -> str:
    """Return ``module:function`` when importing that gives the function back, else ''."""
    module, qualified = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or "<" in qualified:
        return ""
    return f"{module}:{qualified}"
