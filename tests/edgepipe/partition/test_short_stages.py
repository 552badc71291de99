"""Stages of the VTA that are shorter than the hops around them run on ARM."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from partition_records import conv, stem, table

from edgepipe import boards
from edgepipe.boards import Board
from edgepipe.errors import LayerError
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import Segment, place, segment
from edgepipe.partition.short_stages import without_short_stages

BOARD = dataclasses.replace(
    boards.load("ultra96"), threads=boards.Threads(arm=boards.StageThreads(cores=(1,)))
)
MS = BOARD.accelerator.clock_hz // 1000
ARM_MS = 1e3 * 9 * 16 * 16 / 2.2 / 1_200_000_000  # of a convolution, by its pixels

# image -> stem -> [body] -> t1 -> gate -> t2 -> last; tables only run on ARM
NETWORK = (
    stem("stem", "image", 16, 10),
    conv("body", "stem", 16, 1, 200),
    table("t1", "body", 16, 100),
    conv("gate", "t1", 16, 1, 1),
    table("t2", "gate", 16, 1),
    conv("last", "t2", 16, 1, 200),
)
NAMES = ("image", "beside", "t0", *(operator.name for operator in NETWORK))
BYTES = dict.fromkeys(NAMES, 160000)


def arranged(
    cycles: Mapping[str, int],
    overrides: Mapping[str, str] | None = None,
    network: tuple[Operator, ...] = NETWORK,
    board: Board = BOARD,
) -> tuple[Segment, ...]:
    def check(operator: Operator) -> None:
        if operator.kind == "table":
            raise LayerError("a table")

    def arrange(on_arm: Mapping[str, str]) -> tuple[Segment, ...]:
        return segment(place(network, check, overrides=overrides, on_arm=on_arm))

    return without_short_stages(arrange, cycles, BYTES, board)({})


def stages(segments: tuple[Segment, ...]) -> list[tuple[str, list[str]]]:
    return [(s.device, [p.operator.name for p in s.operators]) for s in segments]


def reasons(segments: tuple[Segment, ...]) -> dict[str, str]:
    return {p.operator.name: p.reason for part in segments for p in part.operators}


LONG = {"stem": 9 * MS, "body": 9 * MS, "gate": MS // 1000, "last": 9 * MS}


def test_a_gate_of_one_pixel_joins_its_neighbours_on_arm() -> None:
    found = arranged(LONG)
    assert stages(found) == [
        ("arm", ["stem"]),
        ("vta", ["body"]),
        ("arm", ["t1", "gate", "t2"]),
        ("vta", ["last"]),
    ]
    assert reasons(found)["gate"] == (
        "between operators on arm: there it takes less time than hops to the VTA and back"
    )


def test_a_placement_by_name_keeps_it_on_the_vta() -> None:
    assert len(arranged(LONG, {"gate": "vta"})) == 6


def test_a_busy_vta_gives_away_a_stage_that_delays_a_frame_a_little() -> None:
    extent = next(n for n in range(1, 100) if ARM_MS * n * n > 0.5)
    network = tuple(
        conv("gate", "t1", 16, 1, extent) if each.name == "gate" else each for each in NETWORK
    )
    found = arranged(LONG, network=network)
    assert [part.device for part in found] == ["arm", "vta", "arm", "vta"]
    assert reasons(found)["gate"] == (
        "between operators on arm, which have time left: more frames a second, by the model"
    )


def test_a_stage_that_would_delay_a_frame_too_long_stays() -> None:
    extent = next(n for n in range(1, 1000) if ARM_MS * n * n > 5)
    network = tuple(
        conv("gate", "t1", 16, 1, extent) if each.name == "gate" else each for each in NETWORK
    )
    assert len(arranged(LONG, network=network)) == 6


def test_busy_cores_take_nothing_that_delays_a_frame() -> None:
    extent = next(n for n in range(1, 100) if ARM_MS * n * n > 0.5)
    network = tuple(
        conv("gate", "t1", 16, 1, extent)
        if each.name == "gate"
        else stem("stem", "image", 16, 2000)
        if each.name == "stem"
        else each
        for each in NETWORK
    )
    assert len(arranged(LONG, network=network)) == 6


def test_a_stage_as_long_as_the_interval_keeps_only_its_own_neighbours() -> None:
    network = (
        stem("stem", "image", 16, 2000),
        conv("beside", "stem", 16, 1, 1),
        table("t0", "beside", 16, 1),
        conv("body", "t0", 16, 1, 200),
        *NETWORK[2:],
    )
    network = tuple(table("t1", "body", 16, 100) if each.name == "t1" else each for each in network)
    threads = boards.Threads(arm=boards.StageThreads(cores=(1, 2)))
    board = dataclasses.replace(BOARD, threads=threads)
    found = arranged({**LONG, "beside": MS // 1000}, network=network, board=board)
    assert stages(found) == [
        ("arm", ["stem"]),
        ("vta", ["beside"]),
        ("arm", ["t0"]),
        ("vta", ["body"]),
        ("arm", ["t1", "gate", "t2"]),
        ("vta", ["last"]),
    ]


def test_at_least_one_stage_stays_on_the_vta() -> None:
    network = tuple(
        conv(each.name, each.inputs[0], 16, 1, 1) if each.name in ("body", "last") else each
        for each in NETWORK
    )
    assert "vta" in {part.device for part in arranged(dict.fromkeys(LONG, 1), network=network)}


def test_nothing_moves_for_a_board_whose_cores_are_unknown() -> None:
    assert len(arranged(LONG, board=boards.load("host"))) == 6


def test_one_program_stays_whole() -> None:
    network = (NETWORK[0], conv("next", "stem", 16, 1, 1))
    found = arranged({"stem": MS, "next": 1}, network=network)
    assert stages(found) == [("arm", ["stem"]), ("vta", ["next"])]


def test_pixels_folded_into_channels_put_the_first_convolution_on_the_vta() -> None:
    layer = NETWORK[0].layer
    for channels, device in ((4, "arm"), (12, "vta")):
        read = dataclasses.replace(layer.input, channels=channels)
        weight = np.zeros((16, channels, 3, 3), np.int8)
        stem = dataclasses.replace(
            NETWORK[0], layer=dataclasses.replace(layer, input=read, weight=weight)
        )
        placed = place((stem, *NETWORK[1:2]), lambda _: None)
        assert placed[0].device == device
