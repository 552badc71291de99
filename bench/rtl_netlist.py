"""What a netlist takes of a Xilinx FPGA, and how much logic is in a row between its registers.

The netlist is that of yosys's ``write_json`` after ``synth_xilinx``: modules by name, each with its
``ports`` and ``cells``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

RESOURCES = ("LUT", "FF", "DSP", "BRAM36")
Resources = dict[str, float]
Modules = dict[str, dict[str, Any]]

_LOGIC = ("LUT1", "LUT2", "LUT3", "LUT4", "LUT5", "LUT6", "INV")
_WIDE_MUXES = ("MUXF7", "MUXF8", "MUXF9")
_CARRIES = ("CARRY4", "CARRY8")
_LUTS_OF_MEMORIES = {
    **dict.fromkeys(("SRL16E", "SRLC32E", "RAM32X1S", "RAM64X1S"), 1),
    **dict.fromkeys(("RAM32X1D", "RAM64X1D", "RAM128X1S"), 2),
    **dict.fromkeys(("RAM32M", "RAM64M", "RAM128X1D", "RAM256X1S"), 4),
    **dict.fromkeys(("RAM32M16", "RAM64M8", "RAM256X1D", "RAM512X1S"), 8),
}
"""LUTs that hold data (7 Series FPGAs CLB, UG474; UltraScale Architecture CLB, UG574)."""

TAKES: dict[str, Resources] = {
    **{key: {"LUT": 1} for key in _LOGIC},
    **{name: {"LUT": luts} for name, luts in _LUTS_OF_MEMORIES.items()},
    **{key: {"FF": 1} for key in ("FDRE", "FDSE", "FDCE", "FDPE")},
    **{key: {"DSP": 1} for key in ("DSP48E1", "DSP48E2")},
    **{key: {"BRAM36": 1} for key in ("RAMB36E1", "RAMB36E2")},
    **{key: {"BRAM36": 0.5} for key in ("RAMB18E1", "RAMB18E2")},
    **{key: {} for key in (*_WIDE_MUXES, *_CARRIES)},  # they come with the LUTs of their slice
}
"""What each type of cell takes. Two small LUTs that could share one count as two."""


def resources_of(cells: dict[str, int]) -> Resources:
    """Return what cells, by type, take. Two block RAMs of 18 Kbit are one of 36.

    Raises ValueError for a type that is not in :data:`TAKES`.
    """
    unknown = sorted(cells.keys() - TAKES.keys())
    if unknown:
        raise ValueError(
            f"netlist: cells of type {', '.join(unknown)}, expected only {', '.join(TAKES)}"
        )
    found = dict.fromkeys(RESOURCES, 0.0)
    for name, count in cells.items():
        for kind, each in TAKES[name].items():
            found[kind] += count * each
    return found


def cells_of(modules: Modules, name: str) -> Counter[str]:
    """Return how many primitive cells of each type are in a module and in all that it contains."""
    total: Counter[str] = Counter()
    for cell in modules[name]["cells"].values():
        if cell["type"] in modules:
            total += cells_of(modules, cell["type"])
        else:
            total[cell["type"]] += 1
    return total


@dataclass(frozen=True, slots=True)
class Path:
    """``levels`` of logic from what begins in module ``first`` to what ends in module ``last``.

    A LUT, a carry chain and a read of distributed RAM are a level each. Registers, block RAMs, DSP
    cells and ports of the whole begin and end paths.
    """

    levels: int
    first: str
    last: str


def longest_paths(modules: Modules, top: str) -> dict[str, Path]:
    """Return for each module that holds the end of a path, the longest one that ends there.

    Modules are those that are instantiated, by type. Paths cross their borders.

    Raises graphlib.CycleError if combinational logic makes a ring.
    """
    nets = _Nets(modules, top)
    levels: dict[_Net, int] = {}
    first: dict[_Net, str] = {}
    for net in TopologicalSorter(nets.graph()).static_order():
        before = nets.arcs.get(net, [])
        levels[net], source = max(
            ((levels[one] + weight, one) for one, weight in before), default=(0, net)
        )
        first[net] = first[source] if before else nets.drivers.get(net, top)
    found: dict[str, Path] = {}
    for net, module in nets.ends:
        path = Path(levels.get(net, 0), first.get(net, nets.drivers.get(net, top)), module)
        if module not in found or path.levels > found[module].levels:
            found[module] = path
    return found


_Net = tuple[str, int]  # the instance in which it was met first, and its number there


class _Nets:
    """The wires of a whole design, one for all names that a wire has in different modules."""

    def __init__(self, modules: Modules, top: str) -> None:
        self._modules = modules
        self._same: dict[_Net, _Net] = {}
        self.arcs: dict[_Net, list[tuple[_Net, int]]] = {}
        """For the output of logic its inputs, with the levels in between."""
        self.drivers: dict[_Net, str] = {}
        """The modules in which wires begin paths."""
        self.ends: list[tuple[_Net, str]] = []
        """Wires that end paths, and in which module."""
        instances = list(self._instances(top, ""))
        for place, name in instances:
            self._connect(place, name)
        for place, name in instances:
            for cell in modules[name]["cells"].values():
                if cell["type"] not in modules:
                    self._add(place, name, cell)
        for port in modules[top]["ports"].values():
            if port["direction"] == "output":
                self.ends += [(net, top) for net in self._of("", port["bits"])]

    def graph(self) -> dict[_Net, list[_Net]]:
        """Return what must be known before each wire."""
        return {net: [one for one, _ in before] for net, before in self.arcs.items()}

    def _instances(self, name: str, place: str) -> Iterator[tuple[str, str]]:
        yield place, name
        for cell, found in self._modules[name]["cells"].items():
            if found["type"] in self._modules:
                yield from self._instances(found["type"], f"{place}/{cell}")

    def _connect(self, place: str, name: str) -> None:
        """Make the ports of the modules in an instance one with what they are connected to."""
        for cell, found in self._modules[name]["cells"].items():
            for port in self._modules.get(found["type"], {"ports": {}})["ports"]:
                inside = self._modules[found["type"]]["ports"][port]["bits"]
                outside = found["connections"].get(port, [])
                for inner, outer in zip(inside, outside, strict=False):
                    if isinstance(inner, int) and isinstance(outer, int):
                        one = self._find((f"{place}/{cell}", inner))
                        other = self._find((place, outer))
                        if one != other:
                            self._same[one] = other

    def _find(self, net: _Net) -> _Net:
        while net in self._same:
            net = self._same[net]
        return net

    def _of(self, place: str, bits: list[int | str]) -> list[_Net]:
        """Return wires without the constants among them, which are strings."""
        return [self._find((place, bit)) for bit in bits if isinstance(bit, int)]

    def _add(self, place: str, module: str, cell: dict[str, Any]) -> None:
        """Add a primitive cell."""
        kind, directions = cell["type"], cell["port_directions"]
        ports = {name: self._of(place, bits) for name, bits in cell["connections"].items()}
        inputs = {name: nets for name, nets in ports.items() if directions[name] == "input"}
        outputs = [net for name, nets in ports.items() if name not in inputs for net in nets]
        if kind in _CARRIES:
            self._add_carry(place, cell["connections"])
        elif kind in _LOGIC or kind in _WIDE_MUXES:
            before = [(net, int(kind in _LOGIC)) for nets in inputs.values() for net in nets]
            for output in outputs:
                self.arcs.setdefault(output, []).extend(before)
        else:
            through = []
            if kind in _LUTS_OF_MEMORIES:
                addresses = [
                    nets for name, nets in inputs.items() if name.startswith(("A", "DPRA"))
                ]
                through = [(net, 1) for nets in addresses for net in nets]
            for output in outputs:
                self.drivers[output] = module
                if through:
                    self.arcs.setdefault(output, []).extend(through)
            self.ends += [(net, module) for nets in inputs.values() for net in nets]

    def _add_carry(self, place: str, connections: dict[str, list[int | str]]) -> None:
        """Add a carry cell, whose n-th outputs depend on its first n inputs."""
        chained = [
            (net, 0)
            for name in ("CI", "CI_TOP")
            for net in self._of(place, connections.get(name, []))
        ]
        entering = [(net, 1) for net in self._of(place, connections.get("CYINIT", []))]
        for n in range(max(len(connections.get(name, [])) for name in ("O", "CO"))):
            before = [
                (net, 1)
                for name in ("DI", "S")
                for net in self._of(place, connections.get(name, [])[: n + 1])
            ]
            for name in ("O", "CO"):
                for net in self._of(place, connections.get(name, [])[n : n + 1]):
                    self.arcs.setdefault(net, []).extend([*chained, *entering, *before])
