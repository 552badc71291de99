"""Cells of a netlist count as the FPGA's resources, and paths as the logic between registers."""

from __future__ import annotations

from graphlib import CycleError
from typing import Any

import pytest

from bench.rtl_netlist import Path, cells_of, longest_paths, resources_of


def _cell(kind: str, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]]) -> dict[str, Any]:
    directions = {**dict.fromkeys(inputs, "input"), **dict.fromkeys(outputs, "output")}
    return {"type": kind, "port_directions": directions, "connections": {**inputs, **outputs}}


def _module(
    *cells: dict[str, Any],
    inputs: dict[str, list[int]] | None = None,
    outputs: dict[str, list[int]] | None = None,
) -> dict[str, Any]:
    ports = {n: {"direction": "input", "bits": bits} for n, bits in (inputs or {}).items()}
    ports |= {n: {"direction": "output", "bits": bits} for n, bits in (outputs or {}).items()}
    return {"ports": ports, "cells": {f"c{n}": cell for n, cell in enumerate(cells)}}


def _register(data: int, output: int) -> dict[str, Any]:
    return _cell("FDRE", {"C": [1], "D": [data]}, {"Q": [output]})


def _lut(first: int, second: int | str, output: int) -> dict[str, Any]:
    return _cell("LUT2", {"I0": [first], "I1": [second]}, {"O": [output]})


def _levels(*cells: dict[str, Any]) -> int:
    return longest_paths({"top": _module(*cells)}, "top")["top"].levels


def test_each_resource_is_counted() -> None:
    cells = {"LUT1": 1, "LUT6": 2, "INV": 1, "FDRE": 3, "FDSE": 4, "DSP48E1": 2, "RAMB36E1": 5}
    assert resources_of(cells) == {"LUT": 4, "FF": 7, "DSP": 2, "BRAM36": 5}


def test_the_cells_of_both_families_count() -> None:
    assert resources_of({"DSP48E2": 3, "RAMB36E2": 1}) == {"LUT": 0, "FF": 0, "DSP": 3, "BRAM36": 1}


def test_two_small_block_rams_are_a_large_one() -> None:
    assert resources_of({"RAMB36E1": 4, "RAMB18E1": 3})["BRAM36"] == 5.5
    assert resources_of({"RAMB36E2": 1, "RAMB18E2": 1})["BRAM36"] == 1.5


@pytest.mark.parametrize(
    ("cell", "luts"),
    [
        ("SRL16E", 1),
        ("SRLC32E", 1),
        ("RAM32X1D", 2),
        ("RAM64X1D", 2),
        ("RAM32M", 4),
        ("RAM64M", 4),
        ("RAM128X1D", 4),
        ("RAM32M16", 8),
        ("RAM64M8", 8),
    ],
)
def test_distributed_ram_takes_the_luts_that_hold_it(cell: str, luts: int) -> None:
    assert resources_of({cell: 3})["LUT"] == 3 * luts


def test_carries_and_wide_multiplexers_come_with_their_luts() -> None:
    assert not any(resources_of({"CARRY4": 2, "CARRY8": 1, "MUXF7": 3, "MUXF8": 1}).values())


def test_a_cell_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="cells of type \\$mul, BUFG, expected only LUT1"):
        resources_of({"LUT1": 1, "BUFG": 2, "$mul": 1})


def test_a_module_has_the_cells_of_each_instance_in_it() -> None:
    inner = _cell("inner", {}, {})
    modules = {"top": _module(inner, inner, _lut(2, "0", 3)), "inner": _module(_register(2, 3))}
    assert cells_of(modules, "top") == {"FDRE": 2, "LUT2": 1}


def test_luts_between_registers_are_counted_along_the_longest_path() -> None:
    luts = (_lut(2, 3, 4), _lut(4, 2, 5), _lut(3, 2, 6))
    assert _levels(_register(5, 2), _register(6, 3), *luts) == 2


def test_a_path_without_logic_has_no_level() -> None:
    assert _levels(_register(3, 2), _register(2, 3)) == 0


def test_a_carry_chain_is_one_level() -> None:
    low = _cell("CARRY4", {"CI": ["0"], "S": [2, 2, 2, 2], "DI": ["0"] * 4}, {"CO": [4, 5, 6, 7]})
    high = _cell("CARRY4", {"CI": [7], "S": [2, 2, 2, 2], "DI": ["0"] * 4}, {"O": [8, 9, 10, 11]})
    assert _levels(_register(11, 2), low, high) == 1


def test_an_output_of_a_carry_cell_does_not_wait_for_higher_inputs() -> None:
    chain = _cell("CARRY4", {"CI": [2], "S": [2, 3, 3, 3], "DI": ["0"] * 4}, {"O": [4, 5, 6, 7]})
    late = (_lut(2, "0", 8), _lut(8, "0", 3))
    assert _levels(_register(4, 2), *late, chain) == 1
    assert _levels(_register(5, 2), *late, chain) == 3


def test_wide_multiplexers_are_part_of_their_lut() -> None:
    wide = _cell("MUXF7", {"I0": [3], "I1": [4], "S": [2]}, {"O": [5]})
    assert _levels(_register(5, 2), _lut(2, "0", 3), _lut(2, "1", 4), wide) == 1


def test_a_read_of_distributed_ram_is_a_level_and_a_write_ends_a_path() -> None:
    ram = _cell("RAM32M", {"ADDRA": [2], "DIA": [5]}, {"DOA": [3]})
    assert _levels(_register(3, 2), ram) == 1
    assert _levels(_register(2, 4), ram, _register(4, 2), _lut(4, "0", 6), _lut(6, "0", 5)) == 2


@pytest.mark.parametrize("kind", ["DSP48E1", "RAMB36E1", "SRL16E"])
def test_cells_with_registers_begin_and_end_paths(kind: str) -> None:
    clocked = _cell(kind, {"IN": [4]}, {"OUT": [2]})
    assert _levels(clocked, _lut(2, "0", 3), _lut(3, "0", 4)) == 2


def test_paths_cross_the_borders_of_modules() -> None:
    modules = {
        "top": _module(
            _cell("first", {}, {"out": [5]}),
            _cell("middle", {"in": [5]}, {"out": [6], "copy": [7]}),
            _cell("last", {"in": [6]}, {}),
            _cell("last", {"in": [7]}, {}),
        ),
        "first": _module(_register(2, 3), outputs={"out": [3]}),
        # `copy` is another name of `in`.
        "middle": _module(
            _lut(2, "0", 3), _lut(3, "0", 4), inputs={"in": [2]}, outputs={"out": [4], "copy": [2]}
        ),
        "last": _module(_lut(2, "0", 3), _register(3, 4), inputs={"in": [2]}),
    }
    found = longest_paths(modules, "top")
    assert found["last"] == Path(levels=3, first="first", last="last")
    assert found.keys() == {"first", "last"}


def test_ports_of_the_whole_begin_and_end_paths() -> None:
    ports = {"inputs": {"in": [2]}, "outputs": {"out": [3]}}
    modules = {"top": _module(_lut(2, "0", 3), **ports)}
    assert longest_paths(modules, "top")["top"] == Path(levels=1, first="top", last="top")


def test_a_ring_of_logic_is_refused() -> None:
    with pytest.raises(CycleError):
        _levels(_lut(3, "0", 2), _lut(2, "0", 3))
