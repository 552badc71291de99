"""Instructions of two units overlap, but their tokens come and go as if they ran in order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from amaranth.sim import SimulatorContext
from rtl_simulation import simulate

from vta_rtl.modules.overlapped_control import MOST_BEGUN, OverlappedControl
from vta_stages.isa.instructions import TOKEN_SHIFT, Opcode, Token

UNITS = ("left", "right")
PLACE_SHIFT = 64
MOST_CYCLES = 5_000


@dataclass(frozen=True)
class Command:
    """What an instruction needs: its unit, its tokens, and how long it runs."""

    unit: int
    tokens: int = 0
    cycles: int = 4


@dataclass
class Seen:
    """When each instruction left the queue, started and ended, in cycles, and when tokens moved."""

    left: list[int] = field(default_factory=list)
    started: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    popped: list[int] = field(default_factory=list)
    pushed: list[int] = field(default_factory=list)
    active: list[bool] = field(default_factory=list)
    waiting: list[bool] = field(default_factory=list)


def run_commands(
    commands: Sequence[Command],
    *,
    percent: int = 100,
    pops_from: int = 0,
    room_from: int = 0,
    abort_from: int = MOST_CYCLES,
) -> Seen:
    """Run commands until all have left and nothing is active; return what was seen.

    Tokens and room for them are there in ``percent`` of the cycles, and not before a cycle.
    """
    control, seen = OverlappedControl(UNITS), Seen()
    draw = random.Random(percent)

    async def run(ctx: SimulatorContext) -> None:
        left = [0, 0]  # cycles that each unit is still busy
        running: list[int | None] = [None, None]
        for cycle in range(MOST_CYCLES):
            place = len(seen.left)
            if place < len(commands):
                command = commands[place]
                word = Opcode.LOAD | command.tokens << TOKEN_SHIFT | place << PLACE_SHIFT
                ctx.set(control.command.payload, word)
                ctx.set(control.unit, command.unit)
            ctx.set(control.command.valid, place < len(commands))
            ctx.set(control.next.pop_valid, cycle >= pops_from and draw.randrange(100) < percent)
            ctx.set(control.next.push_ready, cycle >= room_from and draw.randrange(100) < percent)
            ctx.set(control.abort, cycle >= abort_from)
            for n, name in enumerate(UNITS):
                ctx.set(getattr(control, name).busy, left[n] > 0)
            for n, name in enumerate(UNITS):
                unit = getattr(control, name)
                if running[n] is not None:
                    assert ctx.get(unit.instruction) >> PLACE_SHIFT == running[n]
                if ctx.get(unit.start):
                    assert not left[n], "a unit runs one at a time"
                    number = ctx.get(unit.instruction) >> PLACE_SHIFT
                    assert commands[number].unit == n
                    seen.started[number] = cycle
                    running[n], left[n] = number, commands[number].cycles + 1
                left[n] = max(0, left[n] - 1)
                if running[n] is not None and not left[n]:
                    seen.ended[running[n]] = cycle
                    running[n] = None
            if ctx.get(control.next.pop_ready) and ctx.get(control.next.pop_valid):
                seen.popped.append(cycle)
            if ctx.get(control.next.push_valid) and ctx.get(control.next.push_ready):
                seen.pushed.append(cycle)
            seen.active.append(bool(ctx.get(control.active)))
            seen.waiting.append(bool(ctx.get(control.waiting)))
            if place < len(commands) and ctx.get(control.command.ready):
                seen.left.append(cycle)
            if place == len(commands) and not seen.active[-1]:
                return
            await ctx.tick()
        raise AssertionError("the commands do not end")

    simulate(control, run)
    return seen


@pytest.mark.parametrize("percent", [20, 60, 100])
def test_tokens_move_in_the_order_of_the_instructions(percent: int) -> None:
    draw = random.Random(percent)
    commands = [
        Command(draw.randrange(2), draw.randrange(16), draw.choice((0, 1, draw.randrange(40))))
        for _ in range(60)
    ]
    seen = run_commands(commands, percent=percent)
    starts = [seen.started[n] for n in range(len(commands))]
    assert starts == sorted(starts)
    pops = iter(seen.popped)
    for start, command in zip(starts, commands, strict=True):
        if command.tokens & Token.POP_NEXT:
            assert next(pops) < start
    assert next(pops, None) is None
    pushes, all_ended = iter(seen.pushed), 0
    for number, command in enumerate(commands):
        all_ended = max(all_ended, seen.ended[number])
        if command.tokens & Token.PUSH_NEXT:
            assert next(pushes) > all_ended, "and those before have ended"
    assert next(pushes, None) is None


def test_two_units_run_at_the_same_time_and_one_unit_does_not() -> None:
    both = run_commands([Command(0, cycles=50), Command(1, cycles=50)])
    assert both.started[1] == both.started[0] + 1
    same = run_commands([Command(0, cycles=50), Command(0, cycles=50)])
    assert same.started[1] == same.ended[0] + 2


def test_a_token_that_is_missing_holds_all_that_follow() -> None:
    seen = run_commands([Command(0), Command(1, Token.POP_NEXT), Command(0)], pops_from=50)
    assert seen.popped == [50]
    assert seen.started[0] < 10
    assert seen.started[1] == 51
    assert seen.started[2] == 52


def test_a_push_waits_for_all_instructions_before() -> None:
    seen = run_commands([Command(0, cycles=60), Command(1, Token.PUSH_NEXT, cycles=5)])
    assert seen.ended[1] < seen.ended[0] < seen.pushed[0]


def test_a_unit_goes_on_while_pushes_wait() -> None:
    commands = [Command(0, Token.PUSH_NEXT, cycles=100), *[Command(1, cycles=5)] * 8]
    seen = run_commands(commands)
    before = [n for n in range(1, 9) if seen.started[n] < seen.ended[0]]
    assert len(before) == MOST_BEGUN - 1
    assert seen.started[8] > seen.pushed[0]


def test_waiting_is_when_nothing_runs_for_want_of_a_token_or_of_room() -> None:
    pops = run_commands([Command(0, Token.POP_NEXT)], pops_from=30)
    assert pops.waiting[:30] == [True] * 30
    assert not any(pops.active[:30]) and not any(pops.waiting[30:])
    pushes = run_commands([Command(0, Token.PUSH_NEXT, cycles=10)], room_from=50)
    (waits,) = {(pushes.waiting[n], pushes.active[n]) for n in range(20, 50)}
    assert waits == (True, True)
    other = run_commands([Command(0, cycles=80), Command(1, Token.POP_NEXT)], pops_from=60)
    assert not any(other.waiting), "a unit runs"


def test_an_abort_ends_what_runs_without_its_tokens_and_drops_the_rest() -> None:
    pushes, pops = Token.PUSH_NEXT, Token.POP_NEXT
    commands = [Command(0, pushes, 60), Command(1, pushes, 30), *[Command(0, pops | pushes)] * 6]
    seen = run_commands(commands, abort_from=20)
    assert sorted(seen.started) == [0, 1]
    assert seen.left[2:] == list(range(20, 26)), "one a cycle"
    assert seen.active.count(True) >= 60, "what runs ends first"
    assert not seen.pushed
    assert len(seen.popped) <= 1, "that of the first which is dropped"


def test_an_abort_ends_an_instruction_that_waits_for_room() -> None:
    seen = run_commands(
        [Command(0, Token.PUSH_NEXT), Command(1)], room_from=MOST_CYCLES, abort_from=50
    )
    assert len(seen.active) < 60
    assert not seen.pushed
