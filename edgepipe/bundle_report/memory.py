"""The map of the contiguous memory that a bundle's pipeline needs on its board."""

from __future__ import annotations

from collections.abc import Mapping

from edgepipe.boards import Board
from edgepipe.bundle.buffers import aligned, manifest_buffers
from edgepipe.bundle.manifest import Manifest
from edgepipe.bundle_report.model import Memory, Region
from edgepipe.codegen.contiguous import INSTRUCTION_BYTES
from vta_stages.program import Program, RegionKind

_KINDS = {RegionKind.CONST: "constants", RegionKind.SCRATCH: "scratch"}


def memory_map(manifest: Manifest, programs: Mapping[str, Program], board: Board) -> Memory:
    """Return all regions as the runtime allocates them; ``programs`` are those of VTA stages."""
    regions = []
    for stage, program in programs.items():
        for region in program.regions:
            if region.kind in _KINDS:
                regions.append(
                    Region(
                        name=f"{stage} {_KINDS[region.kind]}",
                        kind=_KINDS[region.kind],
                        stage=stage,
                        in_every_slot=False,
                        bytes=aligned(region.bytes),
                    )
                )
        regions.append(
            Region(
                name=f"{stage} instructions",
                kind="instructions",
                stage=stage,
                in_every_slot=True,
                bytes=aligned(len(program.instructions) * INSTRUCTION_BYTES),
            )
        )
    written = {name: stage.name for stage in manifest.stages for name in stage.outputs}
    for tensors, size in manifest_buffers(manifest).items():
        others = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
        regions.append(
            Region(
                name=tensors[0] + others,
                kind="tensor",
                stage=written.get(tensors[0], ""),
                in_every_slot=True,
                bytes=size,
                tensors=tensors,
            )
        )
    return Memory(
        regions=tuple(sorted(regions, key=lambda region: region.in_every_slot)),
        slots=manifest.slots or len(manifest.stages) + 2,
        board_bytes=board.dma_bytes,
    )
