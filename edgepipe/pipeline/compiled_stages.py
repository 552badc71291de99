"""Stages of compiled code other than TVM's: ARM kernels, stages of bundles, library functions.

b = arm_stage(integer_module, name="stem")  # integer Relax, by the ARM code generator
c = bundle_stage("nanodet.edgepipe", "1_vta")  # a compiled ARM or VTA stage
e = library_stage("libfilter.so", "filter", inputs={"x": ("int8", (1, 8))}, outputs={...})
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepipe.bundle import storage
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.errors import PipelineError
from edgepipe.names import suggest
from edgepipe.pipeline.relax_stages import main_ports
from edgepipe.pipeline.stage import Entry, Stage, checked_cores
from edgepipe.runtime.ports import Port, TensorType, dense_ports
from edgepipe.tvm_adapter import IRModule

HOST_ARCHITECTURES = ("x86_64", "aarch64")


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
    """A compiled ARM or VTA stage of a bundle; the whole bundle is exported, with its digests."""

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
class LibraryStage(Stage):
    """A C or C++ function of a shared library, of the type in ``edgepipe/stage_function.h``."""

    library: Path
    symbol: str

    def write(self, root: Path, folder: str) -> Entry:
        """Copy the library; raise PipelineError if it is missing."""
        try:
            shutil.copyfile(self.library, root / folder / self.library.name)
        except OSError as cause:
            raise PipelineError(
                f"stage {self.name!r}: library {self.library} cannot be read ({cause.strerror})",
                hint="build it, or correct its path",
            ) from cause
        return {
            "kind": "library",
            "library": f"{folder}/{self.library.name}",
            "symbol": self.symbol,
        }


def arm_stage(
    module: IRModule,
    *,
    name: str,
    architectures: tuple[str, ...] = HOST_ARCHITECTURES,
    core: int | Sequence[int] | None = None,
) -> ArmStage:
    """Make a stage from integer Relax; its tensors are in C order.

    With several cores it has one thread on each, and the threads share the kernels' loops. Raises
    PipelineError for something other than a Relax module with ``main`` of static shapes.
    """
    inputs, outputs = main_ports(name, module)
    return ArmStage(
        name=name,
        inputs=inputs,
        outputs=outputs,
        cores=checked_cores(name, core, several=True),
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
    """Make a stage from one stage of a bundle, by its name.

    An ARM stage can have several cores, as in :func:`arm_stage`. Raises BundleError for a damaged
    bundle, PipelineError, which lists the stages, for an unknown name.
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

    own_name = stage if name is None else name
    return BundleStage(
        name=own_name,
        inputs=tuple(port(tensor) for tensor in entry.inputs),
        outputs=tuple(port(tensor) for tensor in entry.outputs),
        cores=checked_cores(own_name, core, several=True),
        bundle=path,
        stage=stage,
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
    """Make a stage from the EpStageFunction ``symbol`` of a shared library."""
    own_name = symbol if name is None else name
    return LibraryStage(
        name=own_name,
        inputs=dense_ports(inputs),
        outputs=dense_ports(outputs),
        cores=checked_cores(own_name, core),
        library=Path(library),
        symbol=symbol,
    )
