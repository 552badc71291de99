"""Pages of the command line contain every command, action and argument of the parsers."""

from __future__ import annotations

import argparse

from docs.generate.command_pages import parser_pages
from edgepipe.cli.commands import COMMANDS
from edgepipe.cli.main import make_parser


def test_every_command_has_a_page_with_its_arguments() -> None:
    pages = dict(parser_pages(make_parser()))
    assert sorted(pages) == sorted(name.replace("_", "-") for name in COMMANDS)
    build = pages["build"]
    assert build.startswith("# edgepipe build\n")
    assert "| `-o OUT`, `--output OUT` | bundle to write (required) |" in build
    assert "```text\nedgepipe build net.onnx --board ultra96" in build


def test_actions_are_sections_of_their_commands_page() -> None:
    parser = argparse.ArgumentParser(prog="lamp")
    commands = parser.add_subparsers()
    switch = commands.add_parser("switch", description="Switch a lamp.")
    actions = switch.add_subparsers()
    on = actions.add_parser("on", help="light it")
    on.add_argument("--colour", choices=("red", "a|b"), default="red", help="of it (%(default)s)")
    on.add_argument("--secret", help=argparse.SUPPRESS)
    ((_, page),) = parser_pages(parser)
    assert "## lamp switch on\n\nLight it.\n" in page
    assert "| `--colour {red,a|b}` | of it (red) |" in page.replace("\\|", "|")
    assert "secret" not in page.split("| argument |")[1]
