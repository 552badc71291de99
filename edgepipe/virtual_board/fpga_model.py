"""The virtual board's FPGA: the program edgepipe-fpga-model, which runs alongside QEMU."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import host_tools, memory_map, qemu
from edgepipe.virtual_board.processes import ProcessId, start_detached
from vta_stages.accelerator import Accelerator
from vta_stages.timing.cost_model import CostModel

PROGRAM = "edgepipe-fpga-model"
FAULTS = ("hang", "lost-interrupt", "stale-done", "wrong-bit")


@dataclass(frozen=True, slots=True, kw_only=True)
class FpgaOptions:
    """The FPGA's accelerator and its injected faults.

    ``faults`` contains texts such as ``hang=7``: every 7th run hangs. Kinds: ``hang`` (done is not
    set until the blocks are reset), ``stale-done`` (the done flag of the previous run stays set for
    a while), ``lost-interrupt`` (the run ends without an interrupt), ``wrong-bit`` (the first byte
    that the program's last STORE wrote has a wrong bit). An FPGA that starts ``blank`` does nothing
    until the board's fpga_manager has programmed it. With ``timing``, the costs of a board, a run
    takes as long as there, if this machine is fast enough. ``rtl`` is a library of
    :mod:`vta_rtl.verilated`, which has the accelerator's own Verilog in place of the simulator: the
    same accelerator, but no faults and no other timing than its own.
    """

    accelerator: Accelerator
    timing: CostModel | None = None
    faults: tuple[str, ...] = ()
    program: Path | None = None
    blank: bool = False
    rtl: Path | None = None

    def __post_init__(self) -> None:
        if self.rtl is not None and (self.faults or self.timing is not None):
            raise VirtualBoardError(
                "FPGA model: an RTL library has no faults and no timing but its own",
                hint="name either the library, or faults and timing",
            )
        for fault in self.faults:
            if not re.fullmatch(rf"({'|'.join(FAULTS)})=[1-9][0-9]*", fault):
                raise VirtualBoardError(
                    f"FPGA model: fault {fault!r} is unknown",
                    hint=f"known: {', '.join(f'{kind}=N' for kind in FAULTS)} (in every N-th run)",
                )


class FpgaModel:
    """The model of one run folder, identified by a state file in that folder."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder

    def start(self, options: FpgaOptions, memory_file: Path) -> None:
        """Start the model and wait until it is ready; raise ``VirtualBoardError`` on failure."""
        program = options.program or find_program()
        command = [
            str(program.resolve()),
            f"--memory={memory_file}",
            f"--registers={memory_map.REGISTERS_ADDRESS:#x}",
            f"--interrupt={memory_map.INTERRUPT_SPI}",
            f"--qtest={qemu.QTEST_SOCKET}",
            *self._computes(options),
            *([f"--configured={memory_map.CONFIGURED_ADDRESS:#x}"] if options.blank else []),
        ]
        log = self._folder / "fpga-model.log"
        process = start_detached(command, folder=self._folder, log=log)
        table = {
            "process": dataclasses.asdict(process),
            "accelerator": options.accelerator.values(),
            "timing": dataclasses.asdict(options.timing) if options.timing is not None else None,
            "faults": options.faults,
            "program": str(program),
            "blank": options.blank,
            "rtl": str(options.rtl) if options.rtl is not None else None,
        }
        self._state.write_text(json.dumps(table) + "\n")
        while b"ready" not in log.read_bytes():
            if process.wait_until_gone(0.02):
                raise VirtualBoardError(
                    f"FPGA model: {program} ended: {host_tools.last_line(log)}",
                    hint=f"its output: {log}",
                )

    def stop(self) -> None:
        """Stop the model if it is running."""
        process = self.process()
        if process is not None:
            process.stop()
        self._state.unlink(missing_ok=True)

    def process(self) -> ProcessId | None:
        """Return the running model, or None."""
        table = self._table()
        process = ProcessId(**table["process"]) if table else None
        return process if process is not None and process.alive else None

    def options(self) -> FpgaOptions | None:
        """Return the options of the started model, or None if none was started."""
        table = self._table()
        if not table:
            return None
        return FpgaOptions(
            accelerator=Accelerator(**table["accelerator"]),
            timing=CostModel(**table["timing"]) if table["timing"] is not None else None,
            faults=tuple(table["faults"]),
            program=Path(table["program"]),
            blank=table["blank"],
            rtl=Path(table["rtl"]) if table["rtl"] is not None else None,
        )

    def _computes(self, options: FpgaOptions) -> list[str]:
        """Write the files that say what computes; return the program's options for it."""
        if options.rtl is not None:
            return [f"--rtl={options.rtl.resolve()}"]
        accelerator = self._folder / "accelerator.json"
        accelerator.write_text(json.dumps(options.accelerator.values(), indent=1))
        found = [f"--accelerator={accelerator.name}"]
        if options.timing is not None:
            timing = self._folder / "timing.json"
            timing.write_text(json.dumps(dataclasses.asdict(options.timing), indent=1))
            found.append(f"--timing={timing.name}")
        return [*found, *(f"--fault={fault}" for fault in options.faults)]

    @property
    def _state(self) -> Path:
        return self._folder / "fpga.json"

    def _table(self) -> dict[str, Any]:
        try:
            table: dict[str, Any] = json.loads(self._state.read_text())
            return table
        except (OSError, ValueError):
            return {}


def find_program() -> Path:
    """Return the installed model, or the one in this source tree's build folder.

    Raises VirtualBoardError if there is none.
    """
    folders = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    tree = Path(__file__).resolve().parents[2] / "build/host/bin"
    for folder in [*folders, tree]:
        if (folder / PROGRAM).is_file():
            return folder / PROGRAM
    found = shutil.which(PROGRAM)
    if found:
        return Path(found)
    raise VirtualBoardError(
        f"FPGA model: {PROGRAM} is neither installed nor built in {tree}",
        hint="build it (cmake -S . -B build/host -G Ninja && cmake --build build/host), start the "
        "board without an FPGA, or name the program",
        option="fpga_model",
        value="FILE",
    )
