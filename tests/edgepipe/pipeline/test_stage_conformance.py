"""The promises of every kind of stage in a pipeline, tested for all existing kinds.

The C++ suite (``cpp_runtime/conformance/stage_suite.cc``) tests the interface that the pipeline
calls; this one tests what a user of ``edgepipe.Pipeline`` sees, including stages that run in
Python, in TVM or on another machine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pipeline_bundles as bundles
import pipeline_stages as made
import pytest
from needs import rpcd
from numpy.testing import assert_array_equal
from pipeline_stages import Array, Start

from edgepipe import rpc
from edgepipe.errors import RuntimeFailure
from edgepipe.pipeline import (
    PipelineConfig,
    RpcServer,
    Stage,
    arm_stage,
    bundle_stage,
    library_stage,
    load,
    python_stage,
    relax_stage,
    remote_stage,
)
from edgepipe.tvm_adapter import run_module
from vta_stages.isa.layout import pack_activation
from vta_stages.layers.reference import run_layers

pytestmark = pytest.mark.sim

FRAMES = 6


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of stage: how to make one, its inputs for a frame, and the expected outputs."""

    make: Callable[[str], Stage]  # by the stage's name
    inputs: Callable[[int], dict[str, Array]]  # by a seed
    outputs: Callable[[int], list[Array]]  # the expected outputs, by the same seed
    failing: dict[str, Array] | None = None  # inputs that fail a frame


def outputs_of(
    inputs: Callable[[int], dict[str, Array]], compute: Callable[[dict[str, Array]], list[Array]]
) -> Callable[[int], list[Array]]:
    """Return the outputs by the seed of the inputs, each computed once."""
    return functools.cache(lambda seed: compute(inputs(seed)))


class Workshop:
    """What kinds need: folders, a bundle and a server, each created when it is first used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bundle: Path | None = None
        self._server: rpc.LocalServer | None = None

    def bundle(self) -> Path:
        if self._bundle is None:
            files = bundles.compile_files(bundles.make_network())
            self._bundle = bundles.write_bundle(self._folder / "net.edgepipe", files, {})
        return self._bundle

    def library(self) -> Path:
        return made.build_library(self._folder)

    def server(self) -> RpcServer:
        if self._server is None:
            self._server = rpc.LocalServer.start(rpcd(), allow_root=True)
        return RpcServer(port=self._server.port, key=self._server.key)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


def vectors(seed: int) -> dict[str, Array]:
    return {"x": made.vector(100 * seed)}


def relax(_: Workshop) -> Kind:
    return Kind(
        make=lambda name: relax_stage(made.two_outputs(), name=name),
        inputs=vectors,
        outputs=outputs_of(vectors, lambda inputs: [inputs["x"] + 1, inputs["x"] * 2]),
    )


def negated(inputs: dict[str, Array]) -> list[Array]:
    return [-inputs["x"]]


def negate(x: Array) -> Array:
    """The function ``negate`` of the C++ library."""
    if (x == 13).any():
        raise ValueError("found 13")
    return -x


NEGATION: dict[str, Any] = {"inputs": {"x": made.VECTOR}, "outputs": {"out": made.VECTOR}}
THIRTEEN = {"x": made.vector(10)}


def python(_: Workshop) -> Kind:
    return Kind(
        make=lambda name: python_stage(negate, name=name, **NEGATION),
        inputs=vectors,
        outputs=outputs_of(vectors, negated),
        failing=THIRTEEN,
    )


def library(workshop: Workshop) -> Kind:
    path = workshop.library()
    return Kind(
        make=lambda name: library_stage(path, "negate", name=name, **NEGATION),
        inputs=vectors,
        outputs=outputs_of(vectors, negated),
        failing=THIRTEEN,
    )


def arm(_: Workshop) -> Kind:
    module, picture = made.convolution()

    def inputs(seed: int) -> dict[str, Array]:
        return {"x": np.roll(picture, seed)}

    return Kind(
        make=lambda name: arm_stage(module, name=name),
        inputs=inputs,
        outputs=outputs_of(inputs, lambda given: [run_module(module, given)["conv"]]),
    )


def packed(array: Array) -> Array:
    """Return an array int8[1, c, h, w] as the bytes of the VTA's layout."""
    return pack_activation(bundles.ACCELERATOR, array).reshape(-1)


def frames(seed: int) -> dict[str, Array]:
    return {"frame": bundles.frames(1, seed)[0]}


@functools.cache
def features(seed: int) -> Array:
    """Return the output of the bundle's first stage for a frame: int8[1, 20, 8, 8]."""
    return run_module(bundles.make_network().first, frames(seed))["features"]


def arm_of_bundle(workshop: Workshop) -> Kind:
    path = workshop.bundle()
    return Kind(
        make=lambda name: bundle_stage(path, "stem", name=name),
        inputs=frames,
        outputs=lambda seed: [packed(features(seed))],
    )


def vta_of_bundle(workshop: Workshop) -> Kind:
    path, body = workshop.bundle(), bundles.make_network().body

    def compute(seed: int) -> list[Array]:
        return [packed(run_layers([body], {"features": features(seed)[0]})["body"][None])]

    return Kind(
        make=lambda name: bundle_stage(path, "body", name=name),
        inputs=lambda seed: {"features": packed(features(seed))},
        outputs=functools.cache(compute),
    )


def remote(near: Callable[[Workshop], Kind]) -> Callable[[Workshop], Kind]:
    """Return the same kind of stage on a server."""

    def far(workshop: Workshop) -> Kind:
        kind, server = near(workshop), workshop.server()
        return replace(kind, make=lambda name: remote_stage(kind.make(name), server))

    return far


KINDS = {
    "relax": relax,
    "python": python,
    "library": library,
    "arm": arm,
    "arm_of_a_bundle": arm_of_bundle,
    "vta_of_a_bundle": vta_of_bundle,
    "remote_relax": remote(relax),
    "remote_arm": remote(arm),
    "remote_vta_of_a_bundle": remote(vta_of_bundle),
}


def test_every_kind_of_stage_is_here() -> None:
    classes = {stage.__name__ for stage in Stage.__subclasses__()}
    assert classes == {
        *("RelaxStage", "PythonStage", "LibraryStage", "ArmStage", "BundleStage", "RemoteStage")
    }, "give a new kind of stage its line in KINDS"


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    shop = Workshop(tmp_path_factory.mktemp("stages"))
    try:
        yield shop
    finally:
        shop.close()


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest, workshop: Workshop) -> Kind:
    return KINDS[request.param](workshop)


def alone(kind: Kind, name: str = "tested") -> PipelineConfig:
    """Return the pipeline of one stage."""
    stage = kind.make(name)
    config = PipelineConfig()
    for port in stage.inputs:
        config.inputs[port.name] = (stage, port.name)
    for index in range(len(stage.outputs)):
        config.outputs.append((stage, index))
    return config


def check(pipeline: Any, kind: Kind, seeds: Iterable[int]) -> None:
    """Take the next results; check that they belong to the frames of ``seeds``."""
    for seed in seeds:
        found = pipeline.next(timeout_s=60).outputs
        expected = kind.outputs(seed)
        assert len(found) == len(expected)
        for output, array in zip(found, expected, strict=True):
            assert_array_equal(output.reshape(array.shape), array, err_msg=f"frame {seed}")
            assert output.dtype == array.dtype


def test_it_has_the_name_that_it_was_given(start: Start, kind: Kind) -> None:
    pipeline = start(alone(kind, "tested"))
    assert [stage.name for stage in pipeline.statistics().stages] == ["tested"]


@pytest.mark.parametrize("serial", [False, True], ids=["pipelined", "serial"])
def test_it_computes_its_outputs_for_frames_one_after_another(
    start: Start, kind: Kind, serial: bool
) -> None:
    pipeline = start(alone(kind), serial=serial)
    for seed in range(FRAMES):
        pipeline.run(timeout_s=60, **kind.inputs(seed))
        check(pipeline, kind, [seed])


def test_it_returns_frames_in_flight_together_in_order(start: Start, kind: Kind) -> None:
    pipeline = start(alone(kind), slots=FRAMES)
    for _ in range(2):  # the second time in slots that held other frames
        for seed in range(FRAMES):
            pipeline.run(timeout_s=60, **kind.inputs(seed))
        check(pipeline, kind, range(FRAMES))


def test_it_writes_its_outputs_in_full_in_a_slot_that_is_used_again(
    start: Start, kind: Kind
) -> None:
    pipeline = start(alone(kind), slots=1)
    for seed in (0, 3, 0, 5):
        pipeline.run(timeout_s=60, **kind.inputs(seed))
        check(pipeline, kind, [seed])


def test_it_leaves_its_inputs_as_they_are(start: Start, kind: Kind) -> None:
    stage = kind.make("tested")
    if stage.inputs[0].layout == "vta":
        pytest.skip("no Python stage reads the accelerator's layout; the C++ suite looks at this")
    name, given = next(iter(kind.inputs(0).items()))
    array_type = (str(given.dtype), given.shape)
    after = python_stage(
        np.copy, name="after", inputs={"given": array_type}, outputs={"copy": array_type}
    )
    config = PipelineConfig()
    config.inputs[name] = [(stage, name), (after, "given")]
    config.outputs.append((stage, 0))
    config.outputs.append((after, 0))
    pipeline = start(config, serial=True)
    assert [entry.name for entry in pipeline.statistics().stages] == ["tested", "after"]
    for seed in range(3):
        inputs = kind.inputs(seed)
        pipeline.run(timeout_s=60, **inputs)
        assert_array_equal(pipeline.next(timeout_s=60).outputs[1], inputs[name])


def test_two_of_its_kind_in_one_pipeline_do_not_disturb_each_other(
    start: Start, kind: Kind
) -> None:
    config = PipelineConfig()
    stages = [kind.make("first"), kind.make("second")]
    for port in stages[0].inputs:
        config.inputs[port.name] = [(stage, port.name) for stage in stages]
    for stage in stages:
        config.outputs.append((stage, 0))
    pipeline = start(config)
    for seed in range(FRAMES):
        pipeline.run(timeout_s=60, **kind.inputs(seed))
        expected = kind.outputs(seed)[0]
        for found in pipeline.next(timeout_s=60).outputs:
            assert_array_equal(found.reshape(expected.shape), expected)


def test_it_runs_again_after_a_restart(start: Start, kind: Kind) -> None:
    pipeline = start(alone(kind))
    for _ in range(2):
        pipeline.run(timeout_s=60, **kind.inputs(1))
        check(pipeline, kind, [1])
        pipeline.stop()
        pipeline.restart()
    assert pipeline.run(timeout_s=60, **kind.inputs(2)) == 0
    check(pipeline, kind, [2])


def test_it_gives_the_same_after_export_and_load(kind: Kind, tmp_path: Path) -> None:
    alone(kind).build().export(tmp_path / "exported")
    (tmp_path / "exported").rename(tmp_path / "moved")
    with load(tmp_path / "moved").start() as pipeline:
        for seed in range(3):
            pipeline.run(timeout_s=60, **kind.inputs(seed))
        check(pipeline, kind, range(3))


def test_a_failing_frame_names_stage_and_frame_and_a_restart_continues(
    start: Start, kind: Kind
) -> None:
    if kind.failing is None:
        pytest.skip("no inputs make a frame of this kind of stage fail")
    pipeline = start(alone(kind))
    pipeline.run(timeout_s=60, **kind.inputs(1))
    check(pipeline, kind, [1])
    pipeline.run(timeout_s=60, **kind.failing)
    with pytest.raises(RuntimeFailure, match=r"stage 0 'tested' at frame 1: .*13"):
        pipeline.next(timeout_s=60)
    pipeline.restart()
    pipeline.run(timeout_s=60, **kind.inputs(2))
    check(pipeline, kind, [2])
