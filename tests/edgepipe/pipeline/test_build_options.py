"""How a Relax stage is compiled: its target's options, a build function, its own linker."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pipeline_stages as made
import pytest
import tvm
from numpy.testing import assert_array_equal
from pipeline_stages import chain, vector
from tvm.support import cc

from edgepipe.errors import PipelineError
from edgepipe.pipeline import load, relax_stage


def tripled(module: Any, target: Any) -> Any:
    """Compile another module instead of ``module``, with a visible effect: out = 3 * a - b."""
    assert module["main"] is not None
    assert str(target.kind) == "llvm"
    return tvm.compile(made.difference(), target=target)


def entry(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "pipeline.json").read_text())["stages"][0]
    return found


def with_two_inputs(**options: Any) -> Any:
    """out = 3 * a - b of one input twice, compiled with ``options``."""
    stage = relax_stage(made.difference(), name="join", **options)
    config = made.PipelineConfig()
    config.inputs["data"] = [(stage, "a"), (stage, "b")]
    config.outputs.append((stage, 0))
    return config


def test_a_build_function_compiles_the_stage_and_the_export_keeps_what_it_made(
    tmp_path: Path,
) -> None:
    calls: list[Any] = []

    def build(module: Any, target: Any) -> Any:
        calls.append(target)
        return tripled(module, target)

    config = with_two_inputs(build_func=build, target={"kind": "llvm", "mcpu": "x86-64-v2"})
    folder = config.build().export(tmp_path / "exported")
    assert len(calls) == 1
    with load(folder).start() as pipeline:
        pipeline.run(vector(4))
        assert_array_equal(pipeline.next().outputs[0], 2 * vector(4))
    assert len(calls) == 1
    assert entry(folder)["build"] == {
        "target": {"kind": "llvm", "mcpu": "x86-64-v2"},
        "build_func": f"{__name__}:{build.__qualname__}",
        "export_cc": "",
    }


def test_the_options_of_a_target_reach_the_compiler(tmp_path: Path) -> None:
    texts = []
    for processor in ("x86-64", "x86-64-v3"):
        stage = relax_stage(
            made.two_outputs(), name="fork", target={"kind": "llvm", "mcpu": processor}
        )
        folder = chain(stage).build().export(tmp_path / processor)
        library = folder / entry(folder)["folder"] / "module.so"
        shown = subprocess.run(["objdump", "-d", library], capture_output=True, text=True)
        texts.append(shown.stdout)
    assert "ymm" not in texts[0]
    assert "ymm" in texts[1]


@pytest.mark.parametrize("as_name", [True, False])
def test_the_given_linker_links_the_library(as_name: bool, tmp_path: Path) -> None:
    log = tmp_path / "log"
    linker = tmp_path / "my-linker"
    linker.write_text(f'#!/bin/sh\necho linked >> "{log}"\nexec c++ "$@"\n')
    linker.chmod(0o755)

    def link(output: str, objects: list[str], **options: Any) -> None:
        cc.create_shared(output, objects, cc=str(linker), **options)

    config = with_two_inputs(export_cc=str(linker) if as_name else link)
    folder = config.build().export(tmp_path / "exported")
    assert log.read_text() == "linked\n"
    name = str(linker) if as_name else f"{__name__}:{link.__qualname__}"
    assert entry(folder)["build"]["export_cc"] == name
    with load(folder).start() as pipeline:
        pipeline.run(vector(4))
        assert_array_equal(pipeline.next().outputs[0], 2 * vector(4))


def failing(module: Any, target: Any) -> Any:
    raise LookupError("no schedule")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"build_func": failing}, "'join': cannot be compiled for 'llvm': no schedule"),
        (
            {"build_func": lambda module, target: module},
            "build_func returned IRModule, expected an executable, as of tvm.compile",
        ),
        ({"export_cc": "no-such-compiler"}, "'join': cannot be compiled for 'llvm': .*no-such-com"),
        ({"export_cc": lambda output, objects: None}, "export_cc wrote no library"),
    ],
)
def test_a_build_function_or_linker_that_fails_is_reported(options: Any, text: str) -> None:
    with pytest.raises(PipelineError, match=text):
        with_two_inputs(**options).build()
