"""Fold everything that does not depend on the picture: shapes, and operators on constants."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.errors import FrontendError
from edgepipe.frontend.onnx_graph import (
    all_constants_of,
    array_of,
    constants_of,
    remove_unread,
    set_nodes,
    shapes_of,
)

# Operators whose result is not a function of their inputs.
_RANDOM = frozenset(
    [
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ]
)
# Of one folded value, with 8 bytes for an element. VGG's first dense layer has 822 million.
_MOST_BYTES = 1 << 30
_LARGE = 4096  # elements: constants above this are data, never the shape of something


def fold_constants(model: onnx.ModelProto) -> None:
    """Replace all values that are the same for every picture with initialisers.

    before   Shape(x) -> Gather(0) -> Concat(-1) -> Reshape(x)        (x has a static shape)
    after    Reshape(x, [1, -1])

    Shapes come from onnx's inference, values from onnxruntime. Branches of ``If`` with a constant
    condition are taken. Values that cannot be computed stay. ``value_info`` contains every shape
    that was inferred.
    """
    _constant_inputs(model)
    while True:
        infer_shapes(model)
        changed = _fold_shapes(model) + _take_branches(model) + _fold_nodes(model)
        if not changed:
            break
    remove_unread(model.graph)


def require_folded(path: Path, model: onnx.ModelProto) -> None:
    """Raise ``FrontendError`` for a value that is not computed although it is always the same.

    It is random, too large, or onnxruntime cannot compute it.
    """
    constants = set(all_constants_of(model.graph))
    sizes = _sizes(model)
    for node in model.graph.node:
        if node.op_type == "Constant" or not all(v in constants for v in node.input if v):
            continue
        name = node.output[0]
        why, hint = "cannot be computed here", "store its value in the network as an initialiser"
        if node.op_type in _RANDOM:
            why = "is random"
        elif sizes.get(name, 0) > _MOST_BYTES:
            count = sizes[name] // 8
            why = f"has {count} elements, expected at most {_MOST_BYTES // 8}"
            hint = "split the layer that reads it, or make it smaller"
        raise FrontendError(
            f"{path}: {node.op_type} {name!r} does not depend on the picture, and {why}", hint=hint
        )


def infer_shapes(model: onnx.ModelProto) -> None:
    """Write the static shapes that follow from the input into ``value_info``.

    The factors of a ``Resize`` are rounded up where onnx would derive another shape from them than
    onnxruntime.
    """
    is_final = False
    while not is_final:
        skeleton = onnx.ModelProto()
        skeleton.CopyFrom(_without_data(model))
        try:
            inferred = onnx.shape_inference.infer_shapes(skeleton, data_prop=True)
        except Exception:  # a shape that contradicts another one: the importer will report it
            return
        del model.graph.value_info[:]
        model.graph.value_info.extend(inferred.graph.value_info)
        is_final = not _round_up_factors(model)


def _round_up_factors(model: onnx.ModelProto) -> bool:
    """Round up the first factors whose product with a size is whole in float32 only.

    onnxruntime multiplies in float32 (20 * 1.3 is 26), onnx and TVM in double precision (25.99).
    Return whether there were any: shapes behind them are to be inferred again.
    """
    shapes, constants = shapes_of(model), constants_of(model.graph)
    for node in model.graph.node:
        name = node.input[2] if node.op_type == "Resize" and len(node.input) > 2 else ""
        if name not in constants or constants[name].data_type != TensorProto.FLOAT:
            continue
        given = np.asarray(array_of(constants[name]), np.float32)
        sizes = np.array(shapes.get(node.input[0], ()), np.float32)
        if given.shape != sizes.shape or any(node.input[3:]):
            continue
        made = np.floor(given * sizes)
        short = np.floor(given.astype(np.float64) * sizes) < made
        if not short.any():
            continue
        rounded = np.where(short, np.nextafter(given, np.float32(np.inf)), given)
        node.input[2] = f"{node.output[0]}/rounded_factors"
        values = numpy_helper.from_array(rounded.astype(np.float32), node.input[2])
        model.graph.initializer.append(values)
        return True
    return False


def _without_data(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy whose large constants are inputs: only their shapes matter."""
    copy = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    copy.graph.name = "shapes"
    copy.graph.node.extend(model.graph.node)
    copy.graph.output.extend(model.graph.output)
    inputs = {value.name: value for value in model.graph.input}
    for constant in model.graph.initializer:
        if np.prod(constant.dims, dtype=np.int64) > _LARGE:
            inputs[constant.name] = helper.make_tensor_value_info(
                constant.name, constant.data_type, list(constant.dims)
            )
        else:
            copy.graph.initializer.add().CopyFrom(constant)
    copy.graph.input.extend(inputs.values())
    copy.functions.extend(model.functions)
    return copy


def _constant_inputs(model: onnx.ModelProto) -> None:
    """Drop inputs that have an initialiser: no caller replaces that default value."""
    constants = {constant.name for constant in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name not in constants]
    copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in kept]
    del model.graph.input[:]
    model.graph.input.extend(copies)


def _fold_shapes(model: onnx.ModelProto) -> int:
    """Replace ``Shape`` and ``Size`` of values with a known shape."""
    graph = model.graph
    shapes = shapes_of(model)
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        shape = shapes.get(node.input[0]) if node.op_type in ("Shape", "Size") else None
        if shape is None:
            kept.append(node)
            continue
        found = np.array(shape, np.int64)
        if node.op_type == "Size":
            found = np.array(found.prod(), np.int64)
        else:
            bounds = {a.name: a.i for a in node.attribute}
            found = found[bounds.get("start", 0) : bounds.get("end", len(shape))]
        graph.initializer.append(numpy_helper.from_array(found, node.output[0]))
    folded = len(graph.node) - len(kept)
    set_nodes(graph, kept)
    return folded


def _take_branches(model: onnx.ModelProto) -> int:
    """Replace every ``If`` whose condition is constant with the nodes of its branch."""
    graph = model.graph
    constants = constants_of(graph)
    kept: list[onnx.NodeProto] = []
    taken = 0
    for node in graph.node:
        condition = constants.get(node.input[0]) if node.op_type == "If" and node.input else None
        if condition is None:
            kept.append(node)
            continue
        taken += 1
        wanted = "then_branch" if bool(numpy_helper.to_array(condition).all()) else "else_branch"
        branch = next(a.g for a in node.attribute if a.name == wanted)
        prefix = f"{node.output[0]}/"
        own = {value for inner in branch.node for value in inner.output if value}
        own |= {constant.name for constant in branch.initializer}
        for constant in branch.initializer:
            graph.initializer.add().CopyFrom(constant)
            graph.initializer[-1].name = prefix + constant.name
        for inner in branch.node:
            kept.append(_renamed(inner, own, prefix))
        for mine, value in zip(node.output, branch.output, strict=True):
            source = prefix + value.name if value.name in own else value.name
            kept.append(helper.make_node("Identity", [source], [mine]))
    if taken:
        set_nodes(graph, kept)
    return taken


def _renamed(node: onnx.NodeProto, names: Container[str], prefix: str) -> onnx.NodeProto:
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    for values in (copy.input, copy.output):
        for index, value in enumerate(values):
            if value in names:
                values[index] = prefix + value
    for attribute in copy.attribute:
        if attribute.HasField("g"):
            inner = [_renamed(n, names, prefix) for n in attribute.g.node]
            set_nodes(attribute.g, inner)
    return copy


def _fold_nodes(model: onnx.ModelProto) -> int:
    """Compute the nodes that read only constants, and drop them; return how many."""
    graph = model.graph
    constants = constants_of(graph)
    sizes = _sizes(model)
    known = set(constants)
    folding: list[onnx.NodeProto] = []
    for node in graph.node:
        if _is_foldable(node, known) and _fits(node, sizes):
            folding.append(node)
            known.update(value for value in node.output if value)
    if not folding:
        return 0
    values = _computed(model, folding, constants)
    folded = [n for n in folding if all(value in values for value in n.output if value)]
    done = {id(node) for node in folded}
    for node in folded:
        for value in filter(None, node.output):
            graph.initializer.append(numpy_helper.from_array(values[value], value))
    set_nodes(graph, [node for node in graph.node if id(node) not in done])
    return len(folded)


def _is_foldable(node: onnx.NodeProto, known: Container[str]) -> bool:
    return (
        node.op_type not in _RANDOM
        and not node.op_type.startswith("Sequence")
        and not any(a.HasField("g") for a in node.attribute)
        and all(value in known for value in node.input if value)
        and any(node.output)
    )


def _sizes(model: onnx.ModelProto) -> dict[str, int]:
    """Return the bytes of values of a known shape, 8 for each element."""
    return {name: 8 * int(np.prod(shape, dtype=float)) for name, shape in shapes_of(model).items()}


def _fits(node: onnx.NodeProto, sizes: dict[str, int]) -> bool:
    """Whether the results are known to be small; those of unknown size wait for another round."""
    if node.op_type == "Constant":
        return True
    return all(sizes.get(value, _MOST_BYTES + 1) <= _MOST_BYTES for value in node.output if value)


def _computed(
    model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto], constants: dict[str, TensorProto]
) -> dict[str, NDArray[np.generic]]:
    """Return the results of ``nodes`` on constants; if one fails, those of the nodes before it."""
    nodes = list(nodes)
    while nodes:
        values = _run(model, nodes, constants)
        if values is not None:
            return values
        if len(nodes) == 1:
            return {}
        nodes = nodes[: len(nodes) // 2]
    return {}


def _run(
    model: onnx.ModelProto, nodes: list[onnx.NodeProto], constants: dict[str, TensorProto]
) -> dict[str, NDArray[np.generic]] | None:
    made = [value for node in nodes for value in node.output if value]
    read = dict.fromkeys(value for node in nodes for value in node.input if value in constants)
    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.graph.name = "constants"
    part.graph.node.extend(nodes)
    part.graph.initializer.extend(constants[value] for value in read)
    part.graph.output.extend(onnx.ValueInfoProto(name=value) for value in made)
    try:
        results = run_model(part, {})
    except CannotRunError:
        return None
    if not all(isinstance(result, np.ndarray) for result in results):
        return None
    return dict(zip(made, results, strict=True))


class CannotRunError(Exception):
    """onnxruntime refuses a model, or fails to run it; the text is its reason in one line."""


_Results = list[NDArray[np.generic]]


def run_model(model: onnx.ModelProto, inputs: Mapping[str, NDArray[np.generic]]) -> _Results:
    """Run a model in onnxruntime as it is written, without optimisation.

    ``inputs`` and the results have the dtypes and shapes of the model's. Raises ``CannotRunError``.
    """
    return runner(model)(inputs)


def runner(model: onnx.ModelProto) -> Callable[[Mapping[str, NDArray[np.generic]]], _Results]:
    """Return a function that does for many inputs what ``run_model`` does for one.

    Its arrays have the dtypes and shapes of the model's. Raises ``CannotRunError``, and so does the
    function.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # else it prints errors, and tries the same once more
        )
    except Exception as cause:  # onnxruntime's exceptions have no common base
        raise CannotRunError(str(cause).strip().splitlines()[0]) from cause

    def run(inputs: Mapping[str, NDArray[np.generic]]) -> _Results:
        try:
            results: _Results = session.run(None, dict(inputs))
        except Exception as cause:
            raise CannotRunError(str(cause).strip().splitlines()[0]) from cause
        return results

    return run


def differences(
    found: Iterable[NDArray[np.generic]], expected: Iterable[NDArray[np.generic]]
) -> Iterator[int]:
    """Yield the positions of results that differ in shape, or by more than rounding in float32.

    Infinite and undefined elements must be the same ones.

    ``found`` and ``expected`` are arrays of any shapes and dtypes, in the same order.
    """
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.shape != other.shape or not np.allclose(
            one,
            other,
            rtol=1e-3,
            atol=1e-4 * (1 + float(np.abs(other[np.isfinite(other)]).max(initial=0))),
            equal_nan=True,
        ):
            yield index
