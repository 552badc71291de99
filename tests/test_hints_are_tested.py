"""Every hint is in a test that provokes its error: in an assertion, or in a row of its cases.

A text in a plain list does not count, because it does not prove that the code still gives it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
from hint_texts import (
    ROOT,
    Text,
    cpp_hints,
    cpp_program_texts,
    python_texts,
    shell_errors,
    shell_hints,
)

LEAST_PART = 8  # characters of a constant part that a test must repeat
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
ASSERTION = re.compile(r"\b(?:EXPECT|ASSERT)_\w+\(")
ASSERTING = ("assert", "match", "raises", "refused", "unchanged")


def asserted(module: ast.Module) -> Iterator[str]:
    """Yield the texts of a test module in assertions and in calls that provoke errors."""
    used = {node.id for node in ast.walk(module) if _is_loaded(node)}
    for node in ast.walk(module):
        if isinstance(node, ast.Assert):
            yield from _texts(node.test)
        elif isinstance(node, ast.Call) and _name(node.func).startswith(ASSERTING):
            yield from _texts(node)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for decorator in node.decorator_list:
                yield from _texts(decorator)
            yield from _rows(node)
            yield from _compared_names(node)
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(node.value, ast.Constant) and _name(target) in used:
                yield from _texts(node.value)
            yield from _rows(node.value)


def _compared_names(test: ast.FunctionDef) -> Iterator[str]:
    """Yield the texts of a test's local names that its assertions use."""
    used = {
        node.id
        for assertion in ast.walk(test)
        if isinstance(assertion, ast.Assert)
        for node in ast.walk(assertion)
        if isinstance(node, ast.Name)
    }
    for node in ast.walk(test):
        is_text = isinstance(node, ast.Assign) and isinstance(
            node.value, ast.Constant | ast.JoinedStr
        )
        if is_text and _name(node.targets[0]) in used:
            yield from _texts(node.value)


def _rows(table: ast.AST) -> Iterator[str]:
    """Yield the texts of rows that also contain what provokes an error: a function or a value."""
    for row in ast.walk(table):
        if isinstance(row, ast.Tuple):
            provoking = (ast.Lambda, ast.Name, ast.Call, ast.Attribute)
            if any(isinstance(entry, provoking) for entry in row.elts):
                for entry in row.elts:
                    if not isinstance(entry, ast.Lambda):
                        yield from _texts(entry)


def _texts(expression: ast.AST) -> Iterator[str]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _name(expression: ast.expr) -> str:
    return getattr(expression, "attr", "") or getattr(expression, "id", "")


def _is_loaded(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def asserted_in_cpp(source: str) -> Iterator[str]:
    """Yield the texts in the assertions of a C++ test, adjacent literals joined."""
    source = re.sub(r"//.*", "", source)
    for found in ASSERTION.finditer(source):
        end = source.find(";\n", found.end())
        for texts in re.finditer(
            rf"{LITERAL.pattern}(?:\s*{LITERAL.pattern})*", source[found.end() : end]
        ):
            yield "".join(LITERAL.findall(texts[0]))


@cache
def all_asserted() -> str:
    """Return all asserted texts, one per line."""
    found: list[str] = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        found += asserted(ast.parse(path.read_text(encoding="utf-8")))
    for path in sorted((ROOT / "cpp_runtime/tests").rglob("*.cc")):
        found += asserted_in_cpp(path.read_text(encoding="utf-8"))
    return "\n".join(text.replace("\n", " ") for text in found)


def untested(text: Text, tested: str) -> list[str]:
    """Return the constant parts of a hint that no test repeats."""
    parts = sorted((part.strip() for part in text.parts if part.strip()), key=len)
    needed = [part for part in parts if len(part) >= LEAST_PART] or parts[-1:]
    return [part for part in needed if part not in tested]


@cache
def hints() -> list[Text]:
    """Return every hint of the sources, in Python, C++ and shell."""
    found = [text for text in python_texts() if text.is_hint]
    found += [text for text in cpp_program_texts() if text.is_hint]
    return [*found, *cpp_hints(), *shell_hints()]


def test_the_walk_finds_all_ways_to_give_a_hint() -> None:
    found = {text.whole for text in hints()}
    for expected in (
        "check the name of the TOML file",  # hint="..."
        "the program is damaged: build or copy the bundle again",  # advise("...")
        "put a key on the board: `ssh-copy-id ...`",  # a table of remedies
        "did you mean: ",  # a function that returns one
        "load the kernel module u-dma-buf",  # a local name
        "this is a bug in edgepipe: report it with the steps that led to it",  # a module's constant
        "the array is ...: pass np.transpose(array, ...)",  # a function's result
        "use fewer slots, or give the session more memory",  # C++: Status(code, text, hint)
        "allow more time",  # C++: a constant
        "build the bundle again, for this machine's processor or board",  # C++: advised()
        "hint: edgepipe-rpcd --help",  # C++: a printed line
        "sudo sh setup.sh ...",  # a script's fail TEXT HINT
        "install openssh-client; it verifies signatures",  # a script's lacks WORD HINT
    ):
        assert expected in found


def test_every_hint_stands_in_a_test_that_provokes_it() -> None:
    missing = [f"{t.where}: {part!r}" for t in hints() for part in untested(t, all_asserted())]
    assert not missing, "\n".join(missing)


def test_every_flag_in_an_error_of_the_command_is_tested() -> None:
    flag = re.compile(r"(?<![\w-])--[a-z]")
    errors = [t for t in python_texts() if t.where.startswith("edgepipe/cli/")]
    errors += [t for t in cpp_program_texts() if not t.whole.startswith("usage")]
    named = [t for t in errors if not t.is_hint and flag.search(t.whole)]
    for folder in ("edgepipe/cli/", "cpp_runtime/src/programs/", "cpp_runtime/rpc/"):
        assert any(t.where.startswith(folder) for t in named), f"no flags found in {folder}"
    missing = [f"{t.where}: {part!r}" for t in named for part in untested(t, all_asserted())]
    assert not missing, "\n".join(missing)


def test_every_error_of_the_scripts_for_boards_is_tested() -> None:
    errors = list(shell_errors())
    assert len(errors) > 10, "the walk no longer finds the calls of fail and lacks"
    missing = [f"{t.where}: {part!r}" for t in errors for part in untested(t, all_asserted())]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        ("def test_x():\n    assert error.hint == 'check the name'", True),
        ("@pytest.mark.parametrize('h', ['check the name'])\ndef test_x(h): ...", True),
        ("CASES = {'a': (lambda f: load(f), 'check the name')}", True),
        ("HINT = 'check the name'\ndef test_x():\n    assert error.hint == HINT", True),
        ("def test_x():\n    hint = 'check the name'\n    assert hint in said", True),
        ("def test_x():\n    hint = 'check the name'", False),
        ("HINTS = ['check the name', 'build it again']", False),
        ("HINTS = {'a': ('check the name', 'build it again')}", False),
        ("HINT = 'check the name'", False),
        ("def test_x():\n    '''check the name'''", False),
    ],
)
def test_a_text_counts_where_it_is_compared_with_an_error(source: str, counts: bool) -> None:
    tested = "\n".join(asserted(ast.parse(source)))
    text = Text(where="edgepipe/media.py:1", parts=("check the name",), is_hint=True)
    assert (untested(text, tested) == []) == counts
