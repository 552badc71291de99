"""Reference pages of the command line, from the parsers themselves and the programs' --help."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from pathlib import Path

HELP_TIMEOUT_S = 20


def parser_pages(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield (command, Markdown page) for every command of a parser, actions on one page."""
    for name, command in sorted(_subparsers(parser).items()):
        yield name, "\n".join(_section(command, level=1))


def program_page(program: Path) -> str:
    """Return the page of a C++ program: what its --help prints.

    Raises OSError if the program has not been built, CalledProcessError if it fails.
    """
    ran = subprocess.run(
        [program, "--help"], capture_output=True, text=True, check=True, timeout=HELP_TIMEOUT_S
    )
    return f"# {program.name}\n\n```text\n{ran.stdout.strip()}\n```\n"


def help_of(parser: argparse.ArgumentParser, command: str) -> str:
    """Return the one line that the overview of commands shows for ``command``."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                if choice.dest == command:
                    return choice.help or ""
    return ""


def _section(parser: argparse.ArgumentParser, level: int, help_text: str = "") -> Iterator[str]:
    """Yield the lines of one command and of its actions, one heading below."""
    yield from [f"{'#' * level} {parser.prog}", ""]
    description = parser.description or help_text
    yield from [f"{description[:1].upper()}{description[1:].rstrip('.')}.", ""]
    yield from ["```text", parser.format_usage().strip().removeprefix("usage: "), "```", ""]
    arguments = [a for a in parser._actions if not _is_left_out(a)]
    if arguments:
        yield from ["| argument | |", "|---|---|"]
        yield from [
            f"| {_spelling(action)} | {_explained(action, parser)} |" for action in arguments
        ]
        yield ""
    if parser.epilog:
        yield from _epilog(parser.epilog)
    for name, action in _subparsers(parser).items():
        yield from _section(action, level + 1, help_of(parser, name))


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _is_left_out(action: argparse.Action) -> bool:
    kinds = (argparse._HelpAction, argparse._SubParsersAction)
    return isinstance(action, kinds) or action.help == argparse.SUPPRESS


def _spelling(action: argparse.Action) -> str:
    value = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    )
    if not action.option_strings:
        return f"`{value or action.dest}`"
    if action.nargs != 0 and not value:
        value = action.dest.upper()
    return ", ".join(f"`{option} {value}`".replace(" `", "`") for option in action.option_strings)


def _explained(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    needed = " (required)" if action.option_strings and action.required else ""
    return _cell(text + needed)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _epilog(epilog: str) -> Iterator[str]:
    """Yield an epilog: paragraphs as text, indented parts (its examples) as a block."""
    for paragraph in epilog.strip("\n").split("\n\n"):
        lines = paragraph.splitlines()
        first = next((i for i, line in enumerate(lines) if line.startswith("  ")), len(lines))
        yield from [*map(_cell, lines[:first]), ""]
        if first < len(lines):
            code = [line.removeprefix("  ") for line in lines[first:]]
            yield from ["```text", *code, "```", ""]
