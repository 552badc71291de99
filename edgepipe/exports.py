"""TOML files that builds write for people to edit: strings, and safe replacing."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgepipe import scratch
from edgepipe.errors import EdgepipeError

_TEMPORARY = ".edgepipe."


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A kind of file: its name in texts, and the ``option`` that asks for one.

    Every file of the kind has ``keys``, by which an older one is known. ``error`` is the class of
    the errors about it.
    """

    kind: str
    option: str
    keys: frozenset[str]
    error: type[EdgepipeError]

    def refused(self, path: Path, what: str) -> EdgepipeError:
        """Return the error for a file that cannot be written, with the reason ``what``."""
        return self.error(
            f"{path}: {what}",
            hint=f"choose another file for the {self.kind}",
            option=self.option,
            value="FILE",
        )


def toml_string(text: str, error: type[EdgepipeError]) -> str:
    """Return ``text`` as a basic string of TOML, with escapes for all that does not print.

    Raises ``error`` for half a surrogate pair, for which TOML has no escape.
    """
    parts = ['"']
    for character in text:
        code = ord(character)
        if 0xD800 <= code <= 0xDFFF:
            raise error(
                f"{text!a}: has a surrogate (U+{code:04X}), which TOML cannot hold",
                hint="rename the tensor in the ONNX file",
            )
        if character in '"\\':
            parts.append(f"\\{character}")
        elif character.isprintable():
            parts.append(character)
        else:
            parts.append(f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}")
    return "".join([*parts, '"'])


def check_target(export: Export, path: Path, bundle: Path | None = None) -> None:
    """Raise the error of ``export`` if a file cannot be written to ``path``.

    Its folder must exist, ``path`` must be new or an older file of the kind, and not be in
    ``bundle``.
    """
    target = path.resolve()
    if bundle is not None and target.is_relative_to(bundle.resolve()):
        raise export.refused(path, "is the bundle that is built, or in it")
    if not target.parent.is_dir():
        raise export.refused(path, "its folder does not exist")
    if target.exists() and not _is_older(export, target):
        raise export.refused(path, f"exists and is not a {export.kind}, expected one or nothing")


def _is_older(export: Export, path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # tomllib's and UTF-8's errors are ValueErrors
        return False
    return export.keys <= document.keys()


@contextlib.contextmanager
def prepared(export: Export, path: Path, text: str) -> Iterator[Callable[[], None]]:
    """Write ``text`` next to ``path``; yield a function that moves it there.

        with prepared(export, path, text) as place:
            ...      # what may fail, or be interrupted
            place()  # and nothing more that may be interrupted

    If the block fails, also after ``place``, the file at ``path`` is what it was. So a bundle that
    the block writes never lacks its file, and no new file stays without its bundle. The block and
    ``place`` raise the error of ``export`` if the file cannot be written.
    """
    target = path.resolve()
    with contextlib.ExitStack() as stack:
        with _refusing(export, path):
            waiting = stack.enter_context(scratch.folder_beside(target, _TEMPORARY))
            new, old = waiting / "new", waiting / "old"
            new.write_text(text, encoding="utf-8")

        def place() -> None:
            with _refusing(export, path):
                if target.exists():
                    target.rename(old)
                new.rename(target)

        try:
            yield place
        except BaseException:
            if old.exists():
                old.replace(target)
            elif not new.exists():
                target.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _refusing(export: Export, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise export.refused(path, f"cannot be written ({cause.strerror})") from cause
