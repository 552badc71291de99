"""Every document and example that a hint, an error or --help names is in the installed package."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from hint_texts import cpp_texts, python_texts

from edgepipe.cli.main import make_parser

# What pip has installed: the wheel's files, as `make wheel` gets them.
INSTALLED = Path(sysconfig.get_path("platlib")) / "edgepipe" / "_data"
CITED = re.compile(r"(?<![\w./-])((?:bench|bitstreams|cross|docs|examples)/[\w./-]*\w)")


def helps(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the description, epilog and arguments of a parser and of its commands."""
    yield f"{parser.description or ''} {parser.epilog or ''}"
    for action in parser._actions:
        yield action.help or ""
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from helps(command)


def test_cited_files_are_installed() -> None:
    texts = [text.whole for text in (*python_texts(), *cpp_texts()) if " " in text.whole]
    cited = {name for text in (*texts, *helps(make_parser())) for name in CITED.findall(text)}
    assert {"docs/reference/scheme.md", "docs/guides/board.md"} <= cited
    missing = sorted(name for name in cited if not (INSTALLED / name).exists())
    assert not missing, f"not in {INSTALLED}: {', '.join(missing)}"


def test_the_installed_command_names_them_by_paths_that_exist(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text("[preprocess]\nwidth = 'a'\n")
    known = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    network = INSTALLED / "examples" / "fmnist_resnet8.onnx"
    ran = subprocess.run(
        [
            *(Path(sys.executable).parent / "edgepipe", "inspect", network),
            *("--description", "wrong.toml"),
        ],
        cwd=tmp_path,
        env=known,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    (path,) = re.findall(
        r"^hint: correct the description; (\S+) explains every key$", ran.stderr, re.M
    )
    assert path == str(INSTALLED / "docs" / "reference" / "description.md")
    assert Path(path).is_file()
