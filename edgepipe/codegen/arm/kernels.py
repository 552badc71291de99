"""From scheduled kernels to one shared library per variant of an architecture."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Protocol

from edgepipe import scratch
from edgepipe.codegen.arm.foreign import compile_sources
from edgepipe.codegen.arm.intrinsics import InstructionSet
from edgepipe.codegen.arm.targets import X86_64, Architecture, Variant
from edgepipe.codegen.arm.tensor_ir import PrimFunc, compile_object
from edgepipe.errors import CodegenError

# No build id and no paths: the same kernels must give the same bytes on every machine.
_LINK_FLAGS = (
    *("-shared", "-fPIC", "-O2", "-fno-ident", "-nostartfiles"),
    *("-Wl,--build-id=none", "-Wl,-s", "-Wl,-Bsymbolic", "-Wl,-z,noexecstack"),
)

# Kernels report a failed check through TVM-FFI's function of that name. This definition passes the
# text to the loader, which sets the variable. So a library needs no symbol of the program that
# loads it, whether that is an executable, a Python extension or a static binary.
_ERROR_SOURCE = """\
void (*edgepipe_kernel_error)(const char *kind, const char **parts, int count);
__attribute__((visibility("hidden"))) void TVMFFIErrorSetRaisedFromCStrParts(
    const char *kind, const char **parts, int count) {
  if (edgepipe_kernel_error) edgepipe_kernel_error(kind, parts, count);
}
"""


class Kernel(Protocol):
    """A kernel as a value: equal kernels are compiled once."""

    @property
    def stem(self) -> str:
        """The beginning of the symbol's name."""
        ...

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the scheduled kernel; inputs first, the output last."""
        ...


@dataclass(frozen=True, slots=True)
class CompiledKernels:
    """A shared library, and the most scratch memory that one of its kernels requests."""

    library: bytes
    scratch_bytes: int


def compile_kernels(
    kernels: Mapping[str, Kernel],
    arch: Architecture,
    variant: Variant,
    sources: Sequence[Path] = (),
) -> CompiledKernels:
    """Compile ``kernels`` (by symbol name) and link them; raises CodegenError.

    ``sources`` are C files with the functions that kernels call. Every kernel is exported as
    ``__tvm_ffi_<name>``. It needs nothing but libc and libm.
    """
    functions = {
        name: kernel.build(variant.instructions).with_attr("global_symbol", name)
        for name, kernel in kernels.items()
    }
    with scratch.folder("kernels") as folder:
        built = folder / "kernels.o"
        scratch_bytes = compile_object(
            functions, dict(variant.target), built, variant.instructions.look_up
        )
        linker = _linker(arch)
        objects = compile_sources(sources, linker, folder)
        return CompiledKernels(_link(built, objects, arch, linker), scratch_bytes)


def link_alone(sources: Sequence[Path], folder: Path) -> Path:
    """Return a library in ``folder`` with only the functions of C files, for this machine.

    Raises CodegenError with the compiler's first error.
    """
    linker = _linker(X86_64)
    objects = [each.name for each in compile_sources(sources, linker, folder)]
    library = folder / "alone.so"
    command = [linker, "-shared", "-o", library.name, *objects, "-lm"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return library


def _linker(arch: Architecture) -> str:
    linker = next((found for name in arch.linkers if (found := which(name))), None)
    if linker is None:
        raise CodegenError(
            f"kernels for {arch.name}: no linker, looked for {' and '.join(arch.linkers)}",
            hint=f"sudo apt-get install {arch.package}",
        )
    return linker


def _link(built: Path, objects: Sequence[Path], arch: Architecture, linker: str) -> bytes:
    library = built.with_suffix(".so")
    source = built.with_name("error.c")
    source.write_text(_ERROR_SOURCE, encoding="utf-8")
    complete = ["-Wl,-z,defs"] if objects else []
    made = [built.name, source.name, *(each.name for each in objects)]
    command = [linker, *_LINK_FLAGS, *complete, "-o", library.name, *made, "-lm"]
    done = subprocess.run(command, cwd=built.parent, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()
        undefined = next((line for line in reason if "undefined reference" in line), "")
        if undefined:
            function = undefined.rpartition("undefined reference to ")[2].strip("`'")
            raise CodegenError(
                f"kernels for {arch.name}: function {function} is in none of the code generator's "
                "C files",
                hint="define the functions that its rules name",
            )
        raise CodegenError(
            f"kernels for {arch.name}: {linker} failed: {reason[-1] if reason else 'no message'}",
            hint=f"check that {linker} works and that there is space for temporary files",
        )
    return library.read_bytes()
