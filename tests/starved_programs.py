"""Programs of this repository whose allocations fail, each in turn (``starved_allocations.cc``)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


def compile_library(folder: Path) -> Path:
    """Compile what is preloaded into the programs."""
    source = Path(__file__).with_name("starved_allocations.cc")
    output = folder / "starved_allocations.so"
    command = [
        "c++",
        "-std=c++20",
        "-O1",
        "-shared",
        "-fPIC",
        str(source),
        "-o",
        str(output),
        "-ldl",
    ]
    subprocess.run(command, check=True)
    return output


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a process ended: its exit code, or the negative number of its signal."""

    code: int
    said: str
    forever: bool  # all allocations after the first failed, too


def run(
    library: Path,
    folder: Path,
    command: Sequence[str | Path],
    *,
    step: int = 1,
    forever: bool = False,
) -> dict[str, End]:
    """Run a program once for every ``step``-th of its allocations, which fails.

    ``folder`` must be empty. If ``forever``, run it again for each of them, with all later
    allocations failing, too.
    """
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "EDGEPIPE_TEST_STARVED": str(folder),
        "EDGEPIPE_TEST_STARVED_STEP": str(step),
        **({"EDGEPIPE_TEST_STARVED_EVER": "1"} if forever else {}),
    }
    subprocess.run(
        [*map(str, command)],
        env=environment,
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=300,
    )
    return {path.name: _read(path) for path in sorted(folder.iterdir())}


def _read(path: Path) -> End:
    said, _, status = path.read_text(errors="replace").rpartition("\n")
    code = os.waitstatus_to_exitcode(int(status))
    return End(code=code, said=said, forever=path.suffix == ".ever")
