"""PipelineConfig: wires added and removed, all or none of them, and values of the wrong kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pipeline_stages as made
import pytest
import tvm
from pipeline_stages import Start, vector
from small_networks import build_small_bundle
from tvm import relax

import edgepipe
from edgepipe.errors import PipelineError
from edgepipe.pipeline import (
    PipelineConfig,
    Stage,
    arm_stage,
    library_stage,
    python_stage,
    relax_stage,
)


def fork() -> Stage:
    return relax_stage(made.two_outputs(), name="fork")


def join() -> Stage:
    return relax_stage(made.difference(), name="join")


def refused(action: Callable[[], Any]) -> str:
    with pytest.raises(PipelineError) as caught:
        action()
    return str(caught.value)


def wired() -> tuple[PipelineConfig, Stage, Stage]:
    """Return data -> fork -> join -> output, complete."""
    config, a, b = PipelineConfig(), fork(), join()
    config.inputs["data"] = (a, "x")
    config.connect(a, 0, b, "a")
    config.connect(a, 1, b, "b")
    config.outputs.append((b, 0))
    return config, a, b


# ---- failed changes have no effect


def unchanged(config: PipelineConfig, action: Callable[[], Any]) -> str:
    """Return the error's text; the config must be what it was."""
    before = str(config), config.stages, dict(config.inputs), list(config.outputs)
    text = refused(action)
    assert (str(config), config.stages, dict(config.inputs), list(config.outputs)) == before
    return text


def test_a_connection_to_a_stage_whose_name_is_taken_adds_neither_stage() -> None:
    config, _, _ = wired()
    namesake = made.adder("join")
    for source, reader in ((made.adder("new"), namesake), (namesake, made.adder("new"))):
        text = unchanged(config, lambda a=source, b=reader: config.connect(a, 0, b, "x"))
        assert text == "pipeline 'pipeline': two stages are called 'join'"


def test_a_list_of_inputs_with_one_mistake_feeds_none() -> None:
    config, _, _ = wired()
    new = made.adder("new")
    for wrong in (
        (made.adder("fork"), "x"),
        (made.adder("new"), "x"),
        (made.adder("other"), "y"),
        (fork(), "out0"),
        "new",
        (None, "x"),
    ):
        ends = [(new, "x"), wrong]
        unchanged(config, lambda e=ends: config.inputs.__setitem__("more", e))
        unchanged(config, lambda e=ends: config.inputs.__setitem__("data", e))


def test_inputs_updated_with_one_mistake_stay_as_they_were() -> None:
    config, a, _ = wired()
    new = made.adder("new")
    unchanged(config, lambda: config.inputs.update({"more": (new, "x"), "other": (a, "x")}))


def test_outputs_extended_with_one_mistake_stay_as_they_were() -> None:
    config, a, b = wired()
    unchanged(config, lambda: config.outputs.extend([(a, 0), (b, 1)]))
    unchanged(config, lambda: config.outputs.append((made.adder("join"), 0)))


def test_a_parameter_group_of_a_stage_whose_name_is_taken_is_not_added() -> None:
    config, _, _ = wired()
    group = made.scaled_stage("fork")
    unchanged(config, lambda: config.parameter_groups.__setitem__("weights", group))
    assert dict(config.parameter_groups) == {}


# ---- wires can be removed


def test_a_wire_is_removed_and_another_takes_its_place(start: Start) -> None:
    config, a, b = wired()
    config.disconnect(b, "b")
    assert refused(config.build) == "join.b: nothing feeds this input"
    config.connect(a, 0, b, "b")
    pipeline = start(config)
    pipeline.run(data=vector(1))
    np.testing.assert_array_equal(pipeline.next().outputs[0], 2 * (vector(1) + 1))


def test_a_stage_without_connections_is_removed() -> None:
    config, a, b = wired()
    config.disconnect(b, "a")
    config.disconnect(b, "b")
    assert config.stages == (a, b)  # b is still an output
    config.outputs.remove((b, "out"))
    assert config.stages == (a,)
    del config.inputs["data"]
    assert config.stages == ()
    config.connect(a, 0, join(), "a")  # the name is free again


def test_only_existing_files_are_removed() -> None:
    config, a, b = wired()
    assert unchanged(config, lambda: config.disconnect(a, "x")) == (
        "fork.x: is fed by pipeline input 'data', not by a stage"
    )
    assert unchanged(config, lambda: config.disconnect(join(), "a")) == "join.a: is not connected"
    assert unchanged(config, lambda: config.disconnect(b, "c")) == "stage 'join': has no input 'c'"
    assert unchanged(config, lambda: config.outputs.remove((a, 1))) == (
        "fork.out1: is not an output of the pipeline"
    )
    with pytest.raises(KeyError):
        del config.inputs["date"]
    with pytest.raises(IndexError):
        del config.outputs[1]


def test_outputs_are_removed_by_index_slice_or_end() -> None:
    config, a, b = wired()
    config.outputs.extend([(a, 0), (a, "out1"), (a, 0)])
    del config.outputs[0]
    assert config.outputs[:] == [(a, 0), (a, 1), (a, 0)]
    config.outputs.remove((a, "out0"))
    assert list(config.outputs) == [(a, 1), (a, 0)]
    config.outputs.clear()
    assert len(config.outputs) == 0
    assert config.stages == (a, b)


def test_moving_an_input_frees_its_old_destination() -> None:
    config, a, _ = wired()
    other = made.adder("other")
    config.inputs["data"] = (other, "x")
    config.connect(other, 0, a, "x")
    assert config.inputs["data"] == ((other, "x"),)


# ---- values of the wrong kind, wherever a value is accepted

NOT_AN_INDEX = [None, True, 1.0, np.float32(1), np.bool_(True), b"0", (0,)]


@pytest.mark.parametrize("value", NOT_AN_INDEX, ids=repr)
def test_an_output_is_named_by_a_whole_number_or_text(value: object) -> None:
    config, a, b = wired()
    expected = f"stage 'fork': output is {value!r}, expected an index or a name"
    other: Any = made.adder("other")
    assert unchanged(config, lambda: config.connect(a, value, other, "x")) == expected  # type: ignore[arg-type]
    assert unchanged(config, lambda: config.outputs.append((a, value))) == expected  # type: ignore[arg-type]
    assert unchanged(config, lambda: config.outputs.remove((a, value))) == expected  # type: ignore[arg-type]
    config.outputs.append((b, np.int64(0)))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, True, 1.5, ["x"], b"x"], ids=repr)
def test_an_input_is_named_by_text(value: Any) -> None:
    config, a, _ = wired()
    other = made.adder("other")
    expected = f"stage 'other': an input's name is {value!r}, expected text"
    if value is not True:  # 1 is an index, and the stage has one output
        assert unchanged(config, lambda: config.connect(a, 0, other, value)) == expected
        assert unchanged(config, lambda: config.inputs.__setitem__("m", (other, value))) == expected
    with pytest.raises(PipelineError):
        config.inputs[value] = (other, "x")


CORE_MAKERS: list[Callable[[Any], Stage]] = [
    lambda core: relax_stage(made.two_outputs(), name="s", core=core),
    lambda core: arm_stage(made.convolution()[0], name="s", core=core),
    lambda core: python_stage(abs, inputs={}, outputs={}, name="s", core=core),
    lambda core: library_stage("lib.so", "f", inputs={}, outputs={}, name="s", core=core),
]


@pytest.mark.parametrize("make", CORE_MAKERS)
@pytest.mark.parametrize("value", [True, 1.0, "1", b"1", -1, 1024, np.bool_(False)], ids=repr)
def test_a_core_is_a_whole_number_that_a_machine_can_have(
    make: Callable[[Any], Stage], value: object
) -> None:
    text = refused(lambda: make(value))
    assert text.startswith(f"stage 's': core is {value!r}, expected ")
    assert text.endswith("0 to 1023")


def test_several_cores_are_for_arm_stages_only() -> None:
    module, _ = made.convolution()
    assert arm_stage(module, name="s", core=[1, np.int64(2)]).cores == (1, 2)  # type: ignore[list-item]
    assert refused(lambda: arm_stage(module, name="s", core=(1, None))) == (  # type: ignore[arg-type]
        "stage 's': core is None, expected a whole number, 0 to 1023"
    )
    assert refused(lambda: CORE_MAKERS[0]((1, 2))) == (
        "stage 's': core is (1, 2), expected one core"
    )


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "4", b"4"], ids=repr)
def test_slots_are_a_whole_number_of_at_least_one(value: Any) -> None:
    built = wired()[0].build()
    with pytest.raises(PipelineError, match=r"slots is .*, expected .*1 or more"):
        built.start(slots=value)


@pytest.mark.parametrize("name", ["self", "timeout_s"])
def test_an_input_cannot_have_the_name_of_an_argument_of_run(name: str) -> None:
    config = PipelineConfig()
    assert unchanged(config, lambda: config.inputs.__setitem__(name, (fork(), "x"))) == (
        f"pipeline input {name!r}: is the name of an argument of run() and submit()"
    )


@pytest.mark.parametrize("name", [None, 3, True, b"data", ""], ids=repr)
def test_a_name_is_text(name: Any) -> None:
    for action in (
        lambda: PipelineConfig(name),
        lambda: made.adder(name) if name else python_stage(abs, inputs={}, outputs={}, name=""),
        lambda: PipelineConfig().inputs.__setitem__(name, (fork(), "x")),
        lambda: PipelineConfig().parameter_groups.__setitem__(name, made.scaled_stage()),
    ):
        if name is None and action.__code__.co_names[:1] == ("made",):
            continue  # a stage without a name takes its function's
        with pytest.raises(PipelineError, match=r"expected a name|the name is empty"):
            action()


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (("int32", (1, None)), "extent 1 of shape (1, None) is None, expected a whole number, 1"),
        (("int32", (1, 2.5)), "extent 1 of shape (1, 2.5) is 2.5, expected a whole number"),
        (("int32", (True,)), "extent 0 of shape (True,) is True, expected a whole number"),
        (("int32", "18"), "found shape '18', expected a sequence of whole numbers"),
        (("int32", 8), "found shape 8, expected a sequence of whole numbers"),
        ((None, (8,)), "found dtype None, expected one of NumPy's numbers"),
        (("(1,", (8,)), "found dtype '(1,', expected one of NumPy's numbers"),
        (("O", (8,)), "found dtype 'O', expected one of NumPy's numbers"),
        (("int32",), "found ('int32',), expected a pair of dtype and shape"),
        ("int32", "found 'int32', expected a pair of dtype and shape"),
    ],
)
def test_a_tensor_is_a_dtype_of_numbers_and_a_shape(tensor: Any, text: str) -> None:
    for ports in (
        {"inputs": {"x": tensor}, "outputs": {}},
        {"inputs": {}, "outputs": {"x": tensor}},
    ):
        assert refused(lambda p=ports: python_stage(abs, name="s", **p)).startswith(
            f"tensor 'x': {text}"
        )


def dynamic() -> Any:
    """out = x + x for a number of rows that is known when it runs."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tvm.tirx.Var("n", "int64"), 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.add(x, x))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("make", [relax_stage, arm_stage])
def test_a_module_must_be_relax_with_main_of_static_shapes(make: Any) -> None:
    module = made.two_outputs()
    renamed = tvm.IRModule({"other": module["main"].with_attr("global_symbol", "other")})
    assert refused(lambda: make(renamed, name="s")) == (
        "stage 's': the module has no Relax function 'main'; it has: other"
    )
    assert refused(lambda: make(dynamic(), name="s")) == (
        "stage 's': input 'x' has a dynamic shape, expected a fixed one"
    )
    assert refused(lambda: make(None, name="s")) == (
        "stage 's': found NoneType, expected a Relax module"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"device": "cpu"}, "device is 'cpu', expected TVM's kind and index"),
        ({"device": ("cpu", True)}, "device index is True, expected a whole number, 0 or more"),
        ({"device": ("cpu", -1)}, "device index is -1, expected 0 or more"),
        ({"target": None}, "target is None, expected TVM's name or a dictionary"),
        ({"parameters": [1]}, "parameters are list, expected a dictionary"),
        ({"build_func": "llvm"}, "build_func is 'llvm', expected a function (module, target)"),
        ({"export_cc": 3}, "export_cc is 3, expected a compiler's name or a function"),
    ],
)
def test_options_of_a_relax_stage_must_have_the_right_type(options: Any, text: str) -> None:
    assert refused(lambda: relax_stage(made.two_outputs(), name="s", **options)) == (
        f"stage 's': {text}"
    )


def test_a_function_must_be_callable() -> None:
    assert refused(lambda: python_stage(3, inputs={}, outputs={})) == (  # type: ignore[arg-type]
        "found 3, expected a function"
    )


@pytest.mark.sim
def test_slots_and_cores_of_a_bundle_are_whole_numbers_too(tmp_path: Path) -> None:
    bundle = build_small_bundle(tmp_path)
    wrong: Any
    for wrong in (0, -1, True, 2.0, "4"):
        with pytest.raises(PipelineError, match=r"slots is .*, expected .*1 or more"):
            edgepipe.load(bundle, slots=wrong)
    for wrong in (None, True, 1.0, "0", -1, 1024):
        with pytest.raises(PipelineError, match=r"cores: a core is .*, expected .*0 to 1023"):
            edgepipe.load(bundle, cores=[wrong])
