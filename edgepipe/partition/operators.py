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

from edgepipe.partition.operator import Operator
from edgepipe.tvm_adapter import Binding, IRModule, Main, read_main
from vta_stages.layers.check import pool_padding
from vta_stages.layers.records import (
    Concat,
    Conv,
    Epilogue,
    Layer,
    Leaky,
    LeakySum,
    MaxPool,
    Pick,
    Product,
    Projection,
    Resize,
    Sum,
    Table,
    TensorSpec,
    Term,
    TransposedConv,
)

PART = "__"


def match_operators(module: IRModule) -> tuple[Operator, ...]:
    """Return the operators of ``main`` in order; every binding belongs to exactly one of them."""
    main = read_main(module)
    shapes = {p.name: (p.shape, p.dtype) for p in main.params}
    shapes |= {b.name: (b.shape, b.dtype) for b in main.bindings}
    return tuple(_operator(chain, shapes) for chain in _chains(main))


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


Shapes = dict[str, tuple[tuple[int, ...], str]]


def _operator(chain: tuple[Binding, ...], shapes: Shapes) -> Operator:
    output = chain[-1].name
    inside = {b.name for b in chain}
    inputs = tuple(dict.fromkeys(i for binding in chain for i in binding.inputs if i not in inside))
    kind, layer = "generic", None
    for candidate, match in _FORMS.items():
        try:
            found = match(_Chain(chain, shapes))
        except _MismatchError:
            continue
        kind, layer = candidate, found
        break
    return Operator(
        name=output, kind=kind, layer=layer, inputs=inputs, output=output, bindings=chain
    )


class _MismatchError(Exception):
    """The chain is not of the form being tried."""


class _Chain:
    """A cursor over a chain's bindings, from the last to the first."""

    def __init__(self, chain: tuple[Binding, ...], shapes: Shapes) -> None:
        self._left = list(chain)
        self._shapes = shapes
        self.output = chain[-1].name

    def take(self, op: str, **attributes: Any) -> Binding:
        """Consume the last remaining binding, which must be ``op`` with the given attributes."""
        if not self._left or self._left[-1].op != op:
            raise _MismatchError
        binding = self._left.pop()
        if any(binding.attributes.get(key) != value for key, value in attributes.items()):
            raise _MismatchError
        return binding

    def next_is(self, op: str) -> bool:
        return bool(self._left) and self._left[-1].op == op

    def next_are(self, *ops: str) -> bool:
        """Return whether the last remaining bindings, in order, are these operators."""
        return tuple(binding.op for binding in self._left[-len(ops) :]) == ops

    def peek(self) -> Binding:
        """Return the last remaining binding; there must be one."""
        return self._left[-1]

    def expect(self, argument: object) -> None:
        """Require ``argument`` to be the variable of the last remaining binding."""
        if not self._left or not isinstance(argument, str) or argument != self._left[-1].name:
            raise _MismatchError

    def end(self) -> None:
        if self._left:
            raise _MismatchError

    def spec(self, name: object) -> TensorSpec:
        """Return the int8 picture ``name`` as a record."""
        shape, dtype = self._shapes.get(name, ((), "")) if isinstance(name, str) else ((), "")
        if dtype != "int8" or len(shape) != 4 or shape[0] != 1:
            raise _MismatchError
        return TensorSpec(name=str(name), channels=shape[1], height=shape[2], width=shape[3])


def _constant(argument: object, dtype: str) -> NDArray[Any]:
    if not isinstance(argument, np.ndarray) or str(argument.dtype) != dtype:
        raise _MismatchError
    return argument


def _per_channel(argument: object, channels: int) -> NDArray[np.int32]:
    """Return an int32 constant, one value per channel or one for all, as int32[channels]."""
    array = _constant(argument, "int32")
    if array.size == 1:
        return np.full(channels, array.reshape(-1)[0], np.int32)
    if array.shape not in ((1, channels, 1, 1), (channels, 1, 1)):
        raise _MismatchError
    return array.reshape(channels)


def _single(argument: object) -> int:
    array = _constant(argument, "int32")
    if array.size != 1:
        raise _MismatchError
    return int(array.reshape(-1)[0])


def _epilogue(chain: _Chain, channels: int) -> Epilogue:
    """Consume cast, clip, shift, [leaky] and bias; the accumulator remains."""
    cast = chain.take("astype", dtype="int8")
    chain.expect(cast.args[0])
    clip = chain.take("clip")
    low, high = clip.args[1], clip.args[2]
    if not isinstance(low, int) or not isinstance(high, int) or not -128 <= low <= high <= 127:
        raise _MismatchError
    chain.expect(clip.args[0])
    shifted = chain.take("right_shift")
    shift = _per_channel(shifted.args[1], channels)
    chain.expect(shifted.args[0])
    leaky = _leaky(chain, channels) if chain.next_is("maximum") else None
    biased = chain.take("add")
    bias = _per_channel(biased.args[1], channels)
    chain.expect(biased.args[0])
    return Epilogue(bias=bias, shift=shift, low=low, high=high, leaky=leaky)


def _leaky(chain: _Chain, channels: int) -> Leaky:
    maximum = chain.take("maximum")
    v, t = maximum.args
    steps: list[tuple[int, LeakySum]] = []
    while True:
        sum_ = LeakySum.NOTHING
        if chain.next_is("add"):
            if steps and (offset := _leaky_offset(chain, v, t)) is not None:
                chain.expect(v)
                steps.reverse()
                return Leaky(offset=_per_channel(offset, channels), steps=tuple(steps))
            added = chain.take("add")
            if added.name == t and added.args[1] == v:
                t, sum_ = added.args[0], LeakySum.TO_BRANCH
            elif added.name == v and added.args[1] == t:
                v, sum_ = added.args[0], LeakySum.TO_VALUE
            else:
                raise _MismatchError
        chain.expect(t)
        shifted = chain.take("right_shift")
        t = shifted.args[0]
        steps.append((_single(shifted.args[1]), sum_))


def _leaky_offset(chain: _Chain, v: object, t: object) -> object:
    """Consume the addition that starts the branch ``t`` and return its constant, if it is next."""
    added = chain.peek()
    if added.name != t or added.args[0] != v or not isinstance(added.args[1], np.ndarray):
        return None
    return chain.take("add").args[1]


def _terms(chain: _Chain, channels: int, *, to_start: bool) -> tuple[Term, ...]:
    """Consume residual terms, last first; a sum's first term has no accumulator to be added to."""
    terms: list[Term] = []
    while chain.next_are("multiply", "add"):
        added = chain.take("add")
        chain.expect(added.args[1])
        terms.append(_term(chain, channels))
        chain.expect(added.args[0])
    if to_start:
        terms.append(_term(chain, channels))
    return tuple(reversed(terms))


def _term(chain: _Chain, channels: int) -> Term:
    product = chain.take("multiply")
    factor = _per_channel(product.args[1], channels)
    chain.expect(product.args[0])
    tensor = chain.spec(chain.take("astype", dtype="int32").args[0])
    if tensor.channels != channels:
        raise _MismatchError
    return Term(tensor=tensor, factor=factor)


def _take_conv2d(chain: _Chain, **attributes: Any) -> Binding:
    return chain.take(
        "nn.conv2d",
        out_dtype="int32",
        data_layout="NCHW",
        kernel_layout="OIHW",
        out_layout="NCHW",
        **attributes,
    )


def _projections(chain: _Chain) -> tuple[Projection, ...]:
    """Consume 1x1 convolutions that are added to the accumulator, last first."""
    projections: list[Projection] = []
    while chain.next_are("nn.conv2d", "add"):
        added = chain.take("add")
        chain.expect(added.args[1])
        call = _take_conv2d(chain, padding=(0, 0, 0, 0), dilation=(1, 1), groups=1)
        weight = _constant(call.args[1], "int8")
        if weight.shape[2:] != (1, 1):
            raise _MismatchError
        tensor, stride = chain.spec(call.args[0]), call.attributes["strides"]
        projections.append(Projection(tensor=tensor, weight=weight[:, :, 0, 0], stride=stride))
        chain.expect(added.args[0])
    return tuple(reversed(projections))


def _conv(chain: _Chain) -> Layer:
    tail = _convolution_tail(chain)
    projections = _projections(chain)
    call = _take_conv2d(chain)
    dilation = call.attributes["dilation"]
    make = partial(Conv, dilation=dilation, projections=projections)
    return _convolution(make, chain, call, tail)


def _transposed_conv(chain: _Chain) -> Layer:
    tail = _convolution_tail(chain)
    call = chain.take(
        "nn.conv2d_transpose", out_dtype="int32", data_layout="NCHW", kernel_layout="IOHW"
    )
    if call.attributes["dilation"] != (1, 1):
        raise _MismatchError
    return _convolution(TransposedConv, chain, call, tail)


def _convolution_tail(chain: _Chain) -> tuple[Epilogue, tuple[Term, ...]]:
    channels = chain.spec(chain.output).channels
    return _epilogue(chain, channels), _terms(chain, channels, to_start=False)


def _convolution(
    make: Callable[..., Conv | TransposedConv],
    chain: _Chain,
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
        weight=_constant(call.args[1], "int8"),
        epilogue=epilogue,
        stride=call.attributes["strides"],
        padding=call.attributes["padding"],
        groups=call.attributes["groups"],
        terms=terms,
    )


def _sum(chain: _Chain) -> Layer:
    output = chain.spec(chain.output)
    epilogue = _epilogue(chain, output.channels)
    terms = _terms(chain, output.channels, to_start=True)
    chain.end()
    return Sum(name=chain.output, output=output, terms=terms, epilogue=epilogue)


def _product(chain: _Chain) -> Layer:
    output = chain.spec(chain.output)
    epilogue = _epilogue(chain, output.channels)
    terms = _terms(chain, output.channels, to_start=False)
    scaled = chain.take("multiply")
    factor = _per_channel(scaled.args[1], output.channels)
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


def _table(chain: _Chain) -> Layer:
    take = chain.take("take", axis=0)
    table = _constant(take.args[0], "int8")
    chain.expect(take.args[1])
    index = chain.take("add")
    output = chain.spec(chain.output)
    if table.ndim != 1 or table.size not in (256, 256 * output.channels):
        raise _MismatchError
    rows = table.reshape(-1, 256)
    offset = _constant(index.args[1], "int32").reshape(-1)
    if not np.array_equal(offset, 128 + 256 * np.arange(len(rows))):
        raise _MismatchError
    chain.expect(index.args[0])
    source = chain.spec(chain.take("astype", dtype="int32").args[0])
    chain.end()
    return Table(name=chain.output, input=source, output=output, table=rows)


def _pick(chain: _Chain) -> Layer:
    is_slice = chain.next_is("strided_slice")
    call = chain.take("strided_slice") if is_slice else chain.take("take", axis=1)
    chain.end()
    source, output = chain.spec(call.args[0]), chain.spec(chain.output)
    if is_slice:
        channels = _sliced(call, output.channels)
    else:
        channels = tuple(int(c) for c in _constant(call.args[1], "int32"))
    if len(channels) != output.channels or not set(channels) <= set(range(source.channels)):
        raise _MismatchError
    return Pick(name=chain.output, input=source, output=output, channels=channels)


def _sliced(call: Binding, count: int) -> tuple[int, ...]:
    """Return the channels of a slice along them."""
    axes, begin, end, *steps = call.args[1:]
    if axes != (1,) or not isinstance(begin, tuple) or steps:
        raise _MismatchError
    first = begin[0]
    if not isinstance(first, int) or end != (first + count,):
        raise _MismatchError
    return tuple(range(first, first + count))


def _max_pool(chain: _Chain) -> Layer:
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


def _resize(chain: _Chain) -> Layer:
    cast = chain.take("astype", dtype="int8")
    chain.expect(cast.args[0])
    clip = chain.take("clip")
    if clip.args[1:] != (-128, 127):
        raise _MismatchError
    chain.expect(clip.args[0])
    shift = 0
    if chain.next_is("right_shift"):
        shifted = chain.take("right_shift")
        shift = _single(shifted.args[1])
        chain.expect(shifted.args[0])
        rounded = chain.take("add")
        if shift < 1 or _single(rounded.args[1]) != 1 << (shift - 1):
            raise _MismatchError
        chain.expect(rounded.args[0])
    by_cols = chain.take("matmul")
    chain.expect(by_cols.args[0])
    by_rows = chain.take("matmul")
    chain.expect(by_rows.args[1])
    wide = chain.take("astype", dtype="int32")
    chain.end()
    rows, cols = _constant(by_rows.args[0], "int32"), _constant(by_cols.args[1], "int32")
    if rows.ndim != 2 or cols.ndim != 2:
        raise _MismatchError
    return Resize(
        name=chain.output,
        input=chain.spec(wide.args[0]),
        output=chain.spec(chain.output),
        rows=rows,
        cols=np.ascontiguousarray(cols.T),
        shift=shift,
    )


def _concat(chain: _Chain) -> Layer:
    call = chain.take("concat", axis=1)
    chain.end()
    parts = call.args[0]
    if not isinstance(parts, tuple):
        raise _MismatchError
    return Concat(
        name=chain.output,
        inputs=tuple(chain.spec(part) for part in parts),
        output=chain.spec(chain.output),
    )


def _input_table(chain: _Chain) -> None:
    take = chain.take("take", axis=0)
    table = _constant(take.args[0], "int8")
    chain.expect(take.args[1])
    index = chain.take("add")
    channels = chain.spec(chain.output).channels
    if not np.array_equal(_per_channel(index.args[1], channels), 256 * np.arange(channels)):
        raise _MismatchError
    chain.expect(index.args[0])
    wide = chain.take("astype", dtype="int32")
    chain.expect(wide.args[0])
    turned = chain.take("permute_dims", axes=(0, 3, 1, 2))
    chain.end()
    if table.shape != (256 * channels,) or turned.dtype != "uint8":
        raise _MismatchError


_FORMS: dict[str, Callable[[_Chain], Layer | None]] = {
    "conv": _conv,
    "transposed_conv": _transposed_conv,
    "sum": _sum,
    "product": _product,
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
