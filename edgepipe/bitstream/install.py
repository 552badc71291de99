"""Install a bitstream on a board: check, convert, store among the firmware, program, record.

The FPGA is programmed by the service that manages it on the board: PYNQ if it is installed,
otherwise the kernel's fpga_manager. If dfx-mgr is installed, it first unloads its current design.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from edgepipe import __version__, resources
from edgepipe.bitstream import check, record
from edgepipe.bitstream.check import BitstreamFile
from edgepipe.bitstream.record import BitstreamRecord
from edgepipe.boards import Board
from edgepipe.deploy.connection import Connection, Target
from edgepipe.errors import BitstreamError, DeployError
from edgepipe.progress import Progress, Silent

BOARD_SIDE = Path(__file__).with_name("board_side.sh")
_SYSTEM = Path(__file__).with_name("system_argument.sh")
_STORE_S = 300.0
_PROGRAM_S = 60.0
_REMEDIES = (
    (
        "cannot create|sudo|denied|not permitted",
        "log in as root, or allow the user `sudo -n` on the board",
    ),
    ("pipeline uses", "stop the pipeline on the board, then install again"),
    (
        "fpga_manager|firmware'",
        "the board needs a kernel with fpga_manager (from Xilinx, PYNQ or Ubuntu)",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What the FPGA contains now, and what programmed it: PYNQ, dfx-mgr or fpga_manager."""

    record: BitstreamRecord
    by: str


def install(
    target: Target,
    file: BitstreamFile,
    board: Board,
    *,
    operator: str,
    system: str = "",
    progress: Progress | None = None,
) -> Installed:
    """Install and program ``file`` on the board behind ``target``, now and at every boot.

    ``system`` is a prefix of the board's /lib, /sys, /dev and /run, for tests. Raises
    ``BitstreamError`` if the file does not fit ``board`` or the board refuses it. Only the last
    step changes the FPGA.
    """
    progress = progress or Silent()
    mismatches = check.compare(file, board)
    if mismatches:
        raise BitstreamError(
            f"{file.path}: does not fit board {board.name}: {'; '.join(map(str, mismatches))}",
            hint="`edgepipe bitstream list` shows which file is for which board",
        )
    made = make_record(file, board, operator)
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", file.path.stem)
    converted = check.converted(file)
    progress.step("connect")
    # The board's own functions, which use SYSTEM.
    shared = (_SYSTEM, resources.folder("board") / "programming.sh")
    with Connection(target, script=BOARD_SIDE, shared=shared) as connection:
        progress.step("examine the board")
        try:
            by = _programmer(connection.run("look", system))
            # PYNQ converts the file itself and reads the header.
            if by == "PYNQ" and file.header is not None:
                name, content = f"{stem}.bit", file.path.read_bytes()
            else:
                name, content = f"{stem}.bin", converted
            progress.step(f"send {len(content) >> 10} KiB")
            digest = hashlib.sha256(content).hexdigest()
            line = record.to_json(made)
            connection.run("store", system, name, digest, line, stdin=content, timeout_s=_STORE_S)
            progress.step("program the FPGA")
            connection.run("program", system, name, digest, by, timeout_s=_PROGRAM_S)
        except DeployError as error:
            remedy = next((r for p, r in _REMEDIES if re.search(p, str(error))), None)
            raise BitstreamError(str(error), hint=remedy or error.hint) from error
    return Installed(record=made, by=by)


def _programmer(seen: str) -> str:
    return next(line.removeprefix("by ") for line in seen.splitlines() if line.startswith("by "))


def make_record(file: BitstreamFile, board: Board, operator: str) -> BitstreamRecord:
    """Return the record of ``file`` for the board."""
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
        reference_clock_hz=known.reference_clock_hz if known else 0,
    )
