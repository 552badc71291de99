"""The accelerator as Verilog, with the port names of AXI.

    text = verilog(Accelerator(), bus_bytes=16)

Tools for FPGAs, and Verilator, take it from there.
"""

from __future__ import annotations

import gc
import warnings

from amaranth.back import rtlil as amaranth_rtlil
from amaranth.back.verilog import convert
from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    Elaboratable,
    Module,
    ResetSignal,
    Signal,
    UnusedElaboratable,
    ValueLike,
)

from vta_rtl.compute.dsp_cell import ProductCell
from vta_rtl.core import VtaCore
from vta_rtl.dram.axi import check_bus
from vta_rtl.isa.names import MASTERS, WRITER
from vta_stages.accelerator import Accelerator

TOP_NAME = "edgepipe_vta"

_INCREMENTING = 1
"""AxBURST (A3.4.1)."""

_NORMAL_BUFFERABLE = 0b0011
"""AxCACHE: normal memory, not cached (A4.4). The driver maintains the caches."""


def verilog(
    accelerator: Accelerator,
    *,
    bus_bytes: int = 16,
    cell: ProductCell = ProductCell.BEHAVIOURAL,
) -> str:
    """Return Verilog whose top module is :data:`TOP_NAME`, with products in the FPGA's DSP cells if
    ``cell`` names one.

    Ports: ``aclk``; ``aresetn``, a synchronous reset, active low; ``irq``; the AXI4-Lite slave
    ``s_axi_control_*`` (``vta_rtl/registers.md``); the AXI4 masters ``m_axi_fetch_*``,
    ``m_axi_load_*``, ``m_axi_weight_*`` and ``m_axi_compute_*``, which only read, and
    ``m_axi_store_*``, which only writes. Their bursts have at most 16 beats, so they serve AXI3
    ports, too.

    Raises AcceleratorError as :class:`~vta_rtl.core.VtaCore` does.
    """
    top = _top(accelerator, bus_bytes, cell)
    return convert(top, name=TOP_NAME, ports=top.ports, emit_src=False, strip_internal_attrs=True)


def rtlil(
    accelerator: Accelerator,
    *,
    bus_bytes: int = 16,
    cell: ProductCell = ProductCell.BEHAVIOURAL,
) -> str:
    """Return the circuit of :func:`verilog` in yosys's own language, which yosys reads in a
    fraction of the time."""
    top = _top(accelerator, bus_bytes, cell)
    return amaranth_rtlil.convert(top, name=TOP_NAME, ports=top.ports, emit_src=False)


def ports(accelerator: Accelerator, *, bus_bytes: int = 16) -> dict[str, tuple[str, int]]:
    """Return ``"input"`` or ``"output"`` and the bits of each port of :func:`verilog`, by name."""
    with warnings.catch_warnings():
        # The circuit is only looked at; Amaranth warns of that when it is freed.
        warnings.simplefilter("ignore", UnusedElaboratable)
        top = _top(accelerator, bus_bytes, ProductCell.BEHAVIOURAL)
        found = {name: (top.directions[name], len(port)) for name, (port, _) in top.ports.items()}
        del top
        gc.collect()
    return found


def _top(accelerator: Accelerator, bus_bytes: int, cell: ProductCell) -> _Top:
    check_bus(accelerator, bus_bytes)
    return _Top(VtaCore(accelerator, bus_bytes=bus_bytes, cell=cell), bus_bytes)


class _Top(Elaboratable):
    """Gives the core's streams the names and the constant signals of AXI."""

    def __init__(self, core: VtaCore, bus_bytes: int) -> None:
        self.ports: dict[str, tuple[Signal, None]] = {}  # the converter finds the directions
        self.directions = {"aclk": "input", "aresetn": "input"}
        self._core = core
        self._bus_bytes = bus_bytes
        self._module = Module()
        self._connect()

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        return self._module

    def _in(self, name: str, target: ValueLike) -> None:
        """Drive a signal of the core from a port."""
        port = Signal.like(target, name=name)
        self.ports[name] = (port, None)
        self.directions[name] = "input"
        self._module.d.comb += target.eq(port)

    def _out(self, name: str, value: ValueLike, bits: int | None = None) -> None:
        """Drive a port of as many bits as the value has, or ``bits`` for a constant."""
        port = Signal(bits, name=name) if bits else Signal.like(value, name=name)
        self.ports[name] = (port, None)
        self.directions[name] = "output"
        self._module.d.comb += port.eq(value)

    def _connect(self) -> None:
        m, core = self._module, self._core
        clock, reset_n = Signal(name="aclk"), Signal(name="aresetn")
        self.ports |= {"aclk": (clock, None), "aresetn": (reset_n, None)}
        m.domains.sync = ClockDomain()
        m.d.comb += [ClockSignal().eq(clock), ResetSignal().eq(~reset_n)]
        m.submodules.core = core
        self._out("irq", core.interrupt)
        self._slave("s_axi_control_", core.registers)
        for master in MASTERS:
            bus, prefix = getattr(core, f"{master}_bus"), f"m_axi_{master}_"
            if master == WRITER:
                self._writes(prefix, bus)
            else:
                self._reads(prefix, bus)

    def _slave(self, prefix: str, bus: object) -> None:
        for channel in ("aw", "w", "ar"):
            stream = getattr(bus, channel)
            self._in(f"{prefix}{channel}valid", stream.valid)
            self._out(f"{prefix}{channel}ready", stream.ready)
            if channel == "w":
                self._in(f"{prefix}wdata", stream.payload.data)
                self._in(f"{prefix}wstrb", stream.payload.strb)
            else:
                self._in(f"{prefix}{channel}addr", stream.payload)
        for channel, fields in (("b", ("resp",)), ("r", ("data", "resp"))):
            stream = getattr(bus, channel)
            self._out(f"{prefix}{channel}valid", stream.valid)
            self._in(f"{prefix}{channel}ready", stream.ready)
            for field in fields:
                self._out(f"{prefix}{channel}{field}", stream.payload[field])

    def _burst(self, prefix: str, stream: object) -> None:
        """Connect an address channel."""
        self._out(f"{prefix}valid", stream.valid)  # type: ignore[attr-defined]
        self._in(f"{prefix}ready", stream.ready)  # type: ignore[attr-defined]
        self._out(f"{prefix}addr", stream.payload.address)  # type: ignore[attr-defined]
        self._out(f"{prefix}len", stream.payload.len)  # type: ignore[attr-defined]
        self._out(f"{prefix}size", self._bus_bytes.bit_length() - 1, 3)
        self._out(f"{prefix}burst", _INCREMENTING, 2)
        self._out(f"{prefix}cache", _NORMAL_BUFFERABLE, 4)
        self._out(f"{prefix}prot", 0, 3)

    def _reads(self, prefix: str, bus: object) -> None:
        self._burst(f"{prefix}ar", bus.ar)  # type: ignore[attr-defined]
        answer = bus.r  # type: ignore[attr-defined]
        self._in(f"{prefix}rvalid", answer.valid)
        self._out(f"{prefix}rready", answer.ready)
        for field in ("data", "resp", "last"):
            self._in(f"{prefix}r{field}", answer.payload[field])

    def _writes(self, prefix: str, bus: object) -> None:
        self._burst(f"{prefix}aw", bus.aw)  # type: ignore[attr-defined]
        beat, answer = bus.w, bus.b  # type: ignore[attr-defined]
        self._out(f"{prefix}wvalid", beat.valid)
        self._in(f"{prefix}wready", beat.ready)
        self._out(f"{prefix}wdata", beat.payload.data)
        self._out(f"{prefix}wlast", beat.payload.last)
        self._out(f"{prefix}wstrb", (1 << self._bus_bytes) - 1, self._bus_bytes)
        self._in(f"{prefix}bvalid", answer.valid)
        self._out(f"{prefix}bready", answer.ready)
        self._in(f"{prefix}bresp", answer.payload.resp)
