"""The accumulator buffer, of which synthesis needs a single copy."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In

from vta_rtl.buffers.ports import READ_CYCLES, read_port, write_port
from vta_stages.accelerator import Accelerator

_BANKS = 2


def bank(address: Value) -> Value:
    """Return the bank of an element."""
    return address[:1]


class AccumulatorBuffer(wiring.Component):
    """A memory of accumulator elements with one write and two reads in a cycle, except if all three
    are in the same bank.

    Members: ``write``, ``read_0`` and ``read_1`` (:mod:`vta_rtl.buffers.ports`). Elements with even
    and odd addresses are in banks of their own. A bank is block RAM with two ports: one reads, the
    other one writes or reads. So ``read_1`` means nothing in the cycle of a write to the bank of
    both reads, unless both read the same element. A read in the cycle of a write to the same
    element gives the old element.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._bits, depth = 8 * accelerator.acc_bytes, accelerator.acc_depth
        rows = max(1, depth // _BANKS)
        self._memories = [
            memory.MemoryData(shape=self._bits, depth=rows, init=[]) for _ in range(_BANKS)
        ]
        read = In(read_port(self._bits, depth))
        write = In(write_port(self._bits, depth))
        super().__init__({"write": write, "read_0": read, "read_1": read})

    def row(self, address: int) -> Value:
        """Return an element, for a simulator to set and get."""
        found = self._memories[address % _BANKS][address // _BANKS]
        assert isinstance(found, Value)
        return found

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        reading_ports, shared_ports = [], []
        for n, contents in enumerate(self._memories):
            m.submodules[f"bank_{n}"] = rows = memory.Memory(contents)
            read, write, read_or_write = rows.read_port(), rows.write_port(), rows.read_port()
            m.d.comb += [
                read.addr.eq(
                    Mux(
                        bank(self.read_0.address) == n,
                        self.read_0.address[1:],
                        self.read_1.address[1:],
                    )
                ),
                write.en.eq(self.write.enable & (bank(self.write.address) == n)),
                write.addr.eq(Mux(write.en, self.write.address[1:], self.read_1.address[1:])),
                write.data.eq(self.write.data),
                read_or_write.addr.eq(write.addr),
            ]
            reading_ports.append(self._output_register(m, read.data, f"bank_{n}"))
            shared_ports.append(self._output_register(m, read_or_write.data, f"bank_{n}_shared"))

        choice: Value = Signal(data.StructLayout({"bank_0": 1, "bank_1": 1, "shared": 1}))
        m.d.comb += [
            choice.bank_0.eq(bank(self.read_0.address)),
            choice.bank_1.eq(bank(self.read_1.address)),
            choice.shared.eq(
                (choice.bank_0 == choice.bank_1) & (self.read_0.address != self.read_1.address)
            ),
        ]
        for cycle in range(READ_CYCLES):
            delayed = Signal.like(choice, name=f"choice_{cycle}")
            m.d.sync += delayed.eq(choice)
            choice = delayed
        m.d.comb += [
            self.read_0.data.eq(Mux(choice.bank_0, *reversed(reading_ports))),
            self.read_1.data.eq(
                Mux(
                    choice.shared,
                    Mux(choice.bank_1, *reversed(shared_ports)),
                    Mux(choice.bank_1, *reversed(reading_ports)),
                )
            ),
        ]
        return m

    def _output_register(self, m: Module, value: Value, name: str) -> Signal:
        register = Signal(self._bits, name=f"{name}_output")
        m.d.sync += register.eq(value)
        return register
