"""Random programs leave the same bytes on the Verilated accelerator as on the simulator.

Each runs with random latencies and pauses, with some modules last wherever tokens allow it, and
with each transfer held that was before another one in all of these runs.
``make test-rtl-long`` runs 10,000, and on smaller accelerators, too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from needs import BUILD
from numpy.typing import NDArray
from random_programs.comparison import MOST_CYCLES, compare, expected_dram
from random_programs.coverage import Coverage
from random_programs.findings import save, shortened
from random_programs.generator import DATA_BYTES, random_program
from random_programs.machines import MACHINES, Machine
from random_programs.program import RandomProgram, with_tokens
from random_programs.timings import ORDERS

from vta_rtl.verilated.device import VerilatedDevice
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import (
    EXTENSIONS,
    MEMORY_EXTENSIONS,
    Alu,
    AluOp,
    Finish,
    Load,
    MemoryType,
    Module,
    Store,
    Token,
)

pytestmark = [pytest.mark.sim, pytest.mark.slow]

PROGRAMS = 20
"""For each encoding revision."""
ON_EACH_MACHINE = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def test_every_order_leaves_the_bytes_of_the_simulator(
    revision: str, device: VerilatedDevice
) -> None:
    machine = MACHINES[f"stock-{revision}"]
    pairs = both = one = 0
    for seed in range(PROGRAMS):
        program = random_program(machine.accelerator, seed)
        outcome = compare(program, device, machine.bus_bytes)
        assert not outcome.difference, f"seed {seed}: {outcome.difference}"
        pairs += outcome.open_pairs
        both += outcome.pairs_seen_both_ways
        one += outcome.pairs_of_one_order
    assert both > 0.95 * pairs > 500
    assert both + one == pairs


def test_extensions_leave_the_bytes_of_the_simulator() -> None:
    machine = MACHINES["extended-0.0.1"]
    ran: dict[AluOp | MemoryType | str, int] = dict.fromkeys(
        (*EXTENSIONS, *MEMORY_EXTENSIONS, "pads"), 0
    )
    with machine.open(BUILD / "vta_rtl") as device:
        for seed in range(PROGRAMS):
            program = random_program(machine.accelerator, seed)
            outcome = compare(program, device, machine.bus_bytes)
            assert not outcome.difference, f"seed {seed}: {outcome.difference}"
            for each in program.instructions:
                if isinstance(each, Alu) and each.alu_opcode in ran:
                    ran[each.alu_opcode] += 1
                if isinstance(each, Load) and each.memory_type in ran:
                    ran[each.memory_type] += 1
                ran["pads"] += isinstance(each, Load) and each.pad_value != 0
    assert min(ran.values()) > PROGRAMS / 4


def without_waits_for_loads(program: RandomProgram) -> NDArray[np.uint64]:
    """Return the instructions without tokens between load and compute; only FINISH pops one."""
    modules = program.table.modules.tolist()
    last_load = max(i for i, module in enumerate(modules) if module == Module.LOAD)
    instructions = []
    for index, each in enumerate(program.instructions):
        tokens = each.tokens
        if modules[index] == Module.LOAD:
            tokens = Token.PUSH_NEXT if index == last_load else 0
        elif modules[index] == Module.COMPUTE:
            tokens &= ~(Token.POP_PREV | Token.PUSH_PREV)
            tokens |= Token.POP_PREV if isinstance(each, Finish) else 0
        instructions.append(with_tokens(each, tokens))
    return encode(program.accelerator, instructions)


def test_without_tokens_some_orders_leave_other_bytes(
    revision: str, device: VerilatedDevice
) -> None:
    """So the timings do bring about orders that matter."""
    different = dict.fromkeys(ORDERS, 0)
    for seed in range(12):
        program = random_program(MACHINES[f"stock-{revision}"].accelerator, seed)
        expected, words = expected_dram(program), without_waits_for_loads(program)
        others = program.dram.copy()
        others[:DATA_BYTES] ^= 0xFF
        for name, costs in ORDERS.items():
            device.set_costs(costs)
            device.run_image(program.words, others)  # leaves other inputs and weights on chip
            after = device.run_image(words, program.dram, most_cycles=MOST_CYCLES)
            different[name] += bool((after != expected).any())
    assert different["slow load and weight"] >= 3


@ON_EACH_MACHINE
def test_programs_are_valid_and_change_memory(machine: Machine) -> None:
    programs = [random_program(machine.accelerator, seed) for seed in range(20)]
    changed = [(expected_dram(program) != program.dram).any() for program in programs]
    assert sum(changed) > 0.7 * len(programs)


@ON_EACH_MACHINE
def test_a_seed_always_gives_the_same_program_and_fewer_steps_its_beginning(
    machine: Machine,
) -> None:
    program = random_program(machine.accelerator, 7)
    again = random_program(machine.accelerator, 7)
    assert program.instructions == again.instructions
    np.testing.assert_array_equal(program.dram, again.dram)
    shorter = random_program(machine.accelerator, 7, program.steps - 2)
    assert len(shorter.instructions) < len(program.instructions)
    assert shorter.instructions[:10] == program.instructions[:10]


def test_coverage_counts_kinds_of_instructions() -> None:
    coverage, more = Coverage(), Coverage()
    assert coverage.percent == 0
    for seed in range(4):
        coverage.add(random_program(MACHINES["stock-0.0.1"].accelerator, seed))
        more.add(random_program(MACHINES["stock-0.0.2"].accelerator, seed))
    one_revision = coverage.percent
    assert 10 < one_revision < 50
    assert "0.0.2 STORE no token" in coverage.missing()
    coverage.merge(more)
    assert coverage.percent == pytest.approx(one_revision + more.percent)
    assert str(coverage).endswith(f"{coverage.percent:.1f} %")


def test_a_finding_is_shortened_and_written_with_its_instructions(tmp_path: Path) -> None:
    def stores(program: RandomProgram) -> bool:
        return any(isinstance(each, Store) and each.x_size > 0 for each in program.instructions)

    program = random_program(MACHINES["small-0.0.1"].accelerator, 3)
    shorter = shortened(program, stores)
    assert stores(shorter)
    assert not stores(random_program(program.accelerator, 3, shorter.steps - 1))
    path = save(shorter, tmp_path / "findings", "small-0.0.1", "2 bytes differ")
    assert path == tmp_path / "findings/small-0.0.1-3.txt"
    lines = path.read_text().splitlines()
    assert lines[0] == "2 bytes differ"
    assert len(lines) >= 1 + len(shorter.instructions)
    with np.load(path.with_suffix(".npz")) as saved:
        np.testing.assert_array_equal(saved["insns"], shorter.words)
        np.testing.assert_array_equal(saved["dram_before"], shorter.dram)
