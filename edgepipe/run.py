"""Run a bundle on pictures, write results, and compare serial with pipelined runs."""

from __future__ import annotations

import errno
import itertools
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from edgepipe import media, scratch, video
from edgepipe.bundle import storage
from edgepipe.errors import FAULT, MediaError, RuntimeFailure
from edgepipe.fitting import PictureFitter
from edgepipe.loading import load
from edgepipe.media import Picture, SourcePicture
from edgepipe.picture_size import MOST_PIXELS
from edgepipe.progress import Progress, Silent
from edgepipe.records import result_record
from edgepipe.report.draw import draw_caption, draw_classes, draw_detections, draw_points
from edgepipe.runtime.pipeline import Pipeline
from edgepipe.runtime.results import FrameResult
from edgepipe.runtime.statistics import Statistics

Frame = NDArray[np.uint8]

RESULTS = "results.jsonl"
VIDEO = "annotated.mp4"
PICTURE = "annotated.jpg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The same frames through the same stages: a serial run, then immediately a pipelined one.

    Stage times are the means of a run in milliseconds, because the rates are means too. The bound
    uses the serial times, in which stages do not disturb each other.
    """

    serial: Statistics
    pipelined: Statistics

    @property
    def gain(self) -> float:
        """Pipelined over serial frames per second."""
        return self.pipelined.frames_per_second / self.serial.frames_per_second

    @property
    def bound(self) -> float:
        """The gain that the stage times allow: their sum over the longest."""
        return self.serial.pipelining_bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Medians over rounds; ``gain`` and ``bound`` are medians of the values of each round.

    Both sides of a ratio are therefore measured within seconds of each other, and a slow moment of
    the machine affects neither.
    """

    rounds: tuple[Round, ...]

    @property
    def stage_names(self) -> tuple[str, ...]:
        """The names of the stages, in order."""
        return tuple(stage.name for stage in self.rounds[0].serial.stages)

    @property
    def stage_ms(self) -> tuple[float, ...]:
        """The time of every stage in milliseconds, in the serial runs."""
        return _stage_medians([a_round.serial for a_round in self.rounds])

    @property
    def pipelined_stage_ms(self) -> tuple[float, ...]:
        """The time of every stage in milliseconds, in the pipelined runs."""
        return _stage_medians([a_round.pipelined for a_round in self.rounds])

    @property
    def serial_fps(self) -> float:
        """Frames per second with the stages one after another."""
        return median(a_round.serial.frames_per_second for a_round in self.rounds)

    @property
    def pipelined_fps(self) -> float:
        """Frames per second with the stages in parallel."""
        return median(a_round.pipelined.frames_per_second for a_round in self.rounds)

    @property
    def gain(self) -> float:
        """Pipelined over serial frames per second."""
        return median(a_round.gain for a_round in self.rounds)

    @property
    def bound(self) -> float:
        """The gain that the stage times allow."""
        return median(a_round.bound for a_round in self.rounds)

    @property
    def was_disturbed(self) -> bool:
        """Whether the gain exceeds its bound by more than 2 %, which no pipeline can achieve.

        This happens when other programs use the cores: several stage threads together get a larger
        share of them than the single thread of a serial run.
        """
        return self.gain > 1.02 * self.bound


def _stage_medians(runs: Sequence[Statistics]) -> tuple[float, ...]:
    times = zip(*([stage.busy.mean_ms for stage in run.stages] for run in runs), strict=True)
    return tuple(median(of_stage) for of_stage in times)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of ``edgepipe run``.

    If ``output`` is None, no results are written. ``slots`` limits the frames in flight, by default
    to the bundle's number. ``trace`` is a file for the pipeline's trace.
    Pictures of more than ``most_pixels`` are refused before they are decoded.
    """

    bundle: Path
    source: Path
    output: Path | None = None
    frames: int | None = None
    serial: bool = False
    cores: tuple[int, ...] | None = None
    slots: int | None = None
    trace: Path | None = None
    timed: bool = False
    most_pixels: int = MOST_PIXELS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The result of a run: the pipeline's statistics and the files written."""

    statistics: Statistics
    written: tuple[Path, ...]


def run_bundle(
    options: RunOptions, *, lines: TextIO | None = None, progress: Progress | None = None
) -> RunReport:
    """Run the source's pictures through the bundle's pipeline.

    Results are written as JSON lines to ``results.jsonl`` in the output folder, next to
    ``annotated.mp4`` and ``annotated.jpg`` (the picture with the most detections). Without an
    output folder they go to ``lines``, if given. Files appear only when they are complete. Raises
    ``MediaError`` for unreadable pictures, ``BundleError`` and ``RuntimeFailure`` for the bundle
    and its stages.
    """
    progress = progress or Silent()
    manifest = storage.read_manifest(options.bundle)
    pictures = itertools.islice(
        media.read_source(options.source, options.most_pixels), options.frames
    )
    first = next(pictures, None)
    if first is None:
        raise MediaError(f"{options.source}: no picture was read", hint="run at least 1 picture")
    fitter = PictureFitter(manifest.preprocess)
    with load(
        options.bundle,
        device=_device(options.timed),
        serial=options.serial,
        cores=options.cores,
        slots=options.slots,
        trace=options.trace is not None,
    ) as pipeline:
        with _outputs(options, lines, manifest.postprocess.results, progress) as outputs:
            for result, source in _results(pipeline, fitter, itertools.chain([first], pictures)):
                outputs.add(result, source, fitter)
                progress.update(result.frame + 1, 0)
        written = outputs.written
        if options.trace is not None:
            pipeline.write_trace(options.trace)
            written += (options.trace,)
        return RunReport(statistics=pipeline.statistics(), written=written)


def compare(
    bundle: Path,
    frames: Sequence[Frame],
    *,
    rounds: int = 5,
    timed: bool = False,
    slots: int | None = None,
) -> Comparison:
    """Measure serial and pipelined frames per second on the same frames.

    The outputs of both are compared first, bit for bit. With ``timed``, stages take at least as
    long as the model expects of the board. ``slots`` limits the frames in flight. Each frame is
    uint8[1, height, width, channels]. Raises ``RuntimeFailure`` if serial and pipelined outputs
    differ.
    """
    with load(bundle, serial=True) as serial, load(bundle) as pipelined:
        for one, other in zip(serial.map(frames[:3]), pipelined.map(frames[:3]), strict=True):
            _require_equal(one, other)
    return Comparison(
        rounds=tuple(
            Round(
                serial=_measure(bundle, frames, serial=True, timed=timed, slots=slots),
                pipelined=_measure(bundle, frames, serial=False, timed=timed, slots=slots),
            )
            for _ in range(rounds)
        )
    )


def read_frames(
    bundle: Path, source: Path, count: int, most_pixels: int = MOST_PIXELS
) -> list[Frame]:
    """Return the first ``count`` pictures of ``source`` as the bundle's input frames.

    Each frame is uint8[1, height, width, channels]. Raises ``MediaError`` as ``media.read_source``
    does.
    """
    preprocess = storage.read_manifest(bundle).preprocess
    pictures = itertools.islice(media.read_source(source, most_pixels), count)
    return [preprocess.frame(found.picture) for found in pictures]


def _measure(
    bundle: Path, frames: Sequence[Frame], *, serial: bool, timed: bool, slots: int | None
) -> Statistics:
    with load(bundle, serial=serial, device=_device(timed), slots=slots) as pipeline:
        deque(pipeline.map(frames), maxlen=0)
        return pipeline.statistics()


def _device(timed: bool) -> str:
    return "timed" if timed else "auto"


def _require_equal(one: FrameResult, other: FrameResult) -> None:
    for name, array in one.outputs.items():
        if array.tobytes() != other.outputs[name].tobytes():
            raise RuntimeFailure(
                f"frame {one.frame}: output {name} differs between a serial and a pipelined run",
                hint=FAULT,
            )


def _results(
    pipeline: Pipeline, fitter: PictureFitter, pictures: Iterable[SourcePicture]
) -> Iterator[tuple[FrameResult, SourcePicture]]:
    """Pair every result with its picture; pictures are kept only while in flight."""
    waiting: deque[SourcePicture] = deque()

    def frames() -> Iterator[Frame]:
        for picture in pictures:
            waiting.append(picture)
            yield fitter.frame(picture.picture)[0]

    for result in pipeline.map(frames()):
        yield result, waiting.popleft()


@contextmanager
def _outputs(
    options: RunOptions, lines: TextIO | None, kind: str, progress: Progress
) -> Iterator[_Outputs]:
    """Open the files of a run; they get their final names if the run succeeds.

    ``kind`` is that of the bundle's results.
    """
    folder = options.output
    if folder is None:
        yield _Outputs(lines, None, kind)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (RESULTS, VIDEO, PICTURE):
            if (folder / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, "it contains a folder named " + name)
        with scratch.folder_beside(folder / RESULTS, ".edgepipe.") as waiting:
            rate = media.frames_per_second(options.source)
            with (
                (waiting / RESULTS).open("w", encoding="utf-8") as file,
                video.open_video(waiting / VIDEO, rate, progress) as annotated,
            ):
                outputs = _Outputs(file, annotated, kind)
                yield outputs
            outputs.write_picture(waiting / PICTURE)
            for name in (RESULTS, VIDEO, PICTURE):
                (waiting / name).replace(folder / name)
                outputs.written += (folder / name,)
    except OSError as cause:
        raise MediaError(
            f"{folder}: results cannot be written ({cause.strerror})",
            hint="free some space, fix the permissions, or choose another folder",
            option="output",
            value="DIR",
        ) from cause


class _Outputs:
    """The outputs of a run: lines of JSON, and a video if pictures are kept."""

    def __init__(self, lines: TextIO | None, annotated: video.Video | None, kind: str) -> None:
        self._lines = lines
        self._kind = kind
        self._video = annotated
        self._best: tuple[int, Picture] | None = None
        self.written: tuple[Path, ...] = ()

    def add(self, result: FrameResult, source: SourcePicture, fitter: PictureFitter) -> None:
        """Append one frame's results."""
        height, width = source.picture.shape[:2]
        found = fitter.in_picture(result, (height, width))
        if self._lines is not None:
            print(json.dumps(result_record(found, source.name, self._kind)), file=self._lines)
        if self._video is None:
            return
        drawn = source.picture
        if result.class_map is not None:
            drawn = draw_classes(drawn, fitter.picture_map(result.class_map, (height, width)))
        drawn = draw_points(draw_detections(drawn, found.detections), found.points)
        if found.classes:
            best = found.classes[0]
            drawn = draw_caption(drawn, f"{best.label} {best.probability:.2f}")
        elif found.text:
            drawn = draw_caption(drawn, f"{found.text} {found.text_score:.2f}")
        self._video.write(drawn)
        if self._best is None or len(found.detections) > self._best[0]:
            self._best = (len(found.detections), drawn)

    def write_picture(self, path: Path) -> None:
        """Write the first picture with the most detections."""
        if self._best is not None:
            media.write_picture(path, self._best[1])
