"""An instruction runs between its tokens: popped before, pushed after."""

from __future__ import annotations

import itertools

import pytest
from amaranth.sim import SimulatorContext
from rtl_simulation import simulate

from vta_rtl.modules.instruction_control import InstructionControl
from vta_stages.isa.instructions import TOKEN_SHIFT, Opcode, Token

RUN_CYCLES = 4


@pytest.mark.parametrize("tokens", range(16))
def test_tokens_are_popped_before_and_pushed_after_the_run(tokens: int) -> None:
    control = InstructionControl()
    pops = [Token.POP_PREV, Token.POP_NEXT]
    pushes = [Token.PUSH_PREV, Token.PUSH_NEXT]
    events: list[str] = []
    # Signals of each flag: the module's, and the answer of the queue.
    handshakes = {
        Token.POP_PREV: (control.prev.pop_ready, control.prev.pop_valid),
        Token.POP_NEXT: (control.next.pop_ready, control.next.pop_valid),
        Token.PUSH_PREV: (control.prev.push_valid, control.prev.push_ready),
        Token.PUSH_NEXT: (control.next.push_valid, control.next.push_ready),
    }

    async def run(ctx: SimulatorContext) -> None:
        ctx.set(control.command.valid, 1)
        ctx.set(control.command.payload, Opcode.GEMM | tokens << TOKEN_SHIFT)
        busy = 0
        for cycle in itertools.count():
            # The queues answer one after the other, so a token never waits for another one.
            for place, (_, answer) in enumerate(handshakes.values()):
                ctx.set(answer, cycle % 8 == 2 * place)
            ctx.set(control.busy, busy > 0)
            for token, (asks, answer) in handshakes.items():
                if ctx.get(asks) and ctx.get(answer):
                    events.append(token.name)
            if ctx.get(control.start):
                assert busy == 0
                events.append("run")
                busy = RUN_CYCLES + 1
            busy = max(0, busy - 1)
            done = ctx.get(control.command.ready)
            await ctx.tick()
            if done:
                break
        ctx.set(control.command.valid, 0)
        await ctx.tick().repeat(20)
        assert not ctx.get(control.start)

    simulate(control, run)
    before, after = events[: events.index("run")], events[events.index("run") + 1 :]
    assert sorted(before) == sorted(token.name for token in pops if tokens & token)
    assert sorted(after) == sorted(token.name for token in pushes if tokens & token)


def test_an_instruction_waits_for_its_token() -> None:
    control = InstructionControl()

    async def run(ctx: SimulatorContext) -> None:
        ctx.set(control.command.valid, 1)
        ctx.set(control.command.payload, Opcode.GEMM | Token.POP_PREV << TOKEN_SHIFT)
        for _ in range(50):
            assert not ctx.get(control.start)
            await ctx.tick()
        ctx.set(control.prev.pop_valid, 1)
        await ctx.tick()
        assert ctx.get(control.start)

    simulate(control, run)


@pytest.mark.parametrize(
    "token", [Token.POP_PREV, Token.POP_NEXT, Token.PUSH_PREV, Token.PUSH_NEXT]
)
def test_waiting_tells_of_tokens_and_active_of_the_run(token: Token) -> None:
    control = InstructionControl()
    pops = token in (Token.POP_PREV, Token.POP_NEXT)

    async def run(ctx: SimulatorContext) -> None:
        assert not ctx.get(control.waiting)
        ctx.set(control.command.payload, Opcode.GEMM | token << TOKEN_SHIFT)
        ctx.set(control.command.valid, 1)
        await ctx.tick().repeat(10)
        assert ctx.get(control.waiting)
        assert ctx.get(control.active) == (not pops)

    simulate(control, run)


@pytest.mark.parametrize("tokens", range(16))
def test_an_abort_drops_instructions_wherever_they_wait(tokens: int) -> None:
    control = InstructionControl()

    async def run(ctx: SimulatorContext) -> None:
        ctx.set(control.command.payload, Opcode.GEMM | tokens << TOKEN_SHIFT)
        ctx.set(control.command.valid, 1)
        ctx.set(control.busy, 1)
        await ctx.tick().repeat(5)
        runs = ctx.get(control.active)
        assert runs == (tokens & (Token.POP_PREV | Token.POP_NEXT) == 0)
        ctx.set(control.abort, 1)
        if runs:
            await ctx.tick().repeat(5)
            assert ctx.get(control.active), "an abort lets it run to its end"
            ctx.set(control.busy, 0)
        left = 0
        for _ in range(6):
            left += ctx.get(control.command.ready)
            assert not ctx.get(control.start)
            await ctx.tick()
        assert left == (5 if runs else 6), "one a cycle"
        assert not ctx.get(control.active)

    simulate(control, run)
