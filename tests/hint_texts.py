"""The texts of errors and hints in the sources, found without running them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ("edgepipe", "vta_stages")
CPP = ("cpp_runtime/src", "cpp_runtime/include", "cpp_runtime/ffi", "cpp_runtime/programs")
_LITERAL = r'"((?:[^"\\\n]|\\.)*)"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The constant parts of one text; ``is_hint`` tells a hint from the error itself."""

    where: str
    parts: tuple[str, ...]
    is_hint: bool

    @property
    def whole(self) -> str:
        """The text with ``...`` where a value stands."""
        return "...".join(self.parts)


def python_texts() -> Iterator[Text]:
    """Yield the texts of all errors that Python sources construct, and of what they advise."""
    for folder in PYTHON:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    yield from _call_texts(path, node)
                elif isinstance(node, ast.Assign) and _is_hint_name(node.targets[0]):
                    yield from _python(path, node.value, is_hint=True)


def _call_texts(path: Path, call: ast.Call) -> Iterator[Text]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name == "advise" and call.args:
        yield from _python(path, call.args[0], is_hint=True)
    if name.endswith(("Error", "Failure", "Passed", "Ended")) and call.args:
        yield from _python(path, call.args[0], is_hint=False)
    for keyword in call.keywords:
        if keyword.arg in ("hint", "remedy"):
            yield from _python(path, keyword.value, is_hint=True)


def _is_hint_name(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id.strip("_").lower() in ("hint", "remedy")


def _python(path: Path, value: ast.expr, *, is_hint: bool) -> Iterator[Text]:
    """Yield the text of an expression, or of both sides of a condition."""
    where = f"{path.relative_to(ROOT)}:{value.lineno}"
    if isinstance(value, ast.IfExp):
        yield from _python(path, value.body, is_hint=is_hint)
        yield from _python(path, value.orelse, is_hint=is_hint)
    elif isinstance(value, ast.BoolOp):
        for side in value.values:
            yield from _python(path, side, is_hint=is_hint)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value:
        yield Text(where=where, parts=(value.value,), is_hint=is_hint)
    elif isinstance(value, ast.JoinedStr):
        parts = tuple(p.value for p in value.values if isinstance(p, ast.Constant))
        yield Text(where=where, parts=parts, is_hint=is_hint)
    elif isinstance(value, ast.BinOp):
        for side in (value.left, value.right):
            yield from _python(path, side, is_hint=is_hint)


def cpp_texts() -> Iterator[Text]:
    """Yield every string literal of the C++ sources, adjacent ones joined."""
    for folder in CPP:
        for path in sorted((ROOT / folder).rglob("*.*")):
            if path.suffix in (".cc", ".h"):
                yield from literals(path)


def literals(path: Path) -> Iterator[Text]:
    """Yield the string literals of one C++ source, adjacent ones joined, comments left out."""
    source = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    for found in re.finditer(rf"{_LITERAL}(?:\s*{_LITERAL})*", source):
        whole = "".join(re.findall(_LITERAL, found[0]))
        line = source[: found.start()].count("\n") + 1
        yield Text(where=f"{path.relative_to(ROOT)}:{line}", parts=(whole,), is_hint=False)
