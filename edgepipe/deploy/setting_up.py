"""Set up a board over SSH: send the set-up's files, run ``setup.sh`` there, report what it says."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepipe import resources
from edgepipe.boards import Board
from edgepipe.deploy import payload
from edgepipe.deploy.connection import Connection, Target
from edgepipe.errors import DeployError
from edgepipe.progress import Progress, Silent

_BOARD_SIDE = Path(__file__).with_name("set_up_side.sh")
_SUMMARY = re.compile(r"(\d+) changes(?: would be made)?, (\d+) missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """What a set-up did: its lines, the number of changes, and of what the board lacks."""

    lines: tuple[str, ...]
    changes: int
    missing: int


def files_for(board: Board) -> Path:
    """Return the folder of set-up files for ``board``: the one built here, or the wheel's.

    Raises ``DeployError`` if there is none, or if the programs for the board are missing, which a
    later deploy needs.
    """
    payload.find_path(payload.RUNTIME, board.architecture, ())
    built = resources.folder("build") / "board" / board.architecture / "board"
    packaged = resources.board_folder(board.architecture)
    for folder in [built, packaged / "board"] if packaged else [built]:
        if (folder / "setup.sh").is_file():
            return folder
    raise DeployError(
        f"setup.sh: no set-up files for {board.architecture} boards (looked for {built})",
        hint="install edgepipe-boards, or build them with `make board`",
    )


def set_up(
    target: Target,
    board: Board,
    folder: Path,
    *,
    options: Sequence[str] = (),
    progress: Progress | None = None,
) -> SetUp:
    """Run ``folder``'s ``setup.sh`` for ``board`` on the host of ``target``, as root.

    ``options`` are more options of ``setup.sh``. Every step changes only what differs, so a second
    run changes nothing. Raises ``DeployError`` if the connection fails, the user cannot be root, or
    ``setup.sh`` refuses.
    """
    progress = progress or Silent()
    progress.step("connect")
    with Connection(target, script=_BOARD_SIDE) as connection:
        if "root yes" not in connection.run("look"):
            raise DeployError(
                f"{target.host}: the set-up needs root, and sudo asks for a password",
                hint="log in as root, or allow the user `sudo -n` on the board",
            )
        progress.step("send the set-up's files")
        there = connection.run("receive", stdin=_archive(folder)).strip()
        progress.step("set up the board")
        lines: list[str] = []
        session = connection.start("set_up", there, "--board", board.name, *options)
        for line in session.lines():
            lines.append(line)
            progress.update(len(lines), 0)
    ended = lines.pop() if lines else ""
    summary = next((found for line in lines if (found := _SUMMARY.fullmatch(line))), None)
    if summary is None:
        said = dict(re.findall(r"^(error|hint): (.*)", "\n".join(lines), re.MULTILINE))
        raise DeployError(
            f"{target.host}: setup.sh: {said.get('error', ended)}",
            hint=said.get("hint") or "examine the board to see what it lacks",
        )
    return SetUp(lines=tuple(lines), changes=int(summary[1]), missing=int(summary[2]))


def _archive(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for file in sorted(path for path in folder.iterdir() if path.is_file()):
            info = tarfile.TarInfo(file.name)
            content = file.read_bytes()
            info.size, info.mode = len(content), 0o644
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()
