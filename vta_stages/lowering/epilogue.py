"""The vector operations after the products: bias, leaky ReLU, shift and clip.

Every pass of the vector unit costs two cycles per accumulator entry. Therefore the bounds of the
accumulator are tracked per channel, and clips that can never take effect are left out. An
accelerator with the extension REQUANTISE does bias, shift and clips in one pass, with LEAKY a
leaky ReLU.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator, Extension
from vta_stages.isa.instructions import (
    LONGEST_LEAKY_SHIFT,
    LONGEST_REQUANTISE_SHIFT,
    REQUANTISE_CONSTANT_BITS,
    AluOp,
    leaky_immediate,
    requantise_bounds,
    requantise_immediate,
    requantise_operand,
)
from vta_stages.isa.layout import channel_blocks
from vta_stages.layers.records import Epilogue, Int32Array, Leaky, LeakySum
from vta_stages.lowering.bias_weights import largest_bias
from vta_stages.lowering.kernel import (
    Accumulator,
    AddBias,
    Combine,
    Immediate,
    Reset,
    Step,
    Vector,
)

IMMEDIATE_MAX = (1 << 15) - 1
"""The largest immediate of an ALU instruction."""

LONGEST_SHIFT = 15
"""The longest right shift of one SHR."""

_INT32 = (-(1 << 31), (1 << 31) - 1)

Bounds = NDArray[np.int64]


class EpilogueBuilder:
    """Collects the vectors and biases of one kernel and tracks the range of its accumulator.

    Use it once: call :meth:`widen` and :meth:`shift_left` while products are added, then
    :meth:`epilogue` or :meth:`requantise`, then :meth:`vectors` and :meth:`biases`.
    """

    def __init__(self, accelerator: Accelerator, channels: int) -> None:
        self._channels = channels
        self.shifts_left = accelerator.shifts_left
        self._lanes = channel_blocks(accelerator, channels) * accelerator.block_out
        self._low: Bounds = np.zeros(channels, np.int64)
        self._high: Bounds = np.zeros(channels, np.int64)
        self._vectors: list[Int32Array] = []
        self._biases: list[Int32Array] = []
        self._requantises = accelerator.has(Extension.REQUANTISE)
        self._leaks = accelerator.has(Extension.LEAKY)
        self._largest = largest_bias(accelerator.block_out)
        # The weights of biases stay in the weight buffer and may take a small part of it.
        blocks = self._lanes // accelerator.block_out
        self._most_biases = accelerator.wgt_depth // 8 // blocks

    def widen(self, low: Bounds, high: Bounds) -> None:
        """Record that a value between ``low`` and ``high``, int64[channels] each, is added."""
        self._set(self._low + low, self._high + high)

    def shift_left(self, distance: Bounds) -> list[Step]:
        """Return the steps that shift the accumulator left by int64[channels] bits, 0 to 16."""
        self._set(self._low << distance, self._high << distance)
        if (distance == distance[0]).all():
            return [Immediate(AluOp.SHR, Accumulator.MAIN, -int(distance[0]))]
        vector = self._index(self._vectors, (-distance).astype(np.int32))
        return [Vector(AluOp.SHR, Accumulator.MAIN, vector)]

    def vectors(self) -> Int32Array:
        """Return the operands of the vector operations, int32[n, co_blocks * block]."""
        return np.array(self._vectors, np.int32).reshape(-1, self._lanes)

    def biases(self) -> Int32Array:
        """Return the biases, int32[n, co_blocks * block]."""
        return np.array(self._biases, np.int32).reshape(-1, self._lanes)

    def epilogue(self, epilogue: Epilogue) -> list[Step]:
        """Return the steps of an epilogue."""
        steps: list[Step] = []
        bias = epilogue.bias
        if epilogue.leaky is not None:
            steps += self._add_bias(bias)
            steps += self._leaky(epilogue.leaky)
            bias = np.zeros_like(bias)
        before = self._low, self._high, len(self._vectors), len(self._biases)
        passes = self._add_bias(bias)
        passes += self._shift(epilogue.shift)
        passes += self._clip(epilogue.low, epilogue.high)
        if len(passes) > 1 and self._requantises and _fits_requantise(bias, epilogue.shift):
            self._low, self._high, vectors, biases = before
            del self._vectors[vectors:], self._biases[biases:]
            passes = [self._requantise_at_once(bias, epilogue)]
        return steps + passes

    def requantise(self, bias: int, shift: int, low: int, high: int) -> list[Step]:
        """Return the steps of an epilogue with the same values for every channel."""
        return self.epilogue(
            Epilogue(
                bias=np.full(self._channels, bias, np.int32),
                shift=np.full(self._channels, shift, np.int32),
                low=low,
                high=high,
            )
        )

    def _requantise_at_once(self, bias: Int32Array, epilogue: Epilogue) -> Step:
        """Return the pass that adds a bias, shifts and clips."""
        shift, low, high = epilogue.shift, epilogue.low, epilogue.high
        operation, main = AluOp.REQUANTISE, Accumulator.MAIN
        self.widen(bias.astype(np.int64), bias.astype(np.int64))
        self._low, self._high = self._low >> shift, self._high >> shift
        self._set(np.clip(self._low, low, high), np.clip(self._high, low, high))
        distance = int(shift[0])
        if not bias.any() and (shift == distance).all() and not low & LONGEST_REQUANTISE_SHIFT:
            return Immediate(operation, main, requantise_immediate(distance, low, high))
        vector = self._index(self._vectors, requantise_operand(bias, shift))
        return Vector(operation, main, vector, requantise_bounds(low, high))

    def _add_bias(self, bias: Int32Array) -> list[Step]:
        steps = self._add(Accumulator.MAIN, bias)
        self.widen(bias.astype(np.int64), bias.astype(np.int64))
        return steps

    def _set(self, low: Bounds, high: Bounds) -> None:
        # A sum that may wrap can have any value. It is still exact, but its bounds are unknown.
        wraps = (low < _INT32[0]) | (high > _INT32[1])
        self._low = np.where(wraps, _INT32[0], low)
        self._high = np.where(wraps, _INT32[1], high)

    def _index(self, known: list[Int32Array], values: Int32Array) -> int:
        padded = np.zeros(self._lanes, np.int32)
        padded[: self._channels] = values
        for index, other in enumerate(known):
            if np.array_equal(other, padded):
                return index
        known.append(padded)
        return len(known) - 1

    def _add(self, target: Accumulator, values: Int32Array) -> list[Step]:
        if not values.any():
            return []
        fits = max(int(values.max()), -int(values.min())) <= self._largest
        if fits and len(self._biases) < self._most_biases:
            return [AddBias(target, self._index(self._biases, values))]
        first = int(values[0])
        if (values == first).all() and abs(first) <= IMMEDIATE_MAX:
            return [Immediate(AluOp.ADD, target, first)]
        return [Vector(AluOp.ADD, target, self._index(self._vectors, values))]

    def _leaky(self, leaky: Leaky) -> list[Step]:
        main, temp = Accumulator.MAIN, Accumulator.TEMP
        immediate = _leaky_at_once(leaky) if self._leaks else None
        if immediate is not None:
            self._set(*_leaky_bounds(leaky, self._low, self._high))
            if not leaky.offset.any():
                return [Immediate(AluOp.LEAKY, main, immediate)]
            vector = self._index(self._vectors, leaky.offset)
            return [Vector(AluOp.LEAKY, main, vector, immediate)]
        steps: list[Step] = [Reset(temp), Combine(AluOp.ADD, temp, main)]
        steps += self._add(temp, leaky.offset)
        for shift, sum_ in leaky.steps:
            steps += [Immediate(AluOp.SHR, temp, part) for part in split_shift(shift)]
            if sum_ is not LeakySum.NOTHING:
                pair = (main, temp) if sum_ is LeakySum.TO_VALUE else (temp, main)
                steps.append(Combine(AluOp.ADD, *pair))
        # A leaky ReLU is monotonic, so its bounds are its values at the bounds.
        self._set(*_leaky_bounds(leaky, self._low, self._high))
        return [*steps, Combine(AluOp.MAX, main, temp)]

    def _shift(self, shift: Int32Array) -> list[Step]:
        self._low, self._high = self._low >> shift, self._high >> shift
        if (shift == shift[0]).all():
            return [
                Immediate(AluOp.SHR, Accumulator.MAIN, part) for part in split_shift(int(shift[0]))
            ]
        steps: list[Step] = []
        while shift.any():
            part = np.minimum(shift, LONGEST_SHIFT)
            vector = self._index(self._vectors, part.astype(np.int32))
            steps.append(Vector(AluOp.SHR, Accumulator.MAIN, vector))
            shift = shift - part
        return steps

    def _clip(self, low: int, high: int) -> list[Step]:
        steps: list[Step] = []
        if self._low.min() < low:
            steps.append(Immediate(AluOp.MAX, Accumulator.MAIN, low))
        if self._high.max() > high:
            steps.append(Immediate(AluOp.MIN, Accumulator.MAIN, high))
        return steps


def _fits_requantise(bias: Int32Array, shift: Int32Array) -> bool:
    most = 1 << (REQUANTISE_CONSTANT_BITS - 1)
    fits = (bias >= -most) & (bias < most) & (shift <= LONGEST_REQUANTISE_SHIFT)
    return bool(fits.all())


def _leaky_at_once(leaky: Leaky) -> int | None:
    """Return the immediate of one LEAKY that does these steps; None if there is none."""
    match leaky.steps:
        case ((shift, LeakySum.NOTHING),):
            first, adds = min(shift, LONGEST_LEAKY_SHIFT), False
            second = shift - first
        case ((first, LeakySum.TO_VALUE), (second, LeakySum.NOTHING)):
            adds = True
        case _:
            return None
    if max(first, second) > LONGEST_LEAKY_SHIFT:
        return None
    return leaky_immediate(first, second, adds=adds)


def _leaky_bounds(leaky: Leaky, low: Bounds, high: Bounds) -> tuple[Bounds, Bounds]:
    """Return a leaky ReLU of both bounds, or all of int32 if a sum may wrap."""
    v = np.stack([low, high])
    t = v + leaky.offset
    wraps = _beyond_int32(t)
    for shift, sum_ in leaky.steps:
        t = t >> shift
        if sum_ is LeakySum.TO_BRANCH:
            t = t + v
        elif sum_ is LeakySum.TO_VALUE:
            v = v + t
        wraps = wraps or _beyond_int32(t) or _beyond_int32(v)
    if wraps:
        return np.full_like(low, _INT32[0]), np.full_like(high, _INT32[1])
    bounds = np.maximum(v, t)
    return bounds[0], bounds[1]


def _beyond_int32(values: Bounds) -> bool:
    return bool((values < _INT32[0]).any() or (values > _INT32[1]).any())


def split_shift(shift: int) -> list[int]:
    """Split a right shift into shifts of at most :data:`LONGEST_SHIFT`, in bits."""
    parts = []
    while shift > 0:
        parts.append(min(shift, LONGEST_SHIFT))
        shift -= parts[-1]
    return parts
