"""Float operators as kernels that give the same bits in any stage and on every processor.

LLVM fuses a product and the sum that reads it to a multiply-add, which does not round the product,
if the processor has one; a Cortex-A9 has none. Which operators are in one kernel depends on the
stage, and so would the last bit. Here each product is rounded before it is added, inside
convolutions and matrix products, too, and they add in one order.

TVM's own resize computes positions and weights in floating point for each element. A compiler that
knows an index at compile time rounds them differently from one that computes them with multiply-
adds at run time. Here they are constants.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax, te, tirx, topi

from edgepipe import tvm_functions

_MULTIPLY = "relax.multiply"
_RESIZE = "relax.image.resize2d"
_CONV = "relax.nn.conv2d"
_TRANSPOSED_CONV = "relax.nn.conv2d_transpose"
_MATMUL = "relax.matmul"
# Other operators whose last step is a product.
_PRODUCTS = ("relax.nn.gelu_tanh", "relax.nn.silu", "relax.square")

# Functions whose last bit would depend on the board's C library.
_FUNCTIONS = {
    "relax.atan": tvm_functions.atan,
    "relax.erf": tvm_functions.erf,
    "relax.nn.gelu": tvm_functions.gelu,
}

Taps = tuple[NDArray[np.int32], NDArray[np.float32]]


def legalise(module: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose operators are calls of TIR functions, as far as TVM has them."""
    rules = {
        _MULTIPLY: _multiply,
        _RESIZE: _resize,
        _CONV: _float_conv,
        _TRANSPOSED_CONV: _float_transposed_conv,
        _MATMUL: _float_matmul,
        **dict.fromkeys(_PRODUCTS, _rounded),
        **dict.fromkeys(_FUNCTIONS, _function),
    }
    legalised: tvm.IRModule = relax.transform.LegalizeOps(rules)(module)
    return legalised


def _multiply(builder: Any, call: Any) -> Any:
    def compute(*factors: Any) -> Any:
        product = topi.multiply(*factors)
        return _hidden(product) if str(product.dtype).startswith("float") else product

    first, second = call.args
    factors = [first, _scalar(second)]
    if factors[1] is second:
        factors[0] = _scalar(first)
    return builder.call_te(compute, *factors, primfunc_name_hint="multiply")


def _rounded(builder: Any, call: Any) -> Any:
    made = builder.emit(call.op.get_attr("FLegalize")(builder, call))
    return builder.call_te(
        _hidden, made,
        primfunc_name_hint="rounded",
    )  # fmt: skip


def _function(builder: Any, call: Any) -> Any:
    name = str(call.op.name)
    if not _is_float(call):
        return call.op.get_attr("FLegalize")(builder, call)
    compute = tvm_functions.element_wise(_FUNCTIONS[name])
    return builder.call_te(compute, *call.args, primfunc_name_hint=name.rpartition(".")[2])


def _float_conv(builder: Any, call: Any) -> Any:
    attrs = call.attrs
    plain = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout) == ("NCHW", "OIHW", "NCHW")
    if not plain or not _is_float(call):
        return tvm.ir.Op.get(_CONV).get_attr("FLegalize")(builder, call)
    stride, dilation = _ints(attrs.strides), _ints(attrs.dilation)
    shape = _ints(call.ty.shape.values)

    def compute(x: Any, weight: Any) -> Any:
        top, left, bottom, right = _ints(attrs.padding)
        padded = topi.nn.pad(x, [0, 0, top, left], [0, 0, bottom, right], 0.0)
        outputs, inputs, *kernel = _ints(weight.shape)
        of_group = outputs // int(attrs.groups)
        c, i, j = (te.reduce_axis((0, size)) for size in (inputs, *kernel))

        def pixel(n: Any, o: Any, y: Any, z: Any) -> Any:
            row, column = y * stride[0] + i * dilation[0], z * stride[1] + j * dilation[1]
            channel = tirx.floordiv(o, of_group) * inputs + c
            return _rounded_sum(padded[n, channel, row, column] * weight[o, c, i, j], [c, i, j])

        return te.compute(shape, pixel, name="conv2d")

    return builder.call_te(compute, *call.args, primfunc_name_hint="conv2d")


def _float_transposed_conv(builder: Any, call: Any) -> Any:
    attrs = call.attrs
    plain = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout) == ("NCHW", "IOHW", "NCHW")
    if not plain or not _is_float(call):
        return tvm.ir.Op.get(_TRANSPOSED_CONV).get_attr("FLegalize")(builder, call)
    shape, groups = _ints(call.ty.shape.values), int(attrs.groups)
    down, right_by = _ints(attrs.dilation)

    def compute(x: Any, weight: Any) -> Any:
        inputs, of_group, height, width = _ints(weight.shape)
        reach = (down * (height - 1), right_by * (width - 1))
        top, left, bottom, right = _ints(attrs.padding)
        below, beside = _ints(attrs.output_padding)
        apart = topi.nn.dilate(x, [1, 1, *_ints(attrs.strides)])
        padded = topi.nn.pad(
            apart,
            [0, 0, reach[0] - top, reach[1] - left],
            [0, 0, reach[0] - bottom + below, reach[1] - right + beside],
            0.0,
        )
        in_group = inputs // groups
        c, i, j = (te.reduce_axis((0, size)) for size in (in_group, height, width))

        def pixel(n: Any, o: Any, y: Any, z: Any) -> Any:
            channel = tirx.floordiv(o, of_group) * in_group + c
            taken = weight[channel, tirx.floormod(o, of_group), height - 1 - i, width - 1 - j]
            value = padded[n, channel, y + i * down, z + j * right_by]
            return _rounded_sum(value * taken, [c, i, j])

        return te.compute(shape, pixel, name="conv2d_transpose")

    return builder.call_te(compute, *call.args, primfunc_name_hint="conv2d_transpose")


def _float_matmul(builder: Any, call: Any) -> Any:
    shape = _ints(call.ty.shape.values)
    ranks = [len(argument.ty.shape.values) for argument in call.args]
    if not _is_float(call) or min(ranks) < 2:
        return tvm.ir.Op.get(_MATMUL).get_attr("FLegalize")(builder, call)

    def compute(first: Any, second: Any) -> Any:
        k = te.reduce_axis((0, first.shape[-1]))

        def batch(matrix: Any, place: tuple[Any, ...]) -> list[Any]:
            sizes = _ints(matrix.shape)[:-2]
            own = place[len(place) - 2 - len(sizes) : -2]
            return [0 if size == 1 else at for size, at in zip(sizes, own, strict=True)]

        def element(*place: Any) -> Any:
            left = first[(*batch(first, place), place[-2], k)]
            right = second[(*batch(second, place), k, place[-1])]
            return _rounded_sum(left * right, [k])

        return te.compute(shape, element, name="matmul")

    return builder.call_te(compute, *call.args, primfunc_name_hint="matmul")


def _is_float(call: Any) -> bool:
    types = [call.ty.dtype, *(argument.ty.dtype for argument in call.args)]
    return all(str(dtype) == "float32" for dtype in types)


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _rounded_sum(product: Any, axes: list[Any]) -> Any:
    """Return the sum of a product over axes, in their order, each rounded before it is added."""
    return te.sum(tirx.max(product, _lowest("float32")), axis=axes)


def _scalar(argument: Any) -> Any:
    """Return a constant without dimensions as a number, so that the kernel contains it."""
    if not isinstance(argument, tvm.ir.GenericConst) or argument.value.numpy().ndim:
        return argument
    value = argument.value.numpy()
    return tirx.const(value.item(), str(value.dtype))


def _hidden(product: Any) -> Any:
    """Return a tensor of products that are rounded before anything is added to them."""
    dtype = str(product.dtype)
    return tvm_functions.element_wise(lambda value: tvm_functions.hidden(value, dtype))(product)


def _lowest(dtype: str) -> Any:
    """Return minus infinity, which is enough to hide a product that is added to a variable."""
    return -tirx.infinity(dtype)


def _resize(builder: Any, call: Any) -> Any:
    picture, attrs = call.args[0], call.attrs
    crops = attrs.coordinate_transformation_mode == "tf_crop_and_resize"
    if crops or attrs.layout != "NCHW" or str(picture.ty.dtype) != "float32":
        return tvm.ir.Op.get(_RESIZE).get_attr("FLegalize")(builder, call)
    _, _, height, width = (int(size) for size in picture.ty.shape.values)
    _, _, to_height, to_width = (int(size) for size in call.ty.shape.values)
    rows, cols = (
        _taps(
            size,
            wanted,
            attrs.method,
            attrs.coordinate_transformation_mode,
            attrs.rounding_method,
            float(attrs.cubic_alpha),
            int(attrs.cubic_exclude),
        )
        for size, wanted in ((height, to_height), (width, to_width))
    )
    constants = [relax.const(array) for array in (*rows, *cols)]

    def compute(x: Any, row: Any, row_weight: Any, col: Any, col_weight: Any) -> Any:
        def pixel(n: Any, c: Any, y: Any, z: Any) -> Any:
            return _sum(
                (row_weight[y, i], _sum(
                    (col_weight[z, j], x[n, c, row[y, i], col[z, j]])
                    for j in range(cols[0].shape[1])
                ))
                for i in range(rows[0].shape[1])
            )  # fmt: skip

        return te.compute((*x.shape[:2], to_height, to_width), pixel, name="resize")

    return builder.call_te(compute, picture, *constants, primfunc_name_hint="resize2d")


def _sum(terms: Any) -> Any:
    """Return the sum of the terms' products, each rounded to float32 before it is added."""
    lowest = _lowest("float32")
    total = None
    for weight, value in terms:
        term = tirx.max(weight * value, lowest)
        total = term if total is None else total + term
    return total


@cache
def _taps(size: int, wanted: int, method: str, mode: str, rounding: str, *cubic: float) -> Taps:
    """Return what each of ``wanted`` positions takes: positions below ``size``, and weights.

    Both have the shape [wanted, taps]; taps that a position lacks have weight 0. They are what
    TVM's kernel does to each unit vector, in a picture two columns wide that keep their place.
    """
    x = te.placeholder((1, size, size, 2), "float32", "x")
    alpha, exclude = cubic
    result = topi.image.resize2d(
        x, [0.0] * 4, (wanted, 2), "NCHW", method, mode, rounding,
        bicubic_alpha=alpha, bicubic_exclude=int(exclude),
    )  # fmt: skip
    function = te.create_prim_func([x, result]).with_attr("global_symbol", "main")
    run = tvm.compile(tvm.IRModule({"main": function}), target="llvm")
    units = np.eye(size, dtype=np.float32)[None, :, :, None].repeat(2, axis=3)
    found = tvm.runtime.tensor(np.zeros((1, size, wanted, 2), np.float32))
    run["main"](tvm.runtime.tensor(np.ascontiguousarray(units)), found)
    weights = found.numpy()[0, :, :, 0].T
    count = max(int((weights != 0).sum(axis=1).max()), 1)
    order = np.sort(np.argsort(weights == 0, axis=1, kind="stable")[:, :count], axis=1)
    return order.astype(np.int32), np.take_along_axis(weights, order, axis=1)
