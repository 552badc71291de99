"""Everything that errors and hints name exists: flags of the command, commands, documents.

A library's text names no flag of edgepipe's commands: the command line adds its own
(``edgepipe/cli/hints.py``).
"""

from __future__ import annotations

import argparse
import re
from functools import cache
from pathlib import Path

import pytest
from hint_texts import ROOT, Text, cpp_texts, python_texts

from edgepipe.cli.commands import COMMANDS
from edgepipe.cli.main import make_parser

FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*|-[a-z](?![\w-]))")
COMMAND = re.compile(r"(?:`|: )edgepipe ([a-z][a-z-]*)((?: +[^`;]*)?)")
DOCUMENT = re.compile(r"(?<![\w/.-])((?:[\w-]+/)*[\w-]+\.(?:md|toml))\b")
# Programs that are not edgepipe's, so their flags are not checked.
OTHER_PROGRAMS = re.compile(
    r"(?<![\w-])(?:apt-get|cmake|ffmpeg|sudo|v4l2-ctl|cpupower|ssh-keygen|ssh-copy-id|modprobe|ulimit|ls|ninja"
    r"|python -m tf2onnx|python -c)\b[^`;,]*"
)
PROGRAMS = ("cpp_runtime/programs", "cpp_runtime/src/programs")


@cache
def flags_of(command: str) -> set[str]:
    """Return the flags of ``edgepipe COMMAND`` and its actions; those of ``edgepipe`` for ""."""
    parser = make_parser()
    pending = [parser]
    if command:
        pending = [choices_of(parser)[command]]
    found: set[str] = set()
    while pending:
        parser = pending.pop()
        found.update(parser._option_string_actions)
        if command:
            pending += choices_of(parser).values()
    return found


def choices_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return a parser's sub-commands by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def own(text: str) -> str:
    """Return ``text`` without the parts about other programs."""
    return OTHER_PROGRAMS.sub("", text)


def problems_of(text: Text) -> list[str]:
    """Return the names in ``text`` that do not exist or that its reader cannot use."""
    found = []
    names = {name.replace("_", "-") for name in COMMANDS}
    rest = own(text.whole)
    for command, arguments in COMMAND.findall(rest):
        if command not in names:
            found.append(f"`edgepipe {command}` is not a command")
        else:
            unknown = set(FLAG.findall(arguments)) - flags_of(command)
            found += [f"{flag} is not a flag of `edgepipe {command}`" for flag in unknown]
    rest = COMMAND.sub("", rest)
    allowed: set[str] = set()
    if text.where.startswith("edgepipe/cli/"):
        allowed |= flags_of("")
        module = Path(text.where.partition(":")[0]).stem.removesuffix("_command")
        shared = module.replace("_", "-") not in names
        for command in names if shared else {module.replace("_", "-")}:
            allowed |= flags_of(command)
    found += [f"{flag} is not a flag here" for flag in FLAG.findall(rest) if flag not in allowed]
    for name in DOCUMENT.findall(text.whole):
        if "/" in name and not (ROOT / name).is_file():
            found.append(f"{name} does not exist")
    return found


def test_errors_and_hints_name_what_exists() -> None:
    texts = list(python_texts())
    assert len(texts) > 400, "the walk no longer finds the errors"
    wrong = [f"{text.where}: {text.whole!r}: {p}" for text in texts for p in problems_of(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("where", "text", "problem"),
    [
        (
            "edgepipe/quantize/calibrate.py:1",
            "give a folder of typical pictures with --calibrate",
            "--calibrate is not a flag here",
        ),
        ("edgepipe/recipe.py:1", "or name one with --description", "--description is not a"),
        ("edgepipe/cli/build_command.py:1", "see --calibrate", "--calibrate is not a flag here"),
        ("edgepipe/media.py:1", "`edgepipe biuld` makes one", "`edgepipe biuld` is not a command"),
        (
            "edgepipe/media.py:1",
            "`edgepipe run --calib`",
            "--calib is not a flag of `edgepipe run`",
        ),
        ("edgepipe/media.py:1", "see docs/nowhere.md", "docs/nowhere.md does not exist"),
    ],
)
def test_the_walk_finds_what_does_not_exist(where: str, text: str, problem: str) -> None:
    (found,) = problems_of(Text(where=where, parts=(text,), is_hint=True))
    assert problem in found


def test_the_command_line_may_name_its_own_flags() -> None:
    where = "edgepipe/cli/build_command.py:1"
    assert not problems_of(Text(where=where, parts=("give --calib a folder",), is_hint=True))


@cache
def declared_flags() -> set[str]:
    """Return the flags that the C++ programs declare: literals that consist of a flag only."""
    texts = [text for text in cpp_texts() if text.where.startswith(PROGRAMS)]
    usage = [text.whole for text in texts if text.whole.startswith("usage")]
    return {text.whole for text in texts if FLAG.fullmatch(text.whole)} | {
        flag for line in usage for flag in FLAG.findall(line)
    }


def test_cpp_texts_name_what_exists() -> None:
    wrong = []
    for text in cpp_texts():
        if " " not in text.whole:
            continue  # an argument, not a sentence
        names = {name.replace("_", "-") for name in COMMANDS}
        for command, arguments in COMMAND.findall(text.whole):
            if command not in names or set(FLAG.findall(arguments)) - flags_of(command):
                wrong.append(f"{text.where}: {text.whole!r}")
        known = declared_flags() if text.where.startswith(PROGRAMS) else set()
        unknown = [flag for flag in FLAG.findall(own(text.whole)) if flag not in known]
        wrong += [f"{text.where}: {text.whole!r}: {flag}" for flag in unknown]
    assert not wrong, "\n".join(wrong)
