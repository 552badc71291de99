"""Rules of a user's: limits on operators alone and together, and preferences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import partition_records
import pytest

from edgepipe.errors import PartitionError
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import PlacedOperator, place, segment
from edgepipe.partition.rules.book import RuleBook
from edgepipe.partition.rules.facts import OperatorFacts
from edgepipe.partition.rules.rule_file import rule_sets

# Each is a 3x3 convolution that reads the one before.
CHAIN = (
    partition_records.stem("stem", "image", 16, 32),
    partition_records.conv("wide", "stem", 16, 1, 32),
    partition_records.conv("grouped", "wide", 16, 16, 32),
    partition_records.conv("last", "grouped", 16, 1, 32),
)
NO_PAIRS = """
[[rules]]
pattern = ["conv", { kind = "conv", when = { depthwise = true } }]
can = false
why = "{groups} groups directly behind a convolution"
"""


def book(folder: Path, rules: str, device: str = "vta", chain: Sequence[Operator] = CHAIN):
    path = folder / "rules.toml"
    path.write_text(f'format = 1\ndevice = "{device}"\n{rules}', encoding="utf-8")
    return RuleBook(OperatorFacts(chain), rule_sets([path]))


def placed_with(found: RuleBook, **arguments: object) -> dict[str, tuple[str, str]]:
    placed = place(CHAIN, lambda o: found.require(o, "vta"), book=found, **arguments)  # type: ignore[arg-type]
    return {p.operator.name: (p.device, p.reason) for p in placed}


def test_a_limit_sends_an_operator_to_arm_with_the_reason_of_the_file(tmp_path: Path) -> None:
    found = book(
        tmp_path,
        '[[rules]]\nkinds = ["conv"]\nwhen = { groups = { least = 2 } }\ncan = false\n'
        'why = "{name}: {groups} groups, at most 1"\n',
    )
    placed = placed_with(found)
    assert placed["grouped"] == ("arm", "grouped: 16 groups, at most 1")
    assert placed["last"] == ("vta", "fits the accelerator")
    with pytest.raises(PartitionError, match=r"grouped: cannot be placed on vta: .* at most 1"):
        placed_with(found, overrides={"grouped": "vta"})


def test_a_file_can_say_what_should_run_on_arm(tmp_path: Path) -> None:
    rule = '[[rules]]\nkinds = ["conv"]\nwhen = { depthwise = true }\nshould = false\nwhy = "slow"'
    found = book(tmp_path, rule)
    assert placed_with(found)["grouped"] == ("arm", "slow")
    asked = placed_with(found, overrides={"grouped": "vta"})
    assert asked["grouped"] == ("vta", "placed there on request")


def test_a_file_can_say_that_the_first_convolution_should_run_on_the_vta(tmp_path: Path) -> None:
    rule = '[[rules]]\nkinds = ["conv"]\nwhen = { position = "first" }\nshould = true\n'
    assert placed_with(book(tmp_path, rule))["stem"] == ("vta", "fits the accelerator")


def test_a_file_for_arm_can_say_that_an_operator_should_run_there(tmp_path: Path) -> None:
    rule = '[[rules]]\nkinds = ["conv"]\nwhen = { groups = 16 }\nshould = true\nwhy = "quick"\n'
    assert placed_with(book(tmp_path, rule, "arm"))["grouped"] == ("arm", "quick")


def test_a_preference_needs_no_reason_of_its_own(tmp_path: Path) -> None:
    rule = '[[rules]]\nkinds = ["conv"]\nwhen = { groups = 16 }\nshould = true\n'
    assert placed_with(book(tmp_path, rule, "arm"))["grouped"] == ("arm", "preferred by the rules")


def test_what_arm_cannot_run_stays_on_the_vta(tmp_path: Path) -> None:
    rule = '[[rules]]\nkinds = ["conv"]\nwhen = { channels_in = 4 }\ncan = false\nwhy = "few"\n'
    found = book(tmp_path, rule, "arm")
    assert placed_with(found)["stem"] == ("vta", "few")
    with pytest.raises(PartitionError, match="stem: cannot be placed on arm: few") as caught:
        placed_with(found, overrides={"stem": "arm"})
    assert caught.value.hint == "leave it on vta"


def test_an_operator_that_no_device_can_run_is_refused_with_both_reasons(tmp_path: Path) -> None:
    rule = '[[rules]]\nkinds = ["table"]\ncan = false\nwhy = "no memory for tables"\n'
    chain = (partition_records.table("swish", "image", 16, 8),)
    found = book(tmp_path, rule, "arm", chain)
    expected = (
        "swish: cannot be placed on vta: table: values are looked up in a table on arm; "
        "nor on arm: no memory for tables"
    )
    with pytest.raises(PartitionError) as caught:
        place(chain, lambda o: found.require(o, "vta"), book=found)
    assert str(caught.value) == expected
    assert caught.value.hint == "change the rule file that refuses it"


def test_a_file_cannot_lift_what_the_package_refuses(tmp_path: Path) -> None:
    rule = '[[rules]]\nkinds = ["table"]\ncan = true\n'
    chain = (partition_records.table("swish", "image", 16, 8),)
    found = book(tmp_path, rule, chain=chain)
    (placed,) = place(chain, lambda o: found.require(o, "vta"), book=found)
    assert placed.device == "arm"


def test_the_last_operator_of_a_refused_pattern_moves_to_arm(tmp_path: Path) -> None:
    placed = placed_with(book(tmp_path, NO_PAIRS))
    assert placed["wide"][0] == "vta"
    assert placed["grouped"] == ("arm", "16 groups directly behind a convolution")


def test_a_pattern_that_is_requested_is_refused_although_each_operator_is_valid(
    tmp_path: Path,
) -> None:
    found = book(tmp_path, NO_PAIRS)
    for one, device in (("wide", "arm"), ("grouped", "arm")):
        other = "grouped" if one == "wide" else "wide"
        alone = placed_with(found, overrides={one: device, other: "vta"})
        assert (alone[one][0], alone[other][0]) == (device, "vta")
    with pytest.raises(PartitionError) as caught:
        placed_with(found, overrides={"wide": "vta", "grouped": "vta"})
    assert str(caught.value) == (
        "wide and grouped: cannot be placed together on vta: "
        "16 groups directly behind a convolution"
    )
    assert (caught.value.hint, caught.value.value) == ("place one of them on arm", "grouped=arm")


def test_the_operator_that_was_not_requested_moves(tmp_path: Path) -> None:
    placed = placed_with(book(tmp_path, NO_PAIRS), overrides={"grouped": "vta"})
    assert placed["wide"][0] == "arm"
    assert placed["grouped"] == ("vta", "placed there on request")


ONLY_BEHIND = """
[[rules]]
kinds = ["conv"]
when = { depthwise = true }
can = false
why = "depthwise only directly behind a convolution"

[[rules]]
pattern = ["conv", { kind = "conv", when = { depthwise = true } }]
can = true
"""


def test_an_operator_can_be_valid_only_in_a_pattern(tmp_path: Path) -> None:
    found = book(tmp_path, ONLY_BEHIND)
    assert placed_with(found)["grouped"] == ("vta", "fits the accelerator")
    alone = placed_with(found, overrides={"wide": "arm"})
    assert alone["grouped"] == ("arm", "depthwise only directly behind a convolution")
    with pytest.raises(PartitionError, match="grouped: cannot be placed on vta: dep") as caught:
        placed_with(found, overrides={"wide": "arm", "grouped": "vta"})
    assert caught.value.hint == "place it on arm"


def test_neighbouring_regions_of_a_device_merge(tmp_path: Path) -> None:
    def stages(overrides: dict[str, str]) -> list[tuple[str, int]]:
        placed: tuple[PlacedOperator, ...] = place(CHAIN, lambda _: None, overrides=overrides)
        return [(part.device, len(part.operators)) for part in segment(placed)]

    assert stages({"wide": "arm"}) == [("arm", 2), ("vta", 2)]
    assert stages({"grouped": "arm"}) == [("arm", 1), ("vta", 1), ("arm", 1), ("vta", 1)]
    assert stages({"wide": "arm", "grouped": "arm"}) == [("arm", 3), ("vta", 1)]
