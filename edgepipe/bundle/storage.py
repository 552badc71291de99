"""Bundles on disk: a folder or one uncompressed ustar archive, written completely or not at all."""

from __future__ import annotations

import errno
import hashlib
import io
import resource
import shutil
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from edgepipe import scratch
from edgepipe.bundle import manifest as manifest_format
from edgepipe.bundle.manifest import FileEntry, Manifest
from edgepipe.errors import BundleError
from edgepipe.frontend.tflite import conversion_hint, is_tflite

ARCHIVE_SUFFIX = ".edgepipe"
MANIFEST = "manifest.json"
MANIFEST_DIGEST = "manifest.digest"
SIGNATURE = "manifest.sig"
# Short, so that temporary names also fit next to a name of the maximum length.
_TEMPORARY = ".edgepipe."


def digest(content: bytes) -> str:
    """Return the SHA-256 digest of ``content`` as 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def write(
    path: Path,
    files: Mapping[str, bytes],
    make_manifest: Callable[[tuple[FileEntry, ...]], Manifest],
    make_signature: Callable[[bytes], bytes] | None = None,
    commit: Callable[[], None] = lambda: None,
) -> Manifest:
    """Write a bundle to ``path``: an archive if it ends in ``.edgepipe``, otherwise a folder.

    ``files`` maps paths inside the bundle to contents; ``make_manifest`` receives their entries,
    sorted by path, and ``make_signature`` the manifest's text. The bundle appears at ``path`` only
    when it is complete, and replaces an older one. Before that, when all files are written,
    ``commit`` is called; if it raises, what is at ``path`` stays. Raises ``BundleError`` if
    ``path`` exists and is not a bundle, or cannot be written.
    """
    entries = tuple(
        FileEntry(path=name, bytes=len(files[name]), sha256=digest(files[name]))
        for name in sorted(files)
    )
    manifest = make_manifest(entries)
    contents = _manifest_files(manifest)
    if make_signature is not None:
        contents[SIGNATURE] = make_signature(contents[MANIFEST])
    replace(path, contents | {entry.path: files[entry.path] for entry in entries}, commit)
    return manifest


def replace(
    path: Path, contents: Mapping[str, bytes], commit: Callable[[], None] = lambda: None
) -> None:
    """Write all files of a bundle, ``contents`` by path, the manifest first.

    ``commit`` is called, and errors are raised, as by ``write``.
    """
    check_replaceable(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ARCHIVE_SUFFIX:
            _write_archive(path, contents, commit)
        else:
            _write_folder(path, contents, commit)
    except OSError as cause:
        raise _unwritable(path, cause) from cause


def _manifest_files(manifest: Manifest) -> dict[str, bytes]:
    """Return the two files that describe all others: the manifest and its digest."""
    text = manifest_format.to_json(manifest).encode()
    return {MANIFEST: text, MANIFEST_DIGEST: _digest_line(text)}


def check_replaceable(path: Path) -> None:
    """Raise ``BundleError`` if ``path`` is not accessible, or exists and is not a bundle.

    A damaged bundle and an empty folder may be replaced.
    """
    is_archive = path.suffix == ARCHIVE_SUFFIX
    try:
        path.stat()
        replaceable = _begins_with_manifest(path) if is_archive else _is_bundle_folder(path)
    except FileNotFoundError:
        return
    except OSError as cause:
        raise _unwritable(path, cause) from cause
    if not replaceable:
        kind = "an archive" if is_archive else "a folder"
        raise BundleError(
            f"{path}: exists and is not a bundle, expected {kind} written by edgepipe or nothing",
            hint="remove it, or choose a new path",
            option="output",
            value="OUT",
        )


def _is_bundle_folder(path: Path) -> bool:
    return path.is_dir() and ((path / MANIFEST).is_file() or not any(path.iterdir()))


def _begins_with_manifest(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with tarfile.open(path, mode="r:") as archive:
            first = archive.next()
    except (tarfile.TarError, EOFError):
        return False
    return first is not None and first.name == MANIFEST


def _unwritable(path: Path, cause: OSError) -> BundleError:
    return BundleError(
        f"{path}: cannot be written ({cause.strerror})",
        hint="free some space, fix the permissions, or choose another path",
        option="output",
        value="OUT",
    )


def _digest_line(manifest_text: bytes) -> bytes:
    return digest(manifest_text).encode() + b"\n"


def _write_folder(path: Path, contents: Mapping[str, bytes], commit: Callable[[], None]) -> None:
    # One folder holds both bundles: the new one until it is complete, the old one until the switch.
    waiting = scratch.name_beside(path, _TEMPORARY)
    new, old = waiting / "new", waiting / "old"
    try:
        waiting.mkdir(mode=0o700)
        with scratch.removed_if_killed(waiting):  # no longer while it holds the old bundle
            for name, content in contents.items():
                target = new / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        commit()
        try:
            if path.exists():
                path.rename(old)
            new.rename(path)
        except BaseException:
            if old.exists() and not path.exists():
                old.rename(path)
            raise
    finally:
        shutil.rmtree(waiting, ignore_errors=True)


def _write_archive(path: Path, contents: Mapping[str, bytes], commit: Callable[[], None]) -> None:
    temporary = scratch.name_beside(path, _TEMPORARY)
    try:
        with (
            scratch.removed_if_killed(temporary),
            temporary.open("xb") as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive,
        ):
            for member, content in contents.items():
                info = tarfile.TarInfo(member)
                info.size = len(content)
                info.mode = 0o644
                archive.addfile(info, io.BytesIO(content))
        temporary.chmod(0o644)
        commit()
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of the bundle at ``path`` and check its digest, but not the other files."""
    return _parsed_manifest(path, read_member(path, MANIFEST))


def _parsed_manifest(path: Path, text: bytes) -> Manifest:
    recorded, expected = read_member(path, MANIFEST_DIGEST), _digest_line(text)
    if recorded != expected:
        if len(recorded) != len(expected):  # as in another format
            manifest_format.check_format(text, str(path))
        raise BundleError(
            f"{path}: {MANIFEST} does not have the digest that {MANIFEST_DIGEST} records",
            hint="the bundle was modified; build or copy it again",
        )
    return manifest_format.from_json(text, str(path))


def read_file(path: Path, entry: FileEntry) -> bytes:
    """Return one file's content, checked against size and digest of its manifest entry.

    Raises BundleError for a file that is missing or differs.
    """
    content = read_member(path, entry.path)
    if len(content) != entry.bytes:
        raise BundleError(
            f"{path}: {entry.path} has {len(content)} bytes, the manifest says {entry.bytes}",
            hint="the bundle was truncated or modified; build or copy it again",
        )
    if digest(content) != entry.sha256:
        raise BundleError(
            f"{path}: {entry.path} does not have the digest that the manifest records",
            hint="the bundle was modified; build or copy it again",
        )
    return content


def pack(path: Path, archive: Path) -> Path:
    """Check the bundle at ``path`` and write it as one archive; return ``archive``."""
    _, contents = read_all(path)
    replace(archive, contents)
    return archive


def check(path: Path) -> Manifest:
    """Read every file of the bundle and return its manifest; raise ``BundleError`` on damage.

    A file that is not in the manifest counts as damage.
    """
    return read_all(path)[0]


def read_all(path: Path) -> tuple[Manifest, dict[str, bytes]]:
    """Return the bundle's manifest and the content of all of its files, as ``check`` checks them.

    The manifest's own files come first, the signature among them if there is one. Raises
    BundleError for damage, and for a file that is not in the manifest.
    """
    text = read_member(path, MANIFEST)
    manifest = _parsed_manifest(path, text)
    contents = {MANIFEST: text, MANIFEST_DIGEST: _digest_line(text)}
    signature = read_signature(path)
    if signature is not None:
        contents[SIGNATURE] = signature
    contents |= {entry.path: read_file(path, entry) for entry in manifest.files}
    for name in sorted(_members(path) - contents.keys()):
        raise BundleError(
            f"{path}: {name} is not listed in the manifest", hint="build or copy it again"
        )
    return manifest, contents


def read_signature(path: Path) -> bytes | None:
    """Return the content of ``manifest.sig``, None if the bundle is not signed."""
    return _find_member(path, SIGNATURE)


def _members(path: Path) -> set[str]:
    if path.is_dir():
        return {str(f.relative_to(path)) for f in path.rglob("*") if not f.is_dir()}
    with tarfile.open(path, mode="r:") as archive:
        return {member.name for member in archive.getmembers() if not member.isdir()}


def read_member(path: Path, member: str) -> bytes:
    """Return the content of a file, unchecked; raise ``BundleError`` if it cannot be read."""
    content = _find_member(path, member)
    if content is None:
        raise BundleError(
            f"{path}: {member} is missing from the bundle", hint="build or copy it again"
        )
    return content


def _find_member(path: Path, member: str) -> bytes | None:
    if not path.exists():
        raise BundleError(f"{path}: no such bundle", hint="create one with `edgepipe build`")
    if not path.is_file() and not path.is_dir():
        raise BundleError(
            f"{path}: neither a file nor a folder",
            hint="name a bundle: a folder, or an archive that ends in .edgepipe",
        )
    try:
        if path.is_dir():
            return (path / member).read_bytes()
        with tarfile.open(path, mode="r:") as archive:
            info = archive.getmember(member)
            # tarfile would follow a link, endlessly if it is one to itself.
            stream = archive.extractfile(info) if info.isreg() else None
            if stream is None:
                raise BundleError(
                    f"{path}: {member} is not a regular file",
                    hint="do not use this bundle: it is not from `edgepipe build`",
                )
            return stream.read()
    except (FileNotFoundError, KeyError):
        return None
    except (tarfile.TarError, EOFError) as cause:
        if is_tflite(path):
            raise BundleError(
                f"{path}: a TensorFlow Lite network, expected a bundle",
                hint=f"build a bundle of it; first {conversion_hint(path)}",
            ) from cause
        raise BundleError(
            f"{path}: not a bundle, or truncated ({cause})", hint="build or copy it again"
        ) from cause
    except OSError as cause:
        if cause.errno == errno.EMFILE:
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            raise BundleError(
                f"{path}: {member}: too many open files, this process may have {limit}",
                hint="raise the limit: ulimit -n, or LimitNOFILE= of a unit",
            ) from cause
        raise BundleError(
            f"{path}: {member} cannot be read ({cause.strerror})",
            hint="check the file permissions with `ls -l`",
        ) from cause
