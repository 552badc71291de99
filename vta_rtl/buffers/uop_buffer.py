"""The buffer of uops, which takes all uops of a beat in one cycle."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from vta_rtl.buffers.ports import read_port
from vta_stages.accelerator import Accelerator


def uops_at_once(accelerator: Accelerator, bus_bytes: int) -> int:
    """Return how many uops a beat holds, at most all of the buffer."""
    return min(bus_bytes // accelerator.uop_bytes, accelerator.uop_depth)


def uop_write_port(accelerator: Accelerator, at_once: int) -> wiring.Signature:
    """Return the port that writes up to ``at_once`` uops.

    ``enable`` Out(at_once), a bit for each of them, ``address`` Out, counted in ``at_once`` uops,
    and ``data`` Out(32 * at_once), written at the end of the cycle.
    """
    return wiring.Signature(
        {
            "enable": Out(at_once),
            "address": Out(ceil_log2(accelerator.uop_depth // at_once)),
            "data": Out(8 * accelerator.uop_bytes * at_once),
        }
    )


class UopBuffer(wiring.Component):
    """A memory of uops: several are written in a cycle, one is read.

    Members: ``write`` In (:func:`uop_write_port`) and ``read`` In
    (:func:`~vta_rtl.buffers.ports.read_port`). A read in the cycle of a write to the same uop gives
    the old one. ``banks`` hold the uops, for a simulator to set and get: uop n is row
    ``n // at_once`` of bank ``n % at_once``.
    """

    def __init__(self, accelerator: Accelerator, *, at_once: int) -> None:
        self._at_once = at_once
        self._bits = 8 * accelerator.uop_bytes
        self.banks = [
            memory.MemoryData(shape=self._bits, depth=accelerator.uop_depth // at_once, init=[])
            for _ in range(at_once)
        ]
        super().__init__(
            {
                "write": In(uop_write_port(accelerator, at_once)),
                "read": In(read_port(self._bits, accelerator.uop_depth)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit: a bank for each uop of a beat."""
        m = Module()
        place_bits = ceil_log2(self._at_once)
        found = []
        for place, bank_rows in enumerate(self.banks):
            m.submodules[f"bank_{place}"] = rows = memory.Memory(bank_rows)
            write, read = rows.write_port(), rows.read_port()
            m.d.comb += [
                write.en.eq(self.write.enable[place]),
                write.addr.eq(self.write.address),
                write.data.eq(self.write.data.word_select(place, self._bits)),
                read.addr.eq(self.read.address >> place_bits),
            ]
            found.append(read.data)
        bank, output_register = Signal(place_bits), Signal(self._bits)
        m.d.sync += [
            bank.eq(self.read.address[:place_bits]),
            output_register.eq(Array(found)[bank] if place_bits else found[0]),
        ]
        m.d.comb += self.read.data.eq(output_register)
        return m
