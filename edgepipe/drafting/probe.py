"""The input and the outputs of a network, as its file and one run in float show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from edgepipe.errors import FrontendError
from edgepipe.frontend.folding import CannotRunError, run_model
from edgepipe.frontend.makers import maker
from edgepipe.frontend.network import operator_names
from edgepipe.frontend.picture_input import Size, fix_size, is_channels_last
from edgepipe.frontend.single_picture import keep_picture

_LENGTH_ERROR = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureInput:
    """The picture input: ``channels``, ``height`` and ``width`` are 0 where they are dynamic."""

    name: str
    dtype: str
    dims: tuple[str, ...]
    channels: int
    height: int
    width: int
    channels_last: bool

    def __str__(self) -> str:
        layout = "last" if self.channels_last else "first"
        return f"{self.name} {self.dtype}[{', '.join(self.dims)}], channels {layout}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An output: its name in descriptions, its shape, and what its values are.

    ``maker`` is the kind of node that computes it, apart from nodes that only move values.
    ``least`` and ``largest`` are the values at both ends.
    """

    name: str
    shape: tuple[int, ...]
    maker: str
    are_shares: bool
    """Whether all values are from 0 to 1."""
    is_direction: bool = False
    """Whether the values, of both signs, are a vector of length 1."""
    least: float = 0.0
    largest: float = 0.0

    def __str__(self) -> str:
        return f"{self.name} [{', '.join(map(str, self.shape))}]"


def picture_input(path: Path, model: onnx.ModelProto) -> PictureInput:
    """Describe the only input of ``model``; raise ``FrontendError`` if it cannot be a picture."""
    alone = onnx.ModelProto()
    alone.CopyFrom(model)
    keep_picture(path, alone)
    value = alone.graph.input[0]
    name = value.name
    tensor = value.type.tensor_type
    sizes = [max(dim.dim_value, 0) for dim in tensor.shape.dim]
    texts = tuple(str(dim.dim_value or dim.dim_param or "?") for dim in tensor.shape.dim)
    if len(sizes) != 4:
        raise FrontendError(
            f"{path}: input {name} is [{', '.join(texts)}], expected a picture [1, channels, "
            "height, width]",
            hint="describe a network that reads one picture",
        )
    last = is_channels_last(model, value)
    channels, height, width = (sizes[axis] for axis in ((3, 1, 2) if last else (1, 2, 3)))
    return PictureInput(
        name=name,
        dtype=_dtype(tensor.elem_type),
        dims=texts,
        channels=channels,
        height=height,
        width=width,
        channels_last=last,
    )


def outputs_at(path: Path, model: onnx.ModelProto, size: Size) -> tuple[Output, ...]:
    """Run ``model`` on a random picture of ``size`` and describe its outputs, in order.

    Raises ``FrontendError`` if onnxruntime cannot run the network.
    """
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    fix_size(path, fixed, size)
    arrays = _run(path, fixed)
    values = [value for node in model.graph.node for value in node.output if value]
    names = operator_names([fixed.graph.input[0].name, *values])
    return tuple(
        _output(names.get(output.name, output.name), maker(model, output.name), array)
        for output, array in zip(model.graph.output, arrays, strict=True)
    )


def _output(name: str, kind: str, array: NDArray[np.generic]) -> Output:
    """Describe the output ``name`` by its values for a picture, ``array``."""
    values = array.astype(np.float64)
    least, largest = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    length = float(np.sqrt(np.square(values).sum()))
    return Output(
        name=name,
        shape=tuple(array.shape),
        maker=kind,
        are_shares=bool(values.size) and least >= 0 and largest <= 1,
        is_direction=least < 0 < largest and abs(length - 1) < _LENGTH_ERROR,
        least=least,
        largest=largest,
    )


def first_nodes(model: onnx.ModelProto, name: str) -> Iterator[onnx.NodeProto]:
    """Yield the nodes that the input ``name`` passes through while each has only one reader."""
    while True:
        readers = [node for node in model.graph.node if name in node.input]
        if len(readers) != 1 or len(readers[0].output) < 1:
            return
        yield readers[0]
        name = readers[0].output[0]


def _run(path: Path, model: onnx.ModelProto) -> Sequence[NDArray[np.generic]]:
    value = model.graph.input[0]
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    dtype = np.dtype(_dtype(value.type.tensor_type.elem_type))
    picture = np.random.default_rng(0).uniform(0, 255 if dtype.kind in "iu" else 1, shape)
    try:
        return run_model(model, {value.name: picture.astype(dtype)})
    except CannotRunError as cause:
        raise FrontendError(
            f"{path}: onnxruntime cannot run the network for {'x'.join(map(str, shape))}: {cause}",
            hint="correct the network until onnxruntime runs it, or use a newer onnxruntime",
        ) from cause


def _dtype(element: int) -> str:
    """Return the name of an ONNX element type; one that numpy lacks becomes float32."""
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(element).name)
    except KeyError:
        return "float32"
