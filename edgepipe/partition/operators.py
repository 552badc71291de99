"""Read integer Relax as operators: layer records for known normal forms, otherwise generic.

A chain of bindings whose inner variables are called ``<operator>__<part>`` is one operator; so is
every other single binding. A chain becomes a layer record when its calls are exactly those of
a normal form (``quantize.normal_forms``), regardless of its names; anything else is ``generic``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.partition.chain import (
    Chain,
    MismatchError,
    Shapes,
    constant,
    per_channel,
    single,
    take_epilogue,
    take_terms,
)
from edgepipe.partition.layout_copies import with_copies
from edgepipe.partition.operator import PART, Operator
from edgepipe.tvm_adapter import Binding, IRModule, Main, read_main
from vta_stages.layers.check import pool_padding
from vta_stages.layers.records import (
    Concat,
    Conv,
    Epilogue,
    Layer,
    MaxPool,
    Pick,
    PixelAffine,
    Product,
    Projection,
    Quotient,
    Resize,
    Sum,
    Table,
    TensorSpec,
    Term,
    TransposedConv,
)


def match_operators(module: IRModule) -> tuple[Operator, ...]:
    """Return the operators of ``main`` in order; every binding belongs to exactly one of them."""
    main = read_main(module)
    shapes = {p.name: (p.shape, p.dtype) for p in main.params}
    shapes |= {b.name: (b.shape, b.dtype) for b in main.bindings}
    return with_copies([_operator(chain, shapes) for chain in _chains(main)])


def _chains(main: Main) -> list[tuple[Binding, ...]]:
    """Group bindings by their names; split a chain whose inner variables are read elsewhere."""
    users = main.users()
    chains: list[tuple[Binding, ...]] = []
    current: list[Binding] = []
    for binding in main.bindings:
        if current and not _belongs(current[-1].name, binding.name):
            chains += [(b,) for b in current]
            current = []
        current.append(binding)
        if PART not in binding.name:
            inside = {b.name for b in current}
            private = all(
                b.name not in main.outputs and users[b.name] and inside.issuperset(users[b.name])
                for b in current[:-1]
            )
            chains += [tuple(current)] if private else [(b,) for b in current]
            current = []
    return chains + [(b,) for b in current]


def _belongs(inner: str, name: str) -> bool:
    return name.partition(PART)[0] == inner.partition(PART)[0]


def _operator(chain: tuple[Binding, ...], shapes: Shapes) -> Operator:
    output = chain[-1].name
    inside = {b.name for b in chain}
    inputs = tuple(dict.fromkeys(i for binding in chain for i in binding.inputs if i not in inside))
    kind, layer = "generic", None
    for candidate, match in _FORMS.items():
        try:
            found = match(Chain(chain, shapes))
        except MismatchError:
            continue
        kind, layer = candidate, found
        break
    return Operator(
        name=output, kind=kind, layer=layer, inputs=inputs, output=output, bindings=chain
    )


def _take_conv2d(chain: Chain, **attributes: Any) -> Binding:
    return chain.take(
        "nn.conv2d",
        out_dtype="int32",
        data_layout="NCHW",
        kernel_layout="OIHW",
        out_layout="NCHW",
        **attributes,
    )


def _projections(chain: Chain) -> tuple[Projection, ...]:
    """Consume 1x1 convolutions that are added to the accumulator, last first."""
    projections: list[Projection] = []
    while chain.next_are("nn.conv2d", "add"):
        added = chain.take("add")
        chain.expect(added.args[1])
        call = _take_conv2d(chain, padding=(0, 0, 0, 0), dilation=(1, 1), groups=1)
        weight = constant(call.args[1], "int8")
        if weight.shape[2:] != (1, 1):
            raise MismatchError
        tensor, stride = chain.spec(call.args[0]), call.attributes["strides"]
        projections.append(Projection(tensor=tensor, weight=weight[:, :, 0, 0], stride=stride))
        chain.expect(added.args[0])
    return tuple(reversed(projections))


def _conv(chain: Chain) -> Layer:
    tail = _convolution_tail(chain)
    projections = _projections(chain)
    call = _take_conv2d(chain)
    dilation = call.attributes["dilation"]
    make = partial(Conv, dilation=dilation, projections=projections)
    return _convolution(make, chain, call, tail)


def _transposed_conv(chain: Chain) -> Layer:
    tail = _convolution_tail(chain)
    call = chain.take(
        "nn.conv2d_transpose", out_dtype="int32", data_layout="NCHW", kernel_layout="IOHW"
    )
    if call.attributes["dilation"] != (1, 1):
        raise MismatchError
    return _convolution(TransposedConv, chain, call, tail)


def _convolution_tail(chain: Chain) -> tuple[Epilogue, tuple[Term, ...]]:
    channels = chain.spec(chain.output).channels
    return take_epilogue(chain, channels), take_terms(chain, channels, to_start=False)


def _convolution(
    make: Callable[..., Conv | TransposedConv],
    chain: Chain,
    call: Binding,
    tail: tuple[Epilogue, tuple[Term, ...]],
) -> Layer:
    """Return the record of the convolution that the chain begins with."""
    chain.end()
    epilogue, terms = tail
    return make(
        name=chain.output,
        input=chain.spec(call.args[0]),
        output=chain.spec(chain.output),
        weight=constant(call.args[1], "int8"),
        epilogue=epilogue,
        stride=call.attributes["strides"],
        padding=call.attributes["padding"],
        groups=call.attributes["groups"],
        terms=terms,
    )


def _sum(chain: Chain) -> Layer:
    output = chain.spec(chain.output)
    epilogue = take_epilogue(chain, output.channels)
    terms = take_terms(chain, output.channels, to_start=True)
    chain.end()
    return Sum(name=chain.output, output=output, terms=terms, epilogue=epilogue)


def _product(chain: Chain) -> Layer:
    output = chain.spec(chain.output)
    epilogue = take_epilogue(chain, output.channels)
    terms = take_terms(chain, output.channels, to_start=False)
    scaled = chain.take("multiply")
    factor = per_channel(scaled.args[1], output.channels)
    chain.expect(scaled.args[0])
    first, second = chain.take("multiply").args
    sources = []
    for argument in (second, first):
        chain.expect(argument)
        sources.append(chain.spec(chain.take("astype", dtype="int32").args[0]))
    chain.end()
    return Product(
        name=chain.output,
        first=sources[1],
        second=sources[0],
        output=output,
        factor=factor,
        epilogue=epilogue,
        terms=terms,
    )


def _quotient(chain: Chain) -> Layer:
    output = chain.spec(chain.output)
    epilogue = take_epilogue(chain, output.channels)
    terms = take_terms(chain, output.channels, to_start=False)
    first, inverse = chain.take("multiply").args
    chain.expect(inverse)
    second, table = _looked_up(chain, "int32", output.channels)
    chain.expect(first)
    wide = chain.take("astype", dtype="int32")
    chain.end()
    return Quotient(
        name=chain.output,
        first=chain.spec(wide.args[0]),
        second=second,
        output=output,
        table=table,
        epilogue=epilogue,
        terms=terms,
    )


def _pixel_affine(chain: Chain) -> Layer:
    output = chain.spec(chain.output)
    epilogue = take_epilogue(chain, output.channels)
    added = chain.take("add")
    chain.expect(added.args[0])
    scaled = chain.take("multiply")
    chain.expect(scaled.args[0])
    wide = chain.take("astype", dtype="int32")
    chain.end()
    factor, bias = (constant(call.args[1], "int32") for call in (scaled, added))
    if factor.ndim != 4 or bias.ndim != 4:
        raise MismatchError
    return PixelAffine(
        name=chain.output,
        input=chain.spec(wide.args[0]),
        output=output,
        factor=factor,
        bias=bias,
        epilogue=epilogue,
    )


def _table(chain: Chain) -> Layer:
    output = chain.spec(chain.output)
    source, table = _looked_up(chain, "int8", output.channels)
    chain.end()
    return Table(name=chain.output, input=source, output=output, table=table)


def _looked_up(chain: Chain, dtype: str, channels: int) -> tuple[TensorSpec, NDArray[Any]]:
    """Consume a look-up; return the picture, and the table [channels or 1, 256] of ``dtype``."""
    take = chain.take("take", axis=0)
    table = constant(take.args[0], dtype)
    chain.expect(take.args[1])
    index = chain.take("add")
    if table.ndim != 1 or table.size not in (256, 256 * channels):
        raise MismatchError
    rows = table.reshape(-1, 256)
    offset = constant(index.args[1], "int32").reshape(-1)
    if not np.array_equal(offset, 128 + 256 * np.arange(len(rows))):
        raise MismatchError
    chain.expect(index.args[0])
    return chain.spec(chain.take("astype", dtype="int32").args[0]), rows


def _pick(chain: Chain) -> Layer:
    is_slice = chain.next_is("strided_slice")
    call = chain.take("strided_slice") if is_slice else chain.take("take", axis=1)
    chain.end()
    source, output = chain.spec(call.args[0]), chain.spec(chain.output)
    if is_slice:
        channels = _sliced(call, output.channels)
    else:
        channels = tuple(int(c) for c in constant(call.args[1], "int32"))
    if len(channels) != output.channels or not set(channels) <= set(range(source.channels)):
        raise MismatchError
    return Pick(name=chain.output, input=source, output=output, channels=channels)


def _sliced(call: Binding, count: int) -> tuple[int, ...]:
    """Return the channels of a slice along them."""
    axes, begin, end, *steps = call.args[1:]
    if axes != (1,) or not isinstance(begin, tuple) or steps:
        raise MismatchError
    first = begin[0]
    if not isinstance(first, int) or end != (first + count,):
        raise MismatchError
    return tuple(range(first, first + count))


def _max_pool(chain: Chain) -> Layer:
    call = chain.take("nn.max_pool2d", layout="NCHW", out_layout="NCHW", dilation=(1, 1))
    chain.end()
    source, output = chain.spec(call.args[0]), chain.spec(chain.output)
    kernel, stride = call.attributes["pool_size"], call.attributes["strides"]
    sizes = ((source.height, output.height), (source.width, output.width))
    return MaxPool(
        name=chain.output,
        input=source,
        output=output,
        kernel=kernel,
        stride=stride,
        padding=pool_padding(call.attributes["padding"], sizes, kernel, stride),
    )


def _resize(chain: Chain) -> Layer:
    cast = chain.take("astype", dtype="int8")
    chain.expect(cast.args[0])
    clip = chain.take("clip")
    if clip.args[1:] != (-128, 127):
        raise MismatchError
    chain.expect(clip.args[0])
    shift = 0
    if chain.next_is("right_shift"):
        shifted = chain.take("right_shift")
        shift = single(shifted.args[1])
        chain.expect(shifted.args[0])
        rounded = chain.take("add")
        if shift < 1 or single(rounded.args[1]) != 1 << (shift - 1):
            raise MismatchError
        chain.expect(rounded.args[0])
    by_cols = chain.take("matmul")
    chain.expect(by_cols.args[0])
    by_rows = chain.take("matmul")
    chain.expect(by_rows.args[1])
    wide = chain.take("astype", dtype="int32")
    chain.end()
    rows, cols = constant(by_rows.args[0], "int32"), constant(by_cols.args[1], "int32")
    if rows.ndim != 2 or cols.ndim != 2:
        raise MismatchError
    return Resize(
        name=chain.output,
        input=chain.spec(wide.args[0]),
        output=chain.spec(chain.output),
        rows=rows,
        cols=np.ascontiguousarray(cols.T),
        shift=shift,
    )


def _concat(chain: Chain) -> Layer:
    call = chain.take("concat", axis=1)
    chain.end()
    parts = call.args[0]
    if not isinstance(parts, tuple):
        raise MismatchError
    return Concat(
        name=chain.output,
        inputs=tuple(chain.spec(part) for part in parts),
        output=chain.spec(chain.output),
    )


def _input_table(chain: Chain) -> None:
    take = chain.take("take", axis=0)
    table = constant(take.args[0], "int8")
    chain.expect(take.args[1])
    index = chain.take("add")
    channels = chain.spec(chain.output).channels
    if not np.array_equal(per_channel(index.args[1], channels), 256 * np.arange(channels)):
        raise MismatchError
    chain.expect(index.args[0])
    wide = chain.take("astype", dtype="int32")
    chain.expect(wide.args[0])
    turned = chain.take("permute_dims", axes=(0, 3, 1, 2))
    chain.end()
    if table.shape != (256 * channels,) or turned.dtype != "uint8":
        raise MismatchError


_FORMS: dict[str, Callable[[Chain], Layer | None]] = {
    "conv": _conv,
    "transposed_conv": _transposed_conv,
    "sum": _sum,
    "product": _product,
    "quotient": _quotient,
    "pixel_affine": _pixel_affine,
    "table": _table,
    "pick": _pick,
    "max_pool": _max_pool,
    "resize": _resize,
    "concat": _concat,
    "input_table": _input_table,
}


def input_table(operator: Operator) -> NDArray[np.int8]:
    """Return the table int8[channels, 256] of an operator of kind ``input_table``."""
    table = operator.bindings[-1].args[0]
    if operator.kind != "input_table" or not isinstance(table, np.ndarray):
        raise ValueError(f"{operator.name}: is {operator.kind}, expected input_table")
    return table.reshape(-1, 256)
