"""Compare a bundle's fingerprint with a board; each kind of mismatch has its own exit code.

The board's name is compared with the device tree's, which no record is needed for. Fingerprints
are compared three times: when a bundle is built (the board's file against the
published bitstream that it names), before a deploy switches (the bundle against the board's record
of the programmed bitstream), and when a bundle is loaded to run (fingerprint.h, with the same exit
codes). Whatever opens hardware of edgepipe's own also asks it what it is (own_registers.h).
"""

from __future__ import annotations

from collections.abc import Sequence

from edgepipe import __version__, boards
from edgepipe.bitstream.manifest import BitstreamManifest
from edgepipe.bitstream.record import BitstreamRecord
from edgepipe.boards import Board
from edgepipe.bundle.manifest import Fingerprint
from edgepipe.errors import FingerprintError

# The exit codes of the command line.
EXIT_CODES = {
    "board": 10,
    "configuration": 10,
    "encoding revision": 11,
    "clock": 12,
    "bitstream": 13,
    "runtime version": 14,
}
_Compared = Sequence[tuple[str, str, str]]


def check_board(board: Board, manifest: BitstreamManifest) -> None:
    """Raise ``FingerprintError`` if ``board`` contradicts the published bitstream that it names."""
    known = manifest.by_path(board.bitstream)
    if known is None:
        return
    accelerator = board.accelerator
    compared = [
        ("configuration", accelerator.configuration, known.configuration),
        ("encoding revision", accelerator.revision, known.revision),
    ]
    if known.clock_hz:
        compared.append(("clock", f"{accelerator.clock_hz} Hz", f"{known.clock_hz} Hz"))
    _refuse(
        f"board {board.name}",
        compared,
        f"its bitstream {known.path} has",
        "correct the board's file, or leave its bitstream empty if it uses another one",
    )


def check_programmed(fingerprint: Fingerprint, record: BitstreamRecord, host: str) -> None:
    """Raise ``FingerprintError`` if the board's bitstream is not the one the bundle needs."""
    compared = [
        ("configuration", record.configuration, fingerprint.configuration),
        ("encoding revision", record.revision, fingerprint.revision),
        ("clock", f"{record.clock_hz} Hz", f"{fingerprint.clock_hz} Hz"),
    ]
    # An unpublished bitstream has no name to compare.
    if record.path and fingerprint.bitstream:
        compared.append(("bitstream", record.path, fingerprint.bitstream))
    _refuse(
        f"{host}: the programmed bitstream",
        compared,
        "the bundle was built for",
        "program the bundle's bitstream with `edgepipe bitstream install`, or build the bundle "
        "for this one",
    )


def check_machine(board: str, compatible: Sequence[str], host: str) -> None:
    """Raise ``FingerprintError`` if the device tree names another board than the bundle's.

    ``compatible`` is the device tree's list. Nothing is refused if it names no known board, or if
    the bundle is for a board of the user's own.
    """
    found = boards.of_device_tree(compatible)
    if not found or board not in boards.names() or not boards.load(board).compatible:
        return
    _refuse(
        f"{host}: the device tree",
        [("board", found, board)],
        "the bundle was built for",
        f"build the bundle for this board: --board {found}",
    )


def check_version(fingerprint: Fingerprint, where: str) -> None:
    """Raise ``FingerprintError`` if the bundle was built by a different version of edgepipe."""
    _refuse(
        where,
        [("runtime version", __version__, fingerprint.builder_version)],
        "the bundle was built by",
        "build the bundle again with this version, or deploy it with the version that built it",
    )


def _refuse(subject: str, compared: _Compared, other: str, remedy: str) -> None:
    for what, found, expected in compared:
        if found != expected:
            raise FingerprintError(
                f"{subject}: {what} is {found}, {other} {expected}",
                hint=remedy,
                exit_code=EXIT_CODES[what],
            )
