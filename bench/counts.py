"""Count a Cortex-A53's instructions in first convolutions: edgepipe, onnxruntime and ncnn.

All run under qemu-user with a counting plugin; the cost of a run comes from the difference between
few and many runs. edgepipe starts from the camera's interleaved bytes, the others from planes of
8-bit pixels. Before that, the features must agree within one step. Downloads Debian's Python for
arm64 and the wheels of ``emulated_wheels.txt`` once.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.arm import BLOCK, STEMS, Stem, onnx_model, relax_stage
from bench.figures import Figure, publish
from bench.models import BUILD, ROOT, LackingError
from edgepipe.codegen.arm.layouts import Blocks
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.virtual_board.debian_packages import PackageStore
from vta_stages.accelerator import Accelerator
from vta_stages.isa.layout import unpack_activation
from vta_stages.layers.records import Conv

FEW, MORE = 2, 32  # starting Python varies by millions of instructions
STAGE = ROOT / "build" / "aarch64" / "bin" / "edgepipe-arm-stage"
PACKAGES = (
    "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "libstdc++6",
    "libgcc-s1", "zlib1g", "libexpat1", "libffi8", "libssl3", "liblzma5", "libbz2-1.0", "libuuid1",
    "libgomp1",
)  # fmt: skip
OTHERS = ("onnxruntime", "ncnn")
WHEELS = Path(__file__).with_name("emulated_wheels.txt")
PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64")
# onnxruntime reads /proc/cpuinfo and crashes on that of a PC. This is a Cortex-A53's:
CPU = (
    "processor\t: 0\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid\n"
    "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd03\n"
    "CPU revision\t: 4\n\n"
)
NCNN_INT8 = 0x000D4B38
"""The first bytes of a block of int8 weights in ncnn's .bin files."""


def pinned_versions() -> dict[str, str]:
    """Return the version of every wheel by its name."""
    return dict(re.findall(r"^(\w+)==(\S+)", WHEELS.read_text(), re.MULTILINE))


class Emulated:
    """A folder with an aarch64 Python and its packages, and programs counted under qemu-user."""

    def __init__(self, folder: Path) -> None:
        self._root, self._folder = folder / "root", folder
        found = shutil.which("qemu-aarch64")
        if found is None:
            raise LackingError("qemu-aarch64 with plugins is missing; apt-get install qemu-user")
        if not STAGE.is_file():
            raise LackingError(f"{STAGE} is missing; `make bench-counts` builds it")
        self._qemu = found
        folder.mkdir(parents=True, exist_ok=True)
        self._plugin = folder / "count_instructions.so"
        source = Path(__file__).with_name("count_instructions.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", self._plugin, source], check=True)
        complete = self._root / "complete"
        if not complete.is_file() or complete.read_text() != WHEELS.read_text():
            self._make_root()
            complete.write_text(WHEELS.read_text())

    def _make_root(self) -> None:
        print("downloading an aarch64 Python, onnxruntime and ncnn", file=sys.stderr, flush=True)
        wheels = self._folder / "wheels"
        for stale in (self._root, wheels):
            shutil.rmtree(stale, ignore_errors=True)
        store = PackageStore(folder=self._folder / "debian", log=self._folder / "apt.log")
        store.update()
        for file in store.download([f"{name}:arm64" for name in PACKAGES]).values():
            subprocess.run(["dpkg-deb", "-x", file, self._root], check=True)
        platforms = [word for name in PLATFORMS for word in ("--platform", name)]
        subprocess.run(
            [
                sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", wheels,
                "--only-binary=:all:", "--python-version", "311", *platforms,
                "--require-hashes", "--requirement", WHEELS,
            ],
            check=True,
        )  # fmt: skip
        for wheel in wheels.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(self._root / "site")
        files = {"proc/cpuinfo": CPU}
        files |= {f"sys/devices/system/cpu/{name}": "0\n" for name in ("possible", "present")}
        for name, text in files.items():
            path = self._root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def _count(self, root: Path, *command: object) -> int:
        environment = ["-E", f"PYTHONPATH={self._root / 'site'}", "-E", "PYTHONHASHSEED=0"]
        done = subprocess.run(
            [self._qemu, "-cpu", "cortex-a53", "-L", root, *environment, "-plugin", self._plugin,
             *map(str, command)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"{command[0]}: {done.stderr.strip()}")
        return int(done.stderr.split()[-1])

    def python(self, way: str, folder: Path) -> float:
        """Return the instructions of one run of a stem by ``way``."""
        script = Path(__file__).with_name("emulated_stem.py")
        interpreter = self._root / "usr/bin/python3.11"
        few, more = (
            self._count(self._root, interpreter, script, way, folder, runs) for runs in (FEW, MORE)
        )
        return (more - few) / (MORE - FEW)

    def stage(self, folder: Path, source: Path, result: Path) -> float:
        """Return the instructions of one run of an ARM stage."""
        few, more = (
            self._count(Path("/usr/aarch64-linux-gnu"), STAGE, folder, runs, source, result)
            for runs in (FEW, MORE)
        )
        return (more - few) / (MORE - FEW)


def write_ncnn(stem: Stem, layer: Conv, folder: Path) -> None:
    """Write the layer as ncnn's int8 convolution, int8 in and out."""
    epilogue = layer.epilogue
    half = np.where(epilogue.shift > 0, 1 << (epilogue.shift - 1), 0)
    steps = 2.0 ** epilogue.shift.astype(np.float64)
    (folder / "stem.param").write_text(
        "7767517\n2 2\nInput image 0 1 image\n"
        f"Convolution features 1 1 image features 0={stem.channels} 1={stem.kernel} "
        f"3={stem.stride} 4={stem.pad} 5=1 6={layer.weight.size} 8=101 9=1\n"
    )
    weights = layer.weight.tobytes()
    floats = [(epilogue.bias - half) / steps, steps, np.ones(2)]
    (folder / "stem.bin").write_bytes(
        struct.pack("<I", NCNN_INT8)
        + weights + bytes(-len(weights) % 4)
        + b"".join(values.astype("<f4").tobytes() for values in floats)
    )  # fmt: skip


def measure(stem: Stem, emulated: Emulated, folder: Path) -> list[Figure]:
    """Return a stem's figures; end the program if features differ."""
    folder.mkdir(parents=True, exist_ok=True)
    layer = stem.layer()
    frame = np.random.default_rng(1).integers(0, 256, (1, stem.extent, stem.extent, 3), np.uint8)
    np.save(folder / "image.npy", np.ascontiguousarray(frame[0].transpose(2, 0, 1) // 2))
    (folder / "stem.onnx").write_bytes(onnx_model(layer))
    write_ncnn(stem, layer, folder)
    blocks = {"features": Blocks(block=BLOCK)}
    compile_arm_stage(relax_stage(layer), arches=("aarch64",), output_layouts=blocks).write(folder)
    frame.tofile(folder / "frame.bin")
    counts = {"edgepipe": emulated.stage(folder, folder / "frame.bin", folder / "features.bin")}
    extent = stem.out_extent
    packed = np.fromfile(folder / "features.bin", np.int8)
    ours = unpack_activation(
        Accelerator(), packed.reshape(-1, extent, extent, 1, BLOCK), stem.channels
    )[0]
    for way in OTHERS:
        print(f"{stem.name}: {way}", file=sys.stderr, flush=True)
        counts[way] = emulated.python(way, folder)
        check(stem, way, ours, np.load(folder / "features.npy"))
    return figures_of(stem.name, counts)


def figures_of(stem: str, counts: Mapping[str, float]) -> list[Figure]:
    """Return the instructions of every kernel, and edgepipe's relative to each of the others."""
    versions = pinned_versions()
    sources = {way: f"{way} {versions[way]}" for way in OTHERS}
    return [
        *(
            Figure(
                name=f"{stem}: {way}",
                value=count / 1e6,
                unit="M instructions",
                source=sources.get(way, ""),
            )
            for way, count in counts.items()
        ),
        *(
            Figure(
                name=f"{stem}: edgepipe / {way}",
                value=counts["edgepipe"] / counts[way],
                unit="x",
                at_most=1.0,
                source=sources[way],
            )
            for way in OTHERS
        ),
    ]


def check(stem: Stem, way: str, ours: NDArray[np.int8], theirs: NDArray[np.generic]) -> None:
    """End the program if features differ by more than one step, which rounding explains."""
    steps = int(np.abs(np.minimum(theirs.astype(int), 127) - ours).max())
    if steps > 1:
        sys.exit(f"{stem.name}: {way}'s features differ from ours by {steps} steps")


def main() -> int:
    """Measure every stem; return 1 if a limit is missed."""
    emulated = Emulated(BUILD / "aarch64")
    found = []
    for number, stem in enumerate(STEMS):
        found += measure(stem, emulated, BUILD / "aarch64" / f"stem{number}")
    return publish("counts", found)


if __name__ == "__main__":
    sys.exit(main())
