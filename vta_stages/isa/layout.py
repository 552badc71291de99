"""The layout of tensors in the accelerator's memory: activations, weights, accumulator vectors.

With the accelerator's input block ``b`` and batch ``n``:

- activations ``int8[samples, c, h, w]`` become ``int8[ceil(c/b), h, w, n, b]``; one ``[n, b]`` is
  one INP element, and one or several OUT elements
- weights ``int8[co, ci, kh, kw]`` become ``int8[ceil(co/o), ceil(ci/b), kh, kw, o, b]`` with the
  output block ``o``; one ``[o, b]`` block is one WGT element
- a value per channel ``int32[c]`` becomes ``int32[ceil(c/b), n, b]``; one ``[n, b]`` is one ACC
  element, or several, the same for every batch row

Packing fills lanes and rows outside the tensor with zeros; unpacking ignores them.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator
from vta_stages.errors import LayerError

Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]
Scalar = TypeVar("Scalar", bound=np.generic)


def channel_blocks(accelerator: Accelerator, channels: int) -> int:
    """Return how many channel blocks hold ``channels`` channels."""
    return -(-channels // accelerator.block_in)


def activation_shape(
    accelerator: Accelerator, channels: int, height: int, width: int
) -> tuple[int, int, int, int, int]:
    """Return the packed shape [blocks, height, width, batch, block] of an activation."""
    blocks = channel_blocks(accelerator, channels)
    return blocks, height, width, accelerator.batch, accelerator.block_in


def activation_bytes(accelerator: Accelerator, channels: int, height: int, width: int) -> int:
    """Return the size of a packed activation in bytes."""
    return int(np.prod(activation_shape(accelerator, channels, height, width)))


def pack_activation(accelerator: Accelerator, tensor: Int8Array) -> Int8Array:
    """Pack int8[samples, c, h, w] into int8[blocks, h, w, batch, block].

    Raises LayerError if there are more samples than the accelerator's batch.
    """
    _check("activation", tensor, np.int8, 4)
    samples, channels, height, width = tensor.shape
    if samples > accelerator.batch:
        raise LayerError(
            f"activation: {samples} samples, expected at most the batch of {accelerator.batch}"
        )
    blocks, *_, batch, block = activation_shape(accelerator, channels, height, width)
    padded = np.zeros((batch, blocks * block, height, width), np.int8)
    padded[:samples, :channels] = tensor
    split = padded.reshape(batch, blocks, block, height, width)
    return np.ascontiguousarray(split.transpose(1, 3, 4, 0, 2))


def unpack_activation(
    accelerator: Accelerator, packed: Int8Array, channels: int, *, samples: int = 1
) -> Int8Array:
    """Unpack int8[blocks, h, w, batch, block] into int8[samples, channels, h, w].

    Raises LayerError if the packed shape does not match the channels or samples.
    """
    _check("packed activation", packed, np.int8, 5)
    _, height, width, _, _ = packed.shape
    expected = activation_shape(accelerator, channels, height, width)
    if packed.shape != expected or samples > accelerator.batch:
        raise LayerError(
            f"packed activation: shape {list(packed.shape)} for {samples} samples of {channels} "
            f"channels, expected {list(expected)} and at most {accelerator.batch} samples"
        )
    merged = packed.transpose(3, 0, 4, 1, 2).reshape(accelerator.batch, -1, height, width)
    return np.ascontiguousarray(merged[:samples, :channels])


def pack_weights(accelerator: Accelerator, weight: Int8Array) -> Int8Array:
    """Pack int8[co, ci, kh, kw] into int8[co_blocks, ci_blocks, kh, kw, block_out, block_in]."""
    _check("weight", weight, np.int8, 4)
    rows, columns = accelerator.block_out, accelerator.block_in
    outputs, inputs, height, width = weight.shape
    out_blocks, in_blocks = -(-outputs // rows), -(-inputs // columns)
    padded = np.zeros((out_blocks * rows, in_blocks * columns, height, width), np.int8)
    padded[:outputs, :inputs] = weight
    split = padded.reshape(out_blocks, rows, in_blocks, columns, height, width)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3))


def unpack_weights(blocks: Int8Array, out_channels: int, in_channels: int) -> Int8Array:
    """Unpack the result of :func:`pack_weights` into int8[out_channels, in_channels, kh, kw]."""
    _check("weight blocks", blocks, np.int8, 6)
    out_blocks, in_blocks, height, width, rows, columns = blocks.shape
    merged = blocks.transpose(0, 4, 1, 5, 2, 3)
    weight = merged.reshape(out_blocks * rows, in_blocks * columns, height, width)
    return np.ascontiguousarray(weight[:out_channels, :in_channels])


def diagonal_weights(accelerator: Accelerator, factors: Int8Array) -> Int8Array:
    """Return weights int8[blocks, block, block] that multiply channel ``c`` by ``factors[c]``."""
    _check("factors", factors, np.int8, 1)
    lanes = _split_channels(accelerator, factors)
    return lanes[:, :, None] * np.eye(accelerator.block_in, dtype=np.int8)


def _split_channels(accelerator: Accelerator, values: NDArray[Scalar]) -> NDArray[Scalar]:
    blocks = channel_blocks(accelerator, len(values))
    padded = np.zeros(blocks * accelerator.block_in, values.dtype)
    padded[: len(values)] = values
    return padded.reshape(blocks, accelerator.block_in)


def _check(what: str, array: NDArray[np.generic], dtype: type[np.generic], rank: int) -> None:
    if array.dtype != dtype or array.ndim != rank:
        raise LayerError(
            f"{what}: {array.dtype}{list(array.shape)}, "
            f"expected {np.dtype(dtype)} with {rank} dimensions"
        )
