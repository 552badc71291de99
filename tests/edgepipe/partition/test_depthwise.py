"""Depthwise convolutions run where a model of the board predicts more frames per second."""

from __future__ import annotations

import dataclasses

import pytest
from partition_records import conv, stem

from edgepipe import boards
from edgepipe.partition import depthwise
from edgepipe.partition.placement import place, segment
from vta_stages.timing.cost_model import CostModel

BOARD = dataclasses.replace(boards.load("ultra96"), timing=CostModel())  # launches take no time
MS = BOARD.accelerator.clock_hz // 1000


NETWORK = (
    stem("stem", "image", 16, 200),
    conv("wide", "stem", 16, 1),
    conv("deep", "wide", 16, 16),
    conv("last", "deep", 16, 1),
)
BYTES = dict.fromkeys(("image", "stem", "wide", "deep", "last"), 160000)
CYCLES = {"stem": 9 * MS, "wide": 5 * MS, "deep": 30 * MS, "last": 5 * MS}
ON_ARM_MS = 1e3 * 9 * 160_000 / 1.0 / 1_200_000_000
STEM_MS = 1e3 * 9 * 16 * 160_000 / 2.2 / 1_200_000_000


def choose(network=NETWORK, board=BOARD, wish="auto", overrides=None, cycles=CYCLES):
    def arrange(on_arm):
        return segment(place(network, lambda _: None, overrides=overrides, on_arm=on_arm))

    return depthwise.choose(arrange, cycles, BYTES, board, wish)


def device(choice, name):
    placed = [p for part in choice.segments for p in part.operators if p.operator.name == name]
    return placed[0].device


def test_the_arrangement_with_more_frames_is_chosen_and_explained():
    choice = choose()
    assert device(choice, "deep") == "arm"
    on_arm = max(10 + 2 * 0.05, STEM_MS + 0.05)
    assert choice.text == (
        f"1 depthwise convolution on arm; by the model a frame every {40 + 0.05:.1f} ms on vta, "
        f"{on_arm:.1f} ms on arm (4 stages, 3 MiB of slots)"
    )


def test_a_fast_accelerator_keeps_depthwise_convolutions():
    choice = choose(cycles=CYCLES | {"deep": 0.01 * MS})
    assert device(choice, "deep") == "vta"
    assert choice.text.startswith("1 depthwise convolution on vta; by the model a frame every 10.1")


def test_every_stage_of_the_vta_has_its_launch():
    slow = dataclasses.replace(BOARD.timing, launch_cycles=5 * MS)
    text = choose(board=dataclasses.replace(BOARD, timing=slow)).text
    on_arm = 10 + 2 * (5 + 0.05)  # two stages of the VTA
    assert f"a frame every {40 + 5 + 0.05:.1f} ms on vta, {on_arm:.1f} ms on arm" in text


def test_slots_must_fit_into_the_contiguous_memory():
    choice = choose(board=dataclasses.replace(BOARD, dma_bytes=1 << 20))
    assert device(choice, "deep") == "vta"
    assert choice.text.endswith("4 stages, 3 MiB of slots, more than the board's 1)")


@pytest.mark.parametrize("wish", ["arm", "vta"])
def test_the_users_choice_takes_precedence(wish):
    assert device(choose(wish=wish), "deep") == wish


def test_a_placement_by_name_takes_precedence_over_everything():
    choice = choose(wish="arm", overrides={"deep": "vta"})
    assert device(choice, "deep") == "vta"


def test_there_is_nothing_to_choose_without_depthwise_convolutions():
    network = (*NETWORK[:2], conv("last", "wide", 16, 1))
    assert choose(network).text == ""


def test_cores_share_the_work_and_spare_ones_go_to_the_longest_stage():
    choice = choose(wish="arm")
    one = dataclasses.replace(BOARD, threads=boards.Threads(), cores=1)
    two = dataclasses.replace(BOARD, threads=boards.Threads(arm=boards.StageThreads(cores=(1, 2))))
    cycles = dict.fromkeys(CYCLES, 0.0)
    found = [
        depthwise.estimate(choice.segments, cycles, BYTES, board).interval_ms
        for board in (one, two, BOARD)
    ]
    assert found[0] == pytest.approx(STEM_MS + ON_ARM_MS + 0.1)
    assert found[1] == pytest.approx(STEM_MS + 0.05)  # a core for each of two stages
    assert found[2] == pytest.approx(STEM_MS / 2 + 0.05)
