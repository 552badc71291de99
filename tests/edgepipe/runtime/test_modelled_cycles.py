"""The timing model in C++, by which the virtual board waits, gives exactly Python's cycles."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import measured_networks
import pytest
from layer_shapes import layer

from edgepipe import boards
from edgepipe.arrangement import arrange
from edgepipe.board_costs.probes import probe_programs
from edgepipe.errors import RuntimeFailure
from edgepipe.partition.wishes import Wishes
from edgepipe.progress import Silent
from edgepipe.runtime.library import call
from edgepipe.runtime.simulator import modelled_cycles
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import AluOp, MemoryType, Module, Token
from vta_stages.program import Program, Region, RegionKind
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import time_program

pytestmark = pytest.mark.sim
ULTRA96 = boards.load("ultra96")
CHISEL = boards.load(
    str(Path(__file__).resolve().parents[3] / "examples/own_board/chisel_vta.toml")
)
SHALLOW = dataclasses.replace(
    ULTRA96.accelerator, command_queue_depth=3, token_queue_depth=2, load_queue_depth=2
)
HOST = {"launch_cycles", "cache_kib_cycles"}
# Values that change something: of what is counted in bytes, small ones.
OTHER = {
    "bus_bytes": 8,
    "bus_efficiency_percent": 37,
    "weight_efficiency_percent": 41,
    "burst_bytes": 240,
    "store_burst_bytes": 24,
    "store_burst_cycles": 19,
}
ALL = CostModel(
    **{
        field.name: OTHER.get(field.name, 3 + 2 * number)
        for number, field in enumerate(dataclasses.fields(CostModel))
    }
)


def check(program: Program, cost: CostModel) -> int:
    """Compare the two models; return the cycles."""
    timing = time_program(program, cost)
    found = modelled_cycles(program.accelerator, cost, program.instructions)
    assert found == timing.cycles - timing.launch_cycles, cost
    return found


def random_costs(rng: random.Random) -> CostModel:
    values = {field.name: rng.choice((0, 1, 7, 80)) for field in dataclasses.fields(CostModel)}
    values |= {"gemm_step_cycles": rng.randint(1, 3), "alu_step_cycles": rng.randint(1, 3)}
    values |= {"bus_bytes": rng.choice((1, 8, 16)), "bus_efficiency_percent": rng.randint(1, 100)}
    values |= {
        "burst_bytes": rng.choice((16, 100, 4096)),
        "reads_in_flight": rng.choice((0, 1, 2, 9)),
    }
    return CostModel(**values)


def random_program(accelerator: Accelerator, rng: random.Random, count: int) -> Program:
    """Return instructions that no accelerator need understand, but each of which can end.

    A module pops only what an earlier instruction pushes, and no queue ever has to hold more tokens
    than it can.
    """
    buffer = InstructionBuffer(accelerator)
    waiting = {(m, n): 0 for m in Module for n in Module if abs(m - n) == 1}

    def tokens(module: Module) -> int:
        flags = 0
        for step, pop, push in ((-1, Token.POP_PREV, Token.PUSH_PREV),
                                (1, Token.POP_NEXT, Token.PUSH_NEXT)):  # fmt: skip
            if not 0 <= module + step < len(Module):
                continue
            other = Module(module + step)
            if waiting[other, module] and rng.random() < 0.5:
                waiting[other, module] -= 1
                flags |= pop
            if waiting[module, other] < accelerator.token_queue_depth and rng.random() < 0.4:
                waiting[module, other] += 1
                flags |= push
        return flags

    def transfer() -> dict[str, int]:
        sizes = {"y_size": rng.choice((0, 1, 1, 5)), "x_size": rng.choice((0, 1, 7, 40))}
        return {"sram_base": 0, "dram_base": 0, "x_stride": 40, **sizes}

    def loops() -> dict[str, int]:
        return {"iter_out": rng.randint(1, 3), "iter_in": rng.randint(1, 5)}

    for _ in range(count):
        module = rng.choice(list(Module))
        if module is Module.LOAD:
            memory = rng.choice((MemoryType.INP, MemoryType.WGT))
            buffer.load(memory, **transfer(), tokens=tokens(module))
        elif module is Module.STORE:
            buffer.store(**transfer(), tokens=tokens(module))
        elif (kind := rng.randrange(4)) == 0:
            memory = rng.choice((MemoryType.UOP, MemoryType.ACC))
            buffer.load(memory, **transfer(), tokens=tokens(module))
        elif kind == 1:
            uops = rng.randint(1, 20)
            buffer.gemm(0, uops, reset=rng.random() < 0.3, **loops(), tokens=tokens(module))
        else:
            imm = rng.choice((None, 1))
            buffer.alu(AluOp.ADD, 0, rng.randint(1, 20), imm=imm, **loops(), tokens=tokens(module))
    buffer.finish()
    region = Region(name="consts", bytes=0, kind=RegionKind.CONST)
    return Program(
        accelerator=accelerator,
        instructions=buffer.encode(),
        relocations=buffer.relocations,
        regions=(region,),
        consts=b"",
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_take_the_same_time(seed: int) -> None:
    rng = random.Random(seed)
    accelerator = rng.choice((SHALLOW, ULTRA96.accelerator, CHISEL.accelerator))
    program = random_program(accelerator, rng, rng.choice((3, 30, 400)))
    for cost in (CostModel(), ALL, random_costs(rng), random_costs(rng)):
        check(program, cost)


@pytest.mark.parametrize("board", [ULTRA96, CHISEL])
def test_probes_and_convolutions_take_the_same_time(board: boards.Board) -> None:
    for program in probe_programs(board.accelerator, board.timing).values():
        assert check(program, board.timing) > 0


@pytest.mark.parametrize("shape", ["C6", "group-28x256-s2", "transposed-8x32x64-g2"])
def test_a_compiled_layer_takes_the_same_time(shape: str) -> None:
    program = compile_program(ULTRA96.accelerator, [layer(shape)], ["x"], ["y"])
    check(program, ULTRA96.timing)
    check(program, ALL)


def test_all_programs_of_a_network_take_the_same_time(tmp_path: Path) -> None:
    path = measured_networks.write_network(tmp_path)
    board = measured_networks.EAGER
    quantized = measured_networks.rehearsed(path).quantized
    vta = measured_networks.check_of(path, board)
    arranged = arrange(quantized, vta, board, Wishes(), Silent())
    assert arranged.programs
    for program in arranged.programs.values():
        assert check(program, board.timing) == program.modelled_cycles - board.timing.launch_cycles
        check(program, ALL)


@pytest.mark.parametrize("key", [field.name for field in dataclasses.fields(CostModel)])
def test_every_key_of_the_cost_model_counts_alike(key: str) -> None:
    """All but those of the host change the time of this program."""
    bursts = dataclasses.replace(CostModel(), store_burst_bytes=16, store_burst_cycles=7)
    value = OTHER.get(key, getattr(bursts, key) + 5)
    changed = dataclasses.replace(bursts, **{key: value})
    program = random_program(ULTRA96.accelerator, random.Random(5), 300)
    before, after = check(program, bursts), check(program, changed)
    assert (before == after) == (key in HOST)


def test_the_keys_are_those_of_the_cost_model() -> None:
    values = dataclasses.asdict(CostModel())
    accelerator = json.dumps(ULTRA96.accelerator.values())
    program = b""

    def failure(timing: dict[str, object]) -> str:
        with pytest.raises(RuntimeFailure) as caught:
            call("modelled_cycles", accelerator, json.dumps(timing), program)
        hint = "use the programs and the Python package of one version of edgepipe"
        assert caught.value.hint == hint
        return str(caught.value)

    for key in values:
        less = {name: value for name, value in values.items() if name != key}
        assert f"timing: {key} is missing" in failure(less)
    assert "timing: unknown key 'rows'" in failure(values | {"rows": 1})
    text = failure(values | {"bus_bytes": 0})
    assert text == "timing: bus_bytes is 0, expected a whole number from 1 to 1048576"


def test_a_program_that_waits_forever_is_an_error() -> None:
    buffer = InstructionBuffer(ULTRA96.accelerator)
    buffer.finish(tokens=Token.POP_PREV)
    with pytest.raises(RuntimeFailure, match="the program never ends: a module waits for a token"):
        modelled_cycles(ULTRA96.accelerator, CostModel(), buffer.encode())
