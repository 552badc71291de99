"""Packages import only what ARCHITECTURE.md's table of folders lets them import."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# What stands below everything: errors, and helpers without an idea of networks or boards.
EVERYWHERE = {"__version__", "closing", "errors", "names", "progress", "resources", "schema"}
# Libraries whose names change, or that are large, and who alone may know them.
KEPT_APART = {
    "tvm": {"tvm_adapter", "tvm_executable", "codegen"},
    "tvm_ffi": {"codegen", "runtime", "tvm_adapter"},
    "cv2": {"frontend", "media", "report"},
    "onnx": {"frontend", "quantize"},
    "onnxruntime": {"quantize"},
}


def packages() -> dict[str, list[Path]]:
    """Return the Python files of every package or module below edgepipe, and of vta_stages."""
    found = {"vta_stages": sorted((ROOT / "vta_stages").rglob("*.py"))}
    for path in sorted((ROOT / "edgepipe").iterdir()):
        if path.suffix == ".py" or (path / "__init__.py").is_file():
            found[path.stem] = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return found


@cache
def imported(file: Path) -> frozenset[str]:
    """Return the dotted names that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def may_import() -> dict[str, set[str]]:
    """Read the table: every name of the first column with the names of the third."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rules: dict[str, set[str]] = {}
    for folders, allowed in re.findall(r"^\| (`.*?) \|.*\| *(.*?) *\|$", text, re.MULTILINE):
        for name in re.findall(r"`(?:edgepipe/)?([a-z_]+)(?:/|\.py)`", folders):
            rules[name] = set(re.findall(r"`([a-z_]+)`", allowed))
    return rules


PACKAGES = packages()


@pytest.mark.parametrize("package", sorted(PACKAGES.keys() - EVERYWHERE - {"cli"}))
def test_a_package_imports_what_the_table_allows(package: str) -> None:
    if package in ("__init__", "__main__"):
        return
    found = set()
    for file in PACKAGES[package]:
        for name in imported(file):
            first, *rest = name.split(".")
            found.add(rest[0] if first == "edgepipe" else first)
    ours = (found & (PACKAGES.keys() | {"cli"})) - EVERYWHERE - {package}
    assert ours <= may_import()[package]


@pytest.mark.parametrize("library", sorted(KEPT_APART))
def test_a_library_is_known_where_it_belongs(library: str) -> None:
    who = {
        package
        for package, files in PACKAGES.items()
        if any(name.partition(".")[0] == library for file in files for name in imported(file))
    }
    assert who == KEPT_APART[library]


def test_what_everyone_imports_imports_nobody() -> None:
    for package in EVERYWHERE & PACKAGES.keys():
        names = {name for file in PACKAGES[package] for name in imported(file)}
        ours = {n.split(".")[1] for n in names if n.startswith("edgepipe.")}
        assert ours <= EVERYWHERE


def test_the_compiler_of_programs_needs_numpy_alone() -> None:
    names = {name.partition(".")[0] for file in PACKAGES["vta_stages"] for name in imported(file)}
    assert not names & {"edgepipe", "tvm", "onnx", "onnxruntime", "cv2", "xxhash"}
