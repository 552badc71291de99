"""edgepipe: pipelines of neural-network stages for FPGA SoC boards with the VTA accelerator.

    import edgepipe

    pipeline = edgepipe.load("net.edgepipe")
    for box in pipeline("street.jpg").detections:
        print(box.label, box.score, box.left, box.top, box.right, box.bottom)

``build`` turns an ONNX network into a bundle, ``load`` runs a bundle or an exported pipeline as a
``Pipeline``, and ``PipelineConfig`` combines stages of any kind. Names are imported on first use,
so a program that only loads bundles never imports TVM's compiler.
"""

TYPE_CHECKING = False  # as in ``typing``, whose import takes longer than all else here
if TYPE_CHECKING:
    from edgepipe.boards import Board
    from edgepipe.building import build
    from edgepipe.errors import (
        BoardError,
        BundleError,
        CodegenError,
        DeadlinePassed,
        EdgepipeError,
        FrameCancelled,
        FrontendError,
        MediaError,
        PartitionError,
        PipelineEnded,
        PipelineError,
        QuantizeError,
        RpcError,
        RuntimeFailure,
    )
    from edgepipe.loading import load
    from edgepipe.pipeline import (
        BuiltPipeline,
        PipelineConfig,
        RpcServer,
        Stage,
        arm_stage,
        bundle_stage,
        library_stage,
        load_on,
        python_stage,
        relax_stage,
        remote_stage,
    )
    from edgepipe.runtime.futures import FrameFuture
    from edgepipe.runtime.named import Named
    from edgepipe.runtime.pipeline import Pinning, Pipeline
    from edgepipe.runtime.ports import Port
    from edgepipe.runtime.results import (
        ClassArea,
        ClassMap,
        ClassScore,
        Detection,
        FrameResult,
        Point,
    )
    from edgepipe.runtime.statistics import Durations, StageStatistics, Statistics

__version__ = "0.1.0"

# Every public name, by the module that defines it; a test compares this with the imports above.
_MODULES = {
    "boards": ("Board",),
    "building": ("build",),
    "errors": (
        "BoardError",
        "BundleError",
        "CodegenError",
        "DeadlinePassed",
        "EdgepipeError",
        "FrameCancelled",
        "FrontendError",
        "MediaError",
        "PartitionError",
        "PipelineEnded",
        "PipelineError",
        "QuantizeError",
        "RpcError",
        "RuntimeFailure",
    ),
    "loading": ("load",),
    "pipeline": (
        "BuiltPipeline",
        "PipelineConfig",
        "RpcServer",
        "Stage",
        "arm_stage",
        "bundle_stage",
        "library_stage",
        "load_on",
        "python_stage",
        "relax_stage",
        "remote_stage",
    ),
    "runtime.futures": ("FrameFuture",),
    "runtime.named": ("Named",),
    "runtime.pipeline": ("Pinning", "Pipeline"),
    "runtime.ports": ("Port",),
    "runtime.results": (
        "ClassArea",
        "ClassMap",
        "ClassScore",
        "Detection",
        "FrameResult",
        "Point",
    ),
    "runtime.statistics": ("Durations", "StageStatistics", "Statistics"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Board",
    "BoardError",
    "BuiltPipeline",
    "BundleError",
    "ClassArea",
    "ClassMap",
    "ClassScore",
    "CodegenError",
    "DeadlinePassed",
    "Detection",
    "Durations",
    "EdgepipeError",
    "FrameCancelled",
    "FrameFuture",
    "FrameResult",
    "FrontendError",
    "MediaError",
    "Named",
    "PartitionError",
    "Pinning",
    "Pipeline",
    "PipelineConfig",
    "PipelineEnded",
    "PipelineError",
    "Point",
    "Port",
    "QuantizeError",
    "RpcError",
    "RpcServer",
    "RuntimeFailure",
    "Stage",
    "StageStatistics",
    "Statistics",
    "__version__",
    "arm_stage",
    "build",
    "bundle_stage",
    "library_stage",
    "load",
    "load_on",
    "python_stage",
    "relax_stage",
    "remote_stage",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'edgepipe' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"edgepipe.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
