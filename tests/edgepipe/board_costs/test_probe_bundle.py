"""Bundles of probes: where their stages run, and what they read and write."""

from __future__ import annotations

from pathlib import Path

from edgepipe import boards
from edgepipe.board_costs import probe_bundle
from edgepipe.board_costs.arm_probes import hop_stages
from edgepipe.board_costs.probes import probe_programs
from edgepipe.bundle import storage
from edgepipe.progress import Silent

BOARD = boards.load("ultra96")


def test_neighbours_run_on_different_cores_and_pass_a_tensor_on(tmp_path: Path) -> None:
    stages = {f"hop_{n}": stage for n, stage in enumerate(hop_stages(2))}
    made = probe_bundle.of_kernels(stages, BOARD, "x86_64", Silent())
    manifest = storage.check(made.write(tmp_path / "a.edgepipe"))
    first, second = manifest.stages
    assert (first.cores, second.cores) == ((1,), (2,))
    assert first.outputs == second.inputs
    assert (manifest.inputs, manifest.outputs) == (first.inputs, second.outputs)
    assert manifest.architectures == ("x86_64",)


def test_programs_are_stages_that_do_not_depend_on_each_other(tmp_path: Path) -> None:
    programs = probe_programs(BOARD.accelerator, BOARD.timing)
    made = probe_bundle.of_programs(programs, BOARD, "aarch64")
    manifest = storage.check(made.write(tmp_path / "a.edgepipe"))
    assert [stage.name for stage in manifest.stages] == list(programs)
    written = [name for stage in manifest.stages for name in stage.outputs]
    assert sorted(written) == sorted(set(written)) == sorted(manifest.outputs)
    assert {name for stage in manifest.stages for name in stage.inputs} == set(manifest.inputs)
