"""The accelerator as a board sees it: registers, AXI masters that keep to a window, interrupt."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.compute.dsp_cell import ProductCell
from vta_rtl.device import VtaDevice
from vta_rtl.dram.axi import check_bus, read_bus, write_bus
from vta_rtl.dram.window import ReadGuard, WriteGuard
from vta_rtl.isa.names import MASTERS, WRITER
from vta_rtl.registers.axi_lite import lite_bus
from vta_rtl.registers.run_control import RunControl
from vta_stages.accelerator import Accelerator


class VtaCore(wiring.Component):
    """An accelerator with registers.

    Members: ``registers`` In, an AXI-Lite slave (``vta_rtl/registers.md``); ``interrupt`` Out(1), a
    level; ``fetch_bus``, ``load_bus``, ``weight_bus`` and ``compute_bus`` Out, masters that read;
    ``store_bus`` Out, a master that writes (:mod:`vta_rtl.dram.axi`).

    Raises AcceleratorError if ``bus_bytes`` is not 8 or 16, or wider than an input, weight or out
    element.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        *,
        bus_bytes: int = 16,
        cell: ProductCell = ProductCell.BEHAVIOURAL,
    ) -> None:
        check_bus(accelerator, bus_bytes)
        self._accelerator = accelerator
        self._bus_bytes = bus_bytes
        self._cell = cell
        super().__init__(
            {
                "registers": In(lite_bus()),
                "interrupt": Out(1),
                **{
                    f"{master}_bus": Out((write_bus if master == WRITER else read_bus)(bus_bytes))
                    for master in MASTERS
                },
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        a, bus_bytes = self._accelerator, self._bus_bytes
        m.submodules.device = device = VtaDevice(a, bus_bytes=bus_bytes, cell=self._cell)
        m.submodules.control = control = RunControl(a, bus_bytes=bus_bytes)
        wiring.connect(m, wiring.flipped(self.registers), control.bus)
        m.d.comb += self.interrupt.eq(control.interrupt)
        for name in ("start", "insn_address", "insn_count", "bases", "enable", "abort"):
            m.d.comb += getattr(device, name).eq(getattr(control, name))
        for name in ("idle", "quiet", "done", "left", "busy", "stalled", "unknown_opcode"):
            m.d.comb += getattr(control, name).eq(getattr(device, name))
        for master in MASTERS:
            guard = (WriteGuard if master == WRITER else ReadGuard)(bus_bytes)
            m.submodules[f"{master}_guard"] = guard
            wiring.connect(m, getattr(device, f"{master}_bus"), guard.master)
            wiring.connect(m, guard.bus, wiring.flipped(getattr(self, f"{master}_bus")))
            m.d.comb += [
                guard.first.eq(control.window_first),
                guard.last.eq(control.window_last),
                guard.closed.eq(control.abort),
                control.failed[master].eq(guard.failed),
                control.refused[master].eq(guard.refused),
                control.address[master].eq(guard.address),
            ]
        return m
