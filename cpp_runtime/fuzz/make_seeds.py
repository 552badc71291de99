"""Write the fuzz targets' seeds, the parts of a small real bundle: make_seeds.py FOLDER."""

from __future__ import annotations

import json
import struct
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "edgepipe" / "runtime"))

import pipeline_bundles as bundles  # noqa: E402

PROGRAM_PARTS = ("program.json", "insns.bin", "relocs.bin", "consts.bin")


def program_seed(parts: dict[str, bytes]) -> bytes:
    """Join a program's files in the format of fuzz_program.cc."""
    *first, last = (parts[name] for name in PROGRAM_PARTS)
    return b"".join(struct.pack("<I", len(part)) + part for part in first) + last


def pipeline_seed() -> bytes:
    """Return a pipeline.json with a stage of each kind that needs a path."""
    tensor = {"dtype": "int8", "shape": [1, 4], "layout": "nchw", "bytes": 4}
    stage = {"cores": [1, 2], "inputs": ["a"], "outputs": ["b"]}
    return json.dumps(
        {
            "format": 4,
            "name": "graph",
            "tensors": [tensor | {"name": name} for name in "abc"],
            "inputs": ["a"],
            "outputs": ["c"],
            "stages": [
                stage | {"name": "one", "kind": "bundle", "bundle": "net", "stage": "arm0"},
                stage | {"name": "two", "kind": "arm", "folder": "1", "outputs": ["c"]},
                stage | {"name": "three", "kind": "library", "library": "f.so", "symbol": "f"},
            ],
        }
    ).encode()


def main(folder: Path) -> None:
    """Write FOLDER/TARGET/NAME for every target."""
    network = bundles.make_network()
    files = bundles.compile_files(network)
    frame = bundles.frames(1)[0]
    golden = {"frame": frame, "scores": network.run(frame)}
    folder.mkdir(parents=True, exist_ok=True)
    bundle = bundles.write_bundle(folder / "tiny.edgepipe", files, golden)
    with tarfile.open(bundle) as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        manifest_text = manifest.read()
    small = folder / "small.edgepipe"
    with tarfile.open(small, "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.add(Path(__file__), "stages/0_arm/plan.json")
    seeds = {
        ("archive", "small"): small.read_bytes(),
        ("archive", "bundle"): bundle.read_bytes(),
        ("manifest", "bundle"): manifest_text,
        ("arm-plan", "first"): files["stages/0_arm/plan.json"],
        ("arm-plan", "last"): files["stages/2_arm/plan.json"],
        ("program", "body"): program_seed(
            {name: files[f"stages/1_vta/{name}"] for name in PROGRAM_PARTS}
        ),
        ("pipeline-description", "graph"): pipeline_seed(),
    }
    for (target, name), content in seeds.items():
        path = folder / target / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
