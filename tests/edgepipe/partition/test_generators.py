"""Code generators of users: which operators they compute, and how they are asked."""

from __future__ import annotations

from pathlib import Path

import partition_records
import pytest

from edgepipe.errors import PartitionError
from edgepipe.partition.foreign import ForeignCall
from edgepipe.partition.placement import Segment, place, segment
from edgepipe.partition.rules.book import RuleBook
from edgepipe.partition.rules.facts import OperatorFacts
from edgepipe.partition.rules.generators import with_calls
from edgepipe.partition.rules.rule_file import rule_sets

NETWORK = (
    partition_records.stem("stem", "image", 16, 32),
    partition_records.table("bent", "stem", 16, 32),
    partition_records.table("again", "bent", 16, 32),
    partition_records.conv("body", "again", 16, 1, 32),
    partition_records.table("last", "body", 16, 32),
)
SINGLE = '[[rules]]\nkinds = ["table"]\ncan = true\nfunction = "look_up"\n'
PAIR = '[[rules]]\npattern = ["table", "table"]\ncan = true\nfunction = "look_up_twice"\n'


class Network:
    """Places a network by a code generator's rules."""

    def __init__(self, folder: Path, rules: str, name: str = "mine") -> None:
        (folder / f"{name}.c").write_text("")
        path = folder / f"{name}.toml"
        start = f'device = "arm"\ncode_generator = "{name}"\nsources = ["{name}.c"]\n'
        path.write_text(f"format = 1\n{start}{rules}")
        self.book = RuleBook(OperatorFacts(NETWORK), rule_sets([path]))

    def segments(
        self, asked: dict[str, str] | None = None, cuts: tuple[str, ...] = ()
    ) -> tuple[Segment, ...]:
        def check(operator: object) -> None:
            self.book.require(operator, "vta")  # type: ignore[arg-type]

        placed = place(NETWORK, check, book=self.book)
        return with_calls(segment(placed, cuts), self.book, asked or {}, {"last"})

    def calls(self, asked: dict[str, str] | None = None, cuts: tuple[str, ...] = ()):
        return [
            (call.function, *call.operators)
            for part in self.segments(asked, cuts)
            for call in part.calls
        ]


def test_a_code_generator_computes_what_its_rules_allow(tmp_path: Path) -> None:
    network = Network(tmp_path, SINGLE)
    first, _, last = network.segments()
    assert last.calls == (
        ForeignCall(
            generator="mine",
            function="look_up",
            operators=("last",),
            sources=(tmp_path / "mine.c",),
        ),
    )
    assert [call.operators for call in first.calls] == [("bent",), ("again",)]
    assert [p.reason for p in last.operators] == [
        "table: values are looked up in a table on arm; computed by look_up of mine"
    ]


def test_its_limits_are_not_the_devices(tmp_path: Path) -> None:
    rule = '[[rules]]\nkinds = ["table", "conv"]\ncan = false\nwhy = "no tables"\n'
    network = Network(tmp_path, rule + SINGLE)
    assert network.calls() == []
    assert [part.device for part in network.segments()] == ["arm", "vta", "arm"]
    with pytest.raises(PartitionError) as caught:
        network.segments({"last": "mine"})
    assert str(caught.value) == "last: cannot be computed by mine on arm: no tables"
    assert (caught.value.hint, caught.value.value) == ("leave it to edgepipe", "last=arm")


def test_a_pattern_comes_before_its_operators_alone(tmp_path: Path) -> None:
    network = Network(tmp_path, SINGLE + PAIR)
    assert network.calls() == [("look_up_twice", "bent", "again"), ("look_up", "last")]


def test_a_chain_is_not_one_call_across_stages(tmp_path: Path) -> None:
    network = Network(tmp_path, PAIR)
    assert network.calls(cuts=("bent",)) == []


def test_edgepipes_own_code_generator_can_be_asked_for(tmp_path: Path) -> None:
    network = Network(tmp_path, SINGLE + PAIR)
    assert network.calls({"again": "tvm"}) == [("look_up", "bent"), ("look_up", "last")]


def test_what_should_not_be_used_can_be_asked_for(tmp_path: Path) -> None:
    network = Network(tmp_path, SINGLE + "should = false\n")
    assert network.calls() == []
    assert network.calls({"last": "mine"}) == [("look_up", "last")]


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        ({"last": "mind"}, "last: code generator 'mind' is unknown", "did you mean: mine"),
        (
            {"body": "mine"},
            "body: cannot be computed by mine on vta: no rule of its file allows it",
            "leave it to edgepipe",
        ),
    ],
)
def test_a_code_generator_that_does_not_suit_is_refused(
    asked: dict[str, str], message: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(PartitionError) as caught:
        Network(tmp_path, SINGLE).segments(asked)
    assert str(caught.value).startswith(message)
    assert caught.value.hint == hint
