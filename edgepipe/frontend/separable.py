"""Write operators that resample pictures as products with constant matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.frontend.folding import CannotRunError, differences, run_model
from edgepipe.frontend.imported_operators import ImportedOperators, operator_alone
from edgepipe.frontend.onnx_graph import (
    array_of,
    constants_of,
    opset_of,
    remove_unread,
    set_nodes,
    shapes_of,
    stretches,
    text_of,
    values_before,
)

Float = NDArray[np.float32]
Matrices = tuple[Float, Float]
"""What acts on the rows, [height out, height in], and on the columns, [width out, width in]."""

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, slots=True)
class _Operator:
    """A node that reads a picture of ``size`` (height, width), and its constants by position.

    ``is_imported`` if TVM's importer gives it the values of onnxruntime.
    """

    node: onnx.NodeProto
    size: tuple[int, int]
    constants: tuple[NDArray[np.generic] | None, ...]
    opset: int
    is_imported: bool

    def ints(self, name: str, default: list[int]) -> list[int]:
        """Return an attribute that is a list of integers."""
        return next((list(a.ints) for a in self.node.attribute if a.name == name), default)

    def integer(self, name: str) -> int:
        """Return an integer attribute, 0 if it is not set."""
        return next((int(a.i) for a in self.node.attribute if a.name == name), 0)


def resampling_as_products(model: onnx.ModelProto) -> None:
    """Replace resampling between layers by ``rows @ x @ cols``.

    before   Conv(Pad(x, mode="reflect")); Conv(Slice(x, steps=[2, 2])); Conv(AveragePool(x))
    after    Conv(MatMul(MatMul(rows, x), cols))

    These are borders that a convolution cannot take, slices of height and width and selections of
    rows or columns, averages whose divisors vary, resizes by factors that are not powers of two,
    and tiles. Each product is compared with its operator on random values; where they differ, the
    operator stays. What no layer reads afterwards stays as well: it decodes results. A resize whose
    values TVM's importer changes is a product everywhere. A crop of a border is one product, as is
    any operator that moves the pixels that another one has moved.
    """
    imported = ImportedOperators()
    shapes = shapes_of(model)
    constants = constants_of(model.graph)
    needed = before_layers(model.graph)
    moved: dict[str, tuple[str, Matrices]] = {}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        find = _MATRICES.get(node.op_type)
        shape = shapes.get(node.input[0], ()) if node.input else ()
        if (
            find is None
            or len(shape) != 4
            or shape[0] != 1
            or any(v and v not in constants for v in node.input[1:])
        ):
            nodes.append(node)
            continue
        is_imported = node.op_type != "Resize" or imported.is_exact(model, node)
        if is_imported and node.output[0] not in needed:
            nodes.append(node)
            continue
        given = tuple(array_of(constants[v]) if v else None for v in node.input[1:])
        operator = _Operator(node, (shape[2], shape[3]), given, opset_of(model), is_imported)
        found = find(operator)
        if found is None or not _is_equal(model, node, shape, found):
            nodes.append(node)
            continue
        source = node.input[0]
        if all(map(_moves_pixels, found)):
            source, before = moved.get(source, (source, tuple(map(_unit, operator.size))))
            found = (found[0] @ before[0], found[1] @ before[1])
            moved[node.output[0]] = source, found
        nodes += _products(model.graph, source, node.output[0], found)
    set_nodes(model.graph, nodes)
    remove_unread(model.graph)


def before_layers(graph: onnx.GraphProto) -> set[str]:
    """Return the values that a convolution or a matrix product depends on."""
    return values_before(graph, _LAYERS)


def _moves_pixels(matrix: Float) -> bool:
    """Return whether each result is a pixel or 0."""
    return bool(((matrix == 0) | (matrix == 1)).all() and (matrix.sum(axis=1) <= 1).all())


def _unit(size: int) -> Float:
    return np.eye(size, dtype=np.float32)


def _products(
    graph: onnx.GraphProto, source: str, name: str, found: Matrices
) -> list[onnx.NodeProto]:
    """Return the nodes; a matrix that changes nothing is omitted."""
    rows, cols = found
    made = []
    sides = [
        (matrix, side)
        for matrix, side in ((rows, "rows"), (cols.T, "cols"))
        if matrix.shape[0] != matrix.shape[1] or not (matrix == np.eye(len(matrix))).all()
    ]
    for index, (matrix, side) in enumerate(sides):
        weight = f"{name}/{side}_weight"
        values = numpy_helper.from_array(np.ascontiguousarray(matrix, np.float32), weight)
        graph.initializer.append(values)
        target = name if index == len(sides) - 1 else f"{name}/{side}"
        inputs = [weight, source] if side == "rows" else [source, weight]
        made.append(helper.make_node("MatMul", inputs, [target]))
        source = target
    return made or [helper.make_node("Identity", [source], [name])]


def _is_equal(
    model: onnx.ModelProto, node: onnx.NodeProto, shape: tuple[int, ...], found: Matrices
) -> bool:
    alone = operator_alone(model, node)
    if alone is None:
        return False
    picture = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
    rows, cols = found
    try:
        expected = run_model(alone, {"x": picture})
    except CannotRunError:
        return False
    return not list(differences([rows @ picture @ cols.T], expected))


# The matrices of each operator. What these functions do not know, the comparison finds.


def _pad(operator: _Operator) -> Matrices | None:
    modes = {"constant": "constant", "edge": "edge", "reflect": "reflect", "wrap": "wrap"}
    mode = modes.get(text_of(operator.node, "mode", "constant"))
    amounts = operator.ints("pads", [])
    if operator.constants and operator.constants[0] is not None:
        amounts = [int(v) for v in operator.constants[0].reshape(-1)]
    if len(amounts) != 8 or any(amounts[:2] + amounts[4:6]) or mode is None:
        return None
    if len(operator.constants) > 2:  # opset 18: the axes of the amounts
        return None
    if mode in ("reflect", "wrap") and max(amounts) >= min(operator.size):
        return None
    rows, cols = (
        _bordered(np.eye(size, dtype=np.float32), amounts[2 + axis], amounts[6 + axis], mode)
        for axis, size in enumerate(operator.size)
    )
    return (rows, cols) if rows.size and cols.size else None


def _bordered(matrix: Float, before: int, behind: int, mode: str) -> Float:
    """Return a matrix with more rows, or fewer for negative amounts."""
    kept = matrix[max(-before, 0) : len(matrix) - max(-behind, 0)]
    if not kept.size:
        return kept
    more = ((max(before, 0), max(behind, 0)), (0, 0))
    return np.pad(kept, more, mode=mode)  # type: ignore[call-overload, no-any-return]


def _slice(operator: _Operator) -> Matrices | None:
    if len(operator.constants) < 3:
        return None
    parts = [None if c is None else [int(v) for v in c.reshape(-1)] for c in operator.constants]
    starts, ends, axes, steps = (*parts, None)[:4]
    if starts is None or ends is None or axes is None:
        return None
    matrices = [np.eye(size, dtype=np.float32) for size in operator.size]
    for begin, end, axis, step in zip(starts, ends, axes, steps or [1] * len(axes), strict=True):
        if axis % 4 < 2 or step == 0:
            return None
        size = len(matrices[axis % 4 - 2])
        last = None if step < 0 and end < -size else end  # Python has no number for that
        matrices[axis % 4 - 2] = matrices[axis % 4 - 2][begin:last:step]
    return None if min(len(m) for m in matrices) < 1 else (matrices[0], matrices[1])


def _gather(operator: _Operator) -> Matrices | None:
    """Return the matrices of rows or columns in an order that a constant list gives."""
    axis, indices = operator.integer("axis") % 4, operator.constants[0]
    if axis < 2 or indices is None or indices.ndim != 1 or not indices.size:
        return None
    sides = [np.eye(size, dtype=np.float32) for size in operator.size]
    sides[axis - 2] = sides[axis - 2][indices.astype(np.int64)]
    return sides[0], sides[1]


def _tile(operator: _Operator) -> Matrices | None:
    """Return the matrices that repeat height and width as often as the constant says."""
    if not operator.constants or operator.constants[0] is None:
        return None
    batch, channels, *factors = (int(v) for v in operator.constants[0].reshape(-1))
    if (batch, channels) != (1, 1) or len(factors) != 2 or min(factors) < 1:
        return None
    rows, cols = (
        np.tile(np.eye(size, dtype=np.float32), (factor, 1))
        for size, factor in zip(operator.size, factors, strict=True)
    )
    return rows, cols


def _average_pool(operator: _Operator) -> Matrices | None:
    """Return the matrices of an average whose divisors vary; others have a layer of their own."""
    pads = operator.ints("pads", [0] * 4)
    ceil, counted = operator.integer("ceil_mode"), operator.integer("count_include_pad")
    if not ceil and (counted or not any(pads)):
        return None
    kernel = operator.ints("kernel_shape", [])
    strides, dilations = operator.ints("strides", [1, 1]), operator.ints("dilations", [1, 1])
    if len(kernel) != 2 or dilations != [1, 1]:
        return None
    rows, cols = (
        _means(size, k, s, pads[axis], pads[axis + 2], bool(ceil), bool(counted))
        for axis, (size, k, s) in enumerate(zip(operator.size, kernel, strides, strict=True))
    )
    return rows, cols


def _means(
    size: int, kernel: int, stride: int, before: int, after: int, ceil: bool, counted: bool
) -> Float:
    """Return the means along one axis, float32[out, size]."""
    room = size + before + after - kernel
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= size + before:
        count -= 1  # a window that starts in the padding behind is omitted
    matrix = np.zeros((count, size), np.float32)
    for index in range(count):
        begin = index * stride - before
        end = min(begin + kernel, size + after)
        inside = range(max(begin, 0), min(end, size))
        divisor = end - begin if counted else len(inside)
        matrix[index, inside.start : inside.stop] = 1 / max(divisor, 1)
    return matrix


def _resize(operator: _Operator) -> Matrices | None:
    """Return the matrices of a resize whose weights are not multiples of a small power of two.

    One that TVM's importer changes has matrices in any case.
    """
    node = operator.node
    if operator.opset < 11 or operator.ints("axes", []) or not stretches(node):
        return None
    given = (*operator.constants, None, None, None)[:3]
    region, scales, sizes = given
    width = 1 if operator.is_imported else _probe_width(operator.size, scales, sizes)
    matrices = []
    for axis, size in enumerate(operator.size):
        inputs = [node.input[0], "", "", ""]
        constants = []
        if sizes is not None and sizes.size == 4:
            wanted = np.array([size, 1, int(sizes[2 + axis]), width], np.int64)
            constants, inputs[3] = [numpy_helper.from_array(wanted, "sizes")], "sizes"
        elif scales is not None and scales.size == 4:
            factors = np.array([1, 1, scales[2 + axis], width], np.float32)
            constants, inputs[2] = [numpy_helper.from_array(factors, "scales")], "scales"
        else:
            return None
        if region is not None and region.size == 8:
            begin, end = (float(region.flat[at + axis]) for at in (2, 6))
            part = np.array([0, 0, begin, 0, 1, 1, end, 1], np.float32)
            constants.append(numpy_helper.from_array(part, "region"))
            inputs[1] = "region"
        if operator.opset < 13:
            constants.append(numpy_helper.from_array(np.zeros(0, np.float32), "empty"))
            inputs = [value or "empty" for value in inputs[: 4 if inputs[3] else 3]]
        matrix = _probed(operator, inputs, constants, size)
        if matrix is None:
            return None
        matrices.append(matrix)
    if operator.is_imported and _is_dyadic(matrices[0], matrices[1]):
        return None  # a layer of its own
    return matrices[0], matrices[1]


def _probed(
    operator: _Operator, inputs: list[str], constants: list[TensorProto], size: int
) -> Float | None:
    """Return what a resize along the height does to every unit vector, float32[out, size]."""
    part = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", operator.opset)])
    part.graph.name = "probe"
    node = part.graph.node.add()
    node.CopyFrom(operator.node)
    while not inputs[-1]:
        inputs = inputs[:-1]
    del node.input[:]
    node.input.extend(inputs)
    part.graph.initializer.extend(constants)
    shape = (size, 1, size, 1)
    part.graph.input.append(helper.make_tensor_value_info(inputs[0], TensorProto.FLOAT, shape))
    part.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    try:
        (found,) = run_model(part, {inputs[0]: np.eye(size, dtype=np.float32).reshape(shape)})
    except CannotRunError:
        return None
    return found[:, 0, :, 0].T.astype(np.float32)


def _probe_width(
    size: Sequence[int], scales: NDArray[np.generic] | None, sizes: NDArray[np.generic] | None
) -> int:
    """Return how wide the result of a probe must be, for an input that has a width of 1.

    onnxruntime copies a picture whose size stays, whatever the factors. A probe of one axis alone
    would be copied, too, although the operator is not.
    """
    made: list[int] = []
    if sizes is not None and sizes.size == 4:
        made = [int(each) for each in sizes[2:]]
    elif scales is not None and scales.size == 4:
        factors = np.asarray(scales[2:], np.float32)
        made = [int(each) for each in np.floor(factors * np.array(size, np.float32))]
    return 1 if made == [*size] else 2


def _is_dyadic(rows: Float, cols: Float) -> bool:
    """Whether all products are multiples of 1/128, as the layer for resizes requires."""
    bits = 0
    for matrix in (rows, cols):
        steps = [
            n for n in range(8) if np.allclose(matrix * 2**n, np.rint(matrix * 2**n), atol=1e-5)
        ]
        if not steps:
            return False
        bits += steps[0]
    return bits <= 7


_MATRICES: Mapping[str, Callable[[_Operator], Matrices | None]] = {
    "AveragePool": _average_pool,
    "Gather": _gather,
    "Pad": _pad,
    "Resize": _resize,
    "Slice": _slice,
    "Tile": _tile,
}
