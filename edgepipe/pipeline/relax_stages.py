"""RelaxStage: a Relax module, compiled by stock TVM for any of its targets.

a = relax_stage(module, name="body", target="llvm")
b = relax_stage(
    module,
    name="far",
    target={"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a53"},
    export_cc="aarch64-linux-gnu-g++-12",
)
c = relax_stage(module, name="tuned", build_func=compile_with_my_passes)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgepipe.errors import PipelineError
from edgepipe.integers import whole_number
from edgepipe.pipeline.stage import Array, Entry, Stage, checked_cores
from edgepipe.runtime.ports import Port, check_parameters, dense_port
from edgepipe.tvm_adapter import IRModule, is_module, read_main, relax_functions
from edgepipe.tvm_executable import (
    BuildFunction,
    ExecutableError,
    Linker,
    Target,
    export_executable,
)

LIBRARY_FILE = "module.so"
PARAMETERS_FILE = "parameters.bin"  # consecutive arrays in C order


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RelaxStage(Stage):
    """A Relax module, compiled by stock TVM and run by its virtual machine.

    On the CPU of this process, C++ calls the virtual machine; on other devices Python does.
    """

    module: IRModule
    target: Target
    device_kind: str
    device_index: int
    order: tuple[str, ...]  # the names of main's parameters
    parameters: Mapping[str, Array] = field(default_factory=dict)
    build_func: BuildFunction | None = None
    export_cc: Linker | None = None

    def write(self, root: Path, folder: str) -> Entry:
        """Compile the module; raise PipelineError with the reason of TVM or of ``build_func``."""
        try:
            export_executable(
                self.module,
                self.target,
                root / folder / LIBRARY_FILE,
                build_func=self.build_func,
                export_cc=self.export_cc,
            )
        except ExecutableError as cause:
            raise PipelineError(
                f"stage {self.name!r}: cannot be compiled for {self.target!r}: {cause}",
                hint="check with tvm.compile that TVM can compile the module for this target",
            ) from cause
        content = b"".join(array.tobytes() for array in self.parameters.values())
        (root / folder / PARAMETERS_FILE).write_bytes(content)
        return {
            "kind": "tvm",
            "folder": folder,
            "device_kind": self.device_kind,
            "device_index": self.device_index,
            "order": list(self.order),
            "parameters": [
                {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
                for name, array in self.parameters.items()
            ],
            "build": {
                "target": self.target if isinstance(self.target, str) else dict(self.target),
                "build_func": _function_name(self.build_func),
                "export_cc": _function_name(self.export_cc),
            },
        }


def relax_stage(
    module: IRModule,
    *,
    name: str,
    target: Target = "llvm",
    device: tuple[str, int] = ("cpu", 0),
    parameters: Mapping[str, Array] | None = None,
    build_func: BuildFunction | None = None,
    export_cc: Linker | None = None,
    core: int | None = None,
) -> RelaxStage:
    """Make a stage from ``main`` of a Relax module with static shapes.

    ``parameters`` gives arrays for some of main's parameters: these are not inputs of the stage,
    and can be replaced at run time if the pipeline has a parameter group for the stage. ``target``
    is TVM's name of a target, or a table of its options; ``device`` is TVM's kind and index.

    ``build_func(module, target)`` replaces TVM's usual compilation. It returns an executable of
    TVM's virtual machine, as ``tvm.compile`` and ``tvm.relax.build`` do. ``export_cc``
    links the shared library: the name of a compiler, or a function like TVM's ``fcompile``; by
    default the host's compiler, or the g++ of the target's ``mtriple``. Both are used when the
    pipeline is built, and an exported pipeline records them.

    Raises PipelineError for something other than a Relax module, a module without ``main``, a
    tensor of dynamic shape, and a parameter that is unknown or has the wrong dtype or shape.
    """
    inputs, outputs = main_ports(name, module)
    ports = {port.name: port for port in inputs}
    if not isinstance(parameters or {}, Mapping):
        raise PipelineError(
            f"stage {name!r}: parameters are {type(parameters).__name__}, expected a dictionary",
            hint="give arrays by the names of main's parameters",
        )
    given = {key: np.array(array) for key, array in (parameters or {}).items()}
    check_parameters(f"stage {name!r}", given, ports)
    if not isinstance(target, str | Mapping):
        raise PipelineError(
            f"stage {name!r}: target is {target!r}, expected TVM's name or a dictionary",
            hint='for example "llvm" or {"kind": "llvm", "mcpu": "cortex-a53"}',
        )
    if build_func is not None and not callable(build_func):
        raise PipelineError(
            f"stage {name!r}: build_func is {build_func!r}, expected a function (module, target)",
            hint="omit it to use TVM's default pipeline",
        )
    if export_cc is not None and not isinstance(export_cc, str) and not callable(export_cc):
        raise PipelineError(
            f"stage {name!r}: export_cc is {export_cc!r}, expected a compiler's name or a function",
            hint="omit it to use the default compiler",
        )
    kind, index = _checked_device(name, device)
    return RelaxStage(
        name=name,
        inputs=tuple(port for port in inputs if port.name not in given),
        outputs=outputs,
        cores=checked_cores(name, core),
        module=module,
        target=target,
        device_kind=kind,
        device_index=index,
        order=tuple(ports),
        parameters=given,
        build_func=build_func,
        export_cc=export_cc,
    )


def main_ports(stage: str, module: IRModule) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Return the inputs and outputs of a Relax module's ``main``.

    Raises PipelineError for something else, a module without ``main``, and a dynamic shape.
    """
    if not is_module(module):
        raise PipelineError(
            f"stage {stage!r}: found {type(module).__name__}, expected a Relax module",
            hint="edgepipe.frontend imports ONNX files as Relax modules",
        )
    functions = relax_functions(module)
    if "main" not in functions:
        raise PipelineError(
            f"stage {stage!r}: the module has no Relax function 'main'; "
            f"it has: {', '.join(functions) or 'none'}",
            hint="rename the function that the stage runs to main",
        )
    main = read_main(module)
    bindings = {b.name: (b.dtype, b.shape) for b in main.bindings}
    bindings |= {p.name: (p.dtype, p.shape) for p in main.params}
    inputs = [(p.name, p.dtype, p.shape) for p in main.params]
    outputs = [(name, *bindings[name]) for name in main.outputs]
    for role, tensors in (("input", inputs), ("output", outputs)):
        for name, dtype, _ in tensors:
            if dtype == "dynamic":
                raise PipelineError(
                    f"stage {stage!r}: {role} {name!r} has a dynamic shape, expected a fixed one",
                    hint="fix it first: tvm.relax.transform.BindSymbolicVars",
                )
            if dtype == "tuple":
                raise PipelineError(
                    f"stage {stage!r}: {role} {name!r} is not a tensor, expected one",
                    hint="give each tensor of a tuple its own parameter or output",
                )
    return (
        tuple(dense_port(*tensor) for tensor in inputs),
        tuple(dense_port(*tensor) for tensor in outputs),
    )


def _checked_device(stage: str, device: object) -> tuple[str, int]:
    if not isinstance(device, tuple) or len(device) != 2 or not isinstance(device[0], str):
        raise PipelineError(
            f"stage {stage!r}: device is {device!r}, expected TVM's kind and index",
            hint='for example ("cuda", 0)',
        )
    return device[0], whole_number(f"stage {stage!r}: device index", device[1], at_least=0)


def _function_name(function: Any) -> str:
    """Return the name of a build option, as recorded in pipeline.json."""
    if function is None or isinstance(function, str):
        return function or ""
    module = getattr(function, "__module__", "") or type(function).__module__
    name = getattr(function, "__qualname__", "") or type(function).__qualname__
    return f"{module}:{name}"
