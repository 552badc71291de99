"""What a bundle needs from a board."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from edgepipe.bundle import storage
from edgepipe.bundle.buffers import ALIGNMENT_BYTES, aligned, manifest_buffers
from edgepipe.bundle.manifest import Manifest

_FENCE_BYTES = 3 * ALIGNMENT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """A bundle's needs.

    ``memory_bytes`` is the device memory with edgepipe-run's default number of slots; 0 without VTA
    stages.
    """

    manifest: Manifest
    memory_bytes: int


def read(bundle: Path) -> Needs:
    """Read a bundle's needs; raise ``BundleError`` if it is missing or damaged."""
    manifest = storage.read_manifest(bundle)
    entries = {entry.path: entry for entry in manifest.files}
    programs = 0
    for stage in manifest.stages:
        if stage.kind != "vta":
            continue
        description = storage.read_file(bundle, entries[f"{stage.folder}/program.json"])
        # Inputs and outputs are the slots' own buffers.
        programs += sum(
            aligned(region["bytes"])
            for region in json.loads(description)["regions"]
            if region["kind"] in ("const", "scratch")
        )
        # The driver runs a copy of the instructions that ends with its fence.
        programs += 2 * aligned(entries[f"{stage.folder}/insns.bin"].bytes + ALIGNMENT_BYTES)
    if programs == 0:
        return Needs(manifest=manifest, memory_bytes=0)
    slot = sum(manifest_buffers(manifest).values())
    slots = manifest.slots or len(manifest.stages) + 2
    return Needs(manifest=manifest, memory_bytes=programs + slots * slot + _FENCE_BYTES)
