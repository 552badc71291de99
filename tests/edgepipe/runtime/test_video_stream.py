"""``edgepipe-cam --stream``: what ffmpeg and a real receiver get, and what happens without them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cam_programs as cam
import cv2
import needs
import numpy as np
import ports
import pytest
from test_own_decoder import bundle_of, compiled

PASSWORD = "Gx7secretQ"
WIDTH, HEIGHT = 320, 240  # of the camera's pictures
SOURCE = ["--source", "synthetic", "--rate", "30", "--resolution", f"{WIDTH}x{HEIGHT}"]
QUIET = ["--headless", "--jsonl", "/dev/null"]
DECODER = """
int decode(const EpDecoderInput *in, EpDecoderOutput *out, char *error, uint64_t error_bytes) {
  out->boxes[0] = (EpBox){4, 4, 12, 12, 0.75F, 0};
  out->points[0] = (EpPoint){8, 8, 1};
  out->points[1] = (EpPoint){6, 10, 1};
  out->box_count = 1;
  out->point_count = 2;
  return 0;
}
"""
BOX = (80, 60, 240, 180)  # what DECODER gives, in pixels of the picture
RED, GREEN, BLUE = range(3)
INSTALL = "install a complete ffmpeg (Debian: apt-get install ffmpeg), or leave out the stream"
KEYS = {"destination", "sent", "dropped", "reconnects", "outage_s", "fault"}


def with_picture(bundle: Path) -> Path:
    """Write a grey picture beside the bundle, on which every colour is one of the results."""
    cv2.imwrite(str(bundle.parent / "grey.png"), np.full((HEIGHT, WIDTH, 3), 90, np.uint8))
    return bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_picture(cam.make_bundle(tmp_path_factory.mktemp("bundle")))


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory, files: Any) -> Path:
    """Return a bundle that finds the box BOX, of the first class, in every picture."""
    folder = tmp_path_factory.mktemp("boxes")
    return with_picture(bundle_of(folder / "boxes", files, library=compiled(folder, DECODER)))


@contextmanager
def streaming(
    bundle: Path, destination: object, *options: str, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run the program with a stream; yield the process, whose messages are in its stderr."""
    source = ["--source", bundle.parent / "grey.png", "--loop", "--rate", "30"]
    command = [needs.built("edgepipe-cam"), bundle, "--no-pin", *source, *QUIET]
    command += ["--stream", destination, *options]
    process = subprocess.Popen(
        [str(word) for word in command], stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def message(process: subprocess.Popen[str], part: str) -> str:
    """Wait for the program's next message with ``part``."""
    assert process.stderr is not None
    return next(line for line in process.stderr if part in line)


def until(condition: Any, seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def children(pid: int) -> list[int]:
    """Return the running programs that the process has started."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    text = " ".join((thread / "children").read_text() for thread in threads)
    return [int(word) for word in text.split()]


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def probed(source: object) -> dict[str, Any]:
    """Return what ffprobe says of a video's only stream, whose frames it counts."""
    ran = subprocess.run(
        [
            *(needs.installed("ffprobe", "ffmpeg"), "-loglevel", "error", "-count_frames"),
            *("-show_streams", "-of", "json", str(source)),
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )
    (stream,) = json.loads(ran.stdout)["streams"]
    return dict(stream)


def decoded(source: object, width: int, height: int) -> np.ndarray:
    """Return the last frame of a video, uint8[height, width, 3] in RGB."""
    ran = subprocess.run(
        [
            *("ffmpeg", "-loglevel", "error", "-i", str(source)),
            *("-f", "rawvideo", "-pix_fmt", "rgb24", "-"),
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )
    return np.frombuffer(ran.stdout, np.uint8).reshape(-1, height, width, 3)[-1]


def mean_colour(frame: np.ndarray, left: int, top: int, right: int, bottom: int) -> np.ndarray:
    return frame[top:bottom, left:right].reshape(-1, 3).mean(axis=0)


def is_first_hue(colour: np.ndarray) -> bool:
    """Return whether a colour is the red of the first class, as far as a video keeps it."""
    return bool(colour[RED] > 110 and colour[RED] > 40 + max(colour[GREEN], colour[BLUE]))


def ended(process: subprocess.Popen[str]) -> str:
    """End the program as systemd does; return its last messages."""
    process.send_signal(signal.SIGTERM)
    _, text = process.communicate(timeout=30)
    assert process.returncode == 0, text
    return text


# ---- HLS


def test_a_folder_gets_a_playlist_whose_frames_show_the_boxes(boxes: Path, tmp_path: Path) -> None:
    playlist = tmp_path / "new" / "live" / "stream.m3u8"
    with streaming(boxes, playlist.parent) as process:
        until(lambda: playlist.is_file() and playlist.read_text().count("#EXTINF") >= 2)
        (encoder,) = children(process.pid)
        text = ended(process)
    assert re.search(r"^stream: [1-9]\d* sent, \d+ dropped, 0 reconnects$", text, re.M)
    assert not running(encoder)
    lines = playlist.read_text().splitlines()
    assert lines[-1] == "#EXT-X-ENDLIST"
    assert all((playlist.parent / line).is_file() for line in lines if line[0] != "#")
    found = probed(playlist)
    assert (found["codec_name"], found["pix_fmt"]) == ("h264", "yuv420p")
    assert (found["width"], found["height"], found["r_frame_rate"]) == (WIDTH, HEIGHT, "15/1")
    assert int(found["nb_read_frames"]) >= 15
    frame = decoded(playlist, WIDTH, HEIGHT)
    left, top, right, bottom = BOX
    assert is_first_hue(mean_colour(frame, left + 4, bottom - 1, right - 4, bottom))
    assert is_first_hue(mean_colour(frame, left, top + 4, left + 1, bottom - 4))
    assert is_first_hue(mean_colour(frame, left + 2, top - 9, left + 5, top - 1))  # the name's band
    assert is_first_hue(mean_colour(frame, 159, 119, 162, 122))  # the point in the middle
    assert not is_first_hue(mean_colour(frame, left + 20, top + 20, left + 40, top + 40))


def test_a_class_is_a_caption(bundle: Path, tmp_path: Path) -> None:
    playlist = tmp_path / "door.m3u8"
    with streaming(bundle, playlist, "--stream-fps", "5") as process:
        until(playlist.is_file)
        ended(process)
    assert probed(playlist)["r_frame_rate"] == "5/1"
    assert all(re.fullmatch(r"door-\d+\.ts|door\.m3u8", p.name) for p in tmp_path.iterdir())
    band = decoded(playlist, WIDTH, HEIGHT)[:9, :40].max(axis=2)
    assert (band > 180).sum() > 20  # letters
    assert (band < 80).sum() > 100  # on the band


def test_old_segments_are_removed_also_those_of_an_earlier_run(
    bundle: Path, tmp_path: Path
) -> None:
    others = [tmp_path / name for name in ("stream-1.ts.txt", "stream-a.ts", "other-1.ts")]
    old = [tmp_path / "stream.m3u8", tmp_path / "stream-7.ts"]
    for path in [*others, *old]:
        path.write_text("old")
    with streaming(bundle, tmp_path, "--stream-size", "64x48") as process:
        until(lambda: len(set(tmp_path.glob("stream-*[0-9].ts")) - set(old)) >= 7)
        first = min(tmp_path.glob("stream-1*[0-9].ts"), key=lambda p: int(p.stem[7:]))
        until(lambda: not first.exists())
        assert len(list(tmp_path.glob("stream-*[0-9].ts"))) <= 10
        ended(process)
    assert probed(tmp_path / "stream.m3u8")["width"] == 64
    assert not old[1].exists()
    assert all(path.read_text() == "old" for path in others)


def test_pictures_are_fitted_into_the_size_that_was_asked_for(boxes: Path, tmp_path: Path) -> None:
    with streaming(boxes, tmp_path, "--stream-size", "320x120") as process:
        until((tmp_path / "stream.m3u8").is_file)
        ended(process)
    frame = decoded(tmp_path / "stream.m3u8", 320, 120)
    assert mean_colour(frame, 0, 0, 70, 120).max() < 20  # 160x120 pixels in the middle
    assert mean_colour(frame, 90, 20, 110, 100).max() > 20
    assert is_first_hue(mean_colour(frame, 124, 89, 196, 90))


def test_a_killed_program_leaves_no_ffmpeg_and_a_complete_playlist(
    bundle: Path, tmp_path: Path
) -> None:
    playlist = tmp_path / "stream.m3u8"
    with streaming(bundle, tmp_path) as process:
        until(playlist.is_file)
        (encoder,) = children(process.pid)
        process.kill()
        until(lambda: not running(encoder), 20)
    assert playlist.read_text().endswith("#EXT-X-ENDLIST\n")


def test_a_killed_ffmpeg_is_started_again(bundle: Path, tmp_path: Path) -> None:
    playlist = tmp_path / "stream.m3u8"
    with streaming(bundle, tmp_path) as process:
        until(playlist.is_file)
        first = int(re.search(r"SEQUENCE:(\d+)", playlist.read_text())[1])
        os.kill(children(process.pid)[0], signal.SIGKILL)
        fault = message(process, "; tries again")
        assert f"stream to {playlist}: " in fault
        assert "ffmpeg was killed by signal 9" in fault
        assert "check the folder, and with `ffmpeg -version` that ffmpeg runs" in fault
        assert re.search(r"works again, after \d", message(process, "works again"))
        # A player that goes on reading the playlist expects higher numbers.
        assert int(re.search(r"SEQUENCE:(\d+)", playlist.read_text())[1]) > first
        assert re.search(r"dropped, 1 reconnects$", ended(process).strip())


def test_a_folder_that_goes_away_is_made_again(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    with streaming(bundle, folder) as process:
        until((folder / "stream.m3u8").is_file)
        shutil.rmtree(folder)
        fault = message(process, "; tries again")
        assert f"stream to {folder}/stream.m3u8: ffmpeg: " in fault
        assert "No such file or directory" in fault
        message(process, "works again")
        assert (folder / "stream.m3u8").is_file()


def test_an_ffmpeg_that_delivers_nothing_is_started_again(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "ffmpeg").write_text("#!/bin/sh\nexec cat > /dev/null\n")
    (tmp_path / "ffmpeg").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with streaming(bundle, tmp_path / "live", environment=environment) as process:
        fault = message(process, "; tries again")
        assert "stream.m3u8: nothing has arrived there for 10 s" in fault
        assert "check the folder and its free space, or that the server answers" in fault


# ---- RTSP


@contextmanager
def server(port: int, into: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Receive what is published at the port as an RTSP server, by ffmpeg, into a file."""
    process = subprocess.Popen(
        [
            *(needs.installed("ffmpeg", "ffmpeg"), "-nostdin", "-loglevel", "error", "-y"),
            *("-rtsp_flags", "listen", "-i", f"rtsp://127.0.0.1:{port}/door", "-c", "copy"),
            *("-flush_packets", "1", into),
        ]
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def arrived(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 20_000


def test_a_server_gets_the_stream_and_again_after_it_was_away(boxes: Path, tmp_path: Path) -> None:
    port = ports.free_port()
    address = f"rtsp://viewer:{PASSWORD}@127.0.0.1:{port}/door"
    name = f"stream to rtsp://127.0.0.1:{port}/door: "
    said = []
    with streaming(boxes, address) as process:
        said.append(message(process, "; tries again"))
        assert f"{name}the server refuses the connection" in said[0]
        assert "(start the RTSP server, or check the host and the port in the address)" in said[0]
        with server(port, tmp_path / "one.mkv"):
            said.append(message(process, "works again"))
            until(lambda: arrived(tmp_path / "one.mkv"))
        said.append(message(process, "; tries again"))
        with server(port, tmp_path / "two.mkv") as receiver:
            said.append(message(process, "works again"))
            until(lambda: arrived(tmp_path / "two.mkv"))
            said.append(ended(process))
            receiver.wait(20)  # at the end of the stream
    assert all(line.startswith(f"edgepipe-cam: {name}") for line in said[:-1])
    assert re.search(r"^stream: \d+ sent, \d+ dropped, 2 reconnects$", said[-1], re.M)
    assert PASSWORD not in "".join(said)
    found = probed(tmp_path / "two.mkv")
    assert (found["codec_name"], found["width"], found["height"]) == ("h264", WIDTH, HEIGHT)
    left, _, right, bottom = BOX
    frame = decoded(tmp_path / "two.mkv", WIDTH, HEIGHT)
    assert is_first_hue(mean_colour(frame, left + 4, bottom - 1, right - 4, bottom))


def test_a_server_that_never_answers_delays_no_frame(bundle: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"rtsp://127.0.0.1:{silent.getsockname()[1]}/door"
        with streaming(bundle, address, "--stream-size", "1280x720") as process:
            until(lambda: cam.has_published(process.pid))
            fault = message(process, "; tries again")
            assert "no frame was taken for 10 s" in fault
            hint = "check that the server answers, or choose a smaller picture or a lower rate"
            assert hint in fault
            published = Path(f"/dev/shm/edgepipe-{process.pid}-0.json")

            def in_outage() -> Any:  # the figures are published a little later than the fault
                live = json.loads(published.read_text())["live"]
                stream = live["stream"]
                return live if stream["outage_s"] > 0 and stream["dropped"] > 50 else None

            live = until(in_outage)
            assert live["pipeline"]["delivered"] > 50
            assert live["stream"].keys() == KEYS
            assert live["stream"]["destination"] == address
            assert live["stream"]["fault"] in fault
            assert live["stream"]["reconnects"] == 0
            ended(process)
            assert not running(process.pid)


def test_a_killed_program_leaves_no_ffmpeg_that_waits_for_a_server(bundle: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        address = f"rtsp://127.0.0.1:{silent.getsockname()[1]}/door"
        with streaming(bundle, address) as process, silent.accept()[0]:
            (encoder,) = children(process.pid)
            process.kill()
            until(lambda: not running(encoder), 20)


class _Refusing(socketserver.StreamRequestHandler):
    """Answers requests over RTSP with the server's status."""

    def handle(self) -> None:
        sequence = b"1"
        while line := self.rfile.readline():
            if line.lower().startswith(b"cseq:"):
                sequence = line.split(b":")[1].strip()
            if line == b"\r\n":
                status = self.server.status.encode()  # type: ignore[attr-defined]
                self.wfile.write(b"RTSP/1.0 " + status + b"\r\nCSeq: " + sequence + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("401 Unauthorized", "the server refuses the name and password (check the name and the "),
        ("404 Not Found", "the server knows no such path (check the path in the address)"),
        ("501 Not Implemented", "(check that an RTSP server takes streams at this address)"),
    ],
)
def test_a_server_that_refuses_the_stream_is_asked_again(
    bundle: Path, status: str, expected: str
) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Refusing) as refusing:
        refusing.daemon_threads = True
        refusing.status = status  # type: ignore[attr-defined]
        threading.Thread(target=refusing.serve_forever, daemon=True).start()
        address = f"rtsp://127.0.0.1:{refusing.server_address[1]}/door"
        with streaming(bundle, address) as process:
            assert expected in message(process, "; tries again")
            until(lambda: cam.has_published(process.pid) and cam.delivered(process.pid)[0] > 20)
            ended(process)
        refusing.shutdown()


# ---- errors at the start, and figures


def refused(bundle: Path, destination: object, **settings: Any) -> str:
    """Run the program, which must end with an error; return what it prints."""
    done = cam.run(bundle, [*SOURCE, *QUIET, "--stream", str(destination)], **settings)
    assert done.returncode == 1
    text = done.stderr.decode()
    assert "Traceback" not in text
    return text


def test_without_ffmpeg_it_is_an_error_that_names_the_package(bundle: Path, tmp_path: Path) -> None:
    text = refused(bundle, tmp_path / "live", environment={"PATH": str(tmp_path)})
    assert "encoding it needs ffmpeg, which is not installed here" in text
    assert f"hint: {INSTALL}" in text


def test_an_ffmpeg_without_the_encoder_is_an_error(bundle: Path, tmp_path: Path) -> None:
    real = needs.installed("ffmpeg", "ffmpeg")
    script = tmp_path / "ffmpeg"
    script.write_text(
        f'#!/bin/bash\nexec {real} "${{@/libx264/libx999}}"\n'  # as if it had been left out
    )
    script.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    text = refused(bundle, tmp_path / "live", environment=os.environ | {"PATH": path})
    assert "found no encoder libx264 in ffmpeg, expected one that has it" in text
    assert f"hint: {INSTALL}" in text


def test_a_folder_that_cannot_be_written_to_is_an_error(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, reason in ((tmp_path / "file" / "x", "Not a directory"), ("/proc/x", "No such")):
        text = refused(bundle, folder)
        assert f"stream to {folder}/stream.m3u8: cannot write to {folder}: {reason}" in text
        assert (
            "hint: choose a folder that this program may write to, such as one below /dev/shm, "
            "which is in memory"
        ) in text


def test_a_name_with_a_percent_sign_is_an_error(bundle: Path, tmp_path: Path) -> None:
    text = refused(bundle, tmp_path / "100%d")
    assert "found a %, which ffmpeg takes for a number's place in a name" in text
    assert "hint: choose a folder and a name without it" in text


def test_an_address_of_another_kind_is_an_error_without_its_password(bundle: Path) -> None:
    text = refused(bundle, f"rtmp://viewer:{PASSWORD}@server/door")
    assert (
        "stream to rtmp://server/door: found an address of rtmp, expected rtsp, a folder, or a "
        "playlist"
    ) in text
    hint = "give the address of an RTSP server, as in rtsp://host/path, or a folder for HLS"
    assert f"hint: {hint}" in text
    assert PASSWORD not in text


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--stream-fps", "5"], "--stream-fps, --stream-size and --stream-kbits need --stream"),
        (["--stream", "x", "--stream-size", "321x240"], "two even numbers, e.g. 640x360"),
        (["--stream", "x", "--stream-fps", "0"], "1 to 120 frames per second"),
        (["--stream", "x", "--stream-kbits", "5"], "50 to 100000 kilobits"),
    ],
)
def test_wrong_options_are_refused(bundle: Path, options: list[str], error: str) -> None:
    done = cam.run(bundle, [*SOURCE, *QUIET, *options])
    assert done.returncode == 2
    assert error in done.stderr.decode()


def test_pictures_of_other_sizes_go_on_in_the_first_ones_size(bundle: Path, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for number, (width, height) in enumerate([(101, 75), (400, 300), (30, 60)]):
        cv2.imwrite(str(pictures / f"{number}.png"), np.full((height, width, 3), 200, np.uint8))
    source = ["--source", str(pictures), "--loop", "--rate", "10", "--frames", "40", *QUIET]
    done = cam.run(bundle, [*source, "--stream", str(tmp_path / "live")])
    assert done.returncode == 0, done.stderr.decode()
    found = probed(tmp_path / "live" / "stream.m3u8")
    assert (found["width"], found["height"]) == (100, 74)
