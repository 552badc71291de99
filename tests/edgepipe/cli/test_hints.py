"""Hints belong to errors; the command line adds its own flag to them."""

from __future__ import annotations

from argparse import Namespace

import pytest

from edgepipe.cli import arguments
from edgepipe.cli.commands import COMMANDS as ALL_COMMANDS
from edgepipe.cli.hints import COMMANDS, FLAGS, hint_of
from edgepipe.errors import BundleError, EdgepipeError, PartitionError, QuantizeError, advise


def flags_of(command: str) -> set[str]:
    """Return the flags that ``edgepipe COMMAND --help`` shows, including those of its actions."""
    from edgepipe.cli.main import make_parser

    found: set[str] = set()
    pending = [make_parser()._subparsers._group_actions[0].choices[command]]
    while pending:
        parser = pending.pop()
        found.update(parser._option_string_actions)
        for action in parser._actions:
            if isinstance(action.choices, dict):
                pending += action.choices.values()
    return found


def test_a_flag_is_shown_by_the_command_that_has_it() -> None:
    error = QuantizeError("no frames", hint="give pictures", option="calibration", value="DIR")
    assert hint_of(error, Namespace(calib="x")) == "give pictures: --calib DIR"
    assert hint_of(error, Namespace(input="x")) == "give pictures"
    assert hint_of(error, None) == "give pictures"
    assert error.hint == "give pictures", "a library user reads nothing of the command line"


def test_an_option_without_a_flag_has_its_own_command() -> None:
    error = EdgepipeError("it ended", hint="the journal says why", option="journal", value="board")
    assert hint_of(error, None) == "the journal says why: edgepipe logs --host board"


def test_an_error_without_a_hint_says_how_to_find_out_more() -> None:
    assert hint_of(EdgepipeError("failed"), None) == (
        "if the text does not help: edgepipe --debug COMMAND ... shows where it failed"
    )


@pytest.mark.parametrize(("option", "flag"), FLAGS.items())
def test_every_flag_for_an_option_belongs_to_some_command(option: str, flag: str) -> None:
    commands = [name.replace("_", "-") for name in ALL_COMMANDS]
    assert any(flag in flags_of(command) for command in commands), option


@pytest.mark.parametrize("line", COMMANDS.values())
def test_every_command_for_an_option_exists(line: str) -> None:
    _, command, *flags = line.split()
    assert set(flags) <= flags_of(command)


def test_advise_gives_a_hint_only_to_errors_without_one() -> None:
    with pytest.raises(BundleError) as caught, advise("build it again", option="output"):
        raise BundleError("it is damaged")
    assert (caught.value.hint, caught.value.option) == ("build it again", "output")
    with pytest.raises(BundleError) as caught, advise("build it again"):
        raise BundleError("it is missing", hint="check the name")
    assert caught.value.hint == "check the name"


def test_placements_are_parsed_strictly() -> None:
    assert arguments.placement(["a=arm", "b=c=vta"]) == {"a": "arm", "b=c": "vta"}
    for text in ("conv1", "=arm"):
        with pytest.raises(PartitionError, match="expected OPERATOR=arm or OPERATOR=vta") as caught:
            arguments.placement([text])
        assert str(caught.value) == f"--place {text}: expected OPERATOR=arm or OPERATOR=vta"
        assert caught.value.hint == "`edgepipe inspect BUNDLE --operators` lists the operators"
    with pytest.raises(PartitionError) as caught:
        arguments.placement(["conv1=gpu"])
    assert str(caught.value) == (
        "--place conv1=gpu: device 'gpu' is unknown, expected arm or vta, arm@1,2 for these cores, "
        "vta+arm:32 to share it, with its last 32 channels on arm, or arm/GENERATOR for a code "
        "generator"
    )
    assert caught.value.hint == "`edgepipe inspect BUNDLE --operators` lists the operators"
    with pytest.raises(PartitionError, match="a is placed on arm already") as caught:
        arguments.placement(["a=arm", "a=vta"])
    assert caught.value.hint == "give one --place for each operator"
