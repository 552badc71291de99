"""Measure a bundle: its layers and its answers, in float and in integers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edgepipe.accuracy.boxes import BoxReader
from edgepipe.accuracy.data import Sample, read_boxes, read_labels, read_pictures
from edgepipe.accuracy.devices import Device, OnBoard
from edgepipe.accuracy.layers import LayerRunner
from edgepipe.accuracy.measures import (
    AveragePrecision,
    MeanIou,
    Measure,
    Outputs,
    TopK,
    own_measure,
)
from edgepipe.accuracy.networks import NetworkPair, Origin, load_pair
from edgepipe.accuracy.per_layer import LayerAccuracy, compare_layers
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import Manifest
from edgepipe.description import BUNDLED_LABELS
from edgepipe.interrupts import remembered
from edgepipe.picture_size import MOST_PIXELS
from edgepipe.progress import Progress, Silent
from edgepipe.quantize.calibrate import float_session

LAYER_PICTURES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyOptions:
    """What to measure a bundle with.

    ``data`` is a folder of pictures, a picture, a video, or an ``.npz`` file of frames; at most
    ``pictures`` of it are used (None: all), and at most ``layer_pictures`` for the layers (0: no
    layers). At most one of the others names the truth about the pictures: a file of ``labels``,
    a file of ``boxes``, a folder of ``masks``, or the ``metric`` ``module:function``.
    """

    bundle: Path
    origin: Origin
    data: Path
    pictures: int | None = None
    layer_pictures: int = LAYER_PICTURES
    labels: Path | None = None
    boxes: Path | None = None
    masks: Path | None = None
    metric: str = ""
    most_pixels: int = MOST_PIXELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the task's measure for the float network, and for the integers on the device."""

    name: str
    exact: float
    found: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyReport:
    """The accuracy of a bundle.

    ``layers`` are in program order, over ``layer_pictures`` pictures. ``figures`` are those of the
    task's measure, over ``pictures`` pictures on ``device``; ``compared`` says that every border
    between stages was compared with the simulator for each of them.
    """

    bundle: str
    network: str
    device: str
    pictures: int
    layer_pictures: int
    compared: bool
    figures: tuple[Figure, ...]
    layers: tuple[LayerAccuracy, ...] = field(repr=False)


def measure(
    options: AccuracyOptions, device: Device, progress: Progress | None = None
) -> AccuracyReport:
    """Measure a bundle's accuracy on ``device``.

    Raises ``AccuracyError`` for truth that does not fit the pictures or the network, and for a
    network that the bundle was not built from; ``DifferenceError`` if a board computes other bits
    than the simulator; ``MediaError``, ``BundleError`` and the errors of the importer, the
    quantiser and the device.
    """
    progress = progress or Silent()
    manifest = storage.read_manifest(options.bundle)
    new_measure = _measure_of(options, manifest)
    with remembered() as interrupts:
        progress.step("importing and quantising the network")
        pair = load_pair(options.bundle, options.origin)
        interrupts.check()
        layers: tuple[LayerAccuracy, ...] = ()
        counted = 0
        if options.layer_pictures:
            progress.step("compiling the layers in both modes")
            runner = LayerRunner(pair)
            interrupts.check()
            progress.step("comparing layers with float")
            pictures = _Counted(_pictures(options, manifest, options.layer_pictures), progress)
            layers = compare_layers(pair, runner, pictures)
            counted = pictures.count
    figures: tuple[Figure, ...] = ()
    total = 0
    if new_measure is not None or isinstance(device, OnBoard):
        progress.step(f"running pictures on {device.name}")
        answers = _Counted(_pictures(options, manifest, None), progress)
        figures = _figures(pair, device, answers, new_measure)
        total = answers.count
    return AccuracyReport(
        bundle=options.bundle.name,
        network=manifest.name,
        device=device.name,
        pictures=total,
        layer_pictures=counted,
        compared=isinstance(device, OnBoard),
        figures=figures,
        layers=layers,
    )


class _Counted:
    """Pictures that are counted, and reported as progress, as they are taken."""

    def __init__(self, pictures: Iterable[Sample], progress: Progress) -> None:
        self._pictures = pictures
        self._progress = progress
        self.count = 0

    def __iter__(self) -> Iterator[Sample]:
        for picture in self._pictures:
            self.count += 1
            self._progress.update(self.count, 0)
            yield picture


def _pictures(options: AccuracyOptions, manifest: Manifest, most: int | None) -> Iterator[Sample]:
    limits = [limit for limit in (options.pictures, most) if limit is not None]
    pictures = read_pictures(options.data, manifest.preprocess, options.most_pixels)
    return itertools.islice(pictures, min(limits, default=None))


def _measure_of(options: AccuracyOptions, manifest: Manifest) -> Callable[[], Measure] | None:
    """Return what makes the measure that the options ask for, if any; reads the truth first."""
    classes = _classes(options.bundle, manifest)
    if options.labels is not None:
        where, labels = options.labels, read_labels(options.labels, classes)
        return lambda: TopK(labels, where)
    if options.boxes is not None:
        reader = BoxReader(manifest)
        where, boxes = options.boxes, read_boxes(options.boxes, classes)
        return lambda: AveragePrecision(boxes, where, reader)
    if options.masks is not None:
        masks = options.masks
        return lambda: MeanIou(masks, manifest.preprocess, options.most_pixels)
    return own_measure(options.metric) if options.metric else None


def _classes(bundle: Path, manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the bundle's classes; empty if it has none."""
    for entry in manifest.files:
        if entry.path == BUNDLED_LABELS:
            return tuple(storage.read_file(bundle, entry).decode().splitlines())
    return ()


def _figures(
    pair: NetworkPair,
    device: Device,
    pictures: Iterable[Sample],
    new_measure: Callable[[], Measure] | None,
) -> tuple[Figure, ...]:
    if new_measure is None:
        for _ in device.run(pictures):
            pass
        return ()
    network = pair.network
    names = network.output_names
    session = float_session(network, [network.values[name] for name in names])
    exact, found = new_measure(), new_measure()
    for picture, outputs in device.run(pictures):
        found.add(picture, outputs)
        frame = pair.manifest.preprocess.normalise(picture.frame)
        values = session.run(None, {network.onnx_input: frame})
        as_float: Outputs = dict(zip(names, values, strict=True))
        exact.add(picture, as_float)
    ours = found.result()
    return tuple(
        Figure(name=name, exact=value, found=ours[name]) for name, value in exact.result().items()
    )
