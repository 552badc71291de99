"""The state of a board and the plan of a deploy, as values computed before anything changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgepipe.deploy.payload import RECORD, SUMS, PayloadFile, ReleaseRecord, parse_record
from edgepipe.errors import DeployError

# `uname -m`, by edgepipe's names of the architectures.
MACHINES = {"aarch64": "aarch64", "armv7l": "armhf", "armv8l": "armhf", "x86_64": "x86_64"}
_SPARE_BYTES = 4 << 20
_NUMBER = re.compile(r"[0-9]{1,18}")  # int() refuses thousands of digits
_DF = re.compile(rf"\s\d+\s+\d+\s+({_NUMBER.pattern})\s+\d+%\s")
_SUM = re.compile(r"([0-9a-f]{64})  releases/([^/]+)/(.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFacts:
    """What ``probe`` found.

    ``unwritable`` is the folder that cannot be written, or empty. ``compatible`` is the device
    tree's list of that name. ``bitstream`` is the record of
    the programmed bitstream, empty if there is none. ``unit`` is the state of the systemd unit,
    empty if the board has no such unit.
    """

    machine: str
    missing_tools: tuple[str, ...]
    unwritable: str
    free_bytes: int
    bitstream: str = ""
    unit: str = ""
    compatible: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release on a board; ``record`` is None if its ``release.json`` cannot be read."""

    number: int
    record: ReleaseRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file that the board has: its folder below ``releases/`` and its path in that folder."""

    folder: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What ``inventory`` found: releases oldest first, and files that can be linked to."""

    current: int | None
    releases: tuple[Release, ...]
    files: tuple[StoredFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a deploy will do.

    It creates release ``number`` from ``links`` (paths and their link targets, both below
    ``releases/``) and ``uploads``, then removes ``pruned``. If the current release contains exactly
    the same files, ``unchanged`` is its number and no release is created.
    """

    number: int
    links: dict[str, str]
    uploads: tuple[str, ...]
    upload_bytes: int
    pruned: tuple[int, ...]
    unchanged: int | None


def parse_facts(text: str, host: str) -> BoardFacts:
    """Parse what ``probe`` printed.

    Raises DeployError for an incomplete answer.
    """
    lines = [line.partition(" ")[::2] for line in text.splitlines()]
    first = dict(reversed(lines))
    free = _DF.search(first.get("df", "") + " ")
    if "machine" not in first or free is None:
        raise DeployError(
            f"{host}: unexpected answer to the pre-flight check: {text!r}",
            hint="make sure that the login shell on the board prints nothing",
        )
    return BoardFacts(
        machine=first["machine"],
        missing_tools=tuple(value for key, value in lines if key == "missing"),
        unwritable=first.get("unwritable", ""),
        free_bytes=int(free[1]) * 1024,
        bitstream=first.get("bitstream", ""),
        unit=first.get("unit", ""),
        compatible=tuple(first.get("compatible", "").split()),
    )


def parse_inventory(text: str) -> Inventory:
    """Parse what ``inventory`` printed; ignore unknown lines."""
    current: int | None = None
    releases = []
    files = []
    for line in text.splitlines():
        key, _, rest = line.partition(" ")
        if key == "current" and _NUMBER.fullmatch(rest):
            current = int(rest)
        elif key == "release":
            number, _, record = rest.partition(" ")
            if _NUMBER.fullmatch(number):
                where = f"release {number}"
                releases.append(Release(number=int(number), record=parse_record(record, where)))
        elif match := _SUM.fullmatch(line):
            files.append(StoredFile(sha256=match[1], folder=match[2], path=match[3]))
    return Inventory(current=current, releases=tuple(releases), files=tuple(files))


def architecture(facts: BoardFacts, host: str) -> str:
    """Return the board's architecture; raise ``DeployError`` if edgepipe does not support it."""
    if facts.machine not in MACHINES:
        raise DeployError(
            f"{host}: machine {facts.machine} is not supported, expected one of "
            f"{', '.join(MACHINES)}",
            hint="name a board with one of these processors",
            option="host",
            value="HOST",
        )
    return MACHINES[facts.machine]


def check_board(facts: BoardFacts, host: str) -> None:
    """Raise ``DeployError`` if no deploy to this board can succeed."""
    if facts.missing_tools:
        raise DeployError(
            f"{host}: missing tools: {', '.join(facts.missing_tools)}",
            hint="install util-linux, coreutils, findutils and tar on the board",
        )
    if facts.unwritable:
        raise DeployError(
            f"{host}: {facts.unwritable} cannot be written by this user",
            hint="choose another user, or another folder",
            option="root",
            value="DIR",
        )


def check_bundle(architectures: Sequence[str], board_architecture: str, host: str) -> None:
    """Raise ``DeployError`` if the bundle has no kernels for the board's architecture."""
    if board_architecture not in architectures:
        raise DeployError(
            f"{host}: the board is {board_architecture}, the bundle is for "
            f"{', '.join(architectures)}",
            hint="build the bundle for this board",
        )


def check_space(plan: Plan, facts: BoardFacts, host: str) -> None:
    """Raise ``DeployError`` if the upload does not fit on the board's disk."""
    needed = plan.upload_bytes + _SPARE_BYTES
    if plan.unchanged is None and facts.free_bytes < needed:
        raise DeployError(
            f"{host}: {facts.free_bytes >> 10} KiB are free, {needed >> 10} KiB are needed",
            hint="free some space on the board's disk, or keep fewer releases",
            option="keep",
            value="N",
        )


def make_plan(files: Sequence[PayloadFile], inventory: Inventory, keep: int) -> Plan:
    """Plan the release of ``files`` on a board with ``inventory``, keeping ``keep`` releases."""
    numbers = [release.number for release in inventory.releases]
    number = max(numbers, default=0) + 1
    stored: dict[tuple[str, bool], str] = {}
    for old in inventory.files:
        # A hard link shares the mode too, so programs link only to programs.
        stored[old.sha256, old.path.startswith("bin/")] = f"{old.folder}/{old.path}"
    links = {}
    uploads = []
    for file in files:
        target = stored.get((file.sha256, file.executable))
        if target is None:
            uploads.append(file)
        else:
            links[file.path] = target
    after = [*numbers, number]
    return Plan(
        number=number,
        links=links,
        uploads=tuple(file.path for file in uploads),
        upload_bytes=sum(len(file.content) for file in uploads),
        pruned=tuple(n for n in after[:-keep] if n != number),
        unchanged=inventory.current if _is_current(files, inventory) else None,
    )


def _is_current(files: Sequence[PayloadFile], inventory: Inventory) -> bool:
    found = {
        old.path: old.sha256
        for old in inventory.files
        if old.folder == str(inventory.current) and old.path not in (RECORD, SUMS)
    }
    return found == {file.path: file.sha256 for file in files}
