"""Videos for browsers: H.264 that Chromium plays, MPEG-4 without ffmpeg, and failures of ffmpeg."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_page import open_browser
from needs import installed
from numpy.typing import NDArray

from edgepipe import media, video
from edgepipe.errors import MediaError
from edgepipe.progress import Silent

COLOURS = ((200, 40, 40), (40, 200, 40), (40, 40, 200))  # BGR
# Plays a video; returns its size, the times of two frames, and a pixel of the first.
PLAY = """
const [coded, done] = arguments;
const bytes = Uint8Array.from(atob(coded), (c) => c.charCodeAt(0));
const video = document.createElement("video");
video.muted = true;
video.onerror = () => done({error: video.error.message});
const times = [];
let pixel;
const shown = (_, frame) => {
  times.push(frame.mediaTime);
  if (times.length == 1) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
    const context = canvas.getContext("2d");
    context.drawImage(video, 0, 0);
    pixel = [...context.getImageData(8, 8, 1, 1).data].slice(0, 3);
  }
  if (times.length == 2)
    done({size: [video.videoWidth, video.videoHeight], times, pixel, at: video.currentTime});
  else
    video.requestVideoFrameCallback(shown);
};
video.requestVideoFrameCallback(shown);
video.src = URL.createObjectURL(new Blob([bytes], {type: "video/mp4"}));
document.body.append(video);
video.play();
"""
# Runs the real ffmpeg with one of its arguments replaced.
WRAPPER = """#!/bin/sh
set -- "$@" --
while [ "$1" != -- ]; do
  case $1 in {old}) set -- "$@" {new};; *) set -- "$@" "$1";; esac
  shift
done
shift
exec {ffmpeg} "$@"
"""
INTERRUPTED = """
import sys, time
from pathlib import Path
import numpy as np
from edgepipe import video
with video.open_video(Path(sys.argv[1]), 25.0) as writer:
    for count in range(10_000):
        writer.write(np.zeros((240, 320, 3), np.uint8))
        if count == 5:
            print(writer._encoder.process.pid, flush=True)
        time.sleep(0.01)
"""


@pytest.fixture(autouse=True)
def ffmpeg() -> str:
    return installed("ffmpeg", "ffmpeg")


class Notices(Silent):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


def plain(colour: Sequence[int], height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    return np.full((height, width, 3), colour, np.uint8)


def probed(path: Path) -> dict[str, Any]:
    """Return what ffprobe says about a file's only stream."""
    command = [installed("ffprobe", "ffmpeg"), "-v", "error", "-show_streams", "-of", "json", path]
    (stream,) = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)[
        "streams"
    ]
    return dict(stream)


def program(folder: Path, text: str) -> str:
    """Write a program that stands for ffmpeg."""
    path = folder / "ffmpeg"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def failed(folder: Path, stand_in: str, count: int = 3) -> MediaError:
    """Write a video with another ffmpeg; check that nothing is left, and return the error."""
    (folder / "out").mkdir()
    with (
        pytest.raises(MediaError) as caught,
        video.H264Writer(folder / "out/a.mp4", 25.0, stand_in) as writer,
    ):
        for _ in range(count):
            writer.write(plain(COLOURS[0]))
    assert list((folder / "out").iterdir()) == []
    assert caught.value.option == "output"
    return caught.value


def test_a_browser_plays_it(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    progress = Notices()
    with video.open_video(path, 12.0, progress) as writer:
        for _ in range(4):
            for colour in COLOURS:
                writer.write(plain(colour))
    assert [entry.name for entry in tmp_path.iterdir()] == ["clip.mp4"]
    assert progress.texts == []
    content = path.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat")
    stream = probed(path)
    assert (stream["codec_name"], stream["pix_fmt"]) == ("h264", "yuv420p")
    assert (stream["color_space"], stream["color_range"]) == ("bt709", "tv")
    assert (stream["r_frame_rate"], stream["nb_frames"]) == ("12/1", "12")
    with open_browser() as browser:
        browser.set_script_timeout(60)
        found = browser.execute_async_script(PLAY, base64.b64encode(content).decode())
    assert "error" not in found, found
    assert found["size"] == [64, 48]
    assert found["times"][1] > found["times"][0]
    assert found["at"] > 0
    number = round(found["times"][0] * 12) % len(COLOURS)
    assert found["pixel"] == pytest.approx(COLOURS[number][::-1], abs=12)


def test_the_rate_is_that_of_the_source(tmp_path: Path) -> None:
    with video.open_video(tmp_path / "a.mp4", 29.97002997) as writer:
        writer.write(plain(COLOURS[0]))
    assert probed(tmp_path / "a.mp4")["r_frame_rate"] == "30000/1001"


@pytest.mark.parametrize(("height", "width"), [(47, 63), (48, 63), (47, 64), (1, 1)])
def test_an_odd_side_gets_its_last_pixels_once_more(
    tmp_path: Path, height: int, width: int
) -> None:
    with video.open_video(tmp_path / "a.mp4", 10.0) as writer:
        writer.write(plain(COLOURS[2], height, width))
        writer.write(plain(COLOURS[2], height * 2, width * 2))  # scaled to the first one's size
    frames = [frame.picture for frame in media.read_source(tmp_path / "a.mp4")]
    assert len(frames) == 2
    for frame in frames:
        assert frame.shape == (height + height % 2, width + width % 2, 3)
        assert np.abs(frame.astype(int) - COLOURS[2]).max() < 12


def test_without_ffmpeg_it_is_mpeg_4_with_one_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    progress = Notices()
    with video.open_video(tmp_path / "a.mp4", 10.0, progress) as writer:
        writer.write(plain(COLOURS[0]))
        writer.write(plain(COLOURS[1]))
    monkeypatch.undo()
    assert probed(tmp_path / "a.mp4")["codec_name"] == "mpeg4"
    assert progress.texts == [
        "ffmpeg is not installed, so a.mp4 is MPEG-4, which browsers do not play; "
        "for H.264: apt-get install ffmpeg"
    ]


def test_an_ffmpeg_without_libx264(tmp_path: Path, ffmpeg: str) -> None:
    text = WRAPPER.format(old="libx264", new="libnone", ffmpeg=ffmpeg)
    error = failed(tmp_path, program(tmp_path, text), count=100)
    assert str(error) == (
        "a.mp4: ffmpeg cannot write the video: found no encoder libx264 in it, expected an ffmpeg "
        "that has one"
    )
    assert error.hint == (
        "install a complete ffmpeg (Debian: apt-get install ffmpeg), or leave out the video"
    )


def test_a_full_disk(tmp_path: Path, ffmpeg: str) -> None:
    text = WRAPPER.format(old="file:*", new="-y /dev/full", ffmpeg=ffmpeg)
    error = failed(tmp_path, program(tmp_path, text))
    assert str(error) == (
        "a.mp4: ffmpeg cannot write the video: found no space left, expected room for the video"
    )
    assert error.hint == "free some disk space, or leave out the video"


@pytest.mark.parametrize(
    ("text", "found", "hint"),
    [
        (
            "#!/bin/sh\nhead -c 20000 >/dev/null; kill -9 $$\n",
            r"found it killed by SIGKILL after \d+ pictures, expected it to run until the end",
            "run it again, with more free memory if the kernel killed it (dmesg says so)",
        ),
        (
            "#!/bin/sh\necho broken >&2\nexit 3\n",
            r"found exit code 3 \(broken\), expected 0",
            "check with `ffmpeg -version` that it runs, or leave out the video",
        ),
        (
            "#!/none\n",
            r".*/ffmpeg cannot be started \(No such file or directory\)",
            "install it again (Debian: apt-get install ffmpeg), or leave out the video",
        ),
        (
            "#!/bin/sh\ncat >/dev/null\n",
            "found 0 pictures in it, expected 3",
            "free some disk space, or leave out the video",
        ),
    ],
    ids=["killed", "another failure", "not startable", "nothing written"],
)
def test_an_ffmpeg_that_fails(tmp_path: Path, text: str, found: str, hint: str) -> None:
    stand_in = program(tmp_path, text)
    with pytest.raises(MediaError, match=f"a.mp4: ffmpeg cannot write the video: {found}$"):
        raise failed(tmp_path, stand_in)
    assert failed(tmp_path / "out", stand_in).hint == hint


def test_an_interruption_ends_ffmpeg_and_leaves_no_file(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, tmp_path / "a.mp4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        encoder = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert "KeyboardInterrupt" in errors
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(encoder, 0)
