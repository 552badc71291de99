"""Read a bitstream file, identify it, and compare it with a board."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from edgepipe import scratch
from edgepipe.bitstream import entry, parts, stream
from edgepipe.bitstream import header as bit_header
from edgepipe.bitstream.header import BitHeader
from edgepipe.bitstream.manifest import BitstreamManifest, Digests, KnownBitstream, digests
from edgepipe.bitstream.stream import ConfigurationStream
from edgepipe.boards import Board
from edgepipe.errors import BitstreamError


@dataclass(frozen=True, slots=True, kw_only=True)
class BitstreamFile:
    """A bitstream as read from a file.

    ``header`` is None for a ``.bin`` file, which has none. ``stream`` is None only for a known file
    of another vendor. ``known`` is None if the file is not a published one and no entry is beside
    it (``entry.py``).
    """

    path: Path
    bytes: int
    digests: Digests
    header: BitHeader | None
    stream: ConfigurationStream | None
    known: KnownBitstream | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One difference between a bitstream and what a board needs."""

    subject: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.subject} is {self.found}, the board has {self.expected}"


def read(path: Path, manifest: BitstreamManifest) -> BitstreamFile:
    """Read and parse the file at ``path``, a ``.bit`` or ``.bin``, and look its digests up.

    A ``.bin`` that was converted from a published ``.bit`` is not recognised: its digest differs.
    Raises ``BitstreamError`` if it is missing or damaged.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as cause:
        raise BitstreamError(f"{path}: no such file", hint="check the name") from cause
    except OSError as cause:
        raise BitstreamError(
            f"{path}: cannot be read ({cause.strerror})", hint="name a readable file"
        ) from cause
    found = digests(content)
    known = manifest.find(found) or entry.beside(path, found)
    header = None
    configuration = None
    if bit_header.has_header(content):
        header = bit_header.parse(content, str(path))
        configuration = stream.parse(content[header.stream_offset :], str(path))
        if configuration.swapped:
            raise BitstreamError(
                f"{path}: the stream after the .bit header is already byte-swapped",
                hint="this is neither a .bit nor a .bin file; get the original file again",
            )
    elif known is None or known.path.endswith(".bit"):
        configuration = stream.parse(content, str(path))
    return BitstreamFile(
        path=path,
        bytes=len(content),
        digests=found,
        header=header,
        stream=configuration,
        known=known,
    )


def compare(file: BitstreamFile, board: Board) -> tuple[Mismatch, ...]:
    """Return all mismatches between ``file`` and ``board``; empty if it may fit.

    The die comes from the header's part and, independently of it, from the IDCODE in the stream.
    The package is not compared: a VTA uses no FPGA pins, and the published PYNQ files name a
    different package from that of the boards.
    Configuration, revision, extensions and clock can be compared only for published files and those
    with an entry beside them, because a bitstream itself does not contain them.
    """
    return tuple(
        Mismatch(subject=subject, found=found, expected=expected)
        for subject, found, expected in (*_parts(file, board), *_accelerators(file, board))
        if found != expected
    )


def converted(file: BitstreamFile) -> bytes:
    """Return ``file``'s stream in fpga_manager's format; ``BitstreamError`` if it has none."""
    if file.stream is None:
        raise BitstreamError(
            f"{file.path}: not a Xilinx bitstream, so there is nothing to convert",
            hint="an Intel .rbf file is programmed without conversion",
        )
    return stream.swapped(file.stream)


def convert(file: BitstreamFile, output: Path) -> int:
    """Write ``converted(file)`` to ``output``; return the bytes written.

    ``output`` appears complete or not at all. Raises ``BitstreamError`` if it cannot be written.
    """
    content = converted(file)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
        temporary = Path(name)
        try:
            with scratch.removed_if_killed(temporary), os.fdopen(handle, "wb") as sink:
                sink.write(content)
            temporary.chmod(0o644)
            temporary.replace(output)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as cause:
        raise BitstreamError(
            f"{output}: cannot be written ({cause.strerror})",
            hint="choose another path",
            option="output",
            value="FILE",
        ) from cause
    return len(content)


def _parts(file: BitstreamFile, board: Board) -> list[tuple[str, str, str]]:
    wanted = parts.parse(board.part)
    if wanted is None:
        raise BitstreamError(
            f"board {board.name}: part {board.part!r} has no FPGA to program",
            hint="name a board with an FPGA, such as ultra96",
        )
    compared = []
    if file.header is not None:
        part = parts.parse(file.header.part)
        compared.append(("part", part.die if part else file.header.part, wanted.die))
    if file.stream is not None and file.stream.idcode is not None and wanted.idcode is not None:
        die = parts.die_of_idcode(file.stream.idcode)
        compared.append(("die in the stream", die, wanted.die))
    if file.stream is None and file.known is not None:
        compared.append(("part", file.known.part, wanted.die))
    return compared


def _accelerators(file: BitstreamFile, board: Board) -> list[tuple[str, str, str]]:
    if file.known is None:
        return []
    known, accelerator = file.known, board.accelerator
    compared = [
        ("configuration", known.configuration, accelerator.configuration),
        ("encoding revision", known.revision, accelerator.revision),
        ("list of extensions", _listed(known.extensions), _listed(accelerator.extensions)),
    ]
    if known.clock_hz:
        compared.append(("clock", f"{known.clock_hz} Hz", f"{accelerator.clock_hz} Hz"))
    return compared


def _listed(extensions: tuple[str, ...]) -> str:
    return ", ".join(sorted(extensions)) or "empty"
