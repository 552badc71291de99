"""The files of a user's own decoder: a Python function and shared libraries, for a bundle."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgepipe.description import Postprocess
from edgepipe.errors import FrontendError

_FOLDER = "decoder"
_HEADER = struct.Struct("<4s2B10x2H")  # of an ELF file: magic, class, byte order, type, machine
_LITTLE_ENDIAN, _SHARED = 1, 3
_MACHINES = {(2, 62): "x86_64", (2, 183): "aarch64", (1, 40): "armhf"}  # by class and machine


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderFiles:
    """A decoder's files by their paths in the bundle, and the description that names them so."""

    postprocess: Postprocess
    files: Mapping[str, bytes] = field(default_factory=dict)
    architectures: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The text of the Python file; empty if there is none."""
        path = self.postprocess.function.rpartition(":")[0]
        return self.files[path].decode() if path else ""


def read(postprocess: Postprocess, where: Path, outputs: tuple[str, ...]) -> DecoderFiles:
    """Read the files that the description at ``where`` names, for the network's ``outputs``.

    Without a decoder of the user there are none. Raises FrontendError for a file that cannot be
    read, a library of another kind, and two libraries of one architecture.
    """
    bundled = postprocess.in_bundle()
    if postprocess.kind != "own":
        return DecoderFiles(postprocess=bundled)
    files: dict[str, bytes] = {}
    function = ""
    if postprocess.function:
        name, _, function_name = postprocess.function.rpartition(":")
        content = _read(where.parent / name, "name a Python file beside the description")
        try:
            content.decode()
        except UnicodeDecodeError as cause:
            raise FrontendError(
                f"{where.parent / name}: the decoder cannot be read (it is not UTF-8 text)",
                hint="save the Python file as UTF-8",
            ) from cause
        path = f"{_FOLDER}/{Path(name).name}"
        files[path] = content
        function = f"{path}:{function_name}"
    given: dict[str, Path] = {}
    for name in postprocess.libraries:
        library = where.parent / name
        content = _read(
            library, "build the library, or correct its path, which is relative to the description"
        )
        architecture = _architecture(library, content)
        if architecture in given:
            raise FrontendError(
                f"{library}: is a second decoder for {architecture}, beside {given[architecture]}",
                hint="name one library for each architecture",
            )
        given[architecture] = library
        files[f"{_FOLDER}/{architecture}.so"] = content
    architectures = tuple(sorted(given))
    bundled = replace(
        bundled,
        outputs=postprocess.outputs or outputs,
        function=function,
        libraries=tuple(f"{_FOLDER}/{architecture}.so" for architecture in architectures),
    )
    return DecoderFiles(postprocess=bundled, files=files, architectures=architectures)


def _read(path: Path, hint: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as cause:
        raise FrontendError(
            f"{path}: the decoder cannot be read ({cause.strerror})", hint=hint
        ) from cause


def _architecture(path: Path, content: bytes) -> str:
    """Return the architecture of a shared library, as bundles name it."""
    if len(content) >= _HEADER.size:
        magic, word, order, kind, machine = _HEADER.unpack_from(content)
        if magic == b"\x7fELF" and order == _LITTLE_ENDIAN and kind == _SHARED:
            found = _MACHINES.get((word, machine))
            if found is not None:
                return found
            raise FrontendError(
                f"{path}: is a library for ELF machine {machine}, expected one for "
                f"{', '.join(_MACHINES.values())}",
                hint="build the library with the board's toolchain",
            )
    raise FrontendError(
        f"{path}: is not a shared library of Linux",
        hint="compile the decoder with -shared -fPIC, for the machine that runs it",
    )
