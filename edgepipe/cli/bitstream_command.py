"""``edgepipe bitstream``: list, check, convert and install bitstreams."""

from __future__ import annotations

import argparse
import dataclasses
import getpass
import json
import socket
from pathlib import Path
from typing import Any

from edgepipe import boards
from edgepipe.bitstream import check, install, manifest, parts
from edgepipe.bitstream.check import BitstreamFile
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import ConsoleProgress, print_line
from edgepipe.deploy.connection import Target
from edgepipe.errors import BitstreamError
from edgepipe.report.table import format_table

DESCRIPTION = (
    "List the published bitstreams, check a file against them and against a board, convert it "
    "for Linux's fpga_manager, or program a board with it."
)
EPILOG = """\
examples:
  edgepipe bitstream list
  edgepipe bitstream check 1x16_i8w8a32_15_15_18_17.bit --board ultra96
  edgepipe bitstream convert 1x16_i8w8a32_15_15_18_17.bit -o vta.bin
  edgepipe bitstream install 1x16_i8w8a32_15_15_18_17.bit --board ultra96 --host root@ultra96
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser and its actions."""
    parser = add_command(commands, "bitstream", DESCRIPTION, EPILOG)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    action = actions.add_parser("list", help="list the published bitstreams")
    action.add_argument("--json", action="store_true", help="print JSON")
    action.set_defaults(run=run_list)
    action = actions.add_parser(
        "check", help="identify a .bit or .bin file and check that it fits a board"
    )
    action.add_argument("file", metavar="FILE", type=Path, help="bitstream")
    action.add_argument(
        "--board", metavar="BOARD", help="fail unless the bitstream fits this board"
    )
    action.add_argument("--json", action="store_true", help="print JSON")
    action.set_defaults(run=run_check)
    action = actions.add_parser(
        "convert", help="convert for fpga_manager: no header, byte-swapped words"
    )
    action.add_argument("file", metavar="FILE", type=Path, help="bitstream (.bit or .bin)")
    action.add_argument("-o", "--output", required=True, metavar="OUT", type=Path, help=".bin file")
    action.set_defaults(run=run_convert)
    action = actions.add_parser(
        "install", help="copy a bitstream to a board, program it and record it there"
    )
    action.add_argument("file", metavar="FILE", type=Path, help="bitstream (.bit or .bin)")
    action.add_argument("--board", required=True, metavar="BOARD", help="type of the host's board")
    action.add_argument("--host", required=True, metavar="HOST", help="board, as ssh knows it")
    action.add_argument("--ssh-config", type=Path, metavar="FILE", help="SSH configuration file")
    action.set_defaults(run=run_install)


def run_list(options: argparse.Namespace) -> int:
    """Print the published bitstreams and the boards that use each of them."""
    published = manifest.load()
    if options.json:
        print(json.dumps(dataclasses.asdict(published), indent=1))
        return 0
    known_boards = [boards.load(name) for name in boards.names()]
    rows = []
    for known in published.bitstream:
        users = [board.name for board in known_boards if board.bitstream == known.path]
        clock = f"{known.clock_hz / 1e6:.0f}" if known.clock_hz else "-"
        rows.append([known.path, known.revision, clock, known.part, ", ".join(users) or "-"])
    print(format_table(["file", "revision", "MHz", "part", "boards"], rows))
    print(f"\npublished in {published.repository}, folder {published.folder}/, {published.license}")
    for known in published.bitstream:
        if known.note:
            print(f"{known.path}: {known.note}")
    return 0


def run_check(options: argparse.Namespace) -> int:
    """Print what the file is; raise an error if it does not fit the board.

    Raises BitstreamError then.
    """
    board = boards.load(options.board) if options.board else None
    file = check.read(options.file, manifest.load())
    mismatches = check.compare(file, board) if board else ()
    if options.json:
        print(json.dumps(_as_json(file, mismatches), indent=1))
    else:
        _print_file(file)
    if board and mismatches:
        raise BitstreamError(
            f"{file.path}: does not fit board {board.name}: {'; '.join(map(str, mismatches))}",
            hint=f"board {board.name} is built for {board.bitstream or 'no published bitstream'}; "
            "to use your own bitstream, describe it in a board file and pass that file to --board",
        )
    if board and not options.json:
        proof = (
            ""
            if file.known
            else " (file of unknown origin: only the die and structure were checked)"
        )
        print(f"fits board {board.name}{proof}")
    return 0


def run_convert(options: argparse.Namespace) -> int:
    """Convert the file and print what was written."""
    file = check.read(options.file, manifest.load())
    written_bytes = check.convert(file, options.output)
    state = "already swapped" if file.stream and file.stream.swapped else "words swapped"
    print(f"{options.output}: {written_bytes} bytes for fpga_manager ({state})")
    return 0


def run_install(options: argparse.Namespace) -> int:
    """Install the file and print what the board's FPGA now contains."""
    progress = ConsoleProgress()
    installed = install.install(
        Target(host=options.host, root="edgepipe", ssh_config=options.ssh_config),
        check.read(options.file, manifest.load()),
        boards.load(options.board),
        operator=f"{getpass.getuser()}@{socket.gethostname()}",
        progress=progress,
    )
    progress.finish()
    made = installed.record
    origin = made.path or "a file of unknown origin, assumed to match the board's description"
    print(
        f"{options.host}: {made.configuration}, encoding revision {made.revision}, "
        f"{made.clock_hz / 1e6:.0f} MHz ({origin})"
    )
    if installed.by != "fpga_manager":
        progress.notice(
            f"programmed through {installed.by}; bitstreams that it programs later are not recorded"
        )
    return 0


def _print_file(file: BitstreamFile) -> None:
    lines = [("file", f"{file.path}, {file.bytes} bytes")]
    if file.header is not None:
        header = file.header
        tool = f", Vivado {header.tool_version}" if header.tool_version else ""
        lines.append(("design", f"{header.design}{tool}, {header.date} {header.time}"))
        lines.append(("part", header.part))
    if file.stream is not None:
        order = (
            "byte-swapped words (fpga_manager)" if file.stream.swapped else "Vivado's word order"
        )
        lines.append(("stream", f"{len(file.stream.words)} bytes, {order}"))
        if file.stream.idcode is not None:
            die = parts.die_of_idcode(file.stream.idcode)
            lines.append(("die", f"{die} (IDCODE {file.stream.idcode:#010x})"))
    lines.append(("sha256", file.digests.sha256))
    lines.append(("git blob", file.digests.git_blob))
    if file.known is None:
        lines.append(("known as", "unknown: not a published file, so its accelerator and encoding"))
        lines.append(("", "revision cannot be determined"))
    else:
        known = file.known
        clock = f", {known.clock_hz / 1e6:.0f} MHz" if known.clock_hz else ""
        lines.append(("known as", known.path))
        lines.append(("", f"{known.configuration}, encoding revision {known.revision}{clock}"))
        if known.extensions:
            lines.append(("", f"extensions {', '.join(known.extensions)}"))
        if known.configuration_hash:
            lines.append(("", f"its register `configuration` reads {known.configuration_hash}"))
        if known.note:
            lines.append(("", known.note))
    for label, text in lines:
        print_line(f"{label:<10}{text}")


def _as_json(file: BitstreamFile, mismatches: tuple[check.Mismatch, ...]) -> dict[str, Any]:
    stream = file.stream
    return {
        "file": str(file.path),
        "bytes": file.bytes,
        **dataclasses.asdict(file.digests),
        "header": dataclasses.asdict(file.header) if file.header else None,
        "swapped": stream.swapped if stream else None,
        "idcode": stream.idcode if stream else None,
        "known": dataclasses.asdict(file.known) if file.known else None,
        "mismatches": [dataclasses.asdict(mismatch) for mismatch in mismatches],
    }
