"""The program container: its files, its consistency, and relocation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accelerators import CHISEL
from small_programs import make_program, product_instructions, product_uops

from vta_stages.accelerator import Accelerator, Extension
from vta_stages.errors import AcceleratorError, EncodingError, ProgramError
from vta_stages.isa.codec import decode
from vta_stages.isa.instructions import Load, Store
from vta_stages.program import LayerSpan, Program, Region, RegionKind, operators_of

FILES = ["consts.bin", "insns.bin", "program.json", "relocs.bin"]


DAMAGED = "the program is damaged: build or copy the bundle again"


@pytest.fixture
def program() -> Program:
    return make_program(product_instructions(), product_uops(), consts=b"weights")


@pytest.fixture
def folder(program: Program, tmp_path: Path) -> Path:
    program.save(tmp_path / "1_vta")
    return tmp_path / "1_vta"


def test_a_saved_program_loads_as_the_same_program(program: Program, folder: Path) -> None:
    loaded = Program.load(folder)
    assert np.array_equal(loaded.instructions, program.instructions)
    assert np.array_equal(loaded.relocations, program.relocations)
    assert (loaded.accelerator, loaded.regions) == (program.accelerator, program.regions)
    assert (loaded.layers, loaded.consts) == (program.layers, program.consts)


def test_the_same_program_has_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    Program.load(folder).save(tmp_path / "again")
    assert sorted(path.name for path in folder.iterdir()) == FILES
    for name in FILES:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_the_description_is_readable_json(folder: Path) -> None:
    description = json.loads((folder / "program.json").read_text())
    assert description["format"] == 1
    assert description["accelerator"]["revision"] == "0.0.1"
    assert description["regions"][1] == {"name": "data", "bytes": 65536, "kind": "input"}
    assert description["modelled_cycles"] == 0
    assert description["layers"] == [{"name": "conv_1", "first": 0, "count": 8}]


def test_a_program_contains_the_costs_that_it_was_timed_with(
    program: Program, tmp_path: Path
) -> None:
    costs = {"loop_cycles": 11, "launch_cycles": 20_000}
    replace(program, costs=costs).save(tmp_path)
    assert Program.load(tmp_path).costs == costs


def test_an_older_program_has_no_costs(folder: Path) -> None:
    description = json.loads((folder / "program.json").read_text())
    del description["costs"]
    (folder / "program.json").write_text(json.dumps(description))
    assert Program.load(folder).costs == {}


def test_relocation_adds_the_base_in_elements_of_each_transfer(program: Program) -> None:
    words = program.relocate({"consts": 0x1000, "data": 0x2000, "result": 0x3000})
    relocated = decode(program.accelerator, words)
    bases = [i.dram_base for i in relocated if isinstance(i, Load | Store)]
    assert bases == [0x1000 // 4, 0x2000 // 16, 0x2000 // 256 + 1, 0x3000 // 16]
    others = [i for i in relocated if not isinstance(i, Load | Store)]
    assert others == [i for i in product_instructions() if not isinstance(i, Load | Store)]


def test_relocation_refuses_impossible_addresses(program: Program) -> None:
    bases = {"consts": 0, "data": 0, "result": 0}
    with pytest.raises(ProgramError, match="region data has no base address"):
        program.relocate({"consts": 0, "result": 0})
    message = "region data is at 0x80, expected a multiple of 256 bytes for its WGT transfers"
    with pytest.raises(ProgramError, match=message):
        program.relocate({**bases, "data": 0x80})
    with pytest.raises(EncodingError, match=r"instruction 6 \(STORE\): dram_base is 4294967296"):
        program.relocate({**bases, "result": 1 << 36})


def test_inputs_outputs_and_layers_are_found_by_name(program: Program) -> None:
    assert [region.name for region in program.inputs] == ["data"]
    assert [region.name for region in program.outputs] == ["result"]
    assert program.region("scratch").kind is RegionKind.SCRATCH
    with pytest.raises(ProgramError, match="no region 'x'") as caught:
        program.region("x")
    assert caught.value.hint == "known regions: consts, data, scratch, result"
    layers = (LayerSpan(name="a", first=1, count=2), LayerSpan(name="b", first=4, count=3))
    split = replace(program, layers=layers)
    assert [split.layer_at(i) for i in range(8)] == ["-", "a", "a", "-", "b", "b", "b", "-"]


def test_a_layer_names_the_operators_that_it_computes() -> None:
    assert operators_of("conv") == ("conv",)
    assert operators_of("conv+pool") == ("conv", "pool")
    assert operators_of("resize:rows") == operators_of("resize:copy0") == ("resize",)


CONST = Region(name="c", bytes=4, kind=RegionKind.CONST)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"instructions": np.zeros((8, 3), np.uint64)}, r"shape \[8, 3\], expected \[n, 2\]"),
        ({"relocations": np.zeros(3, np.uint8)}, "3 relocations, expected one for each of 8"),
        ({"relocations": np.full(8, 4, np.uint8)}, "names region 4, expected an index below 4"),
        ({"regions": (CONST, CONST)}, "region names c are not unique"),
        ({"regions": (CONST, replace(CONST, name="d"))}, "several const regions"),
        ({"consts": b"abc"}, "constants are 3 bytes, expected 71 as the const region says"),
        (
            {"layers": (LayerSpan(name="a", first=0, count=9),)},
            "layer a spans instructions 0 to 9, expected a span within 0 to 8",
        ),
    ],
)
def test_parts_that_contradict_each_other_are_refused(
    program: Program, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        replace(program, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ProgramError, match=f"{name}: cannot be read"):
        Program.load(folder)


@pytest.mark.parametrize(
    ("name", "kept_bytes", "message", "hint"),
    [
        ("consts.bin", 70, "constants are 70 bytes, expected 71", DAMAGED),
        (
            "insns.bin",
            100,
            "insns.bin: 100 bytes, expected a multiple of 16",
            "the file is truncated; copy the bundle again",
        ),
        ("insns.bin", 96, "8 relocations, expected one for each of 6 instructions", DAMAGED),
        ("relocs.bin", 7, "7 relocations, expected one for each of 8 instructions", DAMAGED),
        ("program.json", 200, "program.json: is not valid JSON", DAMAGED),
    ],
)
def test_a_truncated_file_is_refused(
    folder: Path, name: str, kept_bytes: int, message: str, hint: str
) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:kept_bytes])
    with pytest.raises(ProgramError, match=message) as caught:
        Program.load(folder)
    assert caught.value.hint == hint


def test_an_altered_instruction_is_refused_when_it_does_not_decode(folder: Path) -> None:
    content = bytearray((folder / "insns.bin").read_bytes())
    content[16 * 7 + 15] = 0xFF
    (folder / "insns.bin").write_bytes(content)
    with pytest.raises(
        EncodingError, match=r"1_vta: instruction 7 \(FINISH\): bits outside"
    ) as caught:
        Program.load(folder)
    assert caught.value.hint == (
        "check that the program was compiled for encoding revision 0.0.1 and configuration "
        "1x16_i8w8a32_15_15_18_17"
    )


@pytest.mark.parametrize(
    ("path", "value", "error", "message"),
    [
        (["format"], 2, ProgramError, "format is 2, expected 1"),
        (["format"], "1", ProgramError, "format is '1', expected int"),
        (["modelled_cycles"], -1, ProgramError, "modelled_cycles is -1, expected >= 0"),
        (["costs"], 3, ProgramError, "costs: is int, expected an object"),
        (["costs", "loop_cycles"], "11", ProgramError, "loop_cycles is '11', expected int"),
        (["extra"], 1, ProgramError, r"keys are .*'extra'.*, expected \['accelerator', 'costs'"),
        (["accelerator", "batch"], None, ProgramError, "accelerator: batch is None, expected int"),
        (["accelerator", "speed"], 1, ProgramError, "accelerator: keys are"),
        (["accelerator", "revision"], "9", AcceleratorError, "encoding revision '9' is unknown"),
        (["regions", 1, "kind"], "heap", ProgramError, r"regions\[1\]: kind is 'heap', expected"),
        (["regions", 1, "bytes"], -1, ProgramError, r"regions\[1\]: bytes is -1, expected >= 0"),
        (["regions"], {}, ProgramError, "regions is {}, expected list"),
        (["layers", 0], 3, ProgramError, r"layers\[0\]: is int, expected an object"),
    ],
)
def test_an_altered_description_is_refused(
    folder: Path, path: list[str | int], value: object, error: type[Exception], message: str
) -> None:
    description = json.loads((folder / "program.json").read_text())
    place = description
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (folder / "program.json").write_text(json.dumps(description))
    with pytest.raises(error, match=message):
        Program.load(folder)


def test_fields_of_an_accelerator_that_say_nothing_are_not_written(tmp_path: Path) -> None:
    made = make_program(product_instructions(), product_uops())
    made.save(tmp_path / "stock")
    description = json.loads((tmp_path / "stock" / "program.json").read_text())
    assert "implementation" not in description["accelerator"]
    assert "extensions" not in description["accelerator"]
    chisel = make_program(product_instructions(), product_uops(), accelerator=CHISEL)
    chisel.save(tmp_path / "chisel")
    assert Program.load(tmp_path / "chisel").accelerator == CHISEL
    description = json.loads((tmp_path / "chisel" / "program.json").read_text())
    assert description["accelerator"]["implementation"] == "chisel"
    assert description["accelerator"]["uop_index_bits"] == 13


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        (
            {"implementation": "rtl"},
            "implementation 'rtl' is unknown",
            "known implementations: hls, chisel; omit it if neither is certain",
        ),
        (
            {"implementation": "chisel", "acc_hazard_steps": 1},
            "acc_hazard_steps is 1, expected >= 2: this implementation does not pass a result on "
            "to the next step",
            "",
        ),
        ({"load_queue_depth": -1}, "load_queue_depth is -1, expected >= 0", ""),
        ({"uop_index_bits": 12}, "uop_index_bits is 12, expected 13 to 13, or 0", ""),
        ({"uop_index_bits": 14}, "uop_index_bits is 14, expected 13 to 13, or 0", ""),
        (
            {"extensions": ("multiply", "divide")},
            "extension 'divide' is unknown",
            "known extensions: requantise, multiply, table, leaky, clear, widen, pad_value",
        ),
        (
            {"implementation": "hls", "extensions": ("requantise", "multiply")},
            "implementation 'hls' with extensions requantise, multiply, expected none",
            "no upstream build has extensions: leave out implementation",
        ),
        ({"block_out": 24}, "block_out is 24, expected a power of two up to 256", ""),
        (
            {"block_in": 8},
            "block_in 8, block_out 16, expected block_out <= block_in",
            "a layer's output feeds the next layer's input, so an input block is one or several "
            "output blocks",
        ),
        (
            {"block_in": 32, "implementation": "hls"},
            "block_in 32, block_out 16, expected equal blocks for implementation 'hls'",
            "no upstream build has rectangular blocks: leave out implementation",
        ),
        (
            {"block_in": 32, "batch": 2},
            "block_in 32, block_out 16, batch 2, expected equal blocks or a batch of 1",
            "the output blocks of an input block are neighbours only without a batch",
        ),
    ],
)
def test_values_that_no_accelerator_has_are_refused(
    changes: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(AcceleratorError) as caught:
        Accelerator(**changes)
    assert str(caught.value) == f"accelerator: {message}"
    assert caught.value.hint == hint


def test_extensions_are_a_set(tmp_path: Path) -> None:
    names = ["requantise", "multiply", "requantise"]
    target = Accelerator(extensions=tuple(names))
    assert target == Accelerator(extensions=("multiply", "requantise"))
    assert hash(target) == hash(Accelerator(extensions=("multiply", "requantise")))
    assert target.has(Extension.MULTIPLY)
    assert not Accelerator().has(Extension.MULTIPLY)
    assert target.configuration == Accelerator().configuration
    made = make_program(product_instructions(), product_uops(), accelerator=target)
    made.save(tmp_path)
    assert Program.load(tmp_path).accelerator == target


def test_other_accelerators_survive_a_round_trip(tmp_path: Path) -> None:
    target = Accelerator(revision="0.0.2", block_in=32, block_out=32, clock_hz=100_000_000)
    made = make_program(product_instructions(), product_uops(), accelerator=target)
    made.save(tmp_path)
    assert Program.load(tmp_path).accelerator == target
