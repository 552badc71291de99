"""All that is public in the three packages has a docstring, in the public headers a comment."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generate import header_pages

ROOT = Path(__file__).resolve().parent.parent
HEADERS = sorted((ROOT / "cpp_runtime/include/edgepipe").glob("*.h"))
MODULES = sorted(
    path
    for name in ("edgepipe", "edgepipe_runtime", "vta_stages", "vta_rtl")
    for path in ROOT.glob(f"{name}/**/*.py")
)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Yield (qualified name, definition) of the public definitions of a module or class."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{prefix}{node.name}.")


def is_documented(module: str, name: str, node: Definition) -> bool:
    """Return whether a definition has its own docstring, or a method that of its base class."""
    if ast.get_docstring(node) is not None:
        return True
    owner, _, member = name.rpartition(".")
    if not owner or isinstance(node, ast.ClassDef):  # Python adds a docstring to a dataclass
        return False
    bases = getattr(importlib.import_module(module), owner, None)
    return bool(bases and inspect.getdoc(getattr(bases, member)))


def test_every_module_has_a_docstring() -> None:
    trees = {path: ast.parse(path.read_text()) for path in MODULES if path.stat().st_size}
    missing = [str(p.relative_to(ROOT)) for p, tree in trees.items() if not ast.get_docstring(tree)]
    assert missing == []


def test_every_public_class_and_function_has_a_docstring() -> None:
    missing = []
    for path in MODULES:
        relative = path.relative_to(ROOT)
        module = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
        for name, node in public(ast.parse(path.read_text()).body):
            if not is_documented(module, name, node):
                missing.append(f"{relative}:{node.lineno} {name}")
    assert missing == []


def explains_itself(declaration: header_pages.Declaration, top: str) -> bool:
    """Return whether a declaration has a comment: beside it, on its fields, or in the header's.

    A macro, and a member that is defined after its class, need none.
    """
    is_record = re.match(r"(struct|enum)\b", declaration.code) is not None
    return (
        bool(declaration.comment)
        or declaration.name in top
        or (is_record and "//" in declaration.code)
        or declaration.code.startswith("#define")
        or re.match(r"inline \w+::", declaration.code) is not None
    )


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: path.name)
def test_every_public_header_documents_what_it_declares(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    top = header_pages.top_comment(text)
    assert top, "the header begins without a comment"
    declared = [d for d in header_pages.declarations(text) if not d.is_forward]
    assert [d.name for d in declared if not explains_itself(d, top)] == []
