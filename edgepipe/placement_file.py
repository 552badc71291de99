"""Placements as TOML files (docs/reference/placement-file.md): their text, and strict reading."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgepipe import exports, schema
from edgepipe.arrangement import Arrangement
from edgepipe.errors import PartitionError, advise
from edgepipe.exports import Export
from edgepipe.names import printable, suggest
from edgepipe.partition.foreign import SEPARATOR
from edgepipe.partition.operator import Operator
from edgepipe.partition.rules import toml_lines
from edgepipe.partition.target import EXPECTED, share_text, target, unit_text
from edgepipe.partition.wishes import Wishes

FORMAT = 1
EXPORT = Export(
    kind="placement",
    option="export_placement",
    keys=frozenset(["format", "network", "operators"]),
    error=PartitionError,
)
"""How builds write placements."""

_HEADER = """\
# Placement of edgepipe: the device of every operator.
# Edit devices and cuts; network says what the file belongs to. Comments are not read.
"""
_AGAIN = "export the placement of this network"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The keys of the file outside its operators."""

    format: int
    network: str
    cuts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A file's devices by operator and its cuts, for the ``network`` with that digest.

    ``lines`` are the lines of the operators, as far as they are known.
    """

    path: Path
    network: str
    cuts: tuple[str, ...]
    devices: Mapping[str, str]
    lines: Mapping[str, int]

    def where(self, name: str = "") -> str:
        """Return the file, with the line of an operator, or of a key or table of that name."""
        return toml_lines.at(self.path, self.lines.get(name, 0))


def digest(operators: Sequence[Operator]) -> str:
    """Return the SHA-256 digest of the operators' names, kinds and inputs, as hex.

    Weights and ranges do not count: a placement stays valid after another training.
    """
    content = [(operator.name, operator.kind, operator.inputs) for operator in operators]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def to_toml(arranged: Arrangement, operators: Sequence[Operator], wishes: Wishes) -> str:
    """Return the text of the file for ``arranged``, whose ``operators`` are in program order.

    ``wishes`` are those that it was made with: their cuts and units are in the file.
    Raises ``PartitionError`` for a name that TOML cannot hold.
    """
    placed = {p.operator.name: p for stage in arranged.stages for p in stage.segment.operators}
    generators = {
        name: f"{SEPARATOR}{call.generator}"
        for stage in arranged.stages
        for call in stage.segment.calls
        for name in call.operators
    }
    lines = [
        f"{_HEADER}format = {FORMAT}",
        f"network = {_string(digest(operators))}",
        f"cuts = [{', '.join(map(_string, wishes.cuts))}]",
        "",
        "[operators]",
    ]
    for operator in operators:
        found = placed[operator.name]
        comment = printable(f"{operator.kind}: {found.reason}")
        unit = unit_text(wishes.units.get(operator.name, ()))
        where = found.device + unit + generators.get(operator.name, "")
        if operator.name in wishes.shares:
            where = share_text(wishes.shares[operator.name])
        lines.append(f"{_string(operator.name)} = {_string(where)}  # {comment}")
    return "\n".join(lines) + "\n"


def _string(text: str) -> str:
    return exports.toml_string(text, PartitionError)


def read(path: Path) -> Placement:
    """Read a placement; raise ``PartitionError`` for what does not belong there, with its line.

    Whether it fits a network is checked by ``combined``.
    """
    with advise("correct the placement; docs/reference/placement-file.md explains every key"):
        return _placement(path)


def _placement(path: Path) -> Placement:
    document = schema.read_toml(path, PartitionError)
    text = path.read_text(encoding="utf-8")
    top = toml_lines.keys(text)
    header = toml_lines.table(text, "operators")
    lines = toml_lines.keys(text, header) if header else {}
    if document.get("format") != FORMAT:
        raise PartitionError(
            f"{toml_lines.at(path, top.get('format', 0))}: format: found "
            f"{document.get('format', 'none')}, expected {FORMAT}",
            hint="export the placement with this version of edgepipe",
        )
    devices = document.pop("operators", None)
    if not isinstance(devices, dict):
        raise PartitionError(
            f"{toml_lines.at(path, top.get('operators', 0))}: operators: expected a table with the "
            "device of each",
            hint='write [operators] above lines such as "conv1" = "vta"',
        )
    is_valid = {
        "format": True,
        "network": isinstance(document.get("network"), str),
        "cuts": isinstance(document.get("cuts"), list),
    }
    wrong = next((key for key in document if not is_valid.get(key)), "")
    found = schema.from_table(
        File, document, toml_lines.at(path, top.get(wrong, 0)), PartitionError
    )
    for name, device in devices.items():
        try:
            target(device if isinstance(device, str) else repr(device))
        except ValueError as cause:
            raise PartitionError(
                f"{toml_lines.at(path, lines.get(name, 0))}: operators: {printable(name)}: {cause}",
                hint=f"give {EXPECTED}",
            ) from cause
    return Placement(
        path=path,
        network=found.network,
        cuts=found.cuts,
        devices=devices,
        lines={"": header, **lines},
    )


def combined(wishes: Wishes, placement: Placement | None, operators: Sequence[Operator]) -> Wishes:
    """Return ``wishes`` with those of a file; for an operator in both, those of ``wishes`` count.

    Raises ``PartitionError`` for a file of another network, for an unknown or missing operator,
    and for an unknown cut.
    """
    if placement is None:
        return wishes
    names = [operator.name for operator in operators]
    unknown = [name for name in placement.devices if name not in names]
    missing = [name for name in names if name not in placement.devices]
    if placement.network != digest(operators):
        raise PartitionError(
            f"{placement.path}: belongs to another network: it names {len(unknown)} operators "
            f"that this one does not have, and lacks {len(missing)}",
            hint=_AGAIN,
            option=EXPORT.option,
            value="FILE",
        )
    for name in unknown:
        raise PartitionError(
            f"{placement.where(name)}: operator {name!r} is unknown", hint=suggest(name, names)
        )
    for name in missing:
        raise PartitionError(
            f"{placement.where('')}: operators: {printable(name)} is missing",
            hint="give every operator a device, arm or vta",
        )
    for cut in placement.cuts:
        if cut not in names:
            raise PartitionError(
                f"{placement.path}: cuts: operator {cut!r} is unknown", hint=suggest(cut, names)
            )
    cuts = tuple(dict.fromkeys([*placement.cuts, *wishes.cuts]))
    return replace(wishes, cuts=cuts).placed(placement.devices)


@contextlib.contextmanager
def naming_lines(placement: Placement | None, given: Mapping[str, str]) -> Iterator[None]:
    """Put the file and the line in front of errors about its operators.

    ``given`` are wishes that take precedence over the file's, so their errors stay as they are.
    Raises the ``PartitionError`` of the block.
    """
    try:
        yield
    except PartitionError as cause:
        name = cause.value.rpartition("=")[0] if cause.option == "placement" else ""
        if placement is None or name in given or name not in placement.devices:
            raise
        raise PartitionError(
            f"{placement.where(name)}: {cause}",
            hint=cause.hint,
            option=cause.option,
            value=cause.value,
        ) from cause
