"""The whole accelerator, without registers: its modules, queues and buffers."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.buffers.buffer import Buffer
from vta_rtl.compute.dsp_cell import ProductCell
from vta_rtl.dram.axi import ADDRESS_BITS, check_bus, read_bus, write_bus
from vta_rtl.isa.names import BASES, MASTERS, MODULES, RUNNERS, WRITER
from vta_rtl.modules.compute import ComputeModule
from vta_rtl.modules.fetch import COUNT_BITS, Fetch
from vta_rtl.modules.load import LoadModule
from vta_rtl.modules.store import StoreModule
from vta_rtl.queues.command_queue import CommandQueue
from vta_rtl.queues.token_queue import TokenQueue
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import MemoryType


class VtaDevice(wiring.Component):
    """An accelerator that runs one program at a time.

    Members: ``start`` In(1), for one cycle, with ``insn_address`` In, the byte address of the
    instructions, a multiple of 16, and ``insn_count`` In; ``idle`` Out(1), without which a
    ``start`` is ignored; ``done`` Out(1), 0 from the cycle after ``start`` until a FINISH;
    ``fetch_bus``, ``load_bus``, ``weight_bus`` and ``compute_bus``, masters that read;
    ``store_bus``, a master that writes (:mod:`vta_rtl.dram.axi`).

    For registers: ``bases`` In, by memory type, the byte address that ``dram_base`` counts from;
    ``enable`` In, by module, 1 if it may take an instruction; ``abort`` In(1), which the caller
    holds until ``quiet`` Out(1) is 1: fetch stops, instructions in queues and tokens are dropped,
    LOADs and STOREs that run come to their end; ``left`` Out, by module, 1 in the cycle in which
    an instruction leaves its queue; ``busy`` and ``stalled`` Out, by module, fetch included;
    ``unknown_opcode`` Out(1), 1 for one cycle.

    A program must push and pop as many tokens on each queue, as the verifier demands: what is left
    stays for the next one, unless there is an abort in between.

    Raises AcceleratorError if ``bus_bytes`` is not 8 or 16, or wider than an input or out element.
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
        runners = data.StructLayout(dict.fromkeys(RUNNERS, 1))
        modules = data.StructLayout(dict.fromkeys(MODULES, 1))
        super().__init__(
            {
                "start": In(1),
                "insn_address": In(ADDRESS_BITS),
                "insn_count": In(COUNT_BITS),
                "idle": Out(1),
                "done": Out(1),
                **{
                    f"{master}_bus": Out((write_bus if master == WRITER else read_bus)(bus_bytes))
                    for master in MASTERS
                },
                "bases": In(data.StructLayout(dict.fromkeys(BASES, ADDRESS_BITS))),
                "enable": In(runners, init=dict.fromkeys(RUNNERS, 1)),
                "abort": In(1),
                "quiet": Out(1),
                "left": Out(runners),
                "busy": Out(modules),
                "stalled": Out(modules),
                "unknown_opcode": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        a, bus_bytes = self._accelerator, self._bus_bytes
        m.submodules.fetch = fetch = Fetch(a, bus_bytes=bus_bytes)
        m.submodules.load = load = LoadModule(a, bus_bytes=bus_bytes)
        m.submodules.compute = compute = ComputeModule(a, bus_bytes=bus_bytes, cell=self._cell)
        m.submodules.store = store = StoreModule(a, bus_bytes=bus_bytes)
        running, begins = Signal(), Signal()
        m.d.comb += [
            self.idle.eq(~running & ~fetch.busy),
            begins.eq(self.start & self.idle),
            fetch.start.eq(begins),
            fetch.address.eq(self.insn_address),
            fetch.count.eq(self.insn_count),
            fetch.stop.eq(self.abort),
            self.busy.fetch.eq(fetch.busy),
            self.stalled.fetch.eq(fetch.stalled),
            self.unknown_opcode.eq(compute.unknown_opcode),
            load.inp_base.eq(self.bases.inp),
            load.wgt_base.eq(self.bases.wgt),
            compute.uop_base.eq(self.bases.uop),
            compute.acc_base.eq(self.bases.acc),
            store.out_base.eq(self.bases.out),
        ]
        at_rest = [~fetch.busy]
        for name, module in (("load", load), ("compute", compute), ("store", store)):
            depth = a.load_commands if module is load else a.command_queue_depth
            m.submodules[f"{name}_commands"] = queue = CommandQueue(depth)
            wiring.connect(m, getattr(fetch, name), queue.push)
            may_take = Signal(name=f"{name}_may_take")
            m.d.comb += [
                may_take.eq(self.enable[name] | self.abort),
                module.command.valid.eq(queue.pop.valid & may_take),
                module.command.payload.eq(queue.pop.payload),
                queue.pop.ready.eq(module.command.ready & may_take),
                module.abort.eq(self.abort),
                self.left[name].eq(module.command.valid & module.command.ready),
                self.busy[name].eq(module.active & ~module.waiting),
                self.stalled[name].eq(module.waiting),
            ]
            at_rest += [queue.empty, ~module.active]
            wiring.connect(m, module.bus, wiring.flipped(getattr(self, f"{name}_bus")))
        wiring.connect(m, fetch.bus, wiring.flipped(self.fetch_bus))
        wiring.connect(m, load.weight_bus, wiring.flipped(self.weight_bus))

        for name, producer, consumer in (
            ("load_to_compute", load.next, compute.prev),
            ("compute_to_load", compute.prev, load.next),
            ("compute_to_store", compute.next, store.prev),
            ("store_to_compute", store.prev, compute.next),
        ):
            m.submodules[name] = tokens = TokenQueue(a.token_queue_depth)
            m.d.comb += [
                tokens.push_valid.eq(producer.push_valid),
                producer.push_ready.eq(tokens.push_ready),
                consumer.pop_valid.eq(tokens.pop_valid),
                tokens.pop_ready.eq(consumer.pop_ready),
                tokens.clear.eq(self.abort & self.quiet),
            ]

        for kind, writer, reader in (
            (MemoryType.INP, load.inp, compute.inp),
            (MemoryType.WGT, load.wgt, compute.wgt),
            (MemoryType.OUT, compute.out, store.out),
        ):
            m.submodules[kind.name.lower()] = buffer = Buffer(a, kind)
            wiring.connect(m, writer, buffer.write)
            wiring.connect(m, reader, buffer.read)

        m.d.comb += self.quiet.eq(Cat(at_rest).all())
        with m.If(begins):
            m.d.sync += [running.eq(1), self.done.eq(0)]
        with m.Elif(compute.finished):
            m.d.sync += [running.eq(0), self.done.eq(1)]
        with m.Elif(self.abort & self.quiet):
            m.d.sync += running.eq(0)
        return m
