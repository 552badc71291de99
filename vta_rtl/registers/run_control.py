"""What the registers do: start, done, errors, abort, interrupts and counters."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.isa.names import BASES, MASTERS, MODULES, RUNNERS
from vta_rtl.registers.axi_lite import WORD_BITS, lite_bus
from vta_rtl.registers.bank import RegisterBank
from vta_rtl.registers.register_table import (
    COMMAND_ABORT,
    MAGIC,
    Control,
    Error,
    Interrupt,
    State,
    capability_word,
    configuration_hash,
    revision_word,
)
from vta_stages.accelerator import Accelerator

_ABORT = COMMAND_ABORT.bit_length() - 1


def _bit(word: Signal, flag: int) -> Value:
    return word[flag.bit_length() - 1]


class RunControl(wiring.Component):
    """The registers of one device, as in ``vta_rtl/registers.md``, and what they control.

    Members: ``bus`` In, the AXI-Lite slave; ``interrupt`` Out(1), a level.

    To the device: ``start`` Out(1), for one cycle in which ``idle`` In(1) is 1; ``insn_address``
    and ``insn_count`` Out; ``bases`` Out, by name; ``enable`` Out, by module, whether it may run
    instructions; ``abort`` Out(1), 1 until ``quiet`` In(1); ``window_first`` and ``window_last``
    Out, of the program that runs.

    From the device: ``done`` In(1); by module, ``left`` In, 1 in the cycle in which an instruction
    leaves its queue; ``unknown_opcode`` In(1); by module, fetch included, ``busy`` and ``stalled``
    In; by master, ``failed`` and ``refused`` In, 1 for one cycle if the bus answered with an error
    or a burst was outside the window, with its ``address`` In.
    """

    def __init__(self, accelerator: Accelerator, *, bus_bytes: int) -> None:
        self._accelerator = accelerator
        self._bus_bytes = bus_bytes
        runners = data.StructLayout(dict.fromkeys(RUNNERS, 1))
        modules = data.StructLayout(dict.fromkeys(MODULES, 1))
        masters = data.StructLayout(dict.fromkeys(MASTERS, 1))
        super().__init__(
            {
                "bus": In(lite_bus()),
                "interrupt": Out(1),
                "start": Out(1),
                "idle": In(1),
                "insn_address": Out(WORD_BITS),
                "insn_count": Out(WORD_BITS),
                "bases": Out(data.StructLayout(dict.fromkeys(BASES, WORD_BITS))),
                "enable": Out(runners),
                "abort": Out(1),
                "quiet": In(1),
                "window_first": Out(WORD_BITS),
                "window_last": Out(WORD_BITS),
                "done": In(1),
                "left": In(runners),
                "busy": In(modules),
                "stalled": In(modules),
                "unknown_opcode": In(1),
                "failed": In(masters),
                "refused": In(masters),
                "address": In(data.StructLayout(dict.fromkeys(MASTERS, WORD_BITS))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        m.submodules.bank = bank = RegisterBank()
        wiring.connect(m, wiring.flipped(self.bus), bank.bus)
        m.d.comb += [
            self.insn_address.eq(bank.stored.insn_addr),
            self.insn_count.eq(bank.stored.insn_count),
            *(self.bases[name].eq(bank.stored[f"{name}_base"]) for name in BASES),
            bank.others.magic.eq(MAGIC),
            bank.others.revision.eq(revision_word(self._accelerator)),
            bank.others.configuration.eq(configuration_hash(self._accelerator, self._bus_bytes)),
            bank.others.capabilities.eq(capability_word(self._accelerator)),
            bank.others.done.eq(self.done),
        ]
        self._starts(m, bank)
        error = self._errors(m, bank)
        self._aborts(m, bank, error)
        self._counts(m, bank)
        return m

    def _starts(self, m: Module, bank: RegisterBank) -> None:
        """Connect the control registers of the four modules."""
        control, written = bank.others.fetch_control, bank.written.fetch_control
        starting, restarting = _bit(bank.ones, Control.START), _bit(bank.ones, Control.AUTO_RESTART)
        stopping = _bit(bank.zeros, Control.AUTO_RESTART)
        pending, fetched, was_busy = Signal(), Signal(), Signal()
        starts = Signal()
        m.d.comb += [
            starts.eq(pending | self.busy.fetch),
            self.start.eq(pending & self.idle & ~self.abort),
            _bit(control, Control.START).eq(starts),
            _bit(control, Control.DONE).eq(fetched),
            _bit(control, Control.IDLE).eq(~starts),
        ]
        with m.If(written & starting):
            m.d.sync += pending.eq(1)
        with m.Elif(self.start | (bank.written.command & bank.ones[_ABORT])):
            m.d.sync += pending.eq(0)
        m.d.sync += was_busy.eq(self.busy.fetch)
        with m.If(was_busy & ~self.busy.fetch):
            m.d.sync += fetched.eq(1)
        with m.Elif(self.start | bank.read.fetch_control):
            m.d.sync += fetched.eq(0)
        # A program keeps the window that it was started with.
        with m.If(self.idle):
            m.d.sync += [
                self.window_first.eq(bank.stored.window_first),
                self.window_last.eq(bank.stored.window_last),
            ]
        for module in RUNNERS:
            name = f"{module}_control"
            control, written = bank.others[name], bank.written[name]
            enabled, again = Signal(name=f"{module}_enabled"), Signal(name=f"{module}_again")
            m.d.comb += [
                self.enable[module].eq(enabled),
                _bit(control, Control.START).eq(enabled),
                # What has left its queue may still run.
                _bit(control, Control.IDLE).eq(
                    ~enabled & ~self.busy[module] & ~self.stalled[module]
                ),
                _bit(control, Control.AUTO_RESTART).eq(again),
            ]
            with m.If(written & starting):
                m.d.sync += enabled.eq(1)
            with m.Elif(self.left[module] & ~again):
                m.d.sync += enabled.eq(0)
            with m.If(written & restarting):
                m.d.sync += again.eq(1)
            with m.Elif(written & stopping):
                m.d.sync += again.eq(0)

    def _errors(self, m: Module, bank: RegisterBank) -> Signal:
        """Keep the errors; return whether there is a new one."""
        found, kept, address = Signal(WORD_BITS), Signal(WORD_BITS), Signal(WORD_BITS)
        m.d.comb += _bit(found, Error.UNKNOWN_OPCODE).eq(self.unknown_opcode)
        for module in MODULES:
            own = [master for master, of in MASTERS.items() if of == module]
            m.d.comb += [
                _bit(found, Error[f"{module.upper()}_{what}"]).eq(Cat(*(by[n] for n in own)).any())
                for what, by in (("ANSWER", self.failed), ("OUTSIDE", self.refused))
            ]
        with m.If(self.start):
            m.d.sync += [kept.eq(0), address.eq(0)]
        with m.Else():
            cleared = Mux(bank.written.error, bank.ones, 0)
            m.d.sync += kept.eq((kept & ~cleared) | found)
            for master in reversed(
                list(MASTERS)
            ):  # the first one counts, as its statement is the last
                with m.If(self.refused[master] & (kept == 0)):
                    m.d.sync += address.eq(self.address[master])
        m.d.comb += [bank.others.error.eq(kept), bank.others.error_address.eq(address)]
        error = Signal()
        m.d.comb += error.eq(found != 0)
        return error

    def _aborts(self, m: Module, bank: RegisterBank, error: Signal) -> None:
        """Abort by command and at an error; keep and signal interrupts."""
        aborted, was_done, status = Signal(), Signal(), Signal(WORD_BITS)
        events = Signal(WORD_BITS)
        m.d.sync += was_done.eq(self.done)
        m.d.comb += [
            aborted.eq(self.abort & self.quiet),
            _bit(bank.others.state, State.IDLE).eq(self.idle & ~self.abort),
            _bit(bank.others.state, State.ABORTING).eq(self.abort),
            _bit(events, Interrupt.DONE).eq(self.done & ~was_done),
            _bit(events, Interrupt.ERROR).eq(error),
            _bit(events, Interrupt.ABORTED).eq(aborted),
            bank.others.interrupt_status.eq(status),
            self.interrupt.eq((status & bank.stored.interrupt_enable) != 0),
        ]
        with m.If((bank.written.command & bank.ones[_ABORT]) | (error & ~self.abort)):
            m.d.sync += self.abort.eq(1)
        with m.Elif(aborted):
            m.d.sync += self.abort.eq(0)
        cleared = Mux(bank.written.interrupt_status, bank.ones, 0)
        m.d.sync += status.eq((status & ~cleared) | events)

    def _counts(self, m: Module, bank: RegisterBank) -> None:
        """Count the cycles of the program, and each module's."""
        counted = {"cycles": ~self.idle}
        for module in MODULES:
            counted[f"{module}_busy_cycles"] = self.busy[module]
            counted[f"{module}_stall_cycles"] = self.stalled[module]
        for name, event in counted.items():
            count = Signal(WORD_BITS, name=name)
            m.d.comb += bank.others[name].eq(count)
            m.d.sync += count.eq(Mux(self.start, 0, count + event))
