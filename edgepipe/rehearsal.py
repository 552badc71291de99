"""A network as a build would see it, before anything is calibrated.

It is imported and quantised with the ranges that it shows on made-up pictures. What is placed and
timed depends on shapes, so this is enough to say what a build would give.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgepipe import description
from edgepipe.description import NetworkDescription
from edgepipe.drafting.draft import draft
from edgepipe.errors import (
    CodegenError,
    FrontendError,
    LayerError,
    PartitionError,
    QuantizeError,
    UnbuildableError,
)
from edgepipe.frontend.network import Network, import_network, read_model
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.progress import Progress
from edgepipe.quantize import float_layers as float_names
from edgepipe.quantize.int16 import names as int16_names
from edgepipe.quantize.quantizer import QuantizedNetwork, QuantizeOptions, quantize

FRAMES = 2

_COARSE = 16  # pixels of a patch of one colour in a made-up picture
# Options of errors about the layers that were named, not about the network.
_OF_LAYERS = (float_names.OPTION, int16_names.OPTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A network, and its integer form with made-up ranges.

    ``description`` is the file of its description, or None if it was drafted; ``guesses`` are then
    the lines to check.
    """

    network: Network
    quantized: QuantizedNetwork
    description: Path | None
    guesses: tuple[str, ...]


def rehearse(
    model: Path,
    progress: Progress,
    *,
    described: Path | None = None,
    float_layers: tuple[str, ...] = (),
    int16_layers: tuple[str, ...] = (),
    one_table: bool = False,
) -> Rehearsal:
    """Read a network and quantise it with made-up pictures.

    ``described`` is its description, by default the file next to it, or else a draft. ``one_table``
    is that of ``QuantizeOptions``. Raises FrontendError for files that cannot be read,
    QuantizeError for unknown layers, and ``UnbuildableError`` for a network that would not build.
    """
    onnx_model = read_model(model)
    found, where, guesses = _description(model, described)
    progress.step("importing the network")
    pre = found.preprocess
    with unbuildable(model, FrontendError):
        network = import_network(model, onnx_model, (pre.channels, pre.height, pre.width))
    for notice in network.notices:
        progress.notice(notice)
    if where is not None:
        description.check_outputs(found, network.output_names, where)
    with unbuildable(model, QuantizeError, PartitionError, LayerError, CodegenError):
        progress.step("quantising with made-up ranges")
        quantized = quantize(
            network,
            made_up_frames(pre),
            pre,
            QuantizeOptions(
                frames=FRAMES,
                float_layers=float_layers,
                int16_layers=int16_layers,
                one_table=one_table,
            ),
        )
    for notice in quantized.notices:
        progress.notice(notice)
    return Rehearsal(network=network, quantized=quantized, description=where, guesses=guesses)


def made_up_frames(preprocess: Preprocess) -> list[Frame]:
    """Return pictures to quantise with when there are none: coloured patches, and noise.

    Each is uint8[1, height, width, channels], and always the same.
    """
    random = np.random.default_rng(0)
    _, height, width, channels = preprocess.frame_shape
    rows, columns = -(-height // _COARSE), -(-width // _COARSE)
    patches = random.integers(0, 256, (1, rows, columns, channels), np.uint8)
    coarse = patches.repeat(_COARSE, axis=1).repeat(_COARSE, axis=2)[:, :height, :width]
    fine = random.integers(0, 256, preprocess.frame_shape, np.uint8)
    return [np.ascontiguousarray(coarse), fine]


@contextmanager
def unbuildable(
    model: Path,
    *errors: type[FrontendError | QuantizeError | PartitionError | LayerError | CodegenError],
) -> Iterator[None]:
    """Turn ``errors`` of a build into UnbuildableError: the network does not build.

    Errors about layers that were named stay as they are.
    """
    try:
        yield
    except errors as cause:
        if cause.option in _OF_LAYERS:
            raise
        raise UnbuildableError(
            f"{model.name} does not build: {cause}",
            hint=cause.hint,
            option=cause.option,
            value=cause.value,
        ) from cause


def _description(
    model: Path, described: Path | None
) -> tuple[NetworkDescription, Path | None, tuple[str, ...]]:
    """Return the description, its file or None if it is a draft, and the draft's guesses."""
    where = described or description.beside(model)
    if described is not None or where.is_file():
        return description.load(where), where, ()
    made = draft(model)
    return made.description, None, tuple(guess.assignment for guess in made.guesses)
