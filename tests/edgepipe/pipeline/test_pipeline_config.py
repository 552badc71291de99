"""PipelineConfig: every check that TVM's pipeline executor made, and those it missed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pipeline_stages as made
import pytest

from edgepipe.errors import PipelineError
from edgepipe.pipeline import PipelineConfig, Stage, python_stage, relax_stage
from edgepipe.runtime.ports import dense_port


def fork() -> Stage:
    return relax_stage(made.two_outputs(), name="fork")


def join() -> Stage:
    return relax_stage(made.difference(), name="join")


def refused(action: Callable[[], Any]) -> tuple[str, str | None]:
    with pytest.raises(PipelineError) as caught:
        action()
    return str(caught.value), caught.value.hint


def assign(config: PipelineConfig, name: str, end: Any) -> Callable[[], None]:
    return lambda: config.inputs.__setitem__(name, end)


# ---- checks that the old executor made


def test_an_output_index_that_does_not_exist_is_refused() -> None:
    config, a, b = PipelineConfig(), fork(), join()
    assert refused(lambda: config.connect(a, 2, b, "a")) == (
        "stage 'fork': has no output 2",
        "its outputs: 0 (out0), 1 (out1)",
    )
    assert refused(lambda: config.outputs.append((a, -1)))[0] == "stage 'fork': has no output -1"


def test_an_input_name_that_does_not_exist_is_refused() -> None:
    config, a, b = PipelineConfig(), fork(), join()
    expected = ("stage 'join': has no input 'c'", "its inputs: a, b")
    assert refused(lambda: config.connect(a, 0, b, "c")) == expected
    assert refused(assign(config, "data", (b, "c"))) == expected


def test_a_stage_connected_to_itself_is_refused() -> None:
    config, b = PipelineConfig(), join()
    assert refused(lambda: config.connect(b, 0, b, "a"))[0] == (
        "stage 'join': its output 0 is connected to its own input 'a'"
    )


def test_an_input_as_source_is_refused() -> None:
    config, a, b = PipelineConfig(), fork(), join()
    assert refused(lambda: config.connect(a, "x", b, "a"))[0] == (
        "fork.x: is an input, and used as a source"
    )


def test_an_input_as_pipeline_output_is_refused() -> None:
    config, a = PipelineConfig(), fork()
    assert refused(lambda: config.outputs.append((a, "x")))[0] == (
        "fork.x: is an input, and used as a pipeline output"
    )


def test_an_output_as_destination_is_refused() -> None:
    config, a, b = PipelineConfig(), fork(), join()
    for destination in ("out", 0):
        assert refused(lambda d=destination: config.connect(a, 0, b, d))[0] == (
            f"stage 'join': {destination!r} is an output, and something is connected to it"
        )


def test_a_pipeline_input_into_a_stages_output_is_refused() -> None:
    config, a = PipelineConfig(), fork()
    for output in (0, "out1"):
        assert refused(assign(config, "data", (a, output)))[0] == (
            f"stage 'fork': {output!r} is an output, and something is connected to it"
        )


def test_a_stages_output_into_a_pipeline_input_is_refused() -> None:
    config: Any = PipelineConfig()
    assert refused(lambda: config.connect(fork(), 0, config.inputs, "data")) == (
        "a stage's output is connected to a pipeline input",
        "pipeline inputs are fed by the caller",
    )


def test_a_pipeline_input_as_source_of_connect_is_refused_with_the_right_form() -> None:
    config: Any = PipelineConfig()
    assert refused(lambda: config.connect(config.inputs, "data", fork(), "x")) == (
        "a pipeline input is used as a source of connect()",
        "config.inputs[name] = (stage, input)",
    )


def test_a_pipeline_output_as_source_or_destination_is_refused() -> None:
    config: Any = PipelineConfig()
    assert refused(lambda: config.connect(config.outputs, 0, fork(), "x"))[0] == (
        "a pipeline output is used as a source"
    )
    assert refused(lambda: config.connect(fork(), 0, config.outputs, 0)) == (
        "a pipeline output is used as a destination of connect()",
        "config.outputs.append((stage, output))",
    )


def test_a_cycle_is_refused_and_its_path_is_reported() -> None:
    config = PipelineConfig()
    a, b, c = made.adder("a"), made.adder("b"), made.adder("c")
    config.connect(a, 0, b, "x")
    config.connect(b, 0, c, "x")
    assert refused(lambda: config.connect(c, 0, a, "x"))[0] == (
        "c.out -> a.x closes a cycle: c -> a -> b -> c"
    )


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (("int32", (1, 9)), "found int32[1, 8], expected int32[1, 9]"),
        (("float32", (1, 8)), "found int32[1, 8], expected float32[1, 8]"),
        (("int32", (8,)), "found int32[1, 8], expected int32[8]"),
    ],
)
def test_tensors_of_another_shape_dtype_or_rank_are_not_connected(
    wanted: tuple[str, tuple[int, ...]], text: str
) -> None:
    config = PipelineConfig()
    reader = python_stage(lambda x: x, name="reader", inputs={"x": wanted}, outputs={})
    assert refused(lambda: config.connect(fork(), 0, reader, "x"))[0] == (
        f"fork.out0 -> reader.x: {text}"
    )
    stages = [(fork(), "x"), (reader, "x")]
    assert refused(assign(config, "data", stages))[0].startswith(
        "pipeline input 'data' -> reader.x"
    )


def test_a_parameter_group_of_a_stage_without_parameters_is_refused() -> None:
    config = PipelineConfig()
    assert refused(lambda: config.parameter_groups.__setitem__("weights", fork())) == (
        "parameter group 'weights': stage 'fork' has no parameters",
        "give it parameters: relax_stage(..., parameters=...)",
    )


def test_parameters_that_main_does_not_have_or_of_another_type_are_refused() -> None:
    module = made.scaled()
    wrong = {"weight": made.scalar(1)}
    assert refused(lambda: relax_stage(module, name="s", parameters=wrong))[0] == (
        "stage 's': has no parameter 'weight'"
    )
    flat = {"factor": np.int32([1])}
    assert refused(lambda: relax_stage(module, name="s", parameters=flat))[0] == (
        "stage 's': parameter 'factor': found int32[1], expected int32[1, 1]"
    )


# ---- checks that it missed


def test_an_input_that_nothing_feeds_is_refused_when_built() -> None:
    config, b = PipelineConfig(), join()
    config.inputs["data"] = (b, "a")
    config.outputs.append((b, 0))
    assert refused(config.build)[0] == "join.b: nothing feeds this input"


def test_an_input_driven_twice_is_refused() -> None:
    config, a, b = PipelineConfig(), fork(), join()
    config.connect(a, 0, b, "a")
    assert refused(lambda: config.connect(a, 1, b, "a"))[0] == "join.a: is already fed by fork.out0"
    assert refused(assign(config, "data", (b, "a")))[0] == "join.a: is already fed by fork.out0"
    config.inputs["data"] = (b, "b")
    assert refused(lambda: config.connect(a, 1, b, "b"))[0] == (
        "join.b: is already fed by pipeline input 'data'"
    )
    assert refused(assign(config, "twice", [(a, "x"), (a, "x")]))[0] == (
        "pipeline input 'twice': feeds fork.x twice"
    )


def test_a_pipeline_without_input_or_output_is_refused_when_built() -> None:
    config, a = PipelineConfig("camera"), fork()
    assert refused(config.build)[0] == "pipeline 'camera': has no input"
    config.inputs["data"] = (a, "x")
    assert refused(config.build)[0] == "pipeline 'camera': has no output"


def test_two_stages_of_one_name_are_refused() -> None:
    config = PipelineConfig()
    config.inputs["data"] = (made.adder("same"), "x")
    assert refused(assign(config, "other", (made.adder("same"), "x")))[0] == (
        "pipeline 'pipeline': two stages are called 'same'"
    )


def test_something_that_is_not_a_stage_is_refused() -> None:
    config: Any = PipelineConfig()
    assert refused(lambda: config.connect(made.two_outputs(), 0, join(), "a")) == (
        "found IRModule, expected a stage",
        "wrap a Relax module in relax_stage(), a function in python_stage()",
    )
    assert "expected a pair" in refused(assign(config, "data", 3))[0]


def test_names_that_cannot_be_a_path_are_refused() -> None:
    assert "found other characters" in refused(lambda: made.adder("a/b"))[0]
    assert "found other characters" in refused(assign(PipelineConfig(), "a.b", (fork(), "x")))[0]
    assert refused(lambda: dense_port("x", "int33", (1,)))[0] == (
        "tensor 'x': found dtype 'int33', expected one of NumPy's numbers"
    )
    assert refused(lambda: dense_port("x", "int8", (1, 0)))[0] == (
        "tensor 'x': extent 1 of shape (1, 0) is 0, expected 1 or more"
    )


def test_a_refused_wire_changes_nothing() -> None:
    config, a, b = PipelineConfig(), fork(), join()
    before = str(config)
    refused(lambda: config.connect(a, 0, b, "c"))
    refused(lambda: config.connect(a, 7, b, "a"))
    refused(assign(config, "data", (a, "y")))
    refused(lambda: config.outputs.append((a, 5)))
    assert str(config) == before
    assert config.stages == ()


def test_an_unknown_stage_is_an_error_that_suggests_others() -> None:
    config = PipelineConfig()
    config.inputs["data"] = (fork(), "x")
    assert refused(lambda: config.stage("frok")) == (
        "pipeline 'pipeline': has no stage 'frok'",
        "did you mean: fork",
    )


# ---- what it shows and allows


def test_a_config_prints_as_its_wires_in_the_order_of_running() -> None:
    config, a, b = PipelineConfig("demo"), fork(), made.adder("late")
    c = python_stage(
        lambda x: x, name="show", inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR}, core=1
    )
    config.connect(b, 0, c, "x")
    config.connect(a, 1, b, "x")
    config.inputs["data_0"] = (a, "x")
    config.outputs.append((c, "y"))
    config.outputs.append((a, 0))
    assert str(config) == "\n".join(
        [
            "pipeline demo",
            "  inputs",
            "    data_0: int32[1, 8] -> fork.x",
            "  stages",
            "    fork (RelaxStage)",
            "      x: int32[1, 8] <- data_0",
            "    late (PythonStage)",
            "      x: int32[1, 8] <- fork.out1",
            "    show (PythonStage on core 1)",
            "      x: int32[1, 8] <- late.out",
            "  outputs",
            "    0: int32[1, 8] <- show.y",
            "    1: int32[1, 8] <- fork.out0",
            "  connections",
            "    fork.out1 -> late.x",
            "    late.out -> show.x",
        ]
    )


def test_an_input_can_be_reassigned_and_deleted() -> None:
    config, a, b = PipelineConfig(), fork(), join()
    config.inputs["data"] = (a, "x")
    config.inputs["data"] = [(a, "x"), (b, "b")]
    config.inputs["data"] = (b, "a")
    assert config.inputs["data"] == ((b, "a"),)
    del config.inputs["data"]
    config.connect(a, 0, b, "a")
    assert list(config.inputs) == []


def test_a_library_that_does_not_exist_is_reported_when_built(tmp_path: Path) -> None:
    from edgepipe.pipeline import library_stage

    stage = library_stage(
        tmp_path / "lib.so", "f", inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR}
    )
    config = PipelineConfig()
    config.inputs["data"] = (stage, "x")
    config.outputs.append((stage, 0))
    assert "lib.so cannot be read (No such file or directory)" in refused(config.build)[0]
