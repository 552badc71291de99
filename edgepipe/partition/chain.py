"""A cursor over the bindings of one operator, and the parts that several normal forms share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.tvm_adapter import Binding
from vta_stages.layers.records import Epilogue, Leaky, LeakySum, TensorSpec, Term

Shapes = dict[str, tuple[tuple[int, ...], str]]


class MismatchError(Exception):
    """The chain is not of the form being tried."""


class Chain:
    """A cursor over a chain's bindings, from the last to the first."""

    def __init__(self, chain: tuple[Binding, ...], shapes: Shapes) -> None:
        self._left = list(chain)
        self._shapes = shapes
        self.output = chain[-1].name

    def take(self, op: str, **attributes: Any) -> Binding:
        """Consume the last remaining binding, which must be ``op`` with the given attributes."""
        if not self._left or self._left[-1].op != op:
            raise MismatchError
        binding = self._left.pop()
        if any(binding.attributes.get(key) != value for key, value in attributes.items()):
            raise MismatchError
        return binding

    def next_is(self, op: str) -> bool:
        """Return whether the last remaining binding is this operator."""
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
            raise MismatchError

    def end(self) -> None:
        """Require that no binding remains."""
        if self._left:
            raise MismatchError

    def spec(self, name: object) -> TensorSpec:
        """Return the int8 picture ``name`` as a record."""
        shape, dtype = self._shapes.get(name, ((), "")) if isinstance(name, str) else ((), "")
        if dtype != "int8" or len(shape) != 4 or shape[0] != 1:
            raise MismatchError
        return TensorSpec(name=str(name), channels=shape[1], height=shape[2], width=shape[3])


def constant(argument: object, dtype: str) -> NDArray[Any]:
    """Return a constant of any shape, dtype[...], whose dtype must be this one."""
    if not isinstance(argument, np.ndarray) or str(argument.dtype) != dtype:
        raise MismatchError
    return argument


def per_channel(argument: object, channels: int) -> NDArray[np.int32]:
    """Return an int32 constant, one value per channel or one for all, as int32[channels]."""
    array = constant(argument, "int32")
    if array.size == 1:
        return np.full(channels, array.reshape(-1)[0], np.int32)
    if array.shape not in ((1, channels, 1, 1), (channels, 1, 1)):
        raise MismatchError
    return array.reshape(channels)


def single(argument: object) -> int:
    """Return the value of an int32 constant that must have only one."""
    array = constant(argument, "int32")
    if array.size != 1:
        raise MismatchError
    return int(array.reshape(-1)[0])


def take_epilogue(chain: Chain, channels: int) -> Epilogue:
    """Consume cast, clip, shift, [leaky] and bias; the accumulator remains."""
    cast = chain.take("astype", dtype="int8")
    chain.expect(cast.args[0])
    clip = chain.take("clip")
    low, high = clip.args[1], clip.args[2]
    if not isinstance(low, int) or not isinstance(high, int) or not -128 <= low <= high <= 127:
        raise MismatchError
    chain.expect(clip.args[0])
    shifted = chain.take("right_shift")
    shift = per_channel(shifted.args[1], channels)
    chain.expect(shifted.args[0])
    leaky = _leaky(chain, channels) if chain.next_is("maximum") else None
    biased = chain.take("add")
    bias = per_channel(biased.args[1], channels)
    chain.expect(biased.args[0])
    return Epilogue(bias=bias, shift=shift, low=low, high=high, leaky=leaky)


def _leaky(chain: Chain, channels: int) -> Leaky:
    maximum = chain.take("maximum")
    v, t = maximum.args
    steps: list[tuple[int, LeakySum]] = []
    while True:
        sum_ = LeakySum.NOTHING
        if chain.next_is("add"):
            if steps and (offset := _leaky_offset(chain, v, t)) is not None:
                chain.expect(v)
                steps.reverse()
                return Leaky(offset=per_channel(offset, channels), steps=tuple(steps))
            added = chain.take("add")
            if added.name == t and added.args[1] == v:
                t, sum_ = added.args[0], LeakySum.TO_BRANCH
            elif added.name == v and added.args[1] == t:
                v, sum_ = added.args[0], LeakySum.TO_VALUE
            else:
                raise MismatchError
        chain.expect(t)
        shifted = chain.take("right_shift")
        t = shifted.args[0]
        steps.append((single(shifted.args[1]), sum_))


def _leaky_offset(chain: Chain, v: object, t: object) -> object:
    """Consume the addition that starts the branch ``t`` and return its constant, if it is next."""
    added = chain.peek()
    if added.name != t or added.args[0] != v or not isinstance(added.args[1], np.ndarray):
        return None
    return chain.take("add").args[1]


def take_terms(chain: Chain, channels: int, *, to_start: bool) -> tuple[Term, ...]:
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


def _term(chain: Chain, channels: int) -> Term:
    product = chain.take("multiply")
    factor = per_channel(product.args[1], channels)
    chain.expect(product.args[0])
    tensor = chain.spec(chain.take("astype", dtype="int32").args[0])
    if tensor.channels != channels:
        raise MismatchError
    return Term(tensor=tensor, factor=factor)
