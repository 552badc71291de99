"""The hints of pipelines' errors, each checked by its text, from the real error."""

from __future__ import annotations

import dataclasses
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pipeline_stages as made
import pytest
import tvm
from pipeline_stages import VECTOR, chain, vector
from provoked_hints import hint_in_child, hint_of
from small_networks import build_small_bundle
from tvm import relax

import edgepipe
from edgepipe.bundle import storage
from edgepipe.errors import EdgepipeError
from edgepipe.pipeline import (
    PipelineConfig,
    RpcServer,
    arm_stage,
    bundle_stage,
    library_stage,
    load,
    python_stage,
    relax_stage,
    remote_stage,
)
from edgepipe.pipeline.compiled_stages import LibraryStage
from edgepipe.runtime.pipeline import Pipeline
from edgepipe.runtime.ports import dense_ports

Fail = Callable[[Path], object]


def fork(**options: Any) -> Any:
    return relax_stage(made.two_outputs(), name="fork", **options)


def wired() -> tuple[PipelineConfig, Any, Any]:
    """Return data -> fork -> join, whose output is the pipeline's."""
    config, a, b = PipelineConfig(), fork(), relax_stage(made.difference(), name="join")
    config.inputs["data"] = (a, "x")
    config.connect(a, 0, b, "a")
    config.outputs.append((b, 0))
    return config, a, b


def cycle() -> None:
    config, a, b = PipelineConfig(), made.adder("a"), made.adder("b")
    config.connect(a, 0, b, "x")
    config.connect(b, 0, a, "x")


def own_output() -> None:
    a = made.adder("a")
    PipelineConfig().connect(a, 0, a, "x")


def disconnected(which: str) -> None:
    config, a, b = wired()
    config.disconnect(*{"free": (b, "b"), "input": (a, "x")}[which])


def driven_twice() -> None:
    config, a, b = wired()
    config.connect(a, 1, b, "a")


def fed(name: str, ends: Callable[[Any], Any]) -> None:
    config = PipelineConfig()
    config.inputs[name] = ends(made.adder("first"))


def two_of_one_name() -> None:
    config = PipelineConfig()
    config.inputs["data"] = [(made.adder("same"), "x"), (made.adder("same"), "x")]


def another_type() -> None:
    reader = python_stage(abs, name="reader", inputs={"x": ("int32", (1, 9))}, outputs={})
    PipelineConfig().connect(fork(), 0, reader, "x")


def removed_output() -> None:
    config, a, _ = wired()
    config.outputs.remove((a, 1))


def connected_border() -> None:
    config: Any = PipelineConfig()
    config.connect(config.outputs, 0, fork(), "x")


def without_output() -> PipelineConfig:
    config = PipelineConfig()
    config.inputs["data"] = (fork(), "x")
    return config


def two_accelerators(folder: Path) -> object:
    """Start a pipeline of two bundles whose accelerators differ."""
    bundle = build_small_bundle(folder)
    manifest = storage.read_manifest(bundle)
    contents = {entry.path: storage.read_file(bundle, entry) for entry in manifest.files}
    other = dataclasses.replace(manifest.accelerator, acc_buffer_bytes_log2=16)
    for name, content in contents.items():
        if name.endswith("program.json"):
            table = json.loads(content)
            table["accelerator"]["acc_buffer_bytes_log2"] = 16
            contents[name] = json.dumps(table).encode()
    storage.write(
        folder / "other",
        contents,
        lambda files: dataclasses.replace(manifest, files=files, accelerator=other),
    )
    config = PipelineConfig()
    for name, path in (("one", bundle), ("two", folder / "other")):
        stage = bundle_stage(path, "vta1", name=name)
        config.inputs[name] = (stage, stage.inputs[0].name)
        config.outputs.append((stage, 0))
    return config.build().start()


def exported(folder: Path) -> Path:
    return chain(made.adder()).build().export(folder / "exported")


def edited(folder: Path, **changes: object) -> Path:
    """Export a pipeline and change its description."""
    description = exported(folder) / "pipeline.json"
    found = json.loads(description.read_text())
    description.write_text(json.dumps(found | changes))
    return description.parent


def edited_function(folder: Path, **changes: str) -> Path:
    """Export a pipeline and change the description of its Python function."""
    (stage,) = json.loads((exported(folder) / "pipeline.json").read_text())["stages"]
    shutil.rmtree(folder / "exported")
    return edited(folder, stages=[stage | changes])


def without_its_module(folder: Path) -> Path:
    """Export a pipeline whose function imports a module that is not installed here."""
    root = edited(folder, files=[])
    (found,) = root.rglob("function.pickle")
    found.write_bytes(b"cno_such_module\nfunction\n.")
    return root


def locked() -> Any:
    lock, types = threading.Lock(), {"x": VECTOR}
    stage = python_stage(lambda x: lock and x, name="s", inputs=types, outputs={"out": VECTOR})
    return chain(stage).build()


def module_of(kind: Any, read: Callable[[Any], Any]) -> Any:
    """Return a module whose main reads one input of ``kind``."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", kind)
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(read(x))
        builder.emit_func_output(out)
    return builder.get()


def dynamic() -> Any:
    rows = relax.TensorType((tvm.tirx.Var("n", "int64"), 8), "float32")
    return module_of(rows, lambda x: relax.op.add(x, x))


def tuple_input() -> Any:
    pair = relax.TupleType([relax.TensorType((1, 8), "float32")] * 2)
    return module_of(pair, lambda x: relax.TupleGetItem(x, 0))


def without_main() -> Any:
    module = made.two_outputs()
    return tvm.IRModule({"other": module["main"].with_attr("global_symbol", "other")})


def missing_library(folder: Path) -> None:
    stage = library_stage(folder / "lib.so", "f", inputs={"x": VECTOR}, outputs={"y": VECTOR})
    chain(stage).build()


def failing(module: Any, target: Any) -> Any:
    raise LookupError("no schedule")


def running(action: Callable[[Pipeline], object]) -> Fail:
    """Return a function that runs ``action`` on a pipeline data -> adder."""

    def run(_: Path) -> None:
        with chain(made.adder()).build().start() as pipeline:
            action(pipeline)

    return run


def of_type(name: str, wanted: Any) -> Fail:
    return lambda _: python_stage(abs, name="s", inputs={name: wanted}, outputs={})


def stage_options(**options: Any) -> Fail:
    return lambda _: fork(**options)


SERVER = RpcServer(host="127.0.0.1", port=9090, key="x")
ANY: Any = None

CASES: dict[str, tuple[Fail, str]] = {
    # ---- wires
    "a stage's own output": (
        lambda _: own_output(),
        "a stage reads only the results of other stages for the same frame",
    ),
    "a cycle": (lambda _: cycle(), "a frame passes every stage once"),
    "no wire to remove": (lambda _: disconnected("free"), "print(config) lists the connections"),
    "a pipeline input disconnected": (
        lambda _: disconnected("input"),
        "del config.inputs['data'], or assign it other inputs",
    ),
    "an input with two sources": (
        lambda _: driven_twice(),
        "an input has one source: remove the other one first",
    ),
    "an argument's name": (
        lambda _: fed("timeout_s", lambda stage: (stage, "x")),
        "give the input another name",
    ),
    "an input without readers": (
        lambda _: fed("data", lambda stage: []),
        "del config.inputs[name] removes an input",
    ),
    "a reader twice": (
        lambda _: fed("data", lambda stage: [(stage, "x"), (stage, "x")]),
        "name it once",
    ),
    "not a pair": (lambda _: fed("data", lambda stage: stage), 'for example (stage, "x")'),
    "two stages of one name": (lambda _: two_of_one_name(), "give one of them another name"),
    "an input that nothing feeds": (
        lambda _: wired()[0].build(),
        "connect an output of a stage to it, or a pipeline input",
    ),
    "a pipeline without input": (
        lambda _: PipelineConfig().build(),
        'config.inputs["data"] = (stage, "x")',
    ),
    "a pipeline without output": (
        lambda _: without_output().build(),
        "config.outputs.append((stage, 0))",
    ),
    "stages for two accelerators": (
        two_accelerators,
        "build both for one board: the stages of a pipeline share the accelerator",
    ),
    "a core that this machine lacks": (
        lambda _: chain(made.adder("a"), fork(core=1023)).build().start(),
        "name cores that this machine has",
    ),
    "tensors of two types": (
        lambda _: another_type(),
        "insert a stage that converts the tensor between them",
    ),
    "no such pipeline output": (lambda _: removed_output(), "print(config) lists the outputs"),
    "a pipeline output as a source": (
        lambda _: connected_border(),
        "connect the stage that computes it",
    ),
    # ---- stages
    "a tensor's name twice": (
        lambda _: LibraryStage(
            name="s",
            inputs=dense_ports({"x": VECTOR}) * 2,
            outputs=(),
            library=Path("lib.so"),
            symbol="f",
        ),
        "give one of them another name",
    ),
    "a name that is a number": (lambda _: PipelineConfig(ANY), "give it as text"),
    "a name with a slash": (lambda _: made.adder("a/b"), "give it another name"),
    "two cores for one thread": (stage_options(core=(1, 2)), "it has one thread"),
    "one core twice": (
        lambda _: arm_stage(made.convolution()[0], name="s", core=(1, 1)),
        "name each core once",
    ),
    "an impossible core": (
        stage_options(core=-1),
        "omit core to let the thread run on any",
    ),
    "no function": (
        lambda _: python_stage(ANY, name="s", inputs={}, outputs={}),
        "pass a function of the inputs that returns the outputs",
    ),
    "an unknown dtype": (of_type("x", ("int33", (1,))), 'for example "int8" or "float32"'),
    "a type without a shape": (of_type("x", "int8"), 'for example ("float32", (1, 8))'),
    "a list of tensors": (
        lambda _: python_stage(abs, name="s", inputs=["x"], outputs={}),  # type: ignore[arg-type]
        'for example {"x": ("float32", (1, 8))}',
    ),
    "a missing library": (missing_library, "build it, or correct its path"),
    "a list of parameters": (
        stage_options(parameters=[1]),
        "give arrays by the names of main's parameters",
    ),
    "a number as a target": (
        stage_options(target=3),
        'for example "llvm" or {"kind": "llvm", "mcpu": "cortex-a53"}',
    ),
    "no build function": (
        stage_options(build_func="llvm"),
        "omit it to use TVM's default pipeline",
    ),
    "no linker": (stage_options(export_cc=3), "omit it to use the default compiler"),
    "a device without an index": (stage_options(device="cuda"), 'for example ("cuda", 0)'),
    "a module that cannot be compiled": (
        lambda _: chain(fork(build_func=failing)).build(),
        "check with tvm.compile that TVM can compile the module for this target",
    ),
    "no module": (
        lambda _: relax_stage(ANY, name="s"),
        "edgepipe.frontend imports ONNX files as Relax modules",
    ),
    "no main": (
        lambda _: relax_stage(without_main(), name="s"),
        "rename the function that the stage runs to main",
    ),
    "a dynamic shape": (
        lambda _: relax_stage(dynamic(), name="s"),
        "fix it first: tvm.relax.transform.BindSymbolicVars",
    ),
    "a tuple": (
        lambda _: relax_stage(tuple_input(), name="s"),
        "give each tensor of a tuple its own parameter or output",
    ),
    "a function on a server": (
        lambda _: remote_stage(made.adder(), SERVER),
        "relax_stage(), arm_stage() and bundle_stage() can",
    ),
    # ---- exported pipelines
    "an existing folder": (lambda f: chain(made.adder()).build().export(f), "choose a new folder"),
    "a folder below a file": (
        lambda f: chain(made.adder()).build().export(Path(__file__) / "exported"),
        "choose another folder, free some space, or fix the permissions",
    ),
    "a lock in a function": (
        lambda f: locked().export(f / "exported"),
        "define it at module level, or let it create what it uses in its first call",
    ),
    "no exported pipeline": (
        lambda f: load(f / "none"),
        "name the folder of an exported pipeline, with all its files",
    ),
    "another format": (
        lambda f: load(edited(f, format=99)),
        "export the pipeline again with this edgepipe",
    ),
    "a damaged description": (lambda f: load(edited(f, files=3)), "export the pipeline again"),
    "another Python": (
        lambda f: load(edited_function(f, python="2.7")),
        "use Python 2.7, or export the pipeline again",
    ),
    "a function whose module is missing": (
        lambda f: load(edited_function(f, function="no_such_module:run")),
        "put its module on PYTHONPATH",
    ),
    "a function that needs a missing module": (
        lambda f: load(without_its_module(f)),
        "install the modules that it uses, or put them on PYTHONPATH",
    ),
    "cores for an exported pipeline": (
        lambda f: edgepipe.load(exported(f), cores=[0]),
        "give relax_stage(), arm_stage() or python_stage() a core",
    ),
    # ---- running pipelines
    "no slots": (
        lambda _: chain(made.adder()).build().start(slots=0),
        "omit slots to use the default",
    ),
    "a picture for arrays": (
        running(lambda p: p(np.zeros((2, 2, 3), np.uint8))),
        "give run() or submit() the input arrays",
    ),
    "an input given twice": (
        running(lambda p: p.run(vector(1), data=vector(1))),
        "give it by position or by name",
    ),
    "an input that was not set": (
        running(lambda p: p.run()),
        "set_input() or run(name=array)",
    ),
    "too many inputs": (running(lambda p: p.run(vector(1), vector(2))), "its inputs: data"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_has_this_hint(name: str, tmp_path: Path) -> None:
    fail, hint = CASES[name]
    assert hint_of(lambda: fail(tmp_path)) == hint


def test_a_modified_file_of_an_exported_pipeline_is_exported_again(tmp_path: Path) -> None:
    root = exported(tmp_path)
    (found,) = root.rglob("function.pickle")
    found.write_bytes(b"")
    with pytest.raises(EdgepipeError, match="is not the file that was exported") as caught:
        load(root)
    assert caught.value.hint == "export the pipeline again"


def test_a_child_process_opens_its_own_pipeline() -> None:
    with chain(made.adder()).build().start() as pipeline:
        assert hint_in_child(pipeline.statistics) == "open it in the process that uses it"
