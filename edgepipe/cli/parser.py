"""The parser of the command line: errors name the nearest command, option or value."""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from edgepipe import resources
from edgepipe.names import nearest

_CHOICE = re.compile(r"invalid choice: '(?P<found>.*)' \(choose from (?P<known>.*)\)")
_SHORTEST = 4  # characters of a word that can be a slip of a long option
_UNKNOWN = "unrecognized arguments: "
_MISSING = ("the following arguments are required: ", "one of the arguments ")


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` with suggestions; subcommands get parsers of this class, too."""

    _words: Sequence[str] = ()

    def format_help(self) -> str:
        """Return the help, in which documents are paths that exist here."""
        return resources.with_paths(super().format_help())

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as ``ArgumentParser`` does, but let the command whose option is unknown say so.

        Otherwise the error would show the usage of the whole program instead.
        """
        self._words = sys.argv[1:] if args is None else list(args)
        options, rest = super().parse_known_args(args, namespace)
        if rest and self._subparsers is None:
            self.error(_UNKNOWN + " ".join(rest))
        return options, rest

    def error(self, message: str) -> NoReturn:
        """Print usage, error and the nearest known words, and end with exit code 2.

        What is missing because an option is misspelt is an error of that option.
        """
        if message.startswith(_MISSING) and (word := self._misspelt()):
            message = _UNKNOWN + word
        hint = self._missing(message)
        if not hint and (near := self._near(message)):
            hint = f"did you mean {near}?"
        super().error(f"{message}\nhint: {hint}" if hint else message)

    def _missing(self, message: str) -> str:
        """Return what each missing argument is, "" for another error."""
        start = _MISSING[0]
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
        words = message.removeprefix(_UNKNOWN).split() if message.startswith(_UNKNOWN) else []
        return next(filter(None, map(self._near_option, words)), "")

    def _near_option(self, word: str) -> str:
        """Return the option for which a word is a slip, "" if it is not one of a long option."""
        name = word.partition("=")[0]
        if not name.startswith("-") or len(name) < _SHORTEST:
            return ""
        return nearest(name, self._option_string_actions)

    def _misspelt(self) -> str:
        """Return the first word that is no option but near one, "" if there is none."""
        return next(filter(self._near_option, self._unknown()), "")

    def _unknown(self) -> Iterator[str]:
        """Yield the words that look like options and are neither one nor the beginning of one."""
        for word in itertools.takewhile(lambda word: word != "--", self._words):
            name = word.partition("=")[0]
            known = any(option.startswith(name) for option in self._option_string_actions)
            joined = word[:2] in self._option_string_actions  # as in -oFILE
            if word.startswith("-") and not known and not joined:
                yield name
