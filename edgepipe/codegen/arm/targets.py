"""The processor architectures that ARM stages are compiled for.

A bundle carries kernels for the board (aarch64, armhf) and for the developer's machine (x86_64);
all give the same bits. The name "ARM stage" says where the stage belongs, not what this machine is.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgepipe.errors import CodegenError


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One target: how TVM is told, how its objects are linked, how convolutions accumulate.

    ``staged_dtype`` is what a convolution's input rows are staged as. ``linkers`` are tried in
    order. ``cpu_features`` are the names in /proc/cpuinfo without which the kernels cannot run.
    """

    name: str
    target: tuple[tuple[str, str | tuple[str, ...]], ...]
    staged_dtype: str
    linkers: tuple[str, ...]
    package: str
    cpu_features: tuple[str, ...]


X86_64 = Architecture(
    name="x86_64",
    target=(("kind", "llvm"), ("mtriple", "x86_64-linux-gnu"), ("mcpu", "x86-64-v3")),
    staged_dtype="int16",  # vpmaddwd multiplies pairs of int16
    linkers=("x86_64-linux-gnu-gcc", "cc"),
    package="gcc",
    cpu_features=("avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"),
)
AARCH64 = Architecture(
    name="aarch64",
    target=(
        ("kind", "llvm"),
        ("mtriple", "aarch64-linux-gnu"),
        ("mcpu", "cortex-a53"),
        ("mattr", ("+neon",)),
    ),
    staged_dtype="int8",  # smull and smlal multiply int8
    linkers=("aarch64-linux-gnu-gcc",),
    package="gcc-aarch64-linux-gnu",
    cpu_features=("asimd",),
)
ARMHF = Architecture(
    name="armhf",
    target=(
        ("kind", "llvm"),
        ("mtriple", "armv7l-linux-gnueabihf"),
        ("mcpu", "cortex-a9"),
        ("mfloat-abi", "hard"),
        ("mattr", ("+neon",)),
    ),
    staged_dtype="int8",  # vmull.s8 multiplies int8
    linkers=("arm-linux-gnueabihf-gcc",),
    package="gcc-arm-linux-gnueabihf",
    cpu_features=("neon",),
)
NEON = (AARCH64, ARMHF)  # multiply vectors of int8 and add neighbouring products
ARCHITECTURES = {arch.name: arch for arch in (X86_64, AARCH64, ARMHF)}


def find_architecture(name: str) -> Architecture:
    """Return the architecture of that name; raises CodegenError that lists the known ones."""
    if name not in ARCHITECTURES:
        raise CodegenError(
            f"architecture {name!r} is unknown",
            hint=f"known architectures: {', '.join(ARCHITECTURES)}",
        )
    return ARCHITECTURES[name]
