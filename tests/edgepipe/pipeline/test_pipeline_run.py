"""Frames through a running pipeline: their order, inputs, results and stages."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pipeline_stages as made
import pytest
from numpy.testing import assert_array_equal
from pipeline_stages import Start, chain, vector

from edgepipe.errors import DeadlinePassed, PipelineError, RuntimeFailure
from edgepipe.pipeline import (
    PipelineConfig,
    Stage,
    arm_stage,
    library_stage,
    load,
    python_stage,
    relax_stage,
)
from edgepipe.runtime.pipeline import Pinning
from edgepipe.tvm_adapter import run_module


def old_suites_graph() -> PipelineConfig:
    """mod1.out0 -> mod2, mod1.out1 -> mod3, mod2 -> mod3; a pipeline input into mod2."""
    mod1 = relax_stage(made.two_outputs(), name="mod1")
    mod2 = relax_stage(made.difference(), name="mod2", target={"kind": "llvm", "opt-level": 1})
    mod3 = relax_stage(made.difference(), name="mod3")
    config = PipelineConfig()
    config.inputs["data_a"] = (mod1, "x")
    config.inputs["data_b"] = (mod2, "b")
    config.connect(mod1, 0, mod2, "a")
    config.connect(mod1, 1, mod3, "a")
    config.connect(mod2, 0, mod3, "b")
    config.outputs.append((mod3, 0))
    config.outputs.append((mod2, 0))
    return config


def sequential(a: made.Array, b: made.Array) -> tuple[made.Array, made.Array]:
    first = run_module(made.two_outputs(), {"x": a})
    second = run_module(made.difference(), {"a": first["out0"], "b": b})["out"]
    third = run_module(made.difference(), {"a": first["out1"], "b": second})["out"]
    return third, second


def test_fan_out_skip_edge_join_and_an_input_into_a_later_stage_equal_the_sequential_run(
    start: Start,
) -> None:
    pipeline = start(old_suites_graph())
    frames = [(vector(3 * i), vector(100 - 7 * i)) for i in range(5)]
    for i, (a, b) in enumerate(frames):
        assert pipeline.run(data_a=a, data_b=b) == i
    for i, (a, b) in enumerate(frames):
        result = pipeline.next()
        assert result.frame == i
        for found, expected in zip(result.outputs, sequential(a, b), strict=True):
            assert_array_equal(found, expected)


def test_five_runs_are_queued_before_the_first_result_is_read(start: Start) -> None:
    gated = made.GatedStage()
    pipeline = start(chain(made.adder(), gated.stage))
    for i in range(5):
        pipeline.run(data=vector(i))
    assert pipeline.num_executing == 5
    assert pipeline.get_output() is None
    gated.gate.set()
    for i in range(5):
        assert_array_equal(pipeline.next().outputs[0], vector(i + 1))


def test_set_input_get_input_and_the_counts(start: Start) -> None:
    pipeline = start(old_suites_graph())
    assert (pipeline.num_inputs, pipeline.num_outputs, pipeline.num_executing) == (2, 2, 0)
    given = vector(4)
    pipeline.set_input("data_a", given)
    pipeline.set_input("data_b", vector(5))
    given[:] = 0
    assert_array_equal(pipeline.get_input("data_a"), vector(4))
    pipeline.run()
    pipeline.run(data_b=vector(9))  # data_a keeps its value
    for b in (5, 9):
        assert_array_equal(pipeline.next().outputs[0], sequential(vector(4), vector(b))[0])


def test_parameters_are_replaced_between_frames_through_a_group(start: Start) -> None:
    stage = made.scaled_stage()
    gated = made.GatedStage()
    config = chain(gated.stage, stage)
    config.parameter_groups["weights"] = stage
    pipeline = start(config)
    pipeline.run(data=vector(1))
    pipeline.run(data=vector(2))
    pipeline.set_parameters("weights", {"factor": made.scalar(5)})
    pipeline.run(data=vector(3))
    pipeline.set_parameters("weights", {"offset": made.scalar(-1)})
    pipeline.run(data=vector(4))
    gated.gate.set()  # frames keep the parameters that were set when they were run
    expected = [vector(1) * 2, vector(2) * 2, vector(3) * 5, vector(4) * 5 - 1]
    for wanted in expected:
        assert_array_equal(pipeline.next().outputs[0], wanted)


def test_an_empty_or_unknown_parameter_group_or_parameter_is_refused(start: Start) -> None:
    stage = made.scaled_stage()
    config = chain(stage)
    config.parameter_groups["weights"] = stage
    pipeline = start(config)
    with pytest.raises(PipelineError, match="parameter group 'wieghts' is unknown"):
        pipeline.set_parameters("wieghts", {"factor": made.scalar(1)})
    with pytest.raises(PipelineError, match="no parameters are given"):
        pipeline.set_parameters("weights", {})
    with pytest.raises(PipelineError, match="has no parameter 'fcator'"):
        pipeline.set_parameters("weights", {"fcator": made.scalar(1)})
    with pytest.raises(PipelineError, match=r"found float64\[1, 1\], expected int32\[1, 1\]"):
        pipeline.set_parameters("weights", {"factor": np.ones((1, 1))})


def test_targets_can_be_mixed_in_one_pipeline(start: Start, tmp_path: Path) -> None:
    module, picture = made.convolution()
    stages = [
        arm_stage(module, name="kernels", architectures=("x86_64",)),
        relax_stage(module, name="plain", target="llvm"),
        relax_stage(module, name="avx2", target={"kind": "llvm", "mcpu": "x86-64-v3"}),
        relax_stage(module, name="source", target="c"),
    ]
    config = PipelineConfig()
    config.inputs["data"] = [(stage, "x") for stage in stages]
    for stage in stages:
        config.outputs.append((stage, 0))
    pipeline = start(config)
    pipeline.run(data=picture)
    expected = run_module(module, {"x": picture})["conv"]
    for found in pipeline.next().outputs:
        assert_array_equal(found, expected)


def test_a_stage_runs_on_the_core_that_it_names(start: Start) -> None:
    core = sorted(os.sched_getaffinity(0))[-1]
    seen = []

    def where(x: made.Array) -> made.Array:
        seen.append(os.sched_getaffinity(0))
        return x

    def stage(name: str, on: int | None) -> Stage:
        ports = {"inputs": {"x": made.VECTOR}, "outputs": {"y": made.VECTOR}}
        return python_stage(where, name=name, core=on, **ports)  # type: ignore[arg-type]

    pipeline = start(chain(stage("pinned", core), stage("free", None)))
    pipeline.run(data=vector(0))
    pipeline.next()
    assert seen == [{core}, os.sched_getaffinity(0)]
    assert [s.cores for s in pipeline.statistics().stages] == [(core,), ()]
    with pytest.raises(RuntimeFailure, match="core 1000 does not exist or is not available"):
        start(chain(stage("nowhere", 1000)))
    start(chain(stage("nowhere", 1000)), pinning=Pinning.PREFERRED)


def test_an_arm_stage_has_a_thread_on_each_of_its_cores(start: Start, tmp_path: Path) -> None:
    module, picture = made.convolution()
    cores = tuple(sorted(os.sched_getaffinity(0), reverse=True))
    stage = arm_stage(module, name="kernels", architectures=("x86_64",), core=cores)
    chain(stage).build().export(tmp_path / "exported")
    with load(tmp_path / "exported").start() as pipeline:
        pipeline.run(data=picture)
        assert_array_equal(pipeline.next().outputs[0], run_module(module, {"x": picture})["conv"])
        assert pipeline.statistics().stages[0].cores == cores
        found = {}
        for task in Path("/proc/self/task").iterdir():
            name = (task / "comm").read_text().strip()
            if "kernels" in name:
                found[name] = os.sched_getaffinity(int(task.name))
        names = ["kernels", *(f"kernels.{index}" for index in range(1, len(cores)))]
        assert found == {name: {core} for name, core in zip(names, cores, strict=True)}


def test_a_core_cannot_have_two_threads_of_a_stage() -> None:
    with pytest.raises(PipelineError, match="stage 'kernels': has two threads on core 1") as error:
        arm_stage(made.convolution()[0], name="kernels", core=(1, 0, 1))
    assert error.value.hint == "name each core once"


@pytest.mark.parametrize("core", [-1, (0, 1024)])
def test_a_core_that_no_machine_has_is_an_error_at_once(core: int | tuple[int, ...]) -> None:
    with pytest.raises(PipelineError, match=r"stage 'kernels': core is .*, expected 0 to 1023"):
        arm_stage(made.convolution()[0], name="kernels", core=core)


def test_no_stage_runs_inside_the_caller(start: Start) -> None:
    threads = []

    def note(x: made.Array) -> made.Array:
        threads.append(threading.get_native_id())
        return x

    stage = python_stage(note, inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR})
    pipeline = start(chain(stage))
    pipeline.run(data=vector(0))
    pipeline.next()
    assert threads[0] != threading.get_native_id()


def test_a_full_pipeline_is_an_error_and_drops_nothing(start: Start) -> None:
    gated = made.GatedStage()
    pipeline = start(chain(gated.stage), slots=2)
    assert pipeline.slots == 2
    pipeline.run(data=vector(0))
    pipeline.run(data=vector(1))
    with pytest.raises(DeadlinePassed, match=r"no free slot .* all 2 are in use"):
        pipeline.run(data=vector(2))
    with pytest.raises(DeadlinePassed, match=r"frame 0 (is held by|waits for) stage 0 'gated'"):
        pipeline.run(data=vector(2), timeout_s=0.01)
    gated.gate.set()
    for i in range(2):
        assert_array_equal(pipeline.next().outputs[0], vector(i))
    assert pipeline.run(data=vector(2), timeout_s=10) == 2


def test_a_result_that_is_kept_is_never_overwritten(start: Start) -> None:
    pipeline = start(chain(made.adder()), slots=2)
    kept = []
    for i in range(20):
        pipeline.run(data=vector(i))
        kept.append(pipeline.next())
    for i, result in enumerate(kept):
        assert_array_equal(result.outputs[0], vector(i + 1))
    assert len({result.outputs[0].ctypes.data for result in kept}) == 20


def test_frames_are_matched_by_number_over_branches_of_unequal_speed(start: Start) -> None:
    gated = made.GatedStage("slow")
    fast = made.adder("fast")
    join = relax_stage(made.difference(), name="join")
    config = PipelineConfig()
    config.inputs["data"] = [(gated.stage, "x"), (fast, "x")]
    config.connect(gated.stage, 0, join, "a")
    config.connect(fast, 0, join, "b")
    config.outputs.append((join, 0))
    pipeline = start(config)
    for i in range(6):
        pipeline.run(data=vector(10 * i))
    assert gated.reached.wait(30)
    gated.gate.set()
    for i in range(6):
        result = pipeline.next()
        assert result.frame == i
        assert_array_equal(result.outputs[0], 3 * vector(10 * i) - vector(10 * i + 1))


def test_one_output_feeds_two_inputs_of_one_stage(start: Start) -> None:
    first, join = made.adder(), relax_stage(made.difference(), name="join")
    config = PipelineConfig()
    config.inputs["data"] = (first, "x")
    config.connect(first, 0, join, "a")
    config.connect(first, 0, join, "b")
    config.outputs.append((join, 0))
    pipeline = start(config)
    pipeline.run(data=vector(0))
    assert_array_equal(pipeline.next().outputs[0], 2 * vector(1))


def test_the_order_of_pipeline_inputs_need_not_be_that_of_the_stages(start: Start) -> None:
    join = relax_stage(made.difference(), name="join")
    config = PipelineConfig()
    config.inputs["second"] = (join, "b")
    config.inputs["first"] = (join, "a")
    config.outputs.append((join, 0))
    pipeline = start(config)
    pipeline.run(first=vector(5), second=vector(1))
    assert_array_equal(pipeline.next().outputs[0], 3 * vector(5) - vector(1))


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (np.zeros((1, 9), np.int32), r"found int32\[1, 9\], expected int32\[1, 8\]"),
        (np.zeros((8,), np.int32), r"found int32\[8\], expected int32\[1, 8\]"),
        (np.zeros((1, 8), np.int64), r"found int64\[1, 8\], expected int32\[1, 8\]"),
        ([1, 2], "found list, expected int32"),
    ],
)
def test_a_frame_of_another_shape_dtype_or_rank_is_refused(
    start: Start, frame: Any, text: str
) -> None:
    pipeline = start(chain(made.adder()))
    with pytest.raises(PipelineError, match=f"input 'data': {text}"):
        pipeline.set_input("data", frame)
    with pytest.raises(PipelineError, match=f"input 'data': {text}"):
        pipeline.run(data=frame)
    with pytest.raises(PipelineError, match="the pipeline has no such input"):
        pipeline.run(dta=frame)
    with pytest.raises(PipelineError, match="input 'data': has not been set"):
        pipeline.run()


def test_a_python_stage_cannot_write_what_others_read(start: Start) -> None:
    def vandal(x: made.Array) -> made.Array:
        x[:] = 0
        return x

    stage = python_stage(vandal, inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR})
    pipeline = start(chain(stage))
    pipeline.run(data=vector(0))
    with pytest.raises(RuntimeFailure, match="read-only"):
        pipeline.next()


def test_a_cpp_function_of_a_shared_library_is_a_stage(start: Start, tmp_path: Path) -> None:
    library = made.build_library(tmp_path)

    def negate() -> Stage:
        return library_stage(
            library, "negate", inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR}
        )

    pipeline = start(chain(negate(), made.adder()))
    pipeline.run(data=vector(20))
    assert_array_equal(pipeline.next().outputs[0], 1 - vector(20))
    pipeline.run(data=vector(10))
    with pytest.raises(RuntimeFailure, match="stage 0 'negate' at frame 1: 13 at element 3"):
        pipeline.next()
    pipeline.restart()
    pipeline.run(data=vector(660))
    with pytest.raises(RuntimeFailure, match="exception: the number of the beast"):
        pipeline.next()


def test_a_serial_pipeline_gives_the_same(start: Start) -> None:
    pipeline = start(old_suites_graph(), serial=True)
    pipeline.run(data_a=vector(1), data_b=vector(2))
    for found, expected in zip(
        pipeline.next().outputs, sequential(vector(1), vector(2)), strict=True
    ):
        assert_array_equal(found, expected)


def test_a_wait_may_be_unlimited(start: Start) -> None:
    pipeline = start(chain(made.adder()))
    pipeline.run(timeout_s=math.inf, data=vector(1))
    assert_array_equal(pipeline.next(timeout_s=math.inf).outputs[0], vector(2))
