"""Bundles on disk: a folder or one uncompressed ustar archive, written whole or not at all."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import xxhash

from edgepipe.bundle import manifest as manifest_format
from edgepipe.bundle.manifest import FileEntry, Manifest
from edgepipe.errors import BundleError

ARCHIVE_SUFFIX = ".edgepipe"
MANIFEST = "manifest.json"


def digest(content: bytes) -> str:
    """Return the XXH3 128-bit digest of ``content`` as 32 hex digits.

    The digest finds damage and tells versions apart; it is no defence against a forger.
    """
    return xxhash.xxh3_128_hexdigest(content)


def write(
    path: Path,
    files: Mapping[str, bytes],
    make_manifest: Callable[[tuple[FileEntry, ...]], Manifest],
) -> Manifest:
    """Write a bundle to ``path``: an archive if it ends in ``.edgepipe``, else a folder.

    ``files`` maps paths inside the bundle to contents; ``make_manifest`` gets their entries, sorted
    by path. The bundle appears under ``path`` only when it is complete; an older one is replaced.
    Raises ``BundleError`` when ``path`` exists and is not a bundle, or cannot be written.
    """
    entries = tuple(
        FileEntry(path=name, bytes=len(files[name]), xxh3_128=digest(files[name]))
        for name in sorted(files)
    )
    manifest = make_manifest(entries)
    check_replaceable(path)
    contents = {MANIFEST: manifest_format.to_json(manifest).encode()} | {
        entry.path: files[entry.path] for entry in entries
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ARCHIVE_SUFFIX:
            _write_archive(path, contents)
        else:
            _write_folder(path, contents)
    except OSError as cause:
        raise BundleError(f"{path}: cannot be written ({cause.strerror})") from cause
    return manifest


def check_replaceable(path: Path) -> None:
    """Raise ``BundleError`` when something other than a bundle is at ``path``."""
    if path.suffix == ARCHIVE_SUFFIX:
        if path.is_dir():
            raise BundleError(f"{path}: is a folder, expected an archive or nothing")
    elif path.exists() and (
        not path.is_dir() or (any(path.iterdir()) and not (path / MANIFEST).is_file())
    ):
        raise BundleError(
            f"{path}: exists and is not a bundle", hint="give a new path after -o, or remove it"
        )


def _write_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        temporary.chmod(0o755)
        for name, content in contents.items():
            target = temporary / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        if path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
            path.rename(old / path.name)
            temporary.rename(path)
            shutil.rmtree(old)
        else:
            temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write_archive(path: Path, contents: Mapping[str, bytes]) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with (
            os.fdopen(handle, "wb") as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive,
        ):
            for member, content in contents.items():
                info = tarfile.TarInfo(member)
                info.size = len(content)
                info.mode = 0o644
                archive.addfile(info, io.BytesIO(content))
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of the bundle at ``path`` without checking the other files."""
    return manifest_format.from_json(_read_member(path, MANIFEST), str(path))


def read_file(path: Path, entry: FileEntry) -> bytes:
    """Return one file's content, checked against size and digest of its manifest entry."""
    content = _read_member(path, entry.path)
    if len(content) != entry.bytes:
        raise BundleError(
            f"{path}: {entry.path} has {len(content)} bytes, the manifest says {entry.bytes}",
            hint="the bundle is truncated or altered; build or copy it again",
        )
    if digest(content) != entry.xxh3_128:
        raise BundleError(
            f"{path}: {entry.path} does not have the digest that the manifest records",
            hint="the bundle is altered; build or copy it again",
        )
    return content


def pack(path: Path, archive: Path) -> Path:
    """Write the bundle at ``path``, checked, as one archive; return ``archive``."""
    manifest = read_manifest(path)
    files = {entry.path: read_file(path, entry) for entry in manifest.files}
    write(archive, files, lambda _: manifest)
    return archive


def check(path: Path) -> Manifest:
    """Read every file of the bundle and return its manifest; raise ``BundleError`` on damage."""
    manifest = read_manifest(path)
    for entry in manifest.files:
        read_file(path, entry)
    return manifest


def _read_member(path: Path, member: str) -> bytes:
    if not path.exists():
        raise BundleError(f"{path}: no such bundle", hint="make one with `edgepipe build`")
    try:
        if path.is_dir():
            return (path / member).read_bytes()
        with tarfile.open(path, mode="r:") as archive:
            stream = archive.extractfile(member)
            if stream is None:
                raise KeyError(member)
            return stream.read()
    except (FileNotFoundError, KeyError) as cause:
        raise BundleError(
            f"{path}: {member} is missing from the bundle", hint="build or copy it again"
        ) from cause
    except (tarfile.TarError, EOFError) as cause:
        raise BundleError(
            f"{path}: not a bundle, or truncated ({cause})", hint="build or copy it again"
        ) from cause
    except OSError as cause:
        raise BundleError(f"{path}: {member} cannot be read ({cause.strerror})") from cause
