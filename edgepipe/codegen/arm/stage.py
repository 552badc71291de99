"""Compile an ARM stage: integer Relax in, plan.json, weights.bin and kernels out.

    artifact = compile_arm_stage(module, output_layouts={"conv_0": Blocks(block=16)})
    artifact.write(folder)

The kernels give the same bits as stock TVM running the module, on every architecture and in each of
its variants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepipe.codegen.arm.kernels import compile_kernels
from edgepipe.codegen.arm.layouts import Layout
from edgepipe.codegen.arm.lowering import Lowering
from edgepipe.codegen.arm.plan import Library, Named
from edgepipe.codegen.arm.targets import find_architecture
from edgepipe.errors import CodegenError
from edgepipe.partition.foreign import ForeignCall
from edgepipe.partition.operators import match_operators
from edgepipe.progress import Progress, Silent
from edgepipe.tvm_adapter import IRModule, read_main

PLAN_FILE = "plan.json"
WEIGHTS_FILE = "weights.bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmStageArtifact:
    """A compiled ARM stage: the files of its folder, and the tensors at its boundary in order."""

    files: Mapping[str, bytes]
    inputs: tuple[Named, ...]
    outputs: tuple[Named, ...]

    def write(self, folder: Path) -> None:
        """Write the files into ``folder``, which is created if necessary."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


def compile_arm_stage(
    module: IRModule,
    *,
    input_layouts: Mapping[str, Layout] | None = None,
    output_layouts: Mapping[str, Layout] | None = None,
    arches: Sequence[str] = ("x86_64", "aarch64"),
    calls: Sequence[ForeignCall] = (),
    progress: Progress | None = None,
) -> ArmStageArtifact:
    """Compile ``main`` of an integer-Relax module for every architecture of ``arches``.

    Layouts are given by tensor name; a tensor without one is in C order (a camera frame unchanged).
    ``calls`` are those of users' functions, for operators that these compute.
    The same input gives the same bytes. Raises CodegenError for an unknown architecture or tensor
    name, an operator that TVM cannot lower, and a missing linker.
    """
    progress = progress or Silent()
    architectures = [find_architecture(name) for name in arches]
    main = read_main(module)
    lowering = Lowering(
        module=module,
        main=main,
        operators=match_operators(module),
        input_layouts=_known(input_layouts or {}, [p.name for p in main.params], "input"),
        output_layouts=_known(output_layouts or {}, main.outputs, "output"),
        calls=calls,
    )
    lowering.run()
    files: dict[str, bytes] = {}
    described: dict[str, list[Library]] = {arch.name: [] for arch in architectures}
    scratch_bytes = 0
    sources = tuple(dict.fromkeys(source for call in calls for source in call.sources))
    variants = [(arch, variant) for arch in architectures for variant in arch.variants]
    for done, (arch, variant) in enumerate(variants):
        progress.update(done, len(variants))
        compiled = compile_kernels(lowering.kernels, arch, variant, sources)
        scratch_bytes = max(scratch_bytes, compiled.scratch_bytes)
        files[variant.file] = compiled.library
        described[arch.name].append(Library(variant.file, variant.cpu_features))
    plan, weights = lowering.plan.finish(scratch_bytes, described)
    files[PLAN_FILE], files[WEIGHTS_FILE] = plan.encode(), weights
    progress.update(len(variants), len(variants))
    return ArmStageArtifact(
        files=dict(sorted(files.items())),
        inputs=tuple(lowering.plan.inputs),
        outputs=tuple(lowering.plan.outputs),
    )


def _known(layouts: Mapping[str, Layout], names: Sequence[str], role: str) -> Mapping[str, Layout]:
    for name in layouts:
        if name not in names:
            raise CodegenError(
                f"layout for {role} {name!r}: the stage has no such {role}",
                hint=f"its {role}s: {', '.join(names)}",
            )
    return layouts
