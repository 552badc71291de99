"""Find the package's files: installed inside the package, or in the source tree."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from edgepipe.errors import EdgepipeError

_PACKAGE = Path(__file__).resolve().parent
_CITED = re.compile(r"(?<![\w./-])(bitstreams|docs|examples)/([\w/-]+(?:\.\w+)*)")


def folder(name: str) -> Path:
    """Return the folder of data files ``name`` (such as ``board``)."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def with_paths(text: str) -> str:
    """Return ``text`` with each document and example that it names as a path that exists.

    The texts name them as in the repository, such as ``docs/guides/board.md``. Outside it, that
    becomes the path of the package's own copy.
    """

    def path_of(found: re.Match[str]) -> str:
        own = folder(found[1]) / found[2]
        return str(own) if not Path(found[0]).exists() and own.exists() else found[0]

    return _CITED.sub(path_of, text)


def board_folder(architecture: str) -> Path | None:
    """Return the folder ``architecture`` of the wheel `edgepipe_boards`, None if not installed.

    It contains `bin/`, `lib/` and `board/`, as written by `make board`.
    """
    spec = find_spec("edgepipe_boards")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / architecture


def cmake_dir() -> Path:
    """Return the folder of the CMake package, for ``find_package(edgepipe CONFIG)``.

    Raises ``EdgepipeError`` when edgepipe runs from its source tree, which has no installed
    headers and library.
    """
    installed = _PACKAGE / "_cpp" / "lib" / "cmake" / "edgepipe"
    if not installed.is_dir():
        raise EdgepipeError(
            f"found no C++ headers and library in {_PACKAGE}, expected an installed edgepipe",
            hint="install edgepipe with `pip install .`, or the C++ part alone with "
            "`cmake --install build/host --prefix FOLDER`",
        )
    return installed
