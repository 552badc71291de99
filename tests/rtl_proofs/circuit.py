"""A circuit with properties around it, for a solver instead of a simulator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import (
    Assert,
    Assume,
    ClockDomain,
    Const,
    Cover,
    Elaboratable,
    Fragment,
    MemoryInstance,
    Module,
    Signal,
    Value,
    ValueLike,
)
from amaranth.hdl._ast import AnyConst  # the only way to yosys's $anyconst

TOP = "proof"
PREFIX = "property:"
"""Of the cells that are properties, so that none is called as a wire."""


class Circuit:
    """Components of the accelerator, and what is assumed, asserted and to be reached.

    Inputs that are not driven have any value in any cycle. Every property has a name, which the
    solver's report repeats. All registers begin with their initial values; there is no reset.
    """

    def __init__(self) -> None:
        self.m = Module()
        self._domain = ClockDomain("sync", reset_less=True)
        self.m.domains += self._domain
        self._ports: list[Signal] = []
        self._driven_by: dict[int, Signal] = {}  # the port of a free input, by id
        self._names: set[str] = set()
        self._rtlil = ""
        self.independent: dict[str, tuple[str, str]] = {}
        """Properties that are paths: an output port, and the input port from which none leads to it
        within a cycle."""

    def add(self, component: Elaboratable, name: str) -> Fragment:
        """Add a component, whose FIFOs then assert their own rules; return what it consists of."""
        fragment = Fragment.get(component, "formal")
        self.m.submodules[name] = fragment
        return fragment

    def free(self, *targets: ValueLike) -> None:
        """Let inputs have any value in any cycle."""
        for target in targets:
            port = Signal(len(Value.cast(target)), name=f"free_{len(self._ports)}")
            self._ports.append(port)
            self._driven_by[id(target)] = port
            self.m.d.comb += Value.cast(target).eq(port)

    def any(self, bits: int = 1) -> Signal:
        """Return a value that differs from cycle to cycle."""
        port = Signal(bits, name=f"free_{len(self._ports)}")
        self._ports.append(port)
        return port

    def any_constant(self, bits: int = 1) -> Signal:
        """Return a value that any run has, and that stays."""
        value = Signal(bits, name="constant")
        self.m.d.comb += value.eq(AnyConst(bits))
        return value

    def past(self, value: ValueLike) -> Signal:
        """Return a value of the cycle before; 0 in the first cycle."""
        before = Signal(len(Value.cast(value)), name="past")
        self.m.d.sync += before.eq(value)
        return before

    def assume(self, condition: ValueLike) -> None:
        """Leave out all runs in which a condition does not hold in each cycle."""
        self.m.d.comb += Assume(condition)

    def claim(self, name: str, condition: ValueLike, *, when: ValueLike = 1) -> None:
        """Assert a condition for each cycle, or for those ``when`` another one holds."""
        self.m.d.comb += Assert(~Value.cast(when).bool() | condition, self._named(name))

    def claim_independent(self, name: str, output: Signal, free: Signal) -> None:
        """Claim that an output does not depend on a free input's value in the same cycle."""
        source = self._driven_by[id(free)]
        port = Signal(len(output), name=f"claimed_{len(self._ports)}")
        self._ports.append(port)
        self.m.d.comb += port.eq(output)
        self.independent[self._named(name).replace(" ", "_")] = (port.name, source.name)

    def reach(self, name: str, condition: ValueLike) -> None:
        """Demand a run that reaches a condition. Without one, a proof could be empty."""
        self.m.d.comb += Cover(condition, self._named(name))

    def rtlil(self) -> str:
        """Return the circuit for yosys, with a cell called as the property for each."""
        if not self._rtlil:  # Amaranth elaborates a circuit once
            self._rtlil = self._converted()
        return self._rtlil

    def _converted(self) -> str:
        text = rtlil.convert(
            self.m,
            name=TOP,
            platform="formal",
            ports=[self._domain.clk, *self._ports],
            emit_src=False,
        )
        cell = re.compile(r'cell \$check \S+\n(?=(?:(?!\n  end).)*?FORMAT "([^"]+)")', re.DOTALL)
        return cell.sub(lambda found: f"cell $check \\{PREFIX}{found[1].replace(' ', '_')}\n", text)

    def _named(self, name: str) -> str:
        assert name not in self._names, f"two properties called {name!r}"
        self._names.add(name)
        return name


def signal_in(fragment: Fragment, name: str) -> Signal:
    """Return a register or wire by its name; submodules come before a dot: ``fifo.consume``."""
    *path, last = name.split(".")
    for part in path:
        fragment = fragment.find_subfragment(part)
    found = {id(s): s for s in _driven(fragment) if s.name == last}
    assert len(found) == 1, f"{name}: {len(found)} signals, expected 1"
    return next(iter(found.values()))


def memory_in(circuit: Circuit, fragment: Fragment, path: str, address: Value) -> Value:
    """Return what a memory holds at an address now, through a port that only the proof has."""
    for part in path.split("."):
        fragment = fragment.find_subfragment(part)
    while not isinstance(fragment, MemoryInstance):
        ((fragment, _, _),) = fragment.subfragments
    bits = len(fragment._read_ports[0]._data)
    place = Signal(len(fragment._read_ports[0]._addr), name="looked_at")
    content = Signal(bits, name="content")
    circuit.m.d.comb += place.eq(address)
    fragment.read_port(domain="comb", addr=place, data=content, en=Const(1), transparent_for=())
    return content


def _driven(fragment: Fragment) -> Iterator[Signal]:
    def signals(statement: Any) -> Iterator[Signal]:
        yield from statement._lhs_signals()

    for statements in fragment.statements.values():
        for statement in statements:
            yield from signals(statement)
