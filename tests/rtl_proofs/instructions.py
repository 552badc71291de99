"""The life of an instruction in a module, and of several that overlap."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib import data

from vta_rtl.isa.layouts import head_layout
from vta_rtl.modules.instruction_control import NEIGHBOURS, InstructionControl
from vta_rtl.modules.overlapped_control import OverlappedControl

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


_COUNT_BITS = 3
_FREE_BITS = 16


def overlapped() -> Circuit:
    """A token is pushed when its instruction and all before it have ended; without an abort.

    Any instruction is the one that is looked at: the one which begins ``chosen`` others after the
    first.
    """
    circuit, units = Circuit(), ("inp", "wgt")
    module = OverlappedControl(units)
    m = circuit.m
    circuit.add(module, "control")
    # A byte more than the head, so that not all instructions are alike. The rest is 0.
    circuit.free(module.command.valid, module.command.payload[:_FREE_BITS], module.unit)
    circuit.free(module.next.pop_valid, module.next.push_ready)
    assume_it_stays(circuit, module.command)
    held = circuit.past(module.command.valid & ~module.command.ready)
    circuit.assume(~held | (module.unit == circuit.past(module.unit)))
    head = data.View(head_layout(), module.command.payload)
    leaves = module.command.valid & module.command.ready
    pop = module.next.pop_valid & module.next.pop_ready
    push = module.next.push_valid & module.next.push_ready
    popped = Signal()
    m.d.sync += popped.eq((popped | pop) & ~leaves)
    circuit.claim("one token at most comes", ~popped & head.pop_next, when=pop)
    circuit.claim("and before it begins", (popped | pop) == head.pop_next, when=leaves)

    runs = Signal(len(units))
    for n, name in enumerate(units):
        unit = getattr(module, name)
        circuit.free(unit.busy)
        circuit.assume(~unit.busy | circuit.past(unit.start) | circuit.past(unit.busy))
        takes = leaves & (module.unit == n)
        ended = runs[n] & ~unit.start & ~unit.busy
        m.d.sync += runs[n].eq(takes | (runs[n] & ~ended))
        circuit.claim(f"{name} starts what has begun", unit.start == circuit.past(takes))
        circuit.claim(f"{name} runs one at a time", ~runs[n] | ended, when=takes)
        begun = circuit.past(takes)
        same = unit.instruction == circuit.past(
            Mux(takes, module.command.payload, unit.instruction)
        )
        circuit.claim(f"{name} keeps its instruction", same, when=begun | runs[n])
    circuit.reach("both units run", runs.all())

    chosen, begun = circuit.any_constant(_COUNT_BITS), Signal(_COUNT_BITS)
    owed, pushed = Signal(_COUNT_BITS), Signal(_COUNT_BITS)  # tokens of what has begun; those gone
    is_chosen, place = Signal(), Signal(_COUNT_BITS)
    before, own = Signal(len(units)), Signal(len(units))  # what the token still waits for
    still = runs & ~Cat(
        runs[n] & ~getattr(module, name).start & ~getattr(module, name).busy
        for n, name in enumerate(units)
    )
    m.d.sync += [
        begun.eq(begun + leaves),
        owed.eq(owed + (leaves & head.push_next)),
        pushed.eq(pushed + push),
        before.eq(before & still),
        own.eq(own & still),
    ]
    with m.If(leaves & (begun == chosen) & head.push_next):
        m.d.sync += [is_chosen.eq(1), place.eq(owed), before.eq(still), own.eq(1 << module.unit)]
    circuit.claim("no token without an instruction", pushed != owed, when=push)
    circuit.claim(
        "all that began have ended",
        ~(before | own).any(),
        when=push & is_chosen & (pushed == place),
    )
    circuit.claim("no token is lost", pushed == owed, when=~module.active)
    late = is_chosen & before.any() & ~own.any() & (pushed == place)
    circuit.reach("a token waits for an instruction before its own", late)
    return circuit
