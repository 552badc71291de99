"""Rule files: the package's tables are complete, and everything that does not belong is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgepipe.errors import PartitionError
from edgepipe.partition.choices import DEVICES
from edgepipe.partition.operators import _FORMS
from edgepipe.partition.rules.facts import _OF_LAYERS, _OF_OPERATORS
from edgepipe.partition.rules.rule import FACTS, KINDS, POSITION, TEXTS, Condition
from edgepipe.partition.rules.rule_file import built_in, read, rule_sets

MINE = 'format = 1\ndevice = "arm"\ncode_generator = "mine"\nsources = ["rules.toml"]\n'
START = 'format = 1\ndevice = "vta"\n'
RULE = START + "\n[[rules]]\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_package_has_a_table_for_each_device() -> None:
    assert tuple(rules.device for rules in built_in()) == DEVICES


def test_the_kinds_are_those_that_the_matcher_finds() -> None:
    assert {*KINDS} == {*_FORMS, "generic"}


def test_every_fact_can_be_found() -> None:
    assert {*FACTS, *TEXTS} - {POSITION} == {*_OF_LAYERS, *_OF_OPERATORS}


def test_a_file_becomes_rules(tmp_path: Path) -> None:
    text = RULE + (
        'kinds = ["conv", "max_pool"]\n'
        'when = { kernel = { least = 8 }, dtype = "int8", depthwise = false }\n'
        'can = false\nwhy = "windows have at most 7 rows, not {kernel}"\n\n'
        "[[rules]]\n"
        'pattern = ["conv", { kind = "max_pool", when = { stride = [1, 3] } }]\n'
        "can = true\n"
    )
    alone, together = read(written(tmp_path, text)).rules
    assert alone.members[0].kinds == ("conv", "max_pool")
    assert alone.members[0].when == (
        Condition(fact="kernel", least=8),
        Condition(fact="dtype", one_of=("int8",)),
        Condition(fact="depthwise", one_of=(False,)),
    )
    assert (alone.can, alone.should, alone.is_pattern) == (False, None, False)
    assert [member.kinds for member in together.members] == [("conv",), ("max_pool",)]
    assert together.members[1].when == (Condition(fact="stride", one_of=(1, 3)),)
    assert together.is_pattern


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        (Condition(fact="kernel", least=3, most=5), 4, True),
        (Condition(fact="kernel", least=3, most=5), 2, False),
        (Condition(fact="kernel", least=3, most=5), 6, False),
        (Condition(fact="kernel", most=5), None, False),
        (Condition(fact="channels_in", multiple_of=16), 48, True),
        (Condition(fact="channels_in", multiple_of=16), 40, False),
        (Condition(fact="stride", one_of=(1, 2)), 3, False),
        (Condition(fact="dtype", none_of=("int16",)), "int16", False),
        (Condition(fact="dtype", none_of=("int16",)), "int8", True),
        (Condition(fact="calls", within=("take", "split")), ("take", "take"), True),
        (Condition(fact="calls", within=("take", "split")), ("take", "add"), False),
        (Condition(fact="depthwise", one_of=(True,)), True, True),
    ],
)
def test_a_condition_limits_a_fact(condition: Condition, value: object, holds: bool) -> None:
    assert condition.holds(value) is holds  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "format = 2\n",
            "line 1: format: found 2, expected 1",
            "write format = 1 if the file is meant for this version of edgepipe",
        ),
        (
            'format = 1\n\ndevice = "npu"\n',
            "line 3: device 'npu' is unknown",
            "devices with a code generator: arm, vta",
        ),
        (START + "spede = 1\n", "line 3: unknown key 'spede'", "known keys: format, device, other"),
        (
            START + "rules = 1\n",
            "line 3: rules: expected an array",
            "write [[rules]] above the keys of each rule",
        ),
        (START + "rules = [1]\n", "rule 1: expected a table", "write [[rules]] above its keys"),
        (
            RULE + "can = true\n",
            "line 4: rule 1: expected either kinds",
            "kinds names operators alone, pattern several that follow each other",
        ),
        (
            RULE + 'kinds = ["sum"]\ncan = true\n\n[[rules]]\nkinds = ["cnov"]\ncan = true\n',
            "line 8: rule 2: operator kind 'cnov' is unknown",
            "did you mean: conv",
        ),
        (
            RULE + 'kinds = ["conv"]\ncan = true\nwhat = 1\n',
            "line 4: rule 1: unknown key 'what'",
            "known keys: kinds, can, should, why, check, function",
        ),
        (
            RULE + 'pattern = ["conv", "sum"]\nwhen = { kernel = 3 }\ncan = true\n',
            "rule 1: when is beside pattern",
            'give each operator its own: pattern = [{ kind = "conv", when = { ... } }, ...]',
        ),
        (
            RULE + 'pattern = ["conv"]\ncan = true\n',
            "rule 1: pattern: expected an array of two or more",
            'for example pattern = ["conv", "max_pool"]; use kinds for one operator',
        ),
        (
            RULE + 'pattern = ["conv", 3]\ncan = true\n',
            "rule 1: pattern: operator 2: expected a kind",
            'for example { kind = "conv", when = { kernel = { least = 5 } } }',
        ),
        (
            RULE + 'pattern = ["conv", { kind = "sum", with = 3 }]\ncan = true\n',
            "rule 1: pattern: operator 2: unknown key 'with'",
            "known keys: kind, when",
        ),
        (
            RULE + 'kinds = ["conv"]\nwhen = 3\ncan = true\n',
            "rule 1: when: expected a table",
            "for example when = { kernel = { most = 7 } }",
        ),
        (
            RULE + 'kinds = ["conv"]\nwhen = { kernal = 3 }\ncan = true\n',
            "rule 1: when: kernal: is unknown",
            "did you mean: kernel",
        ),
        (
            RULE + 'kinds = ["conv"]\nwhen = { kernel = "3" }\ncan = true\n',
            "rule 1: when: kernel: found '3'",
            "expected a number, an array of numbers, or a table with least, most or multiple_of",
        ),
        (
            RULE + 'kinds = ["conv"]\nwhen = { dtype = { most = 3 } }\ncan = true\n',
            "rule 1: when: dtype: found most",
            "expected none_of",
        ),
        (
            RULE + 'kinds = ["conv"]\nwhen = { depthwise = {} }\ncan = true\n',
            "rule 1: when: depthwise: found an empty table",
            "expected true or false",
        ),
        (
            RULE + 'kinds = ["conv"]\nwhen = { channels_in = { multiple_of = 0 } }\ncan = true\n',
            "rule 1: when: channels_in: multiple_of: found 0",
            "give the number of lanes, such as 16",
        ),
        (
            RULE + 'kinds = ["conv"]\n',
            "rule 1: neither can nor should",
            "say with one of them what the rule decides",
        ),
        (
            RULE + 'pattern = ["conv", "sum"]\nshould = true\n',
            "rule 1: should is beside pattern",
            "patterns decide only what a device can run",
        ),
        (
            RULE + 'kinds = ["conv"]\ncan = false\n',
            "rule 1: why is missing",
            "give the reason that `edgepipe inspect` shows",
        ),
        (
            RULE + 'kinds = ["conv"]\ncan = true\ncheck = "spice"\n',
            "rule 1: check 'spice' cannot be used",
            "known checks: vta_program, beside kinds and can = true",
        ),
        (
            RULE + 'kinds = ["conv"]\nwhen = { position = "first" }\ncan = true\n',
            "rule 1: position is beside can",
            "where an operator lies depends on the cuts, so it can only decide should",
        ),
        (
            RULE + 'kinds = ["conv"]\ncan = false\nwhy = "{kernal} is too large"\n',
            "rule 1: {kernal} in '{kernal} is too large' is unknown",
            "did you mean: kernel",
        ),
        (
            RULE + 'kinds = ["conv"]\ncan = false\nwhy = "{ is too large"\n',
            "rule 1: '{ is too large' cannot be filled in",
            "write {{ and }} for braces",
        ),
        (
            'format = 1\ndevice = "arm"\ncode_generator = "mine"\n',
            "line 3: expected code_generator and sources together",
            "name the code generator and its C files, or neither",
        ),
        (
            MINE.replace('"arm"', '"vta"'),
            "line 3: code generator 'mine' for vta cannot be used",
            'a name of your own in small letters, beside device = "arm"',
        ),
        (
            MINE.replace('"mine"', '"tvm"'),
            "line 3: code generator 'tvm' for arm cannot be used",
            'a name of your own in small letters, beside device = "arm"',
        ),
        (
            MINE.replace('"rules.toml"', '"no.c"'),
            "no.c: no such file",
            "name C files beside the file of rules",
        ),
        (
            MINE + '[[rules]]\nkinds = ["table"]\ncan = true\n',
            "line 5: rule 1: function '' does not fit",
            "rules with can = true of files with a code_generator name a function, no others",
        ),
        (
            RULE + 'kinds = ["table"]\ncan = true\nfunction = "f"\n',
            "line 4: rule 1: function 'f' does not fit",
            "rules with can = true of files with a code_generator name a function, no others",
        ),
        (
            MINE + '[[rules]]\nkinds = ["table"]\ncan = true\nfunction = "f()"\n',
            "line 5: rule 1: function 'f()' is no name in C",
            "letters, digits and underscores, a letter first",
        ),
        (
            MINE + '[[rules]]\nkinds = ["table"]\nshould = true\n',
            "line 5: rule 1: only can, should, why and function belong into a code generator's",
            "say with can whether the function computes the operator",
        ),
    ],
)
def test_what_does_not_belong_is_refused_with_its_line(
    text: str, message: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(PartitionError) as caught:
        read(written(tmp_path, text))
    assert message in str(caught.value)
    assert (caught.value.hint or "").startswith(hint)
    assert "rules.toml" in str(caught.value)


def test_a_file_that_is_not_toml_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(PartitionError, match=r"not valid TOML.*line 2") as caught:
        read(written(tmp_path, "format = 1\ndevice =\n"))
    hint = "correct the rules; docs/reference/placement-rules.md explains every key"
    assert caught.value.hint == hint


def test_two_files_of_one_code_generator_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, MINE)
    with pytest.raises(PartitionError, match="code generator 'mine' is in 2 files") as caught:
        rule_sets([path, path])
    assert caught.value.hint == "give each code generator one file"
