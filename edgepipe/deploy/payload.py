"""The contents of a release: the bundle's files and the runtime built for the board."""

from __future__ import annotations

import hashlib
import io
import json
import sysconfig
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from edgepipe import resources, schema
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import Manifest
from edgepipe.errors import DeployError

RUNTIME = "bin/edgepipe-run"
CAMERA = "bin/edgepipe-cam"
VTA_RUN = "bin/edgepipe-vta-run"
RECORD = "release.json"
SUMS = "SHA256SUMS"
# e_machine of the ELF header (System V ABI), by edgepipe's names of the architectures.
_ELF_MACHINES = {40: "armhf", 62: "x86_64", 183: "aarch64"}
_BUILD_FOLDERS = {"aarch64": "aarch64", "armhf": "armhf", "x86_64": "host"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadFile:
    """A file of a release, with its path in the release."""

    path: str
    content: bytes
    sha256: str
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRecord:
    """``release.json``: the release's name, and who deployed it and when (UTC)."""

    name: str
    builder_version: str
    deployed_by: str
    deployed_at: str


def bundle_files(path: Path) -> tuple[Manifest, tuple[PayloadFile, ...]]:
    """Read the bundle at ``path``, check its digests, and return its files under ``bundle/``.

    Raises DeployError for a file name that leads out of the folder.
    """
    manifest, contents = storage.read_all(path)
    for name in contents:
        if (
            name.startswith("/")
            or ".." in name.split("/")
            or "\\" in name
            or not name.isprintable()
        ):
            raise DeployError(
                f"{path}: the bundle contains a file with the invalid name {name!r}",
                hint="build the bundle again",
            )
    return manifest, tuple(
        make_file(f"bundle/{name}", content) for name, content in sorted(contents.items())
    )


def make_file(path: str, content: bytes, *, executable: bool = False) -> PayloadFile:
    """Return a file with its digest."""
    digest = hashlib.sha256(content).hexdigest()
    return PayloadFile(path=path, content=content, sha256=digest, executable=executable)


def find_runtime(architecture: str, given: Sequence[Path]) -> tuple[PayloadFile, ...]:
    """Return ``edgepipe-run`` for ``architecture``, and ``edgepipe-cam`` if it is next to it."""
    path = find_path(RUNTIME, architecture, given)
    camera = path.with_name(Path(CAMERA).name)
    found = [(RUNTIME, path)]
    if camera.is_file() and architecture_of(camera) == architecture:
        found.append((CAMERA, camera))
    return tuple(make_file(name, file.read_bytes(), executable=True) for name, file in found)


def check_runtime(architectures: Sequence[str], given: Sequence[Path]) -> None:
    """Raise ``DeployError`` if ``edgepipe-run`` is there for none of these architectures.

    This machine's own does not count unless it is among ``given``: every bundle also has kernels
    for development machines, and every installation has that program.
    """
    boards = {name for name in architectures if name in _BUILD_FOLDERS}
    if len(boards) > 1 and not given:
        boards -= {"x86_64"}
    known = sorted(boards)
    missing = []
    for architecture in known:
        try:
            find_path(RUNTIME, architecture, given)
        except DeployError as error:
            missing.append(error)
    if missing and len(missing) == len(known):
        raise missing[0]


def find_program(program: str, architecture: str, given: Sequence[Path]) -> PayloadFile:
    """Return ``program`` for ``architecture``: one of ``given``, or the one built here.

    ``program`` is its path in a release, such as ``RUNTIME``. Raises ``DeployError`` if there is
    none, or if a given file is not a program for a known architecture.
    """
    path = find_path(program, architecture, given)
    return make_file(program, path.read_bytes(), executable=True)


def find_path(program: str, architecture: str, given: Sequence[Path]) -> Path:
    """Return the file that :func:`find_program` reads; raise ``DeployError`` as it does."""
    by_architecture = {architecture_of(path): path for path in given}
    if architecture in by_architecture:
        return by_architecture[architecture]
    built = resources.folder("build") / _BUILD_FOLDERS[architecture] / program
    installed = Path(sysconfig.get_path("scripts")) / Path(program).name
    packaged = resources.board_folder(architecture)
    # What was built here is newer than what was installed once.
    paths = [built, packaged / program, installed] if packaged else [built, installed]
    for path in paths:
        if path.is_file() and architecture_of(path) == architecture:
            return path
    found = ", ".join(f"{p} is for {a}" for a, p in by_architecture.items())
    searched = found or f"looked for {built}"
    raise DeployError(
        f"{Path(program).name}: no program for {architecture} boards ({searched})",
        hint="install edgepipe-boards, build it with `make board`, or name one",
        option="runtime",
        value="FILE",
    )


def architecture_of(path: Path) -> str:
    """Return the architecture of the ELF program at ``path``; raise ``DeployError`` if unknown."""
    try:
        with path.open("rb") as stream:
            head = stream.read(20)
    except OSError as cause:
        raise DeployError(
            f"{path}: cannot be read ({cause.strerror})",
            hint="name a program built for the board, or build one with `make board`",
        ) from cause
    # 32 or 64 bits, little-endian.
    is_elf = head[:6] in (b"\x7fELF\x01\x01", b"\x7fELF\x02\x01")
    machine = int.from_bytes(head[18:20], "little") if is_elf else 0
    if machine not in _ELF_MACHINES:
        raise DeployError(
            f"{path}: not a program for {', '.join(sorted(_ELF_MACHINES.values()))}",
            hint="name an edgepipe-run built for the board",
        )
    return _ELF_MACHINES[machine]


def make_record(record: ReleaseRecord) -> bytes:
    """Return ``release.json`` as one line, so that a listing of releases can contain it."""
    return json.dumps(asdict(record)).encode() + b"\n"


def parse_record(text: str, where: str) -> ReleaseRecord | None:
    """Return the record in ``text``, or None if it is not a valid record."""
    try:
        return schema.from_table(ReleaseRecord, json.loads(text), where, DeployError)
    except (ValueError, RecursionError, DeployError):
        return None


def make_archive(
    files: Sequence[PayloadFile], links: Mapping[str, str], folder: str, record: bytes
) -> bytes:
    """Return the tar archive that creates a release in ``folder``, next to the other releases.

    A file whose path is in ``links`` becomes a hard link to a file that the board already has.
    ``record`` becomes ``release.json``; SHA256SUMS covers it and all files.
    """
    covered = [*files, make_file(RECORD, record)]
    sums = "".join(f"{file.sha256}  {file.path}\n" for file in covered).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for file in [*covered, make_file(SUMS, sums)]:
            info = tarfile.TarInfo(f"{folder}/{file.path}")
            info.mode = 0o755 if file.executable else 0o644
            if file.path in links:
                info.type = tarfile.LNKTYPE
                info.linkname = links[file.path]
                archive.addfile(info)
            else:
                info.size = len(file.content)
                archive.addfile(info, io.BytesIO(file.content))
    return buffer.getvalue()
