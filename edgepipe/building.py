"""``edgepipe.build``: turn an ONNX network into a bundle."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from edgepipe import boards
from edgepipe.beside import neighbours
from edgepipe.boards import Board
from edgepipe.errors import PartitionError
from edgepipe.picture_size import MOST_PIXELS
from edgepipe.progress import Progress
from edgepipe.recipe import BuildOptions, build_bundle

PathLike = str | os.PathLike[str]


class Named(Protocol):
    """Anything with the name of an operator, such as an operator of a forecast."""

    @property
    def name(self) -> str:
        """The operator's name."""


def build(
    model: PathLike,
    *,
    board: str | Board,
    calibration: PathLike | None = None,
    output: PathLike,
    cuts: Sequence[str] = (),
    placement: Mapping[str | Named, str] | None = None,
    depthwise: str = "auto",
    objective: str = "",
    max_latency_ms: float | None = None,
    stages: int | None = None,
    slots: int | None = None,
    description: PathLike | None = None,
    calibration_frames: int = 64,
    fallback: bool = False,
    version: int = 0,
    sign: PathLike | None = None,
    most_pixels: int = MOST_PIXELS,
    scheme: PathLike | None = None,
    export_scheme: PathLike | None = None,
    float_layers: Sequence[str] = (),
    int16_layers: Sequence[str] = (),
    rounding: str | None = None,
    seed: int | None = None,
    rules: Sequence[PathLike] = (),
    placement_file: PathLike | None = None,
    export_placement: PathLike | None = None,
    costs: PathLike | None = None,
    beside: Mapping[PathLike, float] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Quantise an ONNX network to int8, split it into stages, compile them; return its path.

        bundle = edgepipe.build(
            "net.onnx", board="ultra96", calibration="pictures/", output="net.edgepipe"
        )
        pipeline = edgepipe.load(bundle)

    ``board`` is a known board's name, a board's TOML file, or a ``Board``. ``calibration`` is a
    folder of pictures or an .npz file of frames uint8[n, h, w, c], of which at most
    ``calibration_frames`` are used. ``output`` is a folder, or one archive if it ends in
    ``.edgepipe``; it appears only when it is complete. An interrupt leaves ``output`` as it was, or
    is raised once the bundle is there, if it comes while that is moved into place. A stage ends
    after each operator in ``cuts``; ``placement`` maps operators, or their names, to ``"arm"`` or
    ``"vta"``, ``"arm@1,2"`` for cores, or ``"vta+arm:32"`` for both side by side with 32 output
    channels on ARM, and takes precedence over ``placement_file`` and over ``depthwise``
    (``"auto"``, ``"arm"`` or ``"vta"``). ``objective`` says what the search of all placements is
    for (``"throughput"``, ``"latency"``, ``"energy-proxy"``; ``"rule"``: no search), ``stages`` how
    many stages it may use at most, and ``max_latency_ms`` how long after its start a frame's
    results may come. ``slots`` is the number of frames in flight. ``description`` is the
    network's, by default the TOML file next to ``model``.
    ``fallback`` adds ARM kernels that take over if the accelerator fails. ``sign`` is an OpenSSH
    key that signs the bundle, and ``version`` a number that grows with every release, for boards
    that refuse older ones.
    Calibration pictures of more than ``most_pixels`` are refused before they are decoded.
    ``export_scheme`` is a file to which the quantisation scheme is written; a build with such a
    ``scheme`` needs no ``calibration``. ``float_layers`` are not quantised, but computed in
    floating point on ARM, and ``int16_layers`` in int16 there; ``"FIRST..LAST"`` is every layer
    from one to another. ``rounding`` is how weights are rounded: each to the ``"nearest"``
    integer, which is the default without a scheme, or ``"reconstruct"``, so that results on the
    calibration pictures change least. ``seed`` decides what is drawn at random, such as which
    pictures of a folder with more than ``calibration_frames``; the default without a scheme is 0.
    The same inputs and the same seed give the same bundle byte for byte. ``rules`` are files of
    placement rules (docs/reference/placement-rules.md), which take precedence over edgepipe's own.
    ``export_placement`` is a file to which the device of every operator is written, and
    ``placement_file`` one that was edited (docs/reference/placement-file.md). ``costs`` is a file
    of measured costs (docs/guides/measured-costs.md), which the search uses in place of the
    model's. ``beside`` maps other bundles that run on the same board to their frames per second:
    the network is split for what they leave of it.

    Raises the EdgepipeError of the step that failed, such as BoardError, FrontendError,
    QuantizeError or PartitionError.
    """
    bundle = Path(output)
    options = BuildOptions(
        model=Path(model),
        board=board if isinstance(board, Board) else boards.load(board),
        calibration=Path(calibration) if calibration is not None else None,
        output=bundle,
        cuts=tuple(cuts),
        placement=_by_name(placement or {}),
        depthwise=depthwise,
        objective=objective,
        max_latency_ms=max_latency_ms,
        stages=stages,
        slots=slots,
        description=Path(description) if description is not None else None,
        calibration_frames=calibration_frames,
        fallback=fallback,
        version=version,
        sign=Path(sign) if sign is not None else None,
        most_pixels=most_pixels,
        scheme=Path(scheme) if scheme is not None else None,
        export_scheme=Path(export_scheme) if export_scheme is not None else None,
        float_layers=tuple(float_layers),
        int16_layers=tuple(int16_layers),
        rounding=rounding,
        seed=seed,
        rules=tuple(map(Path, rules)),
        placement_file=Path(placement_file) if placement_file is not None else None,
        export_placement=Path(export_placement) if export_placement is not None else None,
        costs=Path(costs) if costs is not None else None,
        beside=neighbours((Path(path), fps) for path, fps in (beside or {}).items()),
    )
    build_bundle(options, progress)
    return bundle


def _by_name(placement: Mapping[str | Named, str]) -> dict[str, str]:
    """Return the devices by the names of operators.

    Raises ``PartitionError`` for an operator that has two devices.
    """
    found: dict[str, str] = {}
    for operator, device in placement.items():
        name = operator if isinstance(operator, str) else operator.name
        if found.setdefault(name, device) != device:
            raise PartitionError(
                f"{name}: is placed on {found[name]} and on {device}",
                hint="name each operator once, as an object or by its name",
            )
    return found
