"""``bitstreams/manifest.toml``: the published bitstreams, found by the digest of their content."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from edgepipe import resources, schema
from edgepipe.errors import BitstreamError, advise
from vta_stages.accelerator import REVISIONS

_CONFIGURATION = r"\d+x\d+(x\d+)?_i8w8a32(_\d+){4}"
_REVISION = "|".join(map(re.escape, REVISIONS))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBitstream:
    """A published file, or one of the user's own (``entry.py``).

    ``sha256`` is empty if the content was not available, ``git_blob`` if nothing names it in git.
    ``clock_hz`` is 0 if upstream names none. The last keys are only for bitstreams that were made
    from ``vta_rtl``: names of its extensions, the clock of the processors that it makes its own
    from, its register ``configuration``, and the digest of its Verilog.
    """

    path: str
    git_blob: str
    sha256: str
    part: str
    revision: str
    configuration: str
    clock_hz: int
    note: str
    extensions: tuple[str, ...] = ()
    reference_clock_hz: int = 0
    configuration_hash: str = ""
    verilog_sha256: str = ""

    def __post_init__(self) -> None:
        for name, found, pattern, expected in (
            ("git_blob", self.git_blob, r"([0-9a-f]{40})?", "40 hex digits or nothing"),
            ("sha256", self.sha256, r"([0-9a-f]{64})?", "64 hex digits or nothing"),
            ("configuration", self.configuration, _CONFIGURATION, "BATCHxBLOCK_i8w8a32_U_I_W_A"),
            ("revision", self.revision, _REVISION, " or ".join(REVISIONS)),
        ):
            if not re.fullmatch(pattern, found):
                raise BitstreamError(f"{self.path}: {name} is {found!r}, expected {expected}")
        if not (self.git_blob or self.sha256):
            raise BitstreamError(f"{self.path}: no digest, expected git_blob, sha256 or both")
        for name in ("clock_hz", "reference_clock_hz"):
            if getattr(self, name) < 0:
                raise BitstreamError(f"{self.path}: {name} is {getattr(self, name)}, expected >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class BitstreamManifest:
    """The contents of ``manifest.toml``: where the files were published, and what each one is."""

    repository: str
    folder: str
    license: str
    bitstream: tuple[KnownBitstream, ...]

    def __post_init__(self) -> None:
        for name in ("path", "git_blob", "sha256"):
            seen: set[str] = set()
            for known in self.bitstream:
                value = getattr(known, name)
                if value and value in seen:
                    raise BitstreamError(f"manifest.toml: {name} {value} appears twice")
                seen.add(value)

    def find(self, digests: Digests) -> KnownBitstream | None:
        """Return the published file with this content, or None."""
        for known in self.bitstream:
            if known.git_blob == digests.git_blob or known.sha256 == digests.sha256:
                return known
        return None

    def by_path(self, path: str) -> KnownBitstream | None:
        """Return the published file that a board's ``bitstream`` names, or None."""
        return next((known for known in self.bitstream if known.path == path), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """The two digests that identify published bitstreams."""

    sha256: str
    git_blob: str


def load(path: Path | None = None) -> BitstreamManifest:
    """Load the manifest that edgepipe ships, or another one at ``path``.

    Raises ``BitstreamError`` for an unknown key and for a malformed or repeated digest.
    """
    path = path or resources.folder("bitstreams") / "manifest.toml"
    with advise("correct the entry; bitstreams/README.md explains the keys"):
        table = schema.read_toml(path, BitstreamError)
        return schema.from_table(BitstreamManifest, table, path.name, BitstreamError)


def digests(content: bytes) -> Digests:
    """Return the digests of a file's content; git's blob id is a SHA-1 of length and content."""
    blob = hashlib.sha1(b"blob %d\0" % len(content), usedforsecurity=False)
    blob.update(content)
    return Digests(sha256=hashlib.sha256(content).hexdigest(), git_blob=blob.hexdigest())
