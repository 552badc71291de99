"""Load an ONNX file as a float Relax network whose variables carry the ONNX names."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from edgepipe.errors import FrontendError
from edgepipe.frontend.onnx_passes import fold_pads, inline_constants
from edgepipe.names import unique_name
from edgepipe.tvm_adapter import (
    ImporterError,
    IRModule,
    Main,
    ModuleBuilder,
    import_onnx,
    read_main,
)

_MOST_BYTES = 2**31 - 1  # of a protobuf message


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A float network: one picture in, one or more float32 tensors out, static shapes, batch 1.

    ``module`` is Relax over float32 with batch normalisation folded. ``onnx_model`` is the same
    network for onnxruntime, with a fixed batch size. ``values`` maps a Relax variable to its ONNX
    value. ``notices`` are sentences about changes made while loading.
    """

    name: str
    module: IRModule = field(repr=False)
    onnx_model: onnx.ModelProto = field(repr=False)
    input_name: str
    input_shape: tuple[int, int, int, int]
    output_names: tuple[str, ...]
    values: Mapping[str, str] = field(repr=False)
    notices: tuple[str, ...] = ()

    @property
    def onnx_input(self) -> str:
        """The ONNX name of the picture input."""
        constants = {initializer.name for initializer in self.onnx_model.graph.initializer}
        return next(str(i.name) for i in self.onnx_model.graph.input if i.name not in constants)


def load_network(path: Path | str) -> Network:
    """Load the network of an ONNX file.

    A dynamic batch dimension is set to 1, with a notice. Raises ``FrontendError`` for a missing,
    damaged or foreign file, for other dynamic dimensions, for inputs other than one float picture
    [1, c, h, w], and for operators that TVM's importer does not support.
    """
    path = Path(path)
    model = _read(path)
    graph_input, notices = _fix_batch(path, model)
    shape = _picture_shape(path, graph_input)
    inline_constants(model)
    fold_pads(model)
    values = [value for node in model.graph.node for value in node.output if value]
    tracked = onnx.ModelProto()
    tracked.CopyFrom(model)
    del tracked.graph.output[:]
    tracked.graph.output.extend(onnx.ValueInfoProto(name=value) for value in values)
    try:
        module, variables = import_onnx(tracked, values)
    except ImporterError as cause:
        raise FrontendError(
            f"{path}: cannot be imported: {cause}",
            hint="replace or decompose the named operators (for example with onnxsim), "
            "or export with a different opset",
        ) from cause
    outputs = [output.name for output in model.graph.output]
    _require_distinct(path, outputs, variables, {p.name for p in read_main(module).params})
    names = operator_names([graph_input.name, *values])
    # One variable may stand for several values (Identity, Dropout); the name of an output wins.
    ordered = [v for v in variables if v not in outputs] + [v for v in outputs if v in variables]
    of_variable = {variables[value]: names[value] for value in ordered}
    module = _renamed(module, of_variable, names[graph_input.name], [variables[o] for o in outputs])
    _require_static(path, read_main(module))
    return Network(
        name=operator_names([path.stem])[path.stem],
        module=module,
        onnx_model=model,
        input_name=names[graph_input.name],
        input_shape=shape,
        output_names=tuple(names[output] for output in outputs),
        values={of_variable[variables[value]]: value for value in variables},
        notices=tuple(notices),
    )


def operator_names(values: Sequence[str]) -> dict[str, str]:
    """Map ONNX value names to unique names of [A-Za-z0-9_.] without ``__`` (which marks parts).

    The endings that exporters add to a node's only output (``:0``, ``_output_0``) are omitted.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for value in values:
        short = re.sub(r"(:0|_output_0)$", "", value)
        name = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_.]", "_", short)).strip("_") or "value"
        names[value] = unique_name(name, taken)
        taken.add(names[value])
    return names


def _read(path: Path) -> onnx.ModelProto:
    if not path.is_file():
        found = "not a file" if path.exists() else "no such file"
        raise FrontendError(f"{path}: {found}", hint="expected an ONNX network (*.onnx)")
    if path.stat().st_size > _MOST_BYTES:
        raise FrontendError(
            f"{path}: has {path.stat().st_size} bytes, expected at most {_MOST_BYTES}",
            hint="expected an ONNX network (*.onnx) in a single protobuf file",
        )
    try:
        model = onnx.load(path)
    except (DecodeError, onnx.checker.ValidationError, ValueError, OSError) as cause:
        raise FrontendError(
            f"{path}: not an ONNX file, or damaged", hint="export the network to ONNX again"
        ) from cause
    if not model.graph.node or not model.opset_import:
        raise FrontendError(
            f"{path}: contains no ONNX graph", hint="expected a network exported to ONNX (*.onnx)"
        )
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as cause:
        reason = str(cause).strip().splitlines()[0]
        raise FrontendError(
            f"{path}: not a valid ONNX model: {reason}",
            hint="export it again, without operators of another framework or opset",
        ) from cause
    return model


def _fix_batch(path: Path, model: onnx.ModelProto) -> tuple[onnx.ValueInfoProto, list[str]]:
    constants = {initializer.name for initializer in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    if len(inputs) != 1:
        found = ", ".join(i.name for i in inputs) or "none"
        raise FrontendError(
            f"{path}: inputs are {found}; expected exactly one picture input",
            hint="export the network with the picture as its only input, all others as constants",
        )
    notices = []
    dims = inputs[0].type.tensor_type.shape.dim
    if len(dims) == 4 and dims[0].dim_value < 1:
        symbol = dims[0].dim_param or "?"
        dims[0].Clear()
        dims[0].dim_value = 1
        notices.append(f"{inputs[0].name}: dynamic batch dimension {symbol!r} fixed to 1")
        del model.graph.value_info[:]  # shapes inferred for the old batch
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
    return inputs[0], notices


def _picture_shape(path: Path, value: onnx.ValueInfoProto) -> tuple[int, int, int, int]:
    tensor = value.type.tensor_type
    dims = [
        d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim
    ]
    text = ", ".join(str(d) for d in dims)
    if any(not isinstance(d, int) or d < 1 for d in dims):
        raise FrontendError(
            f"{path}: input {value.name} has the dynamic shape [{text}]; only the batch may vary",
            hint="export with a fixed height and width",
        )
    if tensor.elem_type != onnx.TensorProto.FLOAT or len(dims) != 4 or dims[0] != 1:
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
        raise FrontendError(
            f"{path}: input {value.name} is {kind}[{text}], "
            "expected float[1, channels, height, width]",
            hint="export it with one float32 picture, channels first, as its input",
        )
    return (1, int(dims[1]), int(dims[2]), int(dims[3]))


def _renamed(
    module: IRModule, names: Mapping[str, str], input_name: str, outputs: Sequence[str]
) -> IRModule:
    """Copy ``main`` with its variables renamed and only ``outputs`` returned.

    A variable that is not an ONNX value is named ``<user>__<n>`` after the variable that reads it.
    Bindings on which no output depends are omitted.
    """
    main = _needed(read_main(module), outputs)
    users = main.users()
    new: dict[str, str] = dict(names)
    parts: dict[str, int] = {}
    for binding in reversed(main.bindings):
        if binding.name not in new:
            owner = new[users[binding.name][0]].partition("__")[0]
            parts[owner] = parts.get(owner, 0) + 1
            new[binding.name] = f"{owner}__{parts[owner]}"
    builder = ModuleBuilder()
    (param,) = main.params
    new[param.name] = input_name
    builder.param(new[param.name], param.shape, param.dtype)
    for binding in main.bindings:
        builder.copy(binding, new[binding.name], new, module)
    return builder.finish([new[o] for o in outputs], returns_tuple=len(outputs) > 1)


def _needed(main: Main, outputs: Sequence[str]) -> Main:
    needed = set(outputs)
    kept = []
    for binding in reversed(main.bindings):
        if binding.name in needed:
            needed.update(binding.inputs)
            kept.append(binding)
    return replace(main, bindings=tuple(reversed(kept)), outputs=tuple(outputs))


def _require_distinct(
    path: Path, outputs: Sequence[str], variables: Mapping[str, str], params: Container[str]
) -> None:
    """Require every output to be a separate tensor that the network computes."""
    made: dict[str, str] = {}
    for output in outputs:
        variable = variables.get(output)
        if variable is None or variable in params:
            what = "is the input itself" if variable else "does not depend on the input"
            raise FrontendError(
                f"{path}: output {output!r} {what}", hint="export the network without this output"
            )
        if variable in made:
            raise FrontendError(
                f"{path}: outputs {made[variable]!r} and {output!r} are the same tensor",
                hint="export the network with only one of them",
            )
        made[variable] = output


def _require_static(path: Path, main: Main) -> None:
    for binding in main.bindings:
        if binding.dtype == "dynamic":
            raise FrontendError(
                f"{path}: {binding.name} ({binding.op}) has a dynamic shape",
                hint="simplify the network with fixed input sizes, for example with onnxsim",
            )
