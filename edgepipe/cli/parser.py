"""The parser of the command line: errors name the nearest command, option or value."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import Any, NoReturn

_CHOICE = re.compile(r"invalid choice: '(?P<found>.*)' \(choose from (?P<known>.*)\)")


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` with suggestions; subcommands get parsers of this class, too."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as ``ArgumentParser`` does, but let the command whose option is unknown say so.

        Otherwise the error would show the usage of the whole program instead.
        """
        options, rest = super().parse_known_args(args, namespace)
        if rest and self._subparsers is None:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return options, rest

    def error(self, message: str) -> NoReturn:
        """Print usage, error and the nearest known words, and end with exit code 2."""
        near = self._near(message)
        super().error(f"{message}\nhint: did you mean {near}?" if near else message)

    def _near(self, message: str) -> str:
        """Return the nearest word to the wrong one of an error, "" if none is near."""
        if choice := _CHOICE.search(message):
            known = [word.strip("'") for word in choice["known"].split(", ")]
            return nearest(choice["found"], known)
        for word in message.removeprefix("unrecognized arguments: ").split():
            if word.startswith("--") and (near := nearest(word, list(self._option_string_actions))):
                return near
        return ""


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the known word that looks most like ``word``, "" if none is near."""
    return next(iter(difflib.get_close_matches(word.partition("=")[0], known, n=1)), "")
