"""How frames get to the C++ pipeline and back: in this process, as tensors over numpy's memory.

A wait returns to Python every few milliseconds, so that signal handlers run, and changes nothing; a
call with an effect never waits. ``edgepipe.pipeline.served`` does the same over RPC.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.runtime.frames import FRAME, HEADER_BYTES, NOTHING, TakenFrame, read_frames
from edgepipe.runtime.handle import Functions
from edgepipe.runtime.library import StatusError, as_tensor
from edgepipe.runtime.named import Named
from edgepipe.runtime.ports import Port, array_shape

Array = NDArray[Any]
Taken = tuple[TakenFrame, Sequence[Array]]

_COPIED_BYTES = 16384  # up to this size, passing bytes is faster than passing a tensor
_SHORT_BYTES = 65536  # up to this size, a call is shorter than releasing the interpreter lock
_BLOCK_BYTES = 32768
_BLOCK_FRAMES = 16
COUNT_BITS = 16  # of what send_many returns: kCountBits of cpp_runtime/ffi/pipeline_module.cc


class Transport:
    """Calls the functions of one pipeline. Any thread."""

    slice_s = 0.02  # the longest time that a wait delays a signal handler
    most_sent = 16  # how many frames send_many takes

    def __init__(self, functions: Functions, inputs: Named[Port], outputs: Named[Port]) -> None:
        self.functions = functions
        self._outputs = outputs
        self._block: _Block | None = None
        self._ids = itertools.count(1)
        self._hold_lock(inputs, outputs)

    def call(self, function: str, *arguments: object) -> Any:
        """Call a function; raise RuntimeFailure when its status failed."""
        return self.functions.call(function, *arguments)

    def wait(self, function: str, deadline: float, *arguments: object) -> None:
        """Call a function that waits until it is done; raise DeadlinePassed at ``deadline``.

        The deadline is one of ``time.monotonic``. ``deadline`` is in seconds of ``time.monotonic``.
        """
        while True:
            left = deadline - time.monotonic()
            is_last = left <= self.slice_s
            if self.call(function, *arguments, max(0.0, min(left, self.slice_s)), is_last):
                return

    def wait_briefly(self, function: str, timeout_s: float, *arguments: object) -> bool:
        """Call a function that waits, for less than ``slice_s``; return whether it is done."""
        done: bool = self.call(function, *arguments, timeout_s, False)
        return done

    def pack(self, array: Array) -> object:
        """Return an input as ``send`` takes it; the array must not change before it is sent.

        The array has the input's dtype and shape.
        """
        if array.nbytes <= _COPIED_BYTES:
            return array.tobytes()
        return as_tensor(np.ascontiguousarray(array))

    def begin(self, packed: Sequence[object], is_owned: bool) -> int:
        """Return an id for a frame; odd if the frame has an owner."""
        return 2 * next(self._ids) + is_owned

    def send(self, id: int, packed: Sequence[object]) -> Iterator[int]:
        """Return an iterator that sends one frame and yields its number, or -1 without a free slot.

        No signal handler can run between the frame's start and the end of that step, because it
        calls no Python function.
        """
        return starmap(self.functions["send"], ((id, *packed),))

    def send_many(self, frames: Sequence[tuple[int, Sequence[object]]]) -> Iterator[int]:
        """Like ``send``, for frames with their ids: yields the first number and the count.

        The number is shifted by ``COUNT_BITS``, to leave room for the count.
        """
        arguments: list[object] = [1 + len(frames[0][1])]
        for id, packed in frames:
            arguments.append(id)
            arguments += packed
        return starmap(self.functions["send_many"], (arguments,))

    def take(self, first: int, most: int, owned_only: bool) -> Sequence[Taken]:
        """Return up to ``most`` finished frames from number ``first`` on, with their outputs.

        May be repeated with the same ``first`` until another one is taken.
        """
        block = self._block
        if block is None or not block.first <= first < block.end:
            block = self._block = _Block(first, self._outputs)
        row, room = first - block.first, block.end - first
        take = self.functions["take"]
        try:
            content = take(first, most if most < room else room, owned_only, row, *block.tensors)
        except StatusError as cause:
            self.functions.fail(cause)
        if len(content) == HEADER_BYTES:  # usually one frame without results
            found = (*FRAME.unpack_from(content), NOTHING)
            return ((found, [array[row] for array in block.arrays]),)
        return [
            (found, [array[found[0] - block.first] for array in block.arrays])
            for found, _ in read_frames(content)
        ]

    def _hold_lock(self, inputs: Named[Port], outputs: Named[Port]) -> None:
        """Keep the interpreter lock for calls that are shorter than releasing it."""
        for name, ports in (("send", inputs), ("send_many", inputs), ("take", outputs)):
            function: Any = self.functions[name]
            function.release_gil = sum(port.bytes for port in ports) > _SHORT_BYTES

    def reset(self) -> None:
        """Forget the frames taken so far: frames count from 0 again."""
        self._block = None


class _Block:
    """Memory for the outputs of several frames, one row for each."""

    def __init__(self, first: int, outputs: Named[Port]) -> None:
        frame_bytes = sum(port.bytes for port in outputs)
        rows = max(1, min(_BLOCK_FRAMES, _BLOCK_BYTES // max(frame_bytes, 1)))
        self.first = first
        self.end = first + rows
        self.arrays = [
            np.empty((rows, *array_shape(port)), np.dtype(port.dtype)) for port in outputs
        ]
        self.tensors = [as_tensor(array) for array in self.arrays]
