"""The file that ``--output`` names: checked before the work, written completely or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgepipe import scratch
from edgepipe.errors import BundleError


def check(path: Path, made_from: Sequence[Path]) -> None:
    """Raise BundleError if ``path`` is a folder or one of the files that its content is from."""
    if path.is_dir() or any(
        path.exists() and each.exists() and path.samefile(each) for each in made_from
    ):
        raise BundleError(
            f"{path}: is a folder or what the report is made from, expected another file",
            hint="choose another name",
            option="output",
            value="FILE",
        )


def write(path: Path, text: str) -> None:
    """Write ``text`` to ``path``; raise BundleError if that fails."""
    waiting = scratch.name_beside(path, ".edgepipe.")
    try:
        with scratch.removed_if_killed(waiting):
            waiting.write_text(text, encoding="utf-8")
            waiting.replace(path)
    except OSError as cause:
        raise BundleError(
            f"{path}: cannot be written ({cause.strerror})",
            hint="free some space, fix the permissions, or choose another file",
            option="output",
            value="FILE",
        ) from cause
    finally:
        waiting.unlink(missing_ok=True)
