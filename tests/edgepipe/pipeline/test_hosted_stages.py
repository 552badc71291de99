"""A Relax stage run from Python, as on devices that C++ does not drive: the same results."""

from __future__ import annotations

import json
from pathlib import Path

import pipeline_stages as made
from numpy.testing import assert_array_equal
from pipeline_stages import vector

from edgepipe.pipeline import PipelineConfig
from edgepipe.pipeline.exported_description import DESCRIPTION_FILE
from edgepipe.pipeline.hosted import HostedStage, TvmRunner
from edgepipe.runtime.library import call
from edgepipe.runtime.pipeline import Pipeline


def test_python_runs_a_relax_stage_like_cpp_with_its_parameters_replaced(tmp_path: Path) -> None:
    stage = made.scaled_stage()
    config = PipelineConfig()
    config.inputs["data"] = (stage, "x")
    config.outputs.append((stage, 0))
    config.parameter_groups["weights"] = stage
    built = config.build()
    entry = json.loads((built.folder / DESCRIPTION_FILE).read_text())["stages"][0]
    with built.start() as native:
        hosted = HostedStage(
            name=stage.name,
            inputs=tuple(native.inputs),
            outputs=tuple(native.outputs),
            runner=TvmRunner.load(built.folder, entry),
        )
        module = call("load_pipeline", str(built.folder), "{}", hosted.name, hosted)
        with Pipeline(module, runners={hosted.name: hosted.runner}) as python:
            for pipeline in (native, python):
                pipeline.run(data=vector(1))
                pipeline.set_parameters("weights", {"factor": made.scalar(5)})
                pipeline.run(data=vector(1))
                pipeline.stop()
            for factor in (2, 5):
                results = [pipeline.next().outputs[0] for pipeline in (native, python)]
                assert_array_equal(results[0], factor * vector(1))
                assert_array_equal(results[1], results[0])
