"""What a bundle needs: device memory for its programs and for the slots of the pipeline."""

import json

from edgepipe.bundle import storage
from edgepipe.bundle.manifest import FORMAT, Fingerprint, Golden, Manifest, Stage, Tensor
from edgepipe.description import Postprocess
from edgepipe.doctor import needs
from edgepipe.frontend.preprocess import Preprocess
from vta_stages.accelerator import Accelerator

PAGE = 4096
REGIONS = {"const": 10_000, "scratch": 1, "input": 1 << 30, "output": 1 << 30}


def write(path, kind, slots=0):
    """Write a bundle of one stage with two tensors of less than a page."""
    accelerator = Accelerator()
    regions = [{"name": k, "kind": k, "bytes": count} for k, count in REGIONS.items()]
    files = {
        "stages/0/program.json": json.dumps({"regions": regions}).encode(),
        "stages/0/insns.bin": bytes(160),
    }

    def manifest(entries):
        return Manifest(
            format=FORMAT,
            name="net",
            board="ultra96",
            architectures=("aarch64",),
            accelerator=accelerator,
            fingerprint=Fingerprint.of(accelerator, bitstream="", builder_version="0.1.0"),
            tensors=tuple(
                Tensor(name=name, dtype="int8", shape=(1, 16, 8, 8), layout="vta", bytes=1024)
                for name in ("x", "y")
            ),
            inputs=("x",),
            outputs=("y",),
            stages=(Stage(name="s", kind=kind, folder="stages/0", inputs=("x",), outputs=("y",)),),
            slots=slots,
            placement=(),
            preprocess=Preprocess(width=8, height=8, order="GRAY", mean=(0.0,), std=(1.0,)),
            postprocess=Postprocess(kind="none"),
            golden=Golden(inputs=(), outputs=()),
            files=entries,
        )

    storage.write(path, files, manifest)
    return path


def test_constants_scratch_instructions_twice_slots_and_the_fence(tmp_path):
    needed = needs.read(write(tmp_path / "net.edgepipe", "vta"))
    programs = 3 * PAGE + PAGE + 2 * 2 * PAGE  # each copy of the instructions has room to grow
    slots = 3 * 2 * PAGE
    assert needed.memory_bytes == programs + slots + 3 * PAGE


def test_slots_are_as_many_as_the_bundle_says(tmp_path):
    usual = needs.read(write(tmp_path / "usual.edgepipe", "vta"))
    told = needs.read(write(tmp_path / "told.edgepipe", "vta", slots=8))
    assert told.memory_bytes - usual.memory_bytes == (8 - 3) * 2 * PAGE


def test_a_bundle_without_vta_stages_needs_no_device_memory(tmp_path):
    needed = needs.read(write(tmp_path / "net.edgepipe", "arm"))
    assert needed.memory_bytes == 0
