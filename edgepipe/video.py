"""Write videos that browsers play: H.264 by the program ffmpeg, or MPEG-4 without it.

    with open_video(Path("annotated.mp4"), 25.0, progress) as video:
        video.write(picture)

The frames are piped to ffmpeg as raw pixels. It runs in a session of its own, so that Ctrl-C in a
terminal does not reach it: whoever is interrupted ends it.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self, cast

import numpy as np

from edgepipe import scratch
from edgepipe.errors import MediaError
from edgepipe.media import Picture, VideoWriter, letterboxed, picture_count
from edgepipe.progress import Progress, Silent

_PROGRAM = "ffmpeg"
_NO_PROGRAM = (
    "ffmpeg is not installed, so {name} is MPEG-4, which browsers do not play; "
    "for H.264: apt-get install ffmpeg"
)
_NO_SPACE = "free some disk space, or leave out the video"


class Video(Protocol):
    """A video that is written; a context manager, at whose end the file is complete."""

    def write(self, picture: Picture) -> None:
        """Append one picture, uint8[h, w, 3] in BGR; raise ``MediaError`` if that fails."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def open_video(path: Path, frames_per_second: float, progress: Progress | None = None) -> Video:
    """Return a video in an MP4 file at ``path``, of ``frames_per_second``.

    It is H.264 if ffmpeg is installed. Otherwise it is MPEG-4, and ``progress`` gets a notice that
    says what to install. All pictures get the size of the first one: others are scaled to fit, with
    black bars.
    """
    program = shutil.which(_PROGRAM)
    if program is None:
        (progress or Silent()).notice(_NO_PROGRAM.format(name=path.name))
        return VideoWriter(path, frames_per_second)
    return H264Writer(path, frames_per_second, program)


@dataclass(frozen=True, slots=True)
class _Cause:
    """Why ffmpeg failed: a part of what it prints, and what its user reads instead."""

    printed: str
    found: str
    hint: str


_CAUSES = (
    _Cause(
        "Unknown encoder",
        "found no encoder libx264 in it, expected an ffmpeg that has one",
        "install a complete ffmpeg (Debian: apt-get install ffmpeg), or leave out the video",
    ),
    _Cause(
        "No space left on device", "found no space left, expected room for the video", _NO_SPACE
    ),
)


class H264Writer:
    """Write an H.264 video with ffmpeg; a context manager that leaves a complete file or none.

    The pixels are yuv420p in the colours of BT.709, and the index is before the frames, so that a
    browser plays the file while it loads. yuv420p needs even sides: the last column or row of a
    picture with an odd one is repeated, so nothing of the picture is cut off.
    """

    def __init__(self, path: Path, frames_per_second: float, program: str = _PROGRAM) -> None:
        """Write to ``path``, with ``frames_per_second``, by the ffmpeg ``program``."""
        self._path = path
        self._rate = Fraction(frames_per_second).limit_denominator(1001)
        self._program = program
        self._waiting = scratch.name_beside(path, ".edgepipe.")
        self._size = (0, 0)
        self._count = 0
        self._encoder: _Encoder | None = None
        self._held = contextlib.ExitStack()

    def write(self, picture: Picture) -> None:
        """Append one picture, uint8[h, w, 3] in BGR. Raises ``MediaError`` if ffmpeg has failed."""
        if self._encoder is None:
            self._size = picture.shape[1], picture.shape[0]
            self._encoder = self._start()
        width, height = self._size
        fitted = letterboxed(picture, self._size)
        frame = np.pad(fitted, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        rest = np.ascontiguousarray(frame).data.cast("B")
        try:
            while rest:  # an unbuffered pipe may take a part
                rest = rest[self._encoder.frames.write(rest) :]
        except OSError as cause:  # it has ended
            raise self._failure(self._encoder) from cause
        self._count += 1

    def _start(self) -> _Encoder:
        width, height = (side + side % 2 for side in self._size)
        # A file and not a pipe, which would have to be read meanwhile.
        printed = self._held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._held.enter_context(scratch.removed_if_killed(self._waiting))
        try:
            process = subprocess.Popen(
                [
                    *(self._program, "-hide_banner", "-nostdin", "-loglevel", "error"),
                    *("-f", "rawvideo", "-pix_fmt", "bgr24", "-video_size", f"{width}x{height}"),
                    *("-framerate", str(self._rate), "-i", "pipe:0", "-c:v", "libx264"),
                    # Frames are encoded while the pipeline runs, on the same cores.
                    *("-preset", "ultrafast", "-crf", "20"),
                    *("-vf", "scale=out_color_matrix=bt709:out_range=tv,format=yuv420p"),
                    *("-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"),
                    *("-color_range", "tv", "-movflags", "+faststart", "-f", "mp4"),
                    f"file:{self._waiting}",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=printed,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as cause:
            raise self._error(
                f"{self._program} cannot be started ({cause.strerror})",
                "install it again (Debian: apt-get install ffmpeg), or leave out the video",
            ) from cause
        return _Encoder(process, cast(IO[bytes], process.stdin), printed)

    def _failure(self, encoder: _Encoder) -> MediaError:
        """Return why ffmpeg failed, which has ended or closed its input."""
        code = encoder.process.wait()
        encoder.printed.seek(0)
        lines = encoder.printed.read().decode(errors="replace").strip().splitlines()
        for cause in _CAUSES:
            if any(cause.printed in line for line in lines):
                return self._error(cause.found, cause.hint)
        if code < 0:
            return self._error(
                f"found it killed by {signal.Signals(-code).name} after {self._count} pictures, "
                "expected it to run until the end",
                "run it again, with more free memory if the kernel killed it (dmesg says so)",
            )
        said = lines[-1] if lines else "it printed nothing"
        return self._error(
            f"found exit code {code} ({said}), expected 0",
            "check with `ffmpeg -version` that it runs, or leave out the video",
        )

    def _error(self, found: str, hint: str) -> MediaError:
        return MediaError(
            f"{self._path.name}: ffmpeg cannot write the video: {found}", hint=hint, option="output"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._encoder is None:
            self._held.close()
            return
        with self._held:
            try:
                if kind is None:
                    self._finish(self._encoder)
            finally:
                self._encoder.end()
                self._waiting.unlink(missing_ok=True)

    def _finish(self, encoder: _Encoder) -> None:
        """Wait for ffmpeg, check that no picture is missing, and give the file its name."""
        encoder.frames.close()
        if encoder.process.wait() != 0:
            raise self._failure(encoder)
        if (held := picture_count(self._waiting)) != self._count:
            raise self._error(f"found {held} pictures in it, expected {self._count}", _NO_SPACE)
        self._waiting.replace(self._path)


@dataclass(frozen=True, slots=True)
class _Encoder:
    """A running ffmpeg, the pipe that takes frames, and what it prints."""

    process: subprocess.Popen[bytes]
    frames: IO[bytes]
    printed: IO[bytes]

    def end(self) -> None:
        """End ffmpeg, whatever it is doing, and collect it."""
        self.frames.close()
        self.process.kill()
        self.process.wait()
