"""Code in the documents is correct: Python against the API, commands against the parsers."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from needs import built

import edgepipe
from edgepipe.cli.main import make_parser

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")],
    key=lambda path: path.relative_to(ROOT).as_posix(),
)
PROGRAMS = ("edgepipe-run", "edgepipe-cam", "edgepipe-rpcd")
COMMAND = re.compile(rf"^(?:\$ )?(?:\S+ \| )?((?:edgepipe|{'|'.join(PROGRAMS)}|make) .*)$")


FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```$", re.M | re.S)
INDENTED = re.compile(r"(?:^    .*\n)+", re.M)


def blocks(document: Path, language: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, code) of the fenced blocks of a language, without included files."""
    text = document.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        code = re.sub(rf"^{found[1]}", "", found[3], flags=re.M)
        if found[2] == language and "--8<--" not in code:
            yield text.count("\n", 0, found.start()) + 2, code


def test_included_files_exist() -> None:
    """A formatter may take the line that includes a file for Python, and add blanks."""
    lines = [line for document in DOCUMENTS for line in document.read_text().splitlines()]
    included = [line.strip() for line in lines if line.strip().startswith("--8")]
    found = [re.fullmatch('--8<-- "(.+)"', line) for line in included]
    assert all(found), included
    assert included
    assert all((ROOT / match[1]).is_file() for match in found if match)


def cases(language: str) -> list[object]:
    """Return a parameter for each block of a language, named by document and line."""
    return [
        pytest.param(code, id=f"{document.relative_to(ROOT)}:{line}")
        for document in DOCUMENTS
        for line, code in blocks(document, language)
    ]


def commands() -> list[object]:
    """Return a parameter for each command line in fenced or indented code."""
    found = []
    for document in DOCUMENTS:
        code = [code for language in ("sh", "text", "") for _, code in blocks(document, language)]
        code += INDENTED.findall(FENCE.sub("", document.read_text(encoding="utf-8")))
        for line in "".join(code).replace("\\\n", " ").splitlines():
            if match := COMMAND.match(line.strip()):
                found.append(pytest.param(match[1], id=f"{document.name}: {match[1][:70]}"))
    return found


@pytest.mark.parametrize("code", cases("python"))
def test_python_names_what_exists(code: str) -> None:
    """Imports resolve; attributes of ``edgepipe`` exist; keywords of its calls are parameters."""
    tree = ast.parse(code)
    known: dict[str, object] = {"edgepipe": edgepipe}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            ("edgepipe", "vta_stages", "vta_rtl")
        ):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                known[alias.asname or alias.name] = getattr(module, alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            resolved(node, known)
        if isinstance(node, ast.Call) and (function := resolved(node.func, known)) is not None:
            parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
            named = {keyword.arg for keyword in node.keywords if keyword.arg}
            assert named <= set(parameters), f"line {node.lineno}: {named - set(parameters)}"


def resolved(node: ast.expr, known: dict[str, object]) -> object | None:
    """Return what an expression such as ``edgepipe.load`` names; None if it is not edgepipe's."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := resolved(node.value, known)) is not None:
        return getattr(owner, node.attr)  # type: ignore[no-any-return]
    return None


@pytest.mark.parametrize("code", cases("toml"))
def test_toml_can_be_parsed(code: str) -> None:
    tomllib.loads(code)


@cache
def help_of(program: str) -> str:
    done = subprocess.run([built(program), "--help"], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("command", commands())
def test_a_command_is_one_that_the_parser_takes(command: str) -> None:
    command = re.sub(r"\$\(.*?\)", "value", command.split("  #")[0].split(" # ")[0])
    command = command.replace("$BOARD", "--host value")  # as the tutorials define it
    program, *arguments = shlex.split(re.split(r" [|>;&]", command)[0])
    if program == "make":
        subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True)
    elif program == "edgepipe":
        if "..." not in arguments:
            accepted(arguments)
    else:
        for option in (a.split("=")[0] for a in arguments if a.startswith("--")):
            assert re.search(rf"{re.escape(option)}\b", help_of(program)), option


def accepted(arguments: list[str]) -> None:
    """Fail unless the parser takes the arguments, or shows its version or help for them."""
    try:
        make_parser().parse_args(arguments)
    except SystemExit as end:
        assert end.code == 0
