"""Load an ONNX file as a float Relax network whose variables carry the ONNX names."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from edgepipe.errors import FAULT, FrontendError
from edgepipe.frontend.batch_norms import require_variances
from edgepipe.frontend.dequantising import Dequantised, dequantise
from edgepipe.frontend.external_data import read_external_data
from edgepipe.frontend.float_types import single_precision
from edgepipe.frontend.folding import CannotRunError, differences, require_folded, run_model
from edgepipe.frontend.given_ranges import GivenRange
from edgepipe.frontend.imported_operators import ImportedOperators
from edgepipe.frontend.onnx_graph import shapes_of, sort_nodes
from edgepipe.frontend.onnx_passes import simplify
from edgepipe.frontend.outputs import float_outputs, require_no_selection
from edgepipe.frontend.padding import dilated_padding
from edgepipe.frontend.picture_input import (
    Size,
    channels_first,
    fix_size,
    is_channels_last,
    picture_shape,
)
from edgepipe.frontend.recurrent import require_no_recurrence
from edgepipe.frontend.standardised_weights import standardise_weights
from edgepipe.frontend.tflite import conversion_hint, is_tflite
from edgepipe.frontend.training import require_inference
from edgepipe.names import unique_name
from edgepipe.tvm_adapter import (
    IRModule,
    Main,
    ModuleBuilder,
    read_main,
)
from edgepipe.tvm_onnx import ImporterError, import_onnx

_MOST_BYTES = 2**31 - 1  # of a protobuf message
# Versions of the file format. Before 4, every initialiser is an input, too, which would forbid
# constants that are computed here. The oldest onnxruntime that is supported reads 10. Later ones
# add nothing that a float network needs, but new releases of onnx write them.
_IR_VERSIONS = (4, 10)


_ROUNDINGS = 3
_LAST_BITS = 2.0**-22  # two units in the last place of a float32
_MOST_MOVES = 4.0  # by rounding in all layers, in those by rounding the picture
_MOST_SHARE = 0.02  # of the largest value; a larger difference is never taken for rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A float network: one picture in, one or more float32 tensors out, static shapes, batch 1.

    ``module`` is Relax over float32 with batch normalisation folded. ``onnx_model`` is the same
    network for onnxruntime, with a fixed batch size. ``values`` maps a Relax variable to its ONNX
    value. ``given`` has the ranges of a network that was quantised already (``was_quantised``), by
    Relax variable. ``notices`` are sentences about changes made while loading.
    """

    name: str
    module: IRModule = field(repr=False)
    onnx_model: onnx.ModelProto = field(repr=False)
    input_name: str
    input_shape: tuple[int, int, int, int]
    output_names: tuple[str, ...]
    values: Mapping[str, str] = field(repr=False)
    given: Mapping[str, GivenRange] = field(default_factory=dict, repr=False)
    was_quantised: bool = False
    notices: tuple[str, ...] = ()

    @property
    def onnx_input(self) -> str:
        """The ONNX name of the picture input."""
        constants = {initializer.name for initializer in self.onnx_model.graph.initializer}
        return next(str(i.name) for i in self.onnx_model.graph.input if i.name not in constants)


def load_network(path: Path | str, picture: Size | None = None) -> Network:
    """Load the network of an ONNX file.

    A dynamic batch dimension is set to 1, and dynamic channels, height and width to those of
    ``picture``, each with a notice. Everything that does not depend on the picture is computed
    here. A quantised network becomes a float network with given ranges. Raises ``FrontendError``
    for a missing, damaged or foreign file, for dynamic dimensions that ``picture`` does not give,
    for inputs other than one float picture [1, c, h, w] or [1, h, w, c], for selections of the best
    results, and for operators that TVM's importer does not support.
    """
    return import_network(Path(path), read_model(Path(path)), picture)


def import_network(path: Path, model: onnx.ModelProto, picture: Size | None) -> Network:
    """Import ``model``, which was read from ``path`` and may be changed; see ``load_network``.

    Raises ``FrontendError``.
    """
    notices = [*single_precision(model)]
    dequantised = dequantise(path, model)
    notices += [*dequantised.notices, *float_outputs(model), *fix_size(path, model, picture)]
    require_no_selection(path, model)
    require_no_recurrence(path, model)
    require_variances(path, model)
    standardise_weights(model)
    require_inference(path, model)
    dilated_padding(model)
    original = Original(path, model, picture)
    channels_first(model, picture)
    simplify(model)
    require_folded(path, model)
    shape = picture_shape(path, model.graph.input[0])
    original.require_equal(model)
    ImportedOperators().require_exact(path, model)
    return _imported(path, model, shape, dequantised, notices)


class Original:
    """What onnxruntime computes from a network before it is rewritten, for a random picture."""

    def __init__(self, path: Path, model: onnx.ModelProto, picture: Size | None) -> None:
        self._path = path
        value = model.graph.input[0]
        last = is_channels_last(model, value, picture)
        shape = picture_shape(path, value, channels_last=last)
        if picture is not None and shape[1:] != picture:
            wanted, found = ("x".join(map(str, size)) for size in (picture, shape[1:]))
            raise FrontendError(
                f"{path}: the description gives {wanted} (channels, height, width), "
                f"the network reads {found}",
                hint="correct width, height and order in the description",
            )
        self._picture = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
        given = np.moveaxis(self._picture, 1, 3) if last else self._picture
        self._results = self._run(model, np.ascontiguousarray(given))

    def require_equal(self, model: onnx.ModelProto) -> None:
        """Raise ``FrontendError`` if the rewritten ``model`` computes other values."""
        found = self._run(model, self._picture)
        for index in differences(found, self._results):
            if self._is_rounding(model, found[index], index):
                continue
            raise FrontendError(
                f"{self._path}: output {model.graph.output[index].name!r} is no longer what "
                "onnxruntime computes after the network was simplified",
                hint=FAULT,
            )

    def _is_rounding(self, model: onnx.ModelProto, found: NDArray[np.generic], index: int) -> bool:
        """Return whether a result differs by little, as rounding of the picture changes it, too.

        Deep networks, with random weights above all, can enlarge the last bit of a float32 a
        thousandfold, and every pass changes last bits.
        """
        expected = self._results[index]
        if found.shape != expected.shape:
            return False
        one, other = np.asarray(found, np.float64), np.asarray(expected, np.float64)
        if not np.isfinite(one - other).all():
            return False
        generator = np.random.default_rng(1)
        moved = 0.0
        for _ in range(_ROUNDINGS):
            noise = generator.uniform(-_LAST_BITS, _LAST_BITS, self._picture.shape)
            picture = (self._picture * (1 + noise)).astype(np.float32)
            near = np.asarray(self._run(model, picture)[index], np.float64)
            moved = max(moved, float(np.abs(near - one).max()))
        most = min(_MOST_MOVES * moved, _MOST_SHARE * float(np.abs(other).max()))
        return float(np.abs(one - other).max()) <= most

    def _run(
        self, model: onnx.ModelProto, picture: NDArray[np.float32]
    ) -> list[NDArray[np.generic]]:
        try:
            return run_model(model, {model.graph.input[0].name: picture})
        except CannotRunError as cause:
            raise FrontendError(
                f"{self._path}: onnxruntime cannot run the network: {cause}",
                hint="correct the network until onnxruntime runs it, or use a newer onnxruntime",
            ) from cause


def _imported(
    path: Path,
    model: onnx.ModelProto,
    shape: tuple[int, int, int, int],
    dequantised: Dequantised,
    notices: Sequence[str],
) -> Network:
    graph_input = model.graph.input[0]
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
    known = shapes_of(model)
    shapes = {of_variable[variables[v]]: known[v] for v in variables if v in known}
    _require_shapes(path, read_main(module), shapes)
    return Network(
        name=operator_names([path.stem])[path.stem],
        module=module,
        onnx_model=model,
        input_name=names[graph_input.name],
        input_shape=shape,
        output_names=tuple(names[output] for output in outputs),
        values={of_variable[variables[value]]: value for value in variables},
        given={
            names[value] if value == graph_input.name else of_variable[variables[value]]: found
            for value, found in dequantised.ranges.items()
            if value == graph_input.name or value in variables
        },
        was_quantised=dequantised.was_quantised,
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


def read_model(path: Path) -> onnx.ModelProto:
    """Read and check an ONNX file; raise ``FrontendError`` if it is missing, damaged or foreign."""
    if not path.is_file():
        found = "not a file" if path.exists() else "no such file"
        raise FrontendError(f"{path}: {found}", hint="expected an ONNX network (*.onnx)")
    if is_tflite(path):
        raise FrontendError(
            f"{path}: a TensorFlow Lite network, expected ONNX", hint=conversion_hint(path)
        )
    if path.stat().st_size > _MOST_BYTES:
        raise FrontendError(
            f"{path}: has {path.stat().st_size} bytes, expected at most {_MOST_BYTES}",
            hint="expected an ONNX network (*.onnx) in a single protobuf file",
        )
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError, OSError) as cause:
        raise FrontendError(
            f"{path}: not an ONNX file, or damaged", hint="export the network to ONNX again"
        ) from cause
    read_external_data(path, model)
    if not model.graph.node or not model.opset_import:
        raise FrontendError(
            f"{path}: contains no ONNX graph", hint="expected a network exported to ONNX (*.onnx)"
        )
    sort_nodes(model.graph)
    tensors = [v.type.tensor_type for v in model.graph.output if v.type.HasField("tensor_type")]
    unknown = [tensor for tensor in tensors if not tensor.HasField("shape")]
    for tensor in unknown:  # exporters omit the shape of an output whose rank they do not know
        tensor.shape.SetInParent()
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as cause:
        reason = str(cause).strip().splitlines()[0]
        raise FrontendError(
            f"{path}: not a valid ONNX model: {reason}",
            hint="export it again, without operators of another framework or opset",
        ) from cause
    for tensor in unknown:
        tensor.ClearField("shape")
    model.ir_version = int(np.clip(model.ir_version, *_IR_VERSIONS))
    return model


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
        if binding.dtype and 0 in binding.shape:
            raise FrontendError(
                f"{path}: {binding.name} ({binding.op}) has no elements: its shape is "
                f"{list(binding.shape)}",
                hint="check the slice or crop that it depends on, and the size of the input",
            )


def _require_shapes(path: Path, main: Main, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Require every tensor to have the shape that it has in ONNX, as far as that is known."""
    for binding in main.bindings:
        expected = shapes.get(binding.name, binding.shape)
        if binding.dtype not in ("", "tuple") and binding.shape != expected:
            raise FrontendError(
                f"{path}: {binding.name} ({binding.op}) cannot be imported: its shape would be "
                f"{list(binding.shape)}, expected {list(expected)}",
                hint="write the operator in another form, or export with a different opset",
            )
