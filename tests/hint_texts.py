"""The texts of errors and hints in the sources, found without running them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ("edgepipe", "edgepipe_runtime", "vta_stages", "vta_rtl")
CPP = (
    "cpp_runtime/src",
    "cpp_runtime/include",
    "cpp_runtime/ffi",
    "cpp_runtime/c_interface",
    "cpp_runtime/programs",
    "cpp_runtime/gstreamer",
)
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
    """Yield the texts of all errors and hints in the Python sources."""
    for path, module in _modules():
        for node in ast.walk(module):
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
    name = target.id.strip("_").lower() if isinstance(target, ast.Name) else ""
    return name.endswith(("hint", "hints", "remedy", "remedies"))


def _python(path: Path, value: ast.expr, *, is_hint: bool) -> Iterator[Text]:
    """Yield the texts of an expression: both sides of a condition, all entries of a table."""
    where = f"{path.relative_to(ROOT)}:{value.lineno}"
    if isinstance(value, ast.IfExp):
        yield from _python(path, value.body, is_hint=is_hint)
        yield from _python(path, value.orelse, is_hint=is_hint)
    elif isinstance(value, ast.BoolOp):
        for side in value.values:
            yield from _python(path, side, is_hint=is_hint)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value:
        parts = tuple(re.split(r"\{\w+\}", value.value)) if is_hint else (value.value,)
        yield Text(where=where, parts=parts, is_hint=is_hint)  # {host}: see str.format
    elif isinstance(value, ast.JoinedStr):
        parts = tuple(str(p.value) for p in value.values if isinstance(p, ast.Constant) and p.value)
        yield Text(where=where, parts=parts, is_hint=is_hint)
    elif isinstance(value, ast.BinOp):
        for side in (value.left, value.right):
            yield from _python(path, side, is_hint=is_hint)
    elif isinstance(value, ast.Tuple | ast.List):
        tables = [e for e in value.elts if isinstance(e, ast.Tuple | ast.List)]
        for entry in tables or value.elts[-1:]:  # the last entry of a row is its text
            yield from _python(path, entry, is_hint=is_hint)
    elif isinstance(value, ast.Dict):
        for entry in value.values:
            yield from _python(path, entry, is_hint=is_hint)
    elif isinstance(value, ast.Subscript) and is_hint:
        yield from _python(path, value.value, is_hint=True)
    elif isinstance(value, ast.Name) and is_hint:
        for assigned in _constants().get(value.id) or _locals(path).get(value.id, ()):
            yield from _python(*assigned, is_hint=True)
    elif isinstance(value, ast.Call) and is_hint:
        function = value.func
        if isinstance(function, ast.Attribute):  # remedy.format(host=host)
            yield from _python(path, function.value, is_hint=True)
        elif isinstance(function, ast.Name):
            for returned in _results().get(function.id, ()):
                yield from _python(*returned, is_hint=True)


@cache
def _modules() -> tuple[tuple[Path, ast.Module], ...]:
    """Return the parsed sources of both packages."""
    paths = [path for folder in PYTHON for path in sorted((ROOT / folder).rglob("*.py"))]
    return tuple((path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths)


@cache
def _constants() -> dict[str, list[tuple[Path, ast.expr]]]:
    """Return the values assigned to the constants of all modules, by name."""
    found: dict[str, list[tuple[Path, ast.expr]]] = {}
    for path, module in _modules():
        for node in module.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.AugAssign):
                target = node.target
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AugAssign):
                found.setdefault(target.id, []).append((path, node.value))
    return found


@cache
def _locals(path: Path) -> dict[str, list[tuple[Path, ast.expr]]]:
    """Return the values that a module's functions assign to local names, by name."""
    found: dict[str, list[tuple[Path, ast.expr]]] = {}
    for node in ast.walk(dict(_modules())[path]):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append((path, node.value))
    return found


@cache
def _results() -> dict[str, list[tuple[Path, ast.expr]]]:
    """Return what the functions of all modules return, by the function's name."""
    found: dict[str, list[tuple[Path, ast.expr]]] = {}
    for path, module in _modules():
        for function in module.body:
            if isinstance(function, ast.FunctionDef):
                found[function.name] = [
                    (path, node.value)
                    for node in ast.walk(function)
                    if isinstance(node, ast.Return) and node.value is not None
                ]
    return found


def cpp_texts() -> Iterator[Text]:
    """Yield every string literal of the C++ sources, adjacent ones joined."""
    for folder in CPP:
        for path in sorted((ROOT / folder).rglob("*.*")):
            if path.suffix in (".cc", ".h"):
                yield from literals(path)


def literals(path: Path) -> Iterator[Text]:
    """Yield the string literals of one C++ source, adjacent ones joined, without comments."""
    source = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    for found in re.finditer(rf"{_LITERAL}(?:\s*{_LITERAL})*", source):
        whole = "".join(re.findall(_LITERAL, found[0]))
        line = source[: found.start()].count("\n") + 1
        yield Text(where=f"{path.relative_to(ROOT)}:{line}", parts=(whole,), is_hint=False)


def cpp_hints() -> Iterator[Text]:
    """Yield the hints that C++ sources give: the third value of a Status, and advised()."""
    for folder in (*CPP, "cpp_runtime/rpc"):
        for path in sorted((ROOT / folder).rglob("*.*")):
            if path.suffix in (".cc", ".h"):
                source = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
                for match in re.finditer(r"(?:\bStatus|\badvised|\breturn )[({]", source):
                    arguments = _arguments(source, match.end())
                    is_advice = "advised" in match[0]
                    is_status = len(arguments) == 3 and re.search(r"\bcode|Code::", arguments[0])
                    if is_advice or is_status:
                        line = source[: match.start()].count("\n") + 1
                        yield from _cpp_hint(
                            source, arguments[-1], f"{path.relative_to(ROOT)}:{line}"
                        )


def cpp_program_texts() -> Iterator[Text]:
    """Yield what C++ programs return as an error of their arguments, and the hints they print."""
    for folder in ("cpp_runtime/src/programs", "cpp_runtime/programs", "cpp_runtime/rpc"):
        for path in sorted((ROOT / folder).glob("*.cc")):
            source = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
            start = r"(?:\breturn |wrong_use\(|print_line\(stderr, )\s*"
            for found in re.finditer(rf"{start}((?:{_LITERAL}\s*)+)", source):
                whole = "".join(re.findall(_LITERAL, found[1]))
                line = source[: found.start()].count("\n") + 1
                where = f"{path.relative_to(ROOT)}:{line}"
                yield Text(where=where, parts=(whole,), is_hint=whole.startswith("hint: "))


def _cpp_hint(source: str, argument: str, where: str) -> Iterator[Text]:
    """Yield the text of an expression: its literals, or the constant that it names."""
    constant = re.fullmatch(r"\s*(k[A-Z]\w*)\s*", argument)
    if constant and (found := re.search(rf"{constant[1]}\s*=\s*((?:{_LITERAL}\s*)+);", source)):
        argument = found[1]
    if re.fullmatch(rf"(?:\s*{_LITERAL})+\s*", argument):
        parts: tuple[str, ...] = ("".join(re.findall(_LITERAL, argument)),)
    else:
        parts = tuple(re.findall(_LITERAL, argument))
    if parts:
        yield Text(where=where, parts=parts, is_hint=True)


def _arguments(source: str, start: int) -> list[str]:
    """Return the arguments of a C++ call whose parenthesis ends before ``start``."""
    depth, begin, found = 0, start, []
    for token in re.compile(rf"{_LITERAL}|[()\[\]{{}},]").finditer(source, start):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}" and depth:
            depth -= 1
        elif token[0] == "," and not depth:
            found.append(source[begin : token.start()])
            begin = token.end()
        elif token[0] in ")]}":
            return [*found, source[begin : token.start()]]
    return found


def shell_hints() -> Iterator[Text]:
    """Yield the hints of scripts for boards: the second text of ``fail`` and ``lacks``."""
    for path in sorted(ROOT.glob("board/*.sh")):
        hints = [hint for _, hint in _refusals(path) if hint]
        hints += re.findall(r'echo "hint: ([^"$]*[^"]*)"', path.read_text(encoding="utf-8"))
        for hint in hints:
            yield _shell_text(path, hint, is_hint=True)


def shell_errors() -> Iterator[Text]:
    """Yield the errors of scripts for boards: the first text of ``fail`` and ``lacks``."""
    for path in sorted(ROOT.glob("board/*.sh")):
        for error, _ in _refusals(path):
            yield _shell_text(path, error, is_hint=False)


def _refusals(path: Path) -> list[tuple[str, str]]:
    """Return (error, hint) of every call of ``fail`` and ``lacks``; the hint may be empty."""
    source = path.read_text(encoding="utf-8").replace("\\\n", " ")
    calls = re.findall(
        rf"(?:^|[;&|] ?|then ) *(?:fail|lacks) (?:{_LITERAL}|([\w-]+))(?: +{_LITERAL})?",
        source,
        re.M,
    )
    return [(quoted or word, hint) for quoted, word, hint in calls]


def _shell_text(path: Path, text: str, *, is_hint: bool) -> Text:
    plain = text.replace("\\`", "`")
    parts = tuple(re.split(r"\$\w+|\$\{[^}]*\}|\$\([^)]*\)", plain))
    return Text(where=str(path.relative_to(ROOT)), parts=parts, is_hint=is_hint)
