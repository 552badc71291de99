"""Rooms of cpp_runtime include only what ARCHITECTURE.md's table of rooms lets them include."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "cpp_runtime" / "src"
PUBLIC = ROOT / "cpp_runtime" / "include"
# Public headers without a source of the same name.
ROOM_OF_HEADER = {
    "decoder_function": "postprocess",
    "frame": "pipeline",
    "memory": "memory",
    "picture_source": "media/sources",
    "programs": "programs",
    "stage": "stage",
    "stage_function": "stage",
    "status": "base",
    "sync": "base",
}


@cache
def room_of_source() -> dict[str, str]:
    """Return the room of every source file by the file's name without its suffix."""
    return {
        path.stem: path.parent.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.cc")
    }


def room_of_public(header: PurePosixPath) -> str:
    """Return the room that a public header belongs to."""
    return ROOM_OF_HEADER.get(header.stem) or room_of_source()[header.stem]


def files() -> dict[str, list[Path]]:
    """Return the sources and headers of every room, including its public headers."""
    found: dict[str, list[Path]] = {}
    for path in sorted([*SOURCES.rglob("*.h"), *SOURCES.rglob("*.cc")]):
        found.setdefault(path.parent.relative_to(SOURCES).as_posix(), []).append(path)
    for path in sorted(PUBLIC.glob("edgepipe/*.h")):
        found[room_of_public(PurePosixPath(path.name))].append(path)
    return found


def includes(path: Path) -> list[PurePosixPath]:
    """Return what a file includes in quotes."""
    return [
        PurePosixPath(name)
        for name in re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M)
    ]


def may_include() -> dict[str, set[str]]:
    """Read the table: every room with the rooms of the third column."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.partition("| room |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z/]+)` \|.*\| *(.*?) *\|$", table, re.MULTILINE)
    return {room: set(re.findall(r"`([a-z/]+)`", allowed)) for room, allowed in rows}


ROOMS = files()


def test_the_table_names_every_room() -> None:
    assert may_include().keys() == ROOMS.keys()


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_includes_what_the_table_allows(room: str) -> None:
    found: dict[str, str] = {}
    for path in ROOMS[room]:
        for header in includes(path):
            public = header.parts[0] == "edgepipe"
            other = room_of_public(header) if public else header.parent.as_posix()
            found.setdefault(other, f"{path.name} includes {header}")
    extra = found.keys() - may_include()[room] - {room}
    assert not extra, [found[other] for other in extra]
    assert may_include()[room] <= found.keys(), "the table allows more than is used"


def test_the_directions_have_no_cycle() -> None:
    rules = may_include()
    while rules:
        lowest = {room for room, allowed in rules.items() if not allowed & rules.keys()}
        assert lowest, f"a cycle among {sorted(rules)}"
        rules = {room: allowed for room, allowed in rules.items() if room not in lowest}


def test_a_public_header_includes_public_headers_only() -> None:
    # A program outside this repository has only the standard library and these.
    for path in PUBLIC.rglob("*.h"):
        internal = [header for header in includes(path) if header.parts[0] != "edgepipe"]
        assert not internal, f"{path.name} includes {internal}"
        text = path.read_text(encoding="utf-8")
        foreign = re.findall(r"^#include <(.*(?:nlohmann|tvm|dlpack).*)>", text, re.M)
        assert not foreign, f"{path.name} includes {foreign}"


def test_the_guide_lists_every_public_header() -> None:
    guide = (ROOT / "docs/guides/cpp-programs.md").read_text(encoding="utf-8")
    table = guide.partition("## What to include")[2].partition("\n## ")[0]
    listed = re.findall(r"`([a-z_]+\.h)`", table)
    assert sorted(listed) == sorted(path.name for path in PUBLIC.glob("edgepipe/*.h"))


def test_the_public_headers_stay_few() -> None:
    # A type that belongs to another one is in its header; internal types are below src/.
    assert len(list(PUBLIC.glob("edgepipe/*.h"))) <= 23
