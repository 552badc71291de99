"""The life of an instruction in a module: tokens, run, tokens."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.isa.layouts import INSTRUCTION_BITS, head_layout

NEIGHBOURS = ("prev", "next")


def token_port() -> wiring.Signature:
    """Return a module's side of its two queues to and from a neighbour.

    ``pop_valid`` In and ``pop_ready`` Out, ``push_valid`` Out and ``push_ready`` In.
    """
    return wiring.Signature(
        {"pop_valid": In(1), "pop_ready": Out(1), "push_valid": Out(1), "push_ready": In(1)}
    )


def control_members() -> dict[str, wiring.Member]:
    """Return the members that a module passes on from its :class:`InstructionControl`.

    ``active`` and ``waiting`` Out, ``abort`` In, each of one bit.
    """
    return {"active": Out(1), "waiting": Out(1), "abort": In(1)}


class InstructionControl(wiring.Component):
    """Takes one instruction after the other: pops its tokens, runs it, pushes its tokens.

    Members: ``command`` In, a stream of instructions; ``prev`` and ``next`` Out, token ports;
    ``start`` Out(1), for one cycle, and ``busy`` In(1), 1 from the cycle after ``start`` on for as
    long as the instruction runs. ``command`` does not move from ``start`` until the instruction has
    pushed its tokens.

    ``active`` Out(1) is 1 from ``start`` until the instruction leaves; ``waiting`` Out(1) is 1
    while it waits for tokens or for room for them. With ``abort`` In(1), a running instruction ends
    without pushing tokens, and all others leave without running.

    A token that is there is popped even if the other one is not there yet.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "command": In(stream.Signature(INSTRUCTION_BITS)),
                **{neighbour: Out(token_port()) for neighbour in NEIGHBOURS},
                "start": Out(1),
                "busy": In(1),
                **control_members(),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        head = data.View(head_layout(), self.command.payload)
        moved = {neighbour: Signal(name=f"{neighbour}_moved") for neighbour in NEIGHBOURS}

        def move_tokens(direction: str, handshake: str, answer: str) -> Value:
            """Move the tokens that the instruction names; return whether all have moved."""
            done = []
            for neighbour in NEIGHBOURS:
                wanted = getattr(head, f"{direction}_{neighbour}") & ~moved[neighbour]
                wanted &= self.command.valid
                port = getattr(self, neighbour)
                m.d.comb += getattr(port, handshake).eq(wanted)
                moves = wanted & getattr(port, answer)
                with m.If(moves):
                    m.d.sync += moved[neighbour].eq(1)
                done.append(~wanted | moves)
            return self.command.valid & done[0] & done[1]

        with m.FSM():
            with m.State("POP"):
                with m.If(self.abort):
                    m.d.comb += self.command.ready.eq(1)
                    m.d.sync += [signal.eq(0) for signal in moved.values()]
                with m.Else():
                    moved_on = move_tokens("pop", "pop_ready", "pop_valid")
                    m.d.comb += self.waiting.eq(self.command.valid & ~moved_on)
                    with m.If(moved_on):
                        m.d.sync += [signal.eq(0) for signal in moved.values()]
                        m.next = "START"
            with m.State("START"):
                m.d.comb += [self.start.eq(1), self.active.eq(1)]
                m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.active.eq(1)
                with m.If(~self.busy):
                    m.next = "PUSH"
            with m.State("PUSH"):
                moved_on = move_tokens("push", "push_valid", "push_ready")
                m.d.comb += [self.active.eq(1), self.waiting.eq(~moved_on)]
                with m.If(moved_on | self.abort):
                    m.d.sync += [signal.eq(0) for signal in moved.values()]
                    m.d.comb += self.command.ready.eq(1)
                    m.next = "POP"
        return m
