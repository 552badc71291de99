"""The quick proofs hold, and a proof finds what is broken. All of them: ``make rtl-proofs``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rtl_proofs.catalogue import PROOFS
from rtl_proofs.circuit import Circuit
from rtl_proofs.proof import Mutation, Proof
from rtl_proofs.queues import tokens
from rtl_proofs.solver import refute, solve

from vta_rtl.queues.token_queue import TokenQueue

ROOT = Path(__file__).resolve().parents[3]
BY_NAME = {proof.name: proof for proof in PROOFS}
QUICK = ("token queue", "tokens of instructions")


@pytest.mark.parametrize("name", QUICK)
def test_a_proof_holds(name: str, tmp_path: Path) -> None:
    proof = BY_NAME[name]
    assert str(solve(proof, proof.build(), tmp_path)) == "holds"


def test_a_broken_queue_has_a_counterexample(tmp_path: Path) -> None:
    proof = BY_NAME["small token queue"]
    mutation = proof.mutations[0]
    assert mutation == Mutation("vta_rtl.queues.token_queue", "count != self._depth)", "1)")
    with mutation.applied():
        circuit = proof.build()
    answer = refute(proof, circuit, tmp_path)
    assert "one_enters_only_if_there_is_room" in answer.broken
    assert str(answer).startswith("broken: ")
    assert (tmp_path / "bmc/engine_0/trace.vcd").stat().st_size > 1000


def test_an_offer_that_waits_for_ready_is_found(tmp_path: Path) -> None:
    proof = BY_NAME["compute's requests"]
    mutation = proof.mutations[0]
    assert mutation.after == "self.bursts.valid.eq(running & self.bursts.ready)"
    with mutation.applied():
        circuit = proof.build()
    assert refute(proof, circuit, tmp_path).broken == ("ar_does_not_wait_for_ready",)


def test_what_cannot_be_reached_is_said(tmp_path: Path) -> None:
    circuit = tokens(2)
    queue = TokenQueue(1)
    circuit.add(queue, "other")
    circuit.reach("a token without a push", queue.pop_valid)
    answer = solve(BY_NAME["small token queue"], circuit, tmp_path)
    assert str(answer) == "never reached: a_token_without_a_push"


def test_an_induction_that_needs_more_is_no_proof(tmp_path: Path) -> None:
    circuit, queue = Circuit(), TokenQueue(100)
    circuit.add(queue, "queue")
    circuit.free(queue.push_valid)
    circuit.claim("room for ever", queue.push_ready)
    answer = solve(BY_NAME["token queue"], circuit, tmp_path)
    assert str(answer) == "no induction for: room_for_ever"


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_all_mutations_are_of_lines_that_exist(proof: Proof) -> None:
    for mutation in proof.mutations:
        with mutation.applied():
            pass


def test_the_page_lists_all_proofs_with_their_method() -> None:
    page = (ROOT / "docs/rtl.md").read_text()
    listed = re.findall(r"^\| ([^|]+) \| (k-induction|bounded) \|", page, re.MULTILINE)
    assert listed == [(proof.name, str(proof.method)) for proof in PROOFS]
