"""Pipelines of stages of any kind and any shape: configure, build, export, load, run."""

from edgepipe.pipeline.artifact import BuiltPipeline, load
from edgepipe.pipeline.compiled_stages import arm_stage, bundle_stage, library_stage
from edgepipe.pipeline.config import PipelineConfig
from edgepipe.pipeline.python_stages import python_stage
from edgepipe.pipeline.relax_stages import relax_stage
from edgepipe.pipeline.remote import RemoteStage, remote_stage
from edgepipe.pipeline.served import load_on
from edgepipe.pipeline.stage import Stage
from edgepipe.rpc.link import RpcServer

__all__ = [
    "BuiltPipeline",
    "PipelineConfig",
    "RemoteStage",
    "RpcServer",
    "Stage",
    "arm_stage",
    "bundle_stage",
    "library_stage",
    "load",
    "load_on",
    "python_stage",
    "relax_stage",
    "remote_stage",
]
