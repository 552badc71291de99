"""Run a script of ``bitstreams/vivado`` in tclsh, with stand-ins for Vivado's commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import needs

from bitstreams import generate
from bitstreams.designs import DESIGNS
from edgepipe import boards
from edgepipe.bitstream import parts

sys.path.append(str(Path(__file__).parents[1] / "edgepipe/bitstream"))
import bit_files

SCRIPTS = Path(__file__).parents[2] / "bitstreams/vivado"
_STAND_INS = Path(__file__).with_name("vivado_stand_ins.tcl")


@dataclass
class BlockDesign:
    """What a script has built.

    ``cells`` have the kinds of the cells, ``settings`` their properties, by name. ``nets`` are sets
    of pins, ``buses`` pairs of interfaces, ``addresses`` the options and objects of each range.
    """

    calls: list[list[str]]
    cells: dict[str, str] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    nets: list[set[str]] = field(default_factory=list)
    buses: list[tuple[str, str]] = field(default_factory=list)
    addresses: list[list[str]] = field(default_factory=list)

    def net_of(self, pin: str) -> set[str]:
        """Return all pins that are connected to a pin, itself included."""
        found = {pin}
        while grown := [net for net in self.nets if net & found and not net <= found]:
            found |= set().union(*grown)
        return found


def sources(design: str, folder: Path, extensions: tuple[str, ...] = ()) -> Path:
    """Write a design's sources, with other text in place of the accelerator's Verilog."""
    accelerator = generate.accelerator_of(DESIGNS[design], extensions=extensions)
    generate.write(design, accelerator, DESIGNS[design], "// the core\n", folder)
    return folder


def bitstream(design: str) -> bytes:
    """Return a file with the header and the die of the design's part."""
    part = DESIGNS[design].part
    found = parts.parse(part)
    assert found is not None and found.idcode is not None
    name = "system_wrapper;UserID=0XFFFFFFFF;Version=2022.2"
    return bit_files.make_bit(
        bit_files.make_stream(found.idcode), part=part.removeprefix("xc").lower(), design=name
    )


def run(
    design: str, folder: Path, *, slack: str = "0.125", progress: str = "100%"
) -> tuple[subprocess.CompletedProcess[str], BlockDesign]:
    """Run the design's script on a folder of sources."""
    tclsh = needs.installed("tclsh", "tcl")
    folder.mkdir(exist_ok=True)
    record, bit = folder / "record", folder / "made.bit"
    bit.write_bytes(bitstream(design))
    record.write_text("")
    commands = (
        f"source {{{_STAND_INS}}}; set argv [list {{{folder}}}]; "
        f"source {{{SCRIPTS / f'{design}.tcl'}}}"
    )
    ran = subprocess.run(
        [tclsh],
        input=commands,
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ
        | {"RECORD": str(record), "BIT": str(bit), "SLACK": slack, "PROGRESS": progress},
        check=False,
    )
    return ran, _design([json.loads(line) for line in record.read_text().splitlines()])


def _design(calls: list[list[str]]) -> BlockDesign:
    found = BlockDesign(calls)
    for name, *arguments in calls:
        words = [argument.split() for argument in arguments]
        if name == "create_bd_cell":
            found.cells[arguments[-1]] = arguments[3]
        elif name == "set_property" and words[-1][0] == "cell":
            pairs = arguments[1].split() if arguments[0] == "-dict" else arguments[:2]
            values = dict(zip(pairs[::2], pairs[1::2], strict=True))
            found.settings.setdefault(words[-1][1], {}).update(values)
        elif name == "connect_bd_net":
            assert all(kind == "pin" for kind, _ in words)
            found.nets.append({pin for _, pin in words})
        elif name == "connect_bd_intf_net":
            assert all(kind == "interface" for kind, _ in words)
            (_, master), (_, slave) = words
            found.buses.append((master, slave))
        elif name == "assign_bd_address":
            found.addresses.append(arguments)
    return found


def own_board(design: str, folder: Path) -> boards.Board:
    """Return the board that was written beside a design's sources."""
    return boards.load(str(folder / f"{design}.toml"))
