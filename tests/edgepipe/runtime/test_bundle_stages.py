"""A bundle's ARM and VTA stages as part of a larger pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pipeline_bundles as bundles
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from edgepipe.errors import PipelineError
from edgepipe.pipeline import PipelineConfig, bundle_stage, load, python_stage

pytestmark = pytest.mark.sim
SCORES = ("float32", (1, bundles.CLASSES))


@pytest.fixture(scope="module", params=["folder", "archive.edgepipe"])
def bundle(
    request: pytest.FixtureRequest,
    files: bundles.Files,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    path = tmp_path_factory.mktemp("bundle") / str(request.param)
    return bundles.write_bundle(path, files, {})


def best(scores: NDArray[Any]) -> NDArray[Any]:
    """Return the number of the best class."""
    return np.array([scores[0].argmax()], np.int32)


def extended(bundle: Path) -> PipelineConfig:
    """Return the bundle's pipeline with a Python stage behind it."""
    config = PipelineConfig.from_bundle(bundle)
    last = python_stage(best, inputs={"scores": SCORES}, outputs={"best": ("int32", (1,))})
    config.connect(config.stage("head"), "scores", last, "scores")
    config.outputs.append((last, 0))
    return config


def test_a_bundles_stages_and_a_python_stage_give_the_bits_of_integer_relax(
    bundle: Path, network: bundles.Network
) -> None:
    frames = bundles.frames(3)
    with extended(bundle).build().start() as pipeline:
        assert [stage.name for stage in pipeline.statistics().stages] == [
            *("stem", "body", "head", "best")
        ]
        for frame in frames:
            pipeline.run(frame=frame)
        for frame in frames:
            scores, winner = pipeline.next().outputs
            expected = network.run(frame)
            assert_array_equal(scores, expected)
            assert winner[0] == expected.argmax()


def test_a_tensor_in_the_vtas_layout_can_be_a_pipelines_output(
    bundle: Path, network: bundles.Network
) -> None:
    config = PipelineConfig.from_bundle(bundle)
    config.outputs.append((config.stage("body"), 0))
    frame = bundles.frames(1)[0]
    with config.build().start() as pipeline:
        pipeline.run(frame=frame)
        scores, blocks = pipeline.next().outputs
    body = blocks[: bundles.CLASSES].astype(np.float32) * np.float32(0.125)
    assert_array_equal(body, scores[0])


def test_an_exported_bundle_pipeline_holds_the_bundle_once_and_moves(
    bundle: Path, network: bundles.Network, tmp_path: Path
) -> None:
    extended(bundle).build().export(tmp_path / "out")
    (tmp_path / "elsewhere").mkdir()
    moved = (tmp_path / "out").rename(tmp_path / "elsewhere" / "moved")
    assert len(list((moved / "bundles").iterdir())) == 1
    frame = bundles.frames(1)[0]
    with load(moved).start(serial=True) as pipeline:
        pipeline.run(frame=frame)
        assert_array_equal(pipeline.next().outputs[0], network.run(frame))


def test_a_vta_tensor_is_not_connected_to_a_plain_one(bundle: Path) -> None:
    config = PipelineConfig()
    stem = bundle_stage(bundle, "stem", core=0)
    plain = python_stage(
        best, inputs={"x": ("int8", (1, 20, 8, 8))}, outputs={"best": ("int32", (1,))}
    )
    with pytest.raises(PipelineError) as caught:
        config.connect(stem, 0, plain, "x")
    assert str(caught.value) == (
        "stem.features -> best.x: found int8[1, 20, 8, 8] (vta), expected int8[1, 20, 8, 8]"
    )


def test_a_stage_that_the_bundle_does_not_have_is_refused(bundle: Path) -> None:
    with pytest.raises(PipelineError, match="has no stage 'boddy'") as caught:
        bundle_stage(bundle, "boddy")
    assert caught.value.hint == "did you mean: body"
