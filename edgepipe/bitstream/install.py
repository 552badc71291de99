"""Install a bitstream on a board: check, convert, store among the firmware, program, record."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from edgepipe import __version__
from edgepipe.bitstream import check, record
from edgepipe.bitstream.check import BitstreamFile
from edgepipe.bitstream.record import BitstreamRecord
from edgepipe.boards import Board
from edgepipe.deploy.connection import Connection, Target
from edgepipe.errors import BitstreamError, DeployError
from edgepipe.progress import Progress, Silent

BOARD_SIDE = Path(__file__).with_name("board_side.sh")
_STORE_S = 300.0
_PROGRAM_S = 60.0
_REMEDIES = (
    ("sudo|denied|not permitted", "log in as root, or allow the user `sudo -n` on the board"),
    ("pipeline uses", "stop the pipeline on the board, then install again"),
    (
        "fpga_manager|firmware'",
        "the board needs a kernel with fpga_manager (Xilinx', PYNQ's or Ubuntu's)",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What is in the logic now, and the other tools on the board that could replace it."""

    record: BitstreamRecord
    others: tuple[str, ...]


def install(
    target: Target,
    file: BitstreamFile,
    board: Board,
    *,
    operator: str,
    system: str = "",
    progress: Progress | None = None,
) -> Installed:
    """Install and program ``file`` on the board behind ``target``.

    ``system`` goes before the board's /lib, /sys, /dev and /run (another folder in tests). Raises
    ``BitstreamError`` when the file does not fit ``board`` or the board refuses it; what the logic
    holds is changed only in the last step.
    """
    progress = progress or Silent()
    mismatches = check.compare(file, board)
    if mismatches:
        raise BitstreamError(
            f"{file.path}: does not fit board {board.name}: {'; '.join(map(str, mismatches))}",
            hint="`edgepipe bitstream list` says which file is for which board",
        )
    content = check.converted(file)
    made = make_record(file, board, operator)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", file.path.stem)
    digest = hashlib.sha256(content).hexdigest()
    progress.step("connect")
    with Connection(target, script=BOARD_SIDE) as connection:
        progress.step("look at the board")
        try:
            seen = connection.run("look", system)
            progress.step(f"send {len(content) >> 10} KiB")
            connection.run(
                "store",
                system,
                name,
                digest,
                record.to_json(made),
                stdin=content,
                timeout_s=_STORE_S,
            )
            progress.step("program the logic")
            connection.run("program", system, name, timeout_s=_PROGRAM_S)
        except DeployError as error:
            remedy = next((r for p, r in _REMEDIES if re.search(p, str(error))), None)
            raise BitstreamError(str(error), hint=error.hint or remedy) from error
    lines = [line.partition(" ") for line in seen.splitlines()]
    return Installed(record=made, others=tuple(value for key, _, value in lines if key == "also"))


def make_record(file: BitstreamFile, board: Board, operator: str) -> BitstreamRecord:
    """Return what will be known of ``file`` on the board."""
    accelerator = board.accelerator
    known = file.known
    return BitstreamRecord(
        path=known.path if known else "",
        sha256=file.digests.sha256,
        part=board.part,
        configuration=known.configuration if known else accelerator.configuration,
        revision=known.revision if known else accelerator.revision,
        clock_hz=known.clock_hz if known and known.clock_hz else accelerator.clock_hz,
        installed_by=operator,
        installer_version=__version__,
    )
