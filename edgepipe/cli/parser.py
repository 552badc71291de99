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
        hint = self._missing(message)
        if not hint and (near := self._near(message)):
            hint = f"did you mean {near}?"
        super().error(f"{message}\nhint: {hint}" if hint else message)

    def _missing(self, message: str) -> str:
        """Return what each missing argument is, "" for another error."""
        start = "the following arguments are required: "
        if not message.startswith(start):
            return ""
        known = {"/".join(a.option_strings) or str(a.metavar or a.dest): a for a in self._actions}
        missing = [name for name in message.removeprefix(start).split(", ") if name in known]
        return "; ".join(f"{name}: {known[name].help}" for name in missing if known[name].help)

    def _near(self, message: str) -> str:
        """Return the nearest word to the wrong one of an error, "" if none is near."""
        if choice := _CHOICE.search(message):
            known = [word.strip("'") for word in choice["known"].split(", ")]
            return nearest(choice["found"], known)
        start = "unrecognized arguments: "
        words = message.removeprefix(start).split() if message.startswith(start) else []
        for word in words:
            if word.startswith("--") and (near := nearest(word, list(self._option_string_actions))):
                return near
        return ""


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the known word that looks most like ``word``, "" if none is near."""
    return next(iter(difflib.get_close_matches(word.partition("=")[0], known, n=1)), "")
