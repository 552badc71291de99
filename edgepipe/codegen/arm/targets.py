"""The processors that ARM stages are compiled for.

A bundle contains kernels for the board (aarch64, armhf) and for the developer's machine (x86_64);
all give the same bits. The name "ARM stage" describes where the stage belongs, not the machine that
it runs on.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgepipe.codegen.arm.intrinsics import InstructionSet
from edgepipe.codegen.arm.neon import A32_NEON, A64_NEON
from edgepipe.codegen.arm.x86 import AVX2, AVX512_VNNI
from edgepipe.errors import CodegenError


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One build of the kernels, for processors of an architecture that have ``cpu_features``.

    ``name`` is part of the library's file name, ``target`` is TVM's description of the processor,
    ``cpu_features`` are names in /proc/cpuinfo.
    """

    name: str
    target: tuple[tuple[str, str | tuple[str, ...]], ...]
    instructions: InstructionSet
    cpu_features: tuple[str, ...]

    @property
    def file(self) -> str:
        """The name of the library of kernels."""
        return f"kernels-{self.name}.so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The kernels for one kind of machine; the runtime takes the first supported variant.

    All variants use the same weights. ``linkers`` are tried in order; ``package`` contains one.
    """

    name: str
    variants: tuple[Variant, ...]
    linkers: tuple[str, ...]
    package: str


# The features of the x86-64 psABI's levels, which LLVM names alike, as far as kernels use them.
_X86_64_V3 = ("avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")
_X86_64_V4 = (*_X86_64_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

X86_64 = Architecture(
    name="x86_64",
    variants=(
        Variant(
            name="x86_64-avx512vnni",
            target=(
                ("kind", "llvm"),
                ("mtriple", "x86_64-linux-gnu"),
                ("mcpu", "x86-64-v4"),
                ("mattr", ("+avx512vnni",)),
            ),
            instructions=AVX512_VNNI,
            cpu_features=(*_X86_64_V4, "avx512_vnni"),
        ),
        Variant(
            name="x86_64-avx2",
            target=(("kind", "llvm"), ("mtriple", "x86_64-linux-gnu"), ("mcpu", "x86-64-v3")),
            instructions=AVX2,
            cpu_features=_X86_64_V3,
        ),
    ),
    linkers=("x86_64-linux-gnu-gcc", "cc"),
    package="gcc",
)
AARCH64 = Architecture(
    name="aarch64",
    variants=(
        Variant(
            name="aarch64",
            target=(
                ("kind", "llvm"),
                ("mtriple", "aarch64-linux-gnu"),
                ("mcpu", "cortex-a53"),
                ("mattr", ("+neon",)),
            ),
            instructions=A64_NEON,
            cpu_features=("asimd",),
        ),
    ),
    linkers=("aarch64-linux-gnu-gcc",),
    package="gcc-aarch64-linux-gnu",
)
ARMHF = Architecture(
    name="armhf",
    variants=(
        Variant(
            name="armhf",
            target=(
                ("kind", "llvm"),
                ("mtriple", "armv7l-linux-gnueabihf"),
                ("mcpu", "cortex-a9"),
                ("mfloat-abi", "hard"),
                ("mattr", ("+neon",)),
            ),
            instructions=A32_NEON,
            cpu_features=("neon",),
        ),
    ),
    linkers=("arm-linux-gnueabihf-gcc",),
    package="gcc-arm-linux-gnueabihf",
)
ARCHITECTURES = {arch.name: arch for arch in (X86_64, AARCH64, ARMHF)}


def find_architecture(name: str) -> Architecture:
    """Return the architecture of that name; raises CodegenError that lists the known ones."""
    if name not in ARCHITECTURES:
        raise CodegenError(
            f"architecture {name!r} is unknown",
            hint=f"known architectures: {', '.join(ARCHITECTURES)}",
        )
    return ARCHITECTURES[name]
