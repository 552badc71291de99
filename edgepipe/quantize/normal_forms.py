"""The normal forms: what each integer operator looks like in Relax.

``partition.operators`` reads them back as layer records.

Every operator is a chain of bindings. The last one has the operator's name, the ones before it are
called ``<operator>__<part>``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgepipe.tvm_adapter import ModuleBuilder
from vta_stages.layers.records import (
    Concat,
    Conv,
    Epilogue,
    Layer,
    LeakySum,
    MaxPool,
    Pick,
    PixelAffine,
    Product,
    Projection,
    Quotient,
    Resize,
    Sum,
    Table,
    Term,
    TransposedConv,
)

Int32Array = NDArray[np.int32]
Int16Array = NDArray[np.int16]
Int8Array = NDArray[np.int8]
Float32Array = NDArray[np.float32]


def write_layer(builder: ModuleBuilder, layer: Layer) -> str:
    """Append ``layer`` in its normal form; its inputs must be bound already. Return its name."""
    if isinstance(layer, Conv | TransposedConv):
        acc = write_terms(builder, layer.name, write_weighted(builder, layer), layer.terms)
        return write_epilogue(builder, layer.name, acc, layer.epilogue)
    if isinstance(layer, Sum):
        acc = write_terms(builder, layer.name, "", layer.terms)
        return write_epilogue(builder, layer.name, acc, layer.epilogue)
    if isinstance(layer, Table):
        return write_table(builder, layer.name, layer.input.name, layer.table)
    if isinstance(layer, Product):
        return _write_product(builder, layer)
    if isinstance(layer, Quotient):
        return _write_quotient(builder, layer)
    if isinstance(layer, PixelAffine):
        return _write_pixel_affine(builder, layer)
    if isinstance(layer, Pick):
        return write_pick(builder, layer.name, layer.input.name, layer.channels)
    if isinstance(layer, MaxPool):
        return builder.emit(
            layer.name,
            "nn.max_pool2d",
            layer.input.name,
            pool_size=layer.kernel,
            strides=layer.stride,
            padding=layer.padding,
        )
    if isinstance(layer, Resize):
        return _write_resize(builder, layer)
    return _write_concat(builder, layer)


def write_weighted(builder: ModuleBuilder, layer: Conv | TransposedConv) -> str:
    """Append what ``layer`` multiplies with weights, int32 of its output's shape; return its name.

    That is its convolution and its projections, without terms and epilogue.
    """
    name = layer.name
    if isinstance(layer, Conv):
        acc = builder.emit(
            f"{name}__acc",
            "nn.conv2d",
            layer.input.name,
            layer.weight,
            strides=layer.stride,
            padding=layer.padding,
            dilation=layer.dilation,
            groups=layer.groups,
            out_dtype="int32",
        )
        return _write_projections(builder, name, acc, layer.projections)
    spatial = ((layer.input.height, 0), (layer.input.width, 1))
    wanted = (layer.output.height, layer.output.width)
    extra = tuple(
        wanted[axis]
        - (size - 1) * layer.stride[axis]
        - layer.weight.shape[2 + axis]
        + layer.padding[axis]
        + layer.padding[axis + 2]
        for size, axis in spatial
    )
    return builder.emit(
        f"{name}__acc",
        "nn.conv2d_transpose",
        layer.input.name,
        layer.weight,
        strides=layer.stride,
        padding=layer.padding,
        output_padding=extra,
        groups=layer.groups,
        out_dtype="int32",
    )


def _write_projections(
    builder: ModuleBuilder, name: str, acc: str, projections: tuple[Projection, ...]
) -> str:
    """Add the 1x1 convolution of every projection to ``acc``."""
    for index, projection in enumerate(projections):
        part = builder.emit(
            f"{name}__projection{index}",
            "nn.conv2d",
            projection.tensor.name,
            projection.weight[:, :, None, None],
            strides=projection.stride,
            out_dtype="int32",
        )
        acc = builder.emit(f"{name}__projected{index}", "add", acc, part)
    return acc


def write_terms(builder: ModuleBuilder, name: str, acc: str, terms: tuple[Term, ...]) -> str:
    """Add ``tensor * factor`` of every term to ``acc`` (empty: ``acc`` has no value yet)."""
    for index, term in enumerate(terms):
        wide = builder.emit(f"{name}__wide{index}", "astype", term.tensor.name, dtype="int32")
        part = builder.emit(f"{name}__term{index}", "multiply", wide, per_channel(term.factor))
        acc = builder.emit(f"{name}__sum{index}", "add", acc, part) if acc else part
    return acc


def _write_product(builder: ModuleBuilder, layer: Product) -> str:
    name = layer.name
    parts = [
        builder.emit(f"{name}__{part}", "astype", tensor.name, dtype="int32")
        for part, tensor in (("first", layer.first), ("second", layer.second))
    ]
    product = builder.emit(f"{name}__product", "multiply", *parts)
    acc = builder.emit(f"{name}__acc", "multiply", product, per_channel(layer.factor))
    acc = write_terms(builder, name, acc, layer.terms)
    return write_epilogue(builder, name, acc, layer.epilogue)


def _write_quotient(builder: ModuleBuilder, layer: Quotient) -> str:
    name = layer.name
    first = builder.emit(f"{name}__first", "astype", layer.first.name, dtype="int32")
    inverse = write_table(builder, f"{name}__inverse", layer.second.name, layer.table)
    acc = builder.emit(f"{name}__acc", "multiply", first, inverse)
    acc = write_terms(builder, name, acc, layer.terms)
    return write_epilogue(builder, name, acc, layer.epilogue)


def _write_pixel_affine(builder: ModuleBuilder, layer: PixelAffine) -> str:
    name = layer.name
    acc = builder.emit(f"{name}__wide", "astype", layer.input.name, dtype="int32")
    acc = builder.emit(f"{name}__scaled", "multiply", acc, layer.factor)
    acc = builder.emit(f"{name}__acc", "add", acc, layer.bias)
    return write_epilogue(builder, name, acc, layer.epilogue)


def write_epilogue(builder: ModuleBuilder, name: str, acc: str, epilogue: Epilogue) -> str:
    """Append what turns the accumulator ``acc`` into the int8 tensor ``name``; return its name."""
    v = builder.emit(f"{name}__biased", "add", acc, per_channel(epilogue.bias))
    if epilogue.leaky is not None:
        leaky = epilogue.leaky
        t = builder.emit(f"{name}__leak", "add", v, per_channel(leaky.offset))
        for index, (shift, sum_) in enumerate(leaky.steps):
            by = np.full((1, 1, 1, 1), shift, np.int32)
            t = builder.emit(f"{name}__leak{index}", "right_shift", t, by)
            if sum_ is LeakySum.TO_BRANCH:
                t = builder.emit(f"{name}__leak{index}a", "add", t, v)
            elif sum_ is LeakySum.TO_VALUE:
                v = builder.emit(f"{name}__lift{index}", "add", v, t)
        v = builder.emit(f"{name}__leaky", "maximum", v, t)
    v = builder.emit(f"{name}__shifted", "right_shift", v, per_channel(epilogue.shift))
    v = builder.emit(f"{name}__clipped", "clip", v, epilogue.low, epilogue.high)
    return builder.emit(name, "astype", v, dtype="int8")


def _write_resize(builder: ModuleBuilder, layer: Resize) -> str:
    name = layer.name
    v = builder.emit(f"{name}__wide", "astype", layer.input.name, dtype="int32")
    v = builder.emit(f"{name}__rows", "matmul", layer.rows, v)
    v = builder.emit(f"{name}__cols", "matmul", v, np.ascontiguousarray(layer.cols.T))
    if layer.shift:
        half = np.full((1, 1, 1, 1), 1 << (layer.shift - 1), np.int32)
        by = np.full((1, 1, 1, 1), layer.shift, np.int32)
        v = builder.emit(f"{name}__rounded", "add", v, half)
        v = builder.emit(f"{name}__shifted", "right_shift", v, by)
    v = builder.emit(f"{name}__clipped", "clip", v, -128, 127)
    return builder.emit(name, "astype", v, dtype="int8")


def _write_concat(builder: ModuleBuilder, layer: Concat) -> str:
    return builder.emit(layer.name, "concat", [t.name for t in layer.inputs], axis=1)


def write_input_table(
    builder: ModuleBuilder, name: str, frame: str, table: Int8Array | Int16Array
) -> str:
    """Look uint8 ``frame[1, h, w, c]`` up in ``table[c, 256]`` giving a picture [1, c, h, w].

    The table, and so the picture, is int8 or int16.
    """
    channels = table.shape[0]
    offset = per_channel(256 * np.arange(channels, dtype=np.int32))
    v = builder.emit(f"{name}__nchw", "permute_dims", frame, [0, 3, 1, 2])
    v = builder.emit(f"{name}__wide", "astype", v, dtype="int32")
    v = builder.emit(f"{name}__index", "add", v, offset)
    return builder.emit(
        name, "take", np.ascontiguousarray(table.reshape(-1)), v, axis=0, mode="clip"
    )


def write_dequantize(
    builder: ModuleBuilder, name: str, tensor: str, scale: Float32Array, *, reshape: tuple[int, ...]
) -> str:
    """Turn int8[1, c, h, w] into float32 by ``scale: float32[c]`` or one value for all.

    ``reshape`` is the float tensor's shape if it differs; otherwise it is empty.
    """
    wide = builder.emit(f"{name}__wide", "astype", tensor, dtype="float32")
    factor = scale.reshape(1, -1, 1, 1) if scale.size > 1 else scale.reshape(())
    if not reshape:
        return builder.emit(name, "multiply", wide, factor)
    v = builder.emit(f"{name}__float", "multiply", wide, factor)
    return builder.emit(name, "reshape", v, reshape)


def write_quantize(
    builder: ModuleBuilder,
    name: str,
    tensor: str,
    scale: Float32Array,
    *,
    reshape: tuple[int, ...],
    dtype: str = "int8",
) -> str:
    """Turn a float32 tensor into a picture: round half to even of ``x / scale``, clipped.

    ``reshape`` is the shape that first brings the float tensor to four dimensions; empty if it has
    four. ``dtype`` is int8 or int16.
    """
    if reshape:
        tensor = builder.emit(f"{name}__nchw", "reshape", tensor, reshape)
    inverse = (np.float32(1) / scale).astype(np.float32)
    factor = inverse.reshape(1, -1, 1, 1) if inverse.size > 1 else inverse.reshape(())
    v = builder.emit(f"{name}__scaled", "multiply", tensor, factor)
    v = builder.emit(f"{name}__rounded", "round", v)
    limits = np.iinfo(dtype)
    v = builder.emit(f"{name}__clipped", "clip", v, float(limits.min), float(limits.max))
    return builder.emit(name, "astype", v, dtype=dtype)


def write_pick(builder: ModuleBuilder, name: str, tensor: str, channels: tuple[int, ...]) -> str:
    """Pick channels out of a tensor [1, c, h, w] of any type: a slice if they are neighbours."""
    begin, end = channels[0], channels[0] + len(channels)
    if channels == tuple(range(begin, end)):
        return builder.emit(name, "strided_slice", tensor, [1], [begin], [end])
    index = np.array(channels, np.int32)
    return builder.emit(name, "take", tensor, index, axis=1, mode="clip")


def write_table(
    builder: ModuleBuilder, name: str, tensor: str, table: Float32Array | Int8Array | Int32Array
) -> str:
    """Look int8 ``tensor`` up in ``table[c, 256]`` (or [1, 256] for all channels).

    A row's first entry belongs to -128. ``name`` may be that of a part of an operator.
    """
    rows = table.shape[0]
    offset = 128 + 256 * np.arange(rows, dtype=np.int32)
    constant = per_channel(offset) if rows > 1 else np.array(128, np.int32)
    part = f"{name}_" if "__" in name else f"{name}__"
    wide = builder.emit(f"{part}wide", "astype", tensor, dtype="int32")
    index = builder.emit(f"{part}index", "add", wide, constant)
    flat = np.ascontiguousarray(table.reshape(-1))
    return builder.emit(name, "take", flat, index, axis=0, mode="clip")


def per_channel(values: Int32Array) -> Int32Array:
    """Shape int32[c] as the constant int32[1, c, 1, 1] that broadcasts over a picture."""
    return np.ascontiguousarray(values, dtype=np.int32).reshape(1, -1, 1, 1)
