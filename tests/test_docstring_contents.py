"""Docstrings of public functions state shapes of arrays, units of quantities, errors raised."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from edgepipe import errors

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("edgepipe", "edgepipe_runtime", "vta_stages", "vta_rtl")
Function = ast.FunctionDef | ast.AsyncFunctionDef

ERRORS = {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
ARRAY = re.compile(r"\b(?:NDArray|ndarray|\w*Array|Frame|Picture|Float)\b")
# int8[n, c, h, w], [channels], or words if the shape is that of a port, a tensor or a parameter.
SHAPE = re.compile(r"\[[^\]]*\]|shapes?\b")
QUANTITY = re.compile(
    r"(?:timeout|deadline|delay|clock|freq|frequency|latency|duration|interval|elapsed|rate"
    r"|bandwidth|size|length)$"
)
NUMBER = re.compile(r"\b(?:int|float)\b")
UNIT = re.compile(
    r"\b(?:seconds?|s|ms|us|ns|hertz|Hz|MHz|bytes|bits|cycles|pixels?|tiles?|elements|blocks"
    r"|frames per second)\b"
)


def public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Yield (qualified name, definition) of public functions, and of public classes' methods."""
    for node in body:
        name = getattr(node, "name", "_")
        if isinstance(node, Function) and not name.startswith("_") and not is_overload(node):
            yield prefix + name, node
        if isinstance(node, ast.ClassDef) and not name.startswith("_"):
            yield from public(node.body, f"{prefix}{name}.")


def is_overload(function: Function) -> bool:
    return any(
        getattr(d, "id", getattr(d, "attr", "")) == "overload" for d in function.decorator_list
    )


def arguments(function: Function) -> list[ast.arg]:
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def text_of(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""


def raised(function: Function) -> set[str]:
    """Return edgepipe's errors that a function's own code raises."""
    found, pending = set(), list[ast.AST](function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, Function | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            made = node.exc.func
            found.add(getattr(made, "id", getattr(made, "attr", "")))
        pending += ast.iter_child_nodes(node)
    return found & ERRORS


def problems(function: Function) -> Iterator[str]:
    """Yield what a function's docstring does not say."""
    said = ast.get_docstring(function) or ""
    types = [text_of(argument.annotation) for argument in arguments(function)]
    has_arrays = any(ARRAY.search(text) for text in [*types, text_of(function.returns)])
    if has_arrays and not SHAPE.search(said):
        yield "no shape of its arrays, such as uint8[h, w, 3]"
    for argument in arguments(function):
        is_quantity = QUANTITY.search(argument.arg) and NUMBER.search(text_of(argument.annotation))
        if is_quantity and not UNIT.search(said):
            yield f"no unit of {argument.arg}"
    for name in sorted(raised(function)):
        if name not in said:
            yield f"it raises {name}"


@cache
def functions() -> tuple[tuple[str, Function], ...]:
    """Return every public function with its place."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name, node in public(ast.parse(path.read_text(encoding="utf-8")).body):
                found.append((f"{path.relative_to(ROOT)}:{node.lineno} {name}", node))
    return tuple(found)


def test_docstrings_state_shapes_units_and_errors() -> None:
    assert len(functions()) > 900, "the walk no longer finds the functions"
    missing = [f"{where}: {text}" for where, node in functions() for text in problems(node)]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize(
    ("signature", "said", "found"),
    [
        (
            "f(x: NDArray[Any]) -> int",
            "Add it up.",
            ["no shape of its arrays, such as uint8[h, w, 3]"],
        ),
        ("f(x: NDArray[Any]) -> int", "Add up ``x``: int8[n].", []),
        (
            "f() -> Array",
            "Return the port's array.",
            ["no shape of its arrays, such as uint8[h, w, 3]"],
        ),
        ("f() -> Array", "Return an array of the port's dtype and shape.", []),
        ("f(timeout: float) -> int", "Wait.", ["no unit of timeout"]),
        ("f(timeout: float) -> int", "Wait ``timeout`` seconds.", []),
        ("f(timeout_s: float) -> int", "Wait.", []),
        ("f(clock: Clock) -> int", "Read it.", []),
    ],
)
def test_the_rules_find_what_is_missing(signature: str, said: str, found: list[str]) -> None:
    (node,) = ast.parse(f'def {signature}:\n    """{said}"""\n').body
    assert isinstance(node, ast.FunctionDef)
    assert list(problems(node)) == found


def test_an_error_that_is_raised_is_named() -> None:
    source = 'def f(x: int) -> int:\n    """Check it."""\n    raise BoardError("no")\n'
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef)
    assert list(problems(node)) == ["it raises BoardError"]
    (node,) = ast.parse(source.replace("it.", "it. Raises BoardError.")).body
    assert isinstance(node, ast.FunctionDef)
    assert list(problems(node)) == []
