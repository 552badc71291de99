"""The float and the integer network behind a bundle, proven to be those that it was built from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.bundle import storage
from edgepipe.bundle.manifest import Manifest
from edgepipe.errors import AccuracyError
from edgepipe.frontend.frames import sample_of
from edgepipe.frontend.network import Network, load_network
from edgepipe.frontend.preprocess import Frame
from edgepipe.picture_size import MOST_PIXELS
from edgepipe.quantize import scheme_file
from edgepipe.quantize.options import QuantizeOptions, needs_one_table
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize
from edgepipe.tvm_adapter import run_module

Array = NDArray[Any]

CALIBRATION_FRAMES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a bundle was built from: the network, and its calibration pictures.

    ``calibration`` is a folder of pictures or an ``.npz`` file of frames, of which the build used
    at most ``calibration_frames``. Pictures of more than ``most_pixels`` are refused. If the build
    had the file of a ``scheme``, calibration is only used if its rounding needs it, and else may be
    None. ``float_layers`` are those that the build left in floating point, and ``int16_layers``
    those that it computes in int16, apart from those of the scheme. ``rounding`` is the build's,
    None if it was not given.
    """

    network: Path
    calibration: Path | None
    calibration_frames: int = CALIBRATION_FRAMES
    most_pixels: int = MOST_PIXELS
    scheme: Path | None = None
    float_layers: tuple[str, ...] = ()
    int16_layers: tuple[str, ...] = ()
    rounding: str | None = None

    def __post_init__(self) -> None:
        scheme_file.require_ranges(self.calibration, self.scheme)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPair:
    """A bundle's network in float and in integers."""

    manifest: Manifest
    network: Network = field(repr=False)
    quantized: QuantizedNetwork = field(repr=False)


def load_pair(bundle: Path, origin: Origin) -> NetworkPair:
    """Import and quantise ``origin`` as the build did, and compare the result with ``bundle``.

    A bundle has neither the float network nor the steps of its tensors. The build is
    deterministic on processors with the same vector instructions, so both come from the same files
    and the bundle's seed again. The golden output proves it: integer Relax must give it bit for
    bit. Raises ``AccuracyError`` if it does not, and the errors of the importer, the quantiser and
    the bundle.
    """
    manifest = storage.read_manifest(bundle)
    preprocess = manifest.preprocess
    network = load_network(
        origin.network, (preprocess.channels, preprocess.height, preprocess.width)
    )
    scheme = None
    if origin.scheme is not None:
        scheme = scheme_file.read(origin.scheme)
        scheme = scheme.rounded_by(origin.rounding).seeded_by(manifest.seed)
    frames: Iterable[Frame] = ()
    most = origin.calibration_frames if scheme is None else scheme.frames_read
    if most and origin.calibration is not None:
        frames = sample_of(origin.calibration, preprocess, most, manifest.seed, origin.most_pixels)
    options = QuantizeOptions(
        frames=origin.calibration_frames,
        float_layers=origin.float_layers,
        int16_layers=origin.int16_layers,
        rounding=origin.rounding or "nearest",
        seed=manifest.seed,
        one_table=needs_one_table(manifest.accelerator),
    )
    quantized = quantize(network, frames, preprocess, options, scheme)
    _require_same(bundle, manifest, origin, quantized)
    return NetworkPair(manifest=manifest, network=network, quantized=quantized)


def _require_same(
    bundle: Path, manifest: Manifest, origin: Origin, quantized: QuantizedNetwork
) -> None:
    entries = {entry.path: entry for entry in manifest.files}
    golden = {
        file.tensor: storage.read_file(bundle, entries[file.file])
        for file in (*manifest.golden.inputs, *manifest.golden.outputs)
    }
    (name,) = manifest.inputs
    if name != quantized.input_name or manifest.outputs != quantized.output_names:
        raise AccuracyError(
            f"{origin.network}: reads {quantized.input_name} and gives "
            f"{', '.join(quantized.output_names)}, {bundle.name} reads {name} and gives "
            f"{', '.join(manifest.outputs)}",
            hint="give the network that the bundle was built from",
            option="network",
            value="MODEL",
        )
    frame = np.frombuffer(golden[name], np.uint8).reshape(manifest.preprocess.frame_shape)
    outputs = run_module(quantized.module, {name: frame})
    for output in manifest.outputs:
        if outputs[output].tobytes() != golden[output]:
            raise AccuracyError(
                f"{origin.network}: quantised with {origin.scheme or origin.calibration}, its "
                f"output {output} is not the golden output of {bundle.name}",
                hint="give the network and the calibration pictures, as many of them, or the "
                "scheme that the bundle was built from, and its float and int16 layers, on a "
                "processor with the same vector instructions, or build it again",
            )
