"""The life of an instruction in a module."""

from __future__ import annotations

from amaranth.hdl import Signal
from amaranth.lib import data

from vta_rtl.isa.layouts import head_layout
from vta_rtl.modules.instruction_control import NEIGHBOURS, InstructionControl

from .circuit import Circuit, signal_in
from .handshakes import assume_it_stays


def control() -> Circuit:
    """An instruction pops its tokens, runs once, pushes its tokens and leaves; without an abort."""
    circuit, module = Circuit(), InstructionControl()
    m, inside = circuit.m, circuit.add(module, "control")
    circuit.free(module.command.valid, module.command.payload, module.busy)
    head = data.View(head_layout(), module.command.payload)
    assume_it_stays(circuit, module.command)
    started = Signal()
    leaves = module.command.valid & module.command.ready
    m.d.sync += started.eq((started | module.start) & ~leaves)
    circuit.claim("it starts once", ~started, when=module.start)
    circuit.claim("only an instruction starts", module.command.valid, when=module.start)
    circuit.claim("none leaves without a run", started, when=leaves)
    ended = Signal()
    m.d.sync += ended.eq((ended | (started & ~module.busy)) & ~leaves)
    circuit.claim("none leaves while it runs", ended, when=leaves)
    state = signal_in(inside, "fsm_state")
    for neighbour in NEIGHBOURS:
        port = getattr(module, neighbour)
        circuit.free(port.pop_valid, port.push_ready)
        pops, pushes = getattr(head, f"pop_{neighbour}"), getattr(head, f"push_{neighbour}")
        popped, pushed = Signal(name="popped"), Signal(name="pushed")
        pop, push = port.pop_valid & port.pop_ready, port.push_valid & port.push_ready
        m.d.sync += [popped.eq((popped | pop) & ~leaves), pushed.eq((pushed | push) & ~leaves)]
        circuit.claim(f"one token at most comes from {neighbour}", ~popped & pops, when=pop)
        circuit.claim(f"and before the start, {neighbour}", popped == pops, when=module.start)
        circuit.claim(f"one token at most goes to {neighbour}", ~pushed & pushes, when=push)
        circuit.claim(f"and after the run, {neighbour}", ended, when=push)
        circuit.claim(f"all have gone to {neighbour}", (pushed | push) == pushes, when=leaves)
        # What induction needs: the states 0 to 3 are POP, START, RUN, PUSH.
        moved = signal_in(inside, f"{neighbour}_moved")
        circuit.claim(f"{neighbour} in POP", (popped == moved) & ~pushed, when=state == 0)
        circuit.claim(f"{neighbour} in PUSH", pushed == moved, when=state == 3)
        circuit.claim(f"{neighbour} not yet", ~pushed & ~moved, when=(state == 1) | (state == 2))
        circuit.claim(f"{neighbour} popped", popped == pops, when=state != 0)
        circuit.claim(f"popped as {neighbour} says", pops & module.command.valid, when=popped)
        circuit.claim(f"pushed as {neighbour} says", pushes & module.command.valid, when=pushed)
    circuit.claim("started", started == (state >= 2))
    circuit.claim("has an instruction", module.command.valid, when=state != 0)
    circuit.claim("ended", ended == (state == 3))
    all_four = head.pop_prev & head.pop_next & head.push_prev & head.push_next
    circuit.reach("all four tokens move", leaves & all_four)
    return circuit
