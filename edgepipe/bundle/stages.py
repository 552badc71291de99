"""Read the stages of a bundle, such as the program of a VTA stage, and check their digests."""

from __future__ import annotations

from pathlib import Path

from edgepipe import scratch
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import Manifest, Stage
from vta_stages.program import Program


def extract_stage(path: Path, manifest: Manifest, stage: Stage, target: Path) -> None:
    """Copy the files of one stage into the folder ``target``, each checked against its digest."""
    prefix = f"{stage.folder}/"
    for entry in manifest.files:
        if entry.path.startswith(prefix):
            file = target / entry.path.removeprefix(prefix)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(storage.read_file(path, entry))


def read_program(path: Path, manifest: Manifest, stage: Stage) -> Program:
    """Return the program of a VTA stage."""
    with scratch.folder("program") as folder:
        extract_stage(path, manifest, stage, folder)
        return Program.load(folder)
