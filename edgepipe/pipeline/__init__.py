"""Pipelines of stages of any kind and any shape: configure, build, export, load, run."""

from edgepipe.pipeline.artifact import BuiltPipeline, load
from edgepipe.pipeline.config import PipelineConfig
from edgepipe.pipeline.running import FrameFuture, PipelineResult, RunningPipeline
from edgepipe.pipeline.stages import (
    Stage,
    arm_stage,
    bundle_stage,
    library_stage,
    python_stage,
    relax_stage,
)

__all__ = [
    "BuiltPipeline",
    "FrameFuture",
    "PipelineConfig",
    "PipelineResult",
    "RunningPipeline",
    "Stage",
    "arm_stage",
    "bundle_stage",
    "library_stage",
    "load",
    "python_stage",
    "relax_stage",
]
