"""Token queues and command queues."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal

from vta_rtl.queues.command_queue import CommandQueue
from vta_rtl.queues.token_queue import TokenQueue

from .circuit import Circuit, memory_in, signal_in


def tokens(depth: int) -> Circuit:
    """A token leaves for each that came and was not cleared, and none else."""
    circuit, queue = Circuit(), TokenQueue(depth)
    m, inside = circuit.m, circuit.add(queue, "queue")
    circuit.free(queue.push_valid, queue.pop_ready, queue.clear)
    pushed = queue.push_valid & queue.push_ready
    popped = queue.pop_valid & queue.pop_ready
    balance = Signal(range(depth + 1))  # pushed, and neither popped nor cleared
    m.d.sync += balance.eq(Mux(queue.clear, 0, balance + pushed - popped))
    circuit.claim("at most depth tokens", balance <= depth)
    circuit.claim("one leaves only if there is one", queue.pop_valid == (balance != 0))
    circuit.claim("one enters only if there is room", queue.push_ready == (balance != depth))
    circuit.claim("none is lost or made", signal_in(inside, "count") == balance)
    circuit.reach("some tokens", balance == min(depth, 3))
    circuit.reach("pushed and popped at once", pushed & popped)
    circuit.reach("tokens are cleared", queue.clear & (balance != 0))
    circuit.reach("empty again", circuit.past(popped & ~pushed) & (balance == 0))
    if depth <= 3:
        circuit.reach("full", ~queue.push_ready)
    return circuit


def commands(depth: int) -> Circuit:
    """Instructions leave in their order, unchanged: an arbitrary one of them is followed."""
    circuit, queue = Circuit(), CommandQueue(depth)
    m, inside = circuit.m, circuit.add(queue, "queue")
    push, pop = queue.push, queue.pop
    circuit.free(push.valid, push.payload, pop.ready)
    pushed, popped = push.valid & push.ready, pop.valid & pop.ready
    level = Signal(range(depth + 1))
    m.d.sync += level.eq(level + pushed - popped)
    followed, left = Signal(), Signal()
    ahead = Signal(range(depth + 1))  # instructions that must leave before it
    payload = Signal.like(push.payload)
    begins = pushed & ~followed & circuit.any()
    with m.If(begins):
        m.d.sync += [followed.eq(1), ahead.eq(level - popped), payload.eq(push.payload)]
    is_inside = followed & ~left
    with m.If(is_inside & popped):
        m.d.sync += [ahead.eq(ahead - 1), left.eq(ahead == 0)]

    circuit.claim("at most depth instructions", level <= depth)
    circuit.claim("empty without instructions", queue.empty == (level == 0))
    circuit.claim("none leaves an empty queue", level != 0, when=pop.valid)
    stays = circuit.past(Mux(popped, level - 1, level))
    circuit.claim("offered at the latest in the next cycle", pop.valid, when=stays)
    circuit.claim("it does not leave before its turn", ahead < level, when=is_inside)
    leaves = is_inside & popped & (ahead == 0)
    circuit.claim("it leaves as it came", pop.payload == payload, when=leaves)
    held = circuit.past(pop.valid & ~pop.ready)
    circuit.claim("an offer stays", pop.valid, when=held)
    circuit.claim("and is the same", pop.payload == circuit.past(pop.payload), when=held)
    circuit.reach("the followed instruction leaves behind two", leaves & circuit.past(ahead == 1))
    if depth > 1:
        _where_it_is(circuit, inside, queue, depth, is_inside, ahead, payload)
        circuit.claim("levels agree", signal_in(inside, "fifo.level") == level)
    if depth <= 3:
        circuit.reach("full", ~push.ready & (level == depth))
    return circuit


def _where_it_is(
    circuit: Circuit,
    inside: object,
    queue: CommandQueue,
    depth: int,
    is_inside: Signal,
    ahead: Signal,
    payload: Signal,
) -> None:
    """Claim that the memory or the output register holds the instruction: what induction needs."""
    m = circuit.m
    consume = signal_in(inside, "fifo.consume")  # type: ignore[arg-type]
    beyond, place = Signal(range(2 * depth)), Signal(range(2 * depth))
    m.d.comb += beyond.eq(consume + ahead - queue.pop.valid)
    m.d.comb += place.eq(Mux(beyond >= depth - 1, beyond - (depth - 1), beyond))
    content = memory_in(circuit, inside, "fifo.storage", place)  # type: ignore[arg-type]
    in_register = queue.pop.valid & (ahead == 0)
    circuit.claim("memory holds it", content == payload, when=is_inside & ~in_register)
    circuit.claim("output holds it", queue.pop.payload == payload, when=is_inside & in_register)
