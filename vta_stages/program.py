"""A compiled accelerator stage: instructions, the DRAM regions they access, and constants.

On disk, a program is a folder of four files with the same bytes for the same program:

- ``program.json``: format, accelerator, regions, layers, modelled cycles and their costs
- ``insns.bin``: 16 bytes per instruction, ``dram_base`` relative to the start of a region
- ``relocs.bin``: one byte per instruction, the index of that region or 255
- ``consts.bin``: the content of the const region

The bundle protects the content with a digest of each file. Loading a program checks that the files
fit together and that every instruction decodes.
"""

from __future__ import annotations

import dataclasses
import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import OPTIONAL, Accelerator
from vta_stages.errors import EdgepipeError, ProgramError, advise
from vta_stages.isa.codec import NO_REGION, InstructionTable, Words, decode_table, encode_table
from vta_stages.isa.instructions import MemoryType, Opcode, element_bytes

FORMAT = 1

T = TypeVar("T")


class RegionKind(StrEnum):
    """Who fills a region, and how long its content lasts."""

    CONST = "const"  # uops, weights and vectors; filled once from consts.bin
    SCRATCH = "scratch"  # intermediate tensors; undefined before and after a run
    INPUT = "input"  # a tensor of the slot, filled before the run
    OUTPUT = "output"  # a tensor of the slot, filled by the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A contiguous piece of DRAM. The region of an input or output has the tensor's name."""

    name: str
    bytes: int
    kind: RegionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSpan:
    """The instructions ``first .. first + count - 1``, which compute layer ``name``."""

    name: str
    first: int
    count: int


def operators_of(layer: str) -> tuple[str, ...]:
    """Return the operators that a layer of a program computes, or a part of which it computes.

    ``conv+pool`` computes two, ``resize:rows`` and ``sum:copy0`` are parts of one.
    """
    whole, _, _ = layer.partition(":")
    return tuple(whole.split("+"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """A compiled accelerator stage.

    ``instructions`` is uint64[n, 2] with region-relative ``dram_base``; ``relocations`` is
    uint8[n], an index into ``regions`` or ``NO_REGION``; ``layers`` are ascending and disjoint.
    ``modelled_cycles`` is the result of :mod:`vta_stages.timing.timing_model`, 0 if unknown, and
    ``costs`` are the values of the cost model that it was compiled and timed with, by name.
    Raises ProgramError if the parts contradict each other.
    """

    accelerator: Accelerator
    instructions: Words
    relocations: NDArray[np.uint8]
    regions: tuple[Region, ...]
    consts: bytes
    layers: tuple[LayerSpan, ...] = ()
    modelled_cycles: int = 0
    costs: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.instructions)
        if self.instructions.ndim != 2 or self.instructions.shape[1] != 2:
            raise ProgramError(
                f"program: instructions have shape {list(self.instructions.shape)}, expected [n, 2]"
            )
        if self.relocations.shape != (count,):
            raise ProgramError(
                f"program: {len(self.relocations)} relocations, expected one for each of "
                f"{count} instructions"
            )
        self._check_regions()
        if self.modelled_cycles < 0:
            raise ProgramError(f"program: modelled_cycles is {self.modelled_cycles}, expected >= 0")
        end = 0
        for layer in self.layers:
            if layer.first < end or layer.count < 0 or layer.first + layer.count > count:
                raise ProgramError(
                    f"program: layer {layer.name} spans instructions {layer.first} to "
                    f"{layer.first + layer.count}, expected a span within {end} to {count}"
                )
            end = layer.first + layer.count

    def _check_regions(self) -> None:
        names = [region.name for region in self.regions]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ProgramError(f"program: region names {', '.join(twice)} are not unique")
        if len(names) > NO_REGION:
            raise ProgramError(f"program: {len(names)} regions, expected at most {NO_REGION}")
        const_bytes = sum(r.bytes for r in self.regions if r.kind is RegionKind.CONST)
        if sum(r.kind is RegionKind.CONST for r in self.regions) > 1:
            raise ProgramError("program: several const regions, expected at most one")
        if const_bytes != len(self.consts):
            raise ProgramError(
                f"program: constants are {len(self.consts)} bytes, "
                f"expected {const_bytes} as the const region says"
            )
        named = self.relocations[self.relocations != NO_REGION]
        if len(named) and int(named.max()) >= len(names):
            raise ProgramError(
                f"program: an instruction names region {int(named.max())}, "
                f"expected an index below {len(names)}"
            )

    @cached_property
    def table(self) -> InstructionTable:
        """The instructions as columns. Raises EncodingError if one does not decode."""
        return decode_table(self.accelerator, self.instructions)

    @property
    def inputs(self) -> tuple[Region, ...]:
        """The regions of the program's inputs."""
        return tuple(r for r in self.regions if r.kind is RegionKind.INPUT)

    @property
    def outputs(self) -> tuple[Region, ...]:
        """The regions of the program's outputs."""
        return tuple(r for r in self.regions if r.kind is RegionKind.OUTPUT)

    def region(self, name: str) -> Region:
        """Return the region called ``name``. Raises ProgramError, with the known names."""
        for region in self.regions:
            if region.name == name:
                return region
        known = ", ".join(region.name for region in self.regions)
        raise ProgramError(f"program: no region {name!r}", hint=f"known regions: {known}")

    def layer_at(self, index: int) -> str:
        """Return the name of the layer that instruction ``index`` belongs to, ``-`` if none."""
        at = bisect_right(self.layers, index, key=lambda layer: layer.first) - 1
        if at >= 0 and index < self.layers[at].first + self.layers[at].count:
            return self.layers[at].name
        return "-"

    def relocate(self, bases: Mapping[str, int]) -> Words:
        """Return the instructions uint64[n, 2] with absolute ``dram_base``.

        ``bases`` holds the address of each region in bytes. Raises ProgramError for a region
        without an address and for an address that is not a multiple of a transfer's element,
        EncodingError if an address does not fit its field.
        """
        columns = {opcode: dict(fields) for opcode, fields in self.table.columns.items()}
        for opcode in (Opcode.LOAD, Opcode.STORE):
            positions = self.table.positions[opcode]
            regions = self.relocations[positions]
            memory = columns[opcode].get("memory_type", np.full(len(positions), MemoryType.OUT))
            base = columns[opcode]["dram_base"].copy()
            pairs = np.unique(np.stack([regions, memory.astype(np.uint8)], 1), axis=0)
            for region_index, memory_type in pairs.tolist():
                if region_index == NO_REGION:
                    continue
                chosen = (regions == region_index) & (memory == memory_type)
                base[chosen] += self._base_elements(region_index, MemoryType(memory_type), bases)
            columns[opcode]["dram_base"] = base
        return encode_table(dataclasses.replace(self.table, columns=columns))

    def _base_elements(
        self, region_index: int, memory_type: MemoryType, bases: Mapping[str, int]
    ) -> int:
        name = self.regions[region_index].name
        if name not in bases:
            raise ProgramError(f"program: region {name} has no base address")
        unit = element_bytes(self.accelerator, memory_type)
        if bases[name] % unit:
            raise ProgramError(
                f"program: region {name} is at 0x{bases[name]:x}, expected a multiple of "
                f"{unit} bytes for its {memory_type.name} transfers"
            )
        return bases[name] // unit

    def save(self, folder: Path) -> None:
        """Write the program's four files to ``folder``, which is created if necessary."""
        folder.mkdir(parents=True, exist_ok=True)
        description = {
            "format": FORMAT,
            "accelerator": self.accelerator.values(),
            "regions": [dataclasses.asdict(region) for region in self.regions],
            "layers": [dataclasses.asdict(layer) for layer in self.layers],
            "modelled_cycles": self.modelled_cycles,
            "costs": dict(self.costs),
        }
        text = json.dumps(description, indent=1) + "\n"
        (folder / "program.json").write_text(text, encoding="utf-8")
        (folder / "insns.bin").write_bytes(self.instructions.astype("<u8").tobytes())
        (folder / "relocs.bin").write_bytes(self.relocations.tobytes())
        (folder / "consts.bin").write_bytes(self.consts)

    @staticmethod
    def load(folder: Path) -> Program:
        """Read a program that :meth:`save` wrote.

        Raises ProgramError for files that are missing, truncated, contradictory or of another
        format, and EncodingError for instructions that do not decode.
        """
        with advise("the program is damaged: build or copy the bundle again"):
            return Program._load(folder)

    @staticmethod
    def _load(folder: Path) -> Program:
        description = _Json.read(folder / "program.json")
        keys = {"format", "accelerator", "regions", "layers", "modelled_cycles"}
        # Bundles from before 2026-11-23 have no costs.
        description.expect_keys(keys | ({"costs"} & set(description.content)))
        version = description.value("format", int)
        if version != FORMAT:
            raise ProgramError(
                f"{description.where}: format is {version}, expected {FORMAT}",
                hint="build the bundle again with this version of edgepipe",
            )
        raw = _read(folder / "insns.bin")
        if len(raw) % 16:
            raise ProgramError(
                f"{folder / 'insns.bin'}: {len(raw)} bytes, expected a multiple of 16",
                hint="the file is truncated; copy the bundle again",
            )
        try:
            program = Program(
                accelerator=_accelerator(description.child("accelerator")),
                instructions=np.frombuffer(raw, "<u8").reshape(-1, 2).astype(np.uint64),
                relocations=np.frombuffer(_read(folder / "relocs.bin"), np.uint8),
                regions=tuple(_region(item) for item in description.children("regions")),
                consts=_read(folder / "consts.bin"),
                layers=tuple(_layer(item) for item in description.children("layers")),
                modelled_cycles=description.value("modelled_cycles", int),
                costs=_costs(description),
            )
            _ = program.table
        except EdgepipeError as error:
            raise type(error)(f"{folder}: {error}", hint=error.hint) from error
        return program


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProgramError(f"{path}: cannot be read ({error.strerror})") from error


@dataclass(frozen=True, slots=True)
class _Json:
    """A JSON object, and where it came from for error messages."""

    where: str
    content: Mapping[str, object]

    @staticmethod
    def read(path: Path) -> _Json:
        """Read a file that holds a JSON object."""
        try:
            content = json.loads(_read(path))
        except (ValueError, RecursionError) as error:
            raise ProgramError(f"{path}: is not valid JSON ({error})") from error
        return _Json.of(str(path), content)

    @staticmethod
    def of(where: str, content: object) -> _Json:
        """Return ``content`` if it is an object; ``where`` names it in errors."""
        if not isinstance(content, dict):
            raise ProgramError(f"{where}: is {type(content).__name__}, expected an object")
        return _Json(where, content)

    def expect_keys(self, keys: set[str]) -> None:
        """Raise ProgramError if the object has other keys."""
        if set(self.content) != keys:
            raise ProgramError(
                f"{self.where}: keys are {sorted(self.content)}, expected {sorted(keys)}"
            )

    def value(self, key: str, kind: type[T]) -> T:
        """Return the value of a key. Raises ProgramError if it has another type."""
        found = self.content.get(key)
        if type(found) is not kind:
            raise ProgramError(f"{self.where}: {key} is {found!r}, expected {kind.__name__}")
        return found

    def child(self, key: str) -> _Json:
        """Return the object of a key."""
        return _Json.of(f"{self.where}: {key}", self.content.get(key))

    def children(self, key: str) -> list[_Json]:
        """Return the objects in the list of a key."""
        items = cast("list[object]", self.value(key, list))
        return [_Json.of(f"{self.where}: {key}[{i}]", item) for i, item in enumerate(items)]


def _costs(description: _Json) -> dict[str, int]:
    if "costs" not in description.content:
        return {}
    costs = description.child("costs")
    return {name: costs.value(name, int) for name in costs.content}


def _accelerator(source: _Json) -> Accelerator:
    names = {field.name for field in dataclasses.fields(Accelerator)}
    names -= OPTIONAL.keys() - source.content.keys()
    source.expect_keys(names)
    kinds: dict[str, type] = {"revision": str, "implementation": str, "extensions": list}
    values: dict[str, Any] = {name: source.value(name, kinds.get(name, int)) for name in names}
    return Accelerator(**values)


def _region(source: _Json) -> Region:
    source.expect_keys({"name", "bytes", "kind"})
    kind = source.value("kind", str)
    known = [str(known) for known in RegionKind]
    if kind not in known:
        raise ProgramError(f"{source.where}: kind is {kind!r}, expected one of {', '.join(known)}")
    size = source.value("bytes", int)
    if size < 0:
        raise ProgramError(f"{source.where}: bytes is {size}, expected >= 0")
    return Region(name=source.value("name", str), bytes=size, kind=RegionKind(kind))


def _layer(source: _Json) -> LayerSpan:
    source.expect_keys({"name", "first", "count"})
    return LayerSpan(
        name=source.value("name", str),
        first=source.value("first", int),
        count=source.value("count", int),
    )
