"""The buffers of a slot: tensors share one if they are never needed at once."""

from __future__ import annotations

import json
import random
import subprocess
from itertools import pairwise

import pytest
from needs import built

from edgepipe.bundle.buffers import StageTensors, aligned, plan_buffers


def chain(*devices: str) -> list[StageTensors]:
    """Return stages that hand a tensor on: x, then a, b, c, and so on."""
    names = ["x", *"abcdefgh"]
    return [
        StageTensors(device=device, reads=(source,), writes=(target,))
        for device, (source, target) in zip(devices, pairwise(names), strict=False)
    ]


def sharing(stages: list[StageTensors], kept: str, sizes: dict[str, int] | None = None) -> set[str]:
    """Return the tensors of each buffer as a word; all take 8 bytes unless ``sizes`` has them."""
    names = dict.fromkeys(name for stage in stages for name in (*stage.reads, *stage.writes))
    plan = plan_buffers(stages, dict.fromkeys(names, 8) | (sizes or {}), kept)
    return {"".join(members) for members in plan}


def test_the_tensors_of_a_chain_take_turns_in_two_buffers() -> None:
    assert sharing(chain("arm", "arm", "arm", "arm", "arm"), "xe") == {"x", "ac", "bd", "e"}


def test_the_largest_tensor_of_a_buffer_is_the_first() -> None:
    stages = chain("arm", "arm", "arm", "arm", "arm")
    assert sharing(stages, "xe", {"c": 20, "d": 9}) == {"x", "ca", "db", "e"}


def test_arm_and_vta_never_write_to_the_same_buffer() -> None:
    stages = chain("arm", "vta", "arm", "vta", "arm", "vta", "arm")
    assert sharing(stages, "xg") == {"x", "ace", "bdf", "g"}
    # Nothing of the first three can share: the second writer is another device.
    assert sharing(chain("arm", "vta", "vta"), "xc") == {"x", "a", "b", "c"}


def test_a_tensor_keeps_its_buffer_until_its_last_reader_has_finished() -> None:
    skipping = chain("arm", "arm", "arm", "arm", "arm")
    skipping[3] = StageTensors(device="arm", reads=("c", "a"), writes=("d",))
    assert sharing(skipping, "xe") == {"x", "a", "bd", "c", "e"}


def test_branches_that_may_run_at_once_share_nothing() -> None:
    stages = [
        StageTensors(device="arm", reads=("x",), writes=("a",)),
        StageTensors(device="arm", reads=("a",), writes=("b",)),
        StageTensors(device="arm", reads=("x",), writes=("c",)),
        StageTensors(device="arm", reads=("c",), writes=("d",)),
        StageTensors(device="arm", reads=("b", "d"), writes=("e",)),
    ]
    assert sharing(stages, "xe") == {"x", "a", "b", "c", "d", "e"}


def test_kept_tensors_have_buffers_of_their_own() -> None:
    assert sharing(chain("arm", "arm", "arm", "arm", "arm"), "xae") == {"x", "a", "bd", "c", "e"}


def test_a_damaged_order_of_stages_is_no_failure() -> None:
    assert sharing(chain("arm", "arm", "arm")[::-1], "xc") == {"x", "a", "b", "c"}


@pytest.mark.parametrize(("size", "pages"), [(0, 1), (1, 1), (4096, 1), (4097, 2)])
def test_a_buffer_takes_whole_pages(size: int, pages: int) -> None:
    assert aligned(size) == 4096 * pages


def test_the_runtime_makes_the_same_plan() -> None:
    chosen = random.Random(0)
    graphs = [_random_graph(chosen) for _ in range(300)]
    program = subprocess.run(
        [built("edgepipe-plan-buffers")], input=json.dumps(graphs), capture_output=True, text=True
    )
    assert program.returncode == 0, program.stderr
    shared = 0
    for graph, line in zip(graphs, program.stdout.splitlines(), strict=True):
        stages = [
            StageTensors(
                device=stage["device"],
                reads=tuple(map(str, stage["reads"])),
                writes=tuple(map(str, stage["writes"])),
            )
            for stage in graph["stages"]
        ]
        sizes = {str(tensor): count for tensor, count in enumerate(graph["bytes"])}
        kept = {str(tensor) for tensor in (*graph["inputs"], *graph["outputs"])}
        plan = plan_buffers(stages, sizes, kept)
        numbers = {name: number for number, members in enumerate(plan) for name in members}
        assert [numbers[name] for name in sizes] == [int(word) for word in line.split()]
        shared += len(sizes) - len(plan)
    assert shared > 1000  # otherwise the graphs show nothing


def _random_graph(chosen: random.Random) -> dict[str, list]:
    """Return a graph of stages that mostly read the newest tensors, some of equal sizes."""
    sizes, stages = [8], []
    for _ in range(chosen.randint(2, 40)):
        newest = len(sizes) - 1
        reads = {max(0, newest - chosen.choice((0, 0, 0, 1, 2, 9))) for _ in range(2)}
        writes = list(range(len(sizes), len(sizes) + chosen.randint(1, 2)))
        sizes += [chosen.choice((8, 64, chosen.randint(1, 5000))) for _ in writes]
        stages.append(
            {"device": chosen.choice(("arm", "vta")), "reads": sorted(reads), "writes": writes}
        )
    return {"bytes": sizes, "stages": stages, "inputs": [0], "outputs": stages[-1]["writes"]}
