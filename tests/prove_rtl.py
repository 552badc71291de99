"""Prove properties of the accelerator's circuits: ``make rtl-proofs``.

    .venv/bin/python tests/prove_rtl.py                  # all
    .venv/bin/python tests/prove_rtl.py "no lost store"  # one, by its name or the start of it

Each proof must hold, reach what it is to reach, and fail for each of its mutations: a line of the
source, changed. sby's files and the traces of what fails are in build/rtl-proofs. The exit code is
1 if anything is otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rtl_proofs.catalogue import PROOFS
from rtl_proofs.circuit import Circuit
from rtl_proofs.proof import Method, Proof
from rtl_proofs.solver import Answer, SolverError, refute, solve

from edgepipe.report.table import format_table

FOLDER = Path(__file__).resolve().parents[1] / "build/rtl-proofs"


def folder_of(proof: Proof, mutation: int | None = None) -> Path:
    """Return where a proof's files go, or those of one of its mutations."""
    name = "".join(c if c.isalnum() else "-" for c in proof.name)
    return FOLDER / (name if mutation is None else f"{name}-mutation-{mutation}")


def depth(proof: Proof) -> str:
    """Say how far a proof reaches."""
    unit = "k = " if proof.method is Method.INDUCTION else ""
    return f"{unit}{proof.depth}{'' if unit else ' cycles'}"


def row(proof: Proof, answer: Answer, missed: list[str]) -> list[str]:
    """Return a proof's row of the table."""
    mutations = f"{len(proof.mutations) - len(missed)} of {len(proof.mutations)}"
    return [
        proof.name,
        str(proof.method),
        depth(proof),
        proof.parameters,
        mutations if proof.mutations else "-",
        f"{answer.seconds:.0f}",
        str(answer),
    ]


def main() -> int:
    """Run the proofs that the command line names, or all of them."""
    parser = argparse.ArgumentParser(description="formal proofs of the accelerator's circuits")
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginning of a proof's name")
    names = parser.parse_args().names or [""]
    for name in names:
        if not any(proof.name.startswith(name) for proof in PROOFS):
            known = ", ".join(proof.name for proof in PROOFS)
            parser.error(f"unknown proof {name!r}, expected the beginning of one of {known}")
    chosen = [p for p in PROOFS if any(p.name.startswith(name) for name in names)]

    # Circuits first, one after the other: a mutation changes the classes while it is built.
    circuits: list[tuple[Proof, int | None, Circuit]] = [
        (proof, None, proof.build()) for proof in chosen
    ]
    mutants: list[tuple[Proof, int | None, Circuit]] = []
    for proof in chosen:
        for number, mutation in enumerate(proof.mutations):
            with mutation.applied():
                mutants.append((proof, number, proof.build()))

    def answer(task: tuple[Proof, int | None, Circuit]) -> Answer:
        proof, number, circuit = task
        return (solve if number is None else refute)(proof, circuit, folder_of(proof, number))

    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = list(pool.map(answer, circuits))
            refuted = list(pool.map(answer, mutants))
    except SolverError as error:
        sys.exit(str(error))

    missed: dict[str, list[str]] = {proof.name: [] for proof in chosen}
    for (proof, number, _), found in zip(mutants, refuted, strict=True):
        if not found.broken:
            missed[proof.name].append(str(proof.mutations[number or 0]))
    rows = [
        row(proof, found, missed[proof.name]) for proof, found in zip(chosen, answers, strict=True)
    ]
    headings = ["proof", "method", "depth", "of", "mutations found", "seconds", "result"]
    print(format_table(headings, rows))
    for name, changes in missed.items():
        for change in changes:
            print(f"{name}: not found: {change}")
    return 0 if all(each.holds for each in answers) and not any(missed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
