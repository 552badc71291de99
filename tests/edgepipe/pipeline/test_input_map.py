"""Which stages' inputs a pipeline's inputs feed, wherever the pipeline came from."""

from __future__ import annotations

from pathlib import Path

import pipeline_stages as made
import pytest
from needs import rpcd
from pipeline_stages import Start
from small_networks import build_small_bundle

import edgepipe
from edgepipe import rpc
from edgepipe.pipeline import PipelineConfig, load, load_on, relax_stage

MAP = {"left": (("far", "b"), ("near", "x")), "right": (("far", "a"),)}


def config() -> PipelineConfig:
    """Return a pipeline whose inputs have other names and another order than its stages'."""
    near = relax_stage(made.two_outputs(), name="near")
    far = relax_stage(made.difference(), name="far")
    found = PipelineConfig()
    found.inputs["left"] = [(far, "b"), (near, "x")]
    found.inputs["right"] = (far, "a")
    found.outputs.append((near, 0))
    found.outputs.append((far, 0))
    return found


def sorted_ends(found: dict[str, tuple[tuple[str, str], ...]]) -> dict[str, object]:
    return {name: tuple(sorted(ends)) for name, ends in found.items()}


def test_a_pipeline_and_its_export_know_their_map(start: Start, tmp_path: Path) -> None:
    built = config().build()
    built.export(tmp_path / "exported")
    loaded = load(tmp_path / "exported")
    assert sorted_ends(built.input_map) == sorted_ends(loaded.input_map) == MAP
    with loaded.start() as pipeline:
        assert sorted_ends(pipeline.input_map) == MAP
    with edgepipe.load(tmp_path / "exported") as pipeline:
        assert sorted_ends(pipeline.input_map) == MAP


@pytest.mark.sim
def test_a_bundle_knows_its_map_and_so_does_the_server(tmp_path: Path) -> None:
    bundle = build_small_bundle(tmp_path)
    exported = config().build().export(tmp_path / "exported")
    with edgepipe.load(bundle) as pipeline:
        here = pipeline.input_map
        assert here == {pipeline.inputs.names[0]: (("arm0", pipeline.inputs.names[0]),)}
    assert PipelineConfig.from_bundle(bundle).build().input_map == here
    with (
        rpc.LocalServer.start(rpcd(), allow_root=True) as server,
        rpc.connect(server.port, key=server.key) as session,
    ):
        with load_on(session, bundle) as there:
            assert there.input_map == here
        with load_on(session, exported) as there:
            assert sorted_ends(there.input_map) == MAP
