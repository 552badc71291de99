"""edgepipe-cam: pictures in, results, recording and page out."""

import http.client
import json
import os
import re
import resource
import signal
import struct
import subprocess
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import cam_programs as cam
import cv2
import needs
import numpy as np
import pytest

CLIP = Path(__file__).parents[3] / "examples/pedestrians.avi"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return cam.make_bundle(tmp_path_factory.mktemp("bundle"))


def smooth_picture(height, width, seed):
    """A picture without sharp edges, at which filters of different precision differ."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 6, 3)).astype(np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


def recorded(folder, count):
    names = sorted(path.name for path in folder.glob("*.ppm"))
    assert names == [f"{number:08d}.ppm" for number in range(count)]
    return [cv2.imread(str(folder / name)) for name in names]


def test_the_account_adds_up_and_every_frame_has_a_line(bundle):
    done = cam.run(
        bundle, ["--source", "synthetic", "--rate", "1000", "--frames", "9", "--headless"]
    )
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["frame"] for line in lines] == list(range(9))
    assert len(lines[0]["classes"]) == 3
    account = done.stderr.decode()
    assert "9 submitted = 9 delivered + 0 dropped + 0 failed" in account
    assert "source: 9 captured, 9 taken (0 of them damaged), 0 dropped" in account


@pytest.mark.parametrize("program", ["edgepipe-cam", "edgepipe-run"])
def test_results_are_selected_by_score_and_label(bundle, program):
    frames = np.random.default_rng(3).integers(0, 256, (4, 16, 16, 3)).astype(np.uint8).tobytes()
    source = ["--source", "-", "--headless"] if program == "edgepipe-cam" else ["--input", "-"]

    def classes(*options):
        command = [str(needs.built(program)), str(bundle), "--no-pin", *source, *options]
        done = subprocess.run(command, input=frames, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return [json.loads(line)["classes"] for line in done.stdout.splitlines()]

    every = classes()
    label = every[0][1]["label"]
    assert classes("--labels", label) == [
        [found for found in some if found["label"] == label] for some in every
    ]
    assert classes("--score", "0.5") == [
        [found for found in some if found["probability"] >= 0.5] for some in every
    ]


def test_the_number_of_frames_in_flight_can_be_given(bundle):
    options = ["--source", "synthetic", "--slots", "7"]
    with (
        cam.serving(bundle, options) as (url, _),
        urllib.request.urlopen(f"{url}events", timeout=60) as events,
    ):
        while not events.readline().startswith(b"event: statistics"):
            pass
        statistics = json.loads(events.readline().removeprefix(b"data: "))
    assert statistics["pipeline"]["slots"] == 7


def test_pictures_of_a_folder_become_frames_as_opencv_shrinks_them(bundle, tmp_path):
    pictures = [smooth_picture(48, 64, seed) for seed in range(3)]
    for number, picture in enumerate(pictures):
        assert cv2.imwrite(str(tmp_path / f"{number}.ppm"), picture)
    record = tmp_path / "record"
    done = cam.run(bundle, ["--source", str(tmp_path), "--headless", "--record", str(record)])
    assert done.returncode == 0, done.stderr.decode()
    assert (record / "results.jsonl").read_bytes() == done.stdout
    for frame, picture in zip(recorded(record, 3), pictures, strict=True):
        expected = cv2.resize(picture, (16, 16), interpolation=cv2.INTER_AREA)
        assert np.abs(frame.astype(int) - expected).max() <= 1


@pytest.mark.parametrize(
    ("name", "code"), [("yuyv", cv2.COLOR_YUV2BGR_YUYV), ("nv12", cv2.COLOR_YUV2BGR_NV12)]
)
def test_raw_camera_formats_have_opencvs_colours(bundle, tmp_path, name, code):
    rng = np.random.default_rng(5)
    shape = (16, 16, 2) if name == "yuyv" else (24, 16)
    picture = rng.integers(16, 236, shape).astype(np.uint8)
    options = ["--source", "-", "--format", name, "--headless", "--record", str(tmp_path)]
    done = cam.run(bundle, options, stdin=picture.tobytes())
    assert done.returncode == 0, done.stderr.decode()
    (frame,) = recorded(tmp_path, 1)
    assert np.abs(frame.astype(int) - cv2.cvtColor(picture, code)).max() <= 2


def test_a_video_file_becomes_frames_without_a_drop_and_ends_the_run(bundle, tmp_path):
    needs.installed("ffmpeg", "ffmpeg")
    video = cv2.VideoCapture(str(CLIP))
    expected = []
    while (read := video.read())[0]:
        expected.append(cv2.resize(read[1], (16, 16), interpolation=cv2.INTER_AREA))
    done = cam.run(bundle, ["--source", str(CLIP), "--headless", "--record", str(tmp_path)])
    assert done.returncode == 0, done.stderr.decode()
    account = done.stderr.decode()
    count = len(expected)
    assert f"{count} submitted = {count} delivered + 0 dropped + 0 failed" in account
    frames = np.stack(recorded(tmp_path, count)).astype(int)
    assert np.abs(frames - np.stack(expected)).max() <= 2


@pytest.mark.parametrize("pixels", ["yuv420p10le", "gray16le", "rgba64le", "gray"])
def test_a_video_of_any_depth_becomes_frames_of_8_bits(bundle, tmp_path, pixels):
    ffmpeg = needs.installed("ffmpeg", "ffmpeg")
    video = tmp_path / "deep.mkv"
    made = ["-f", "lavfi", "-i", "color=gray:size=32x32", "-frames:v", "3", "-c:v", "ffv1"]
    subprocess.run([ffmpeg, "-loglevel", "error", *made, "-pix_fmt", pixels, video], check=True)
    done = cam.run(bundle, ["--source", str(video), "--headless", "--record", str(tmp_path)])
    assert done.returncode == 0, done.stderr.decode()
    for frame in recorded(tmp_path, 3):
        assert np.abs(frame.astype(int) - 128).max() <= 2


def test_a_video_file_can_be_repeated(bundle):
    needs.installed("ffmpeg", "ffmpeg")
    options = ["--source", str(CLIP), "--loop", "--frames", "250", "--headless"]
    done = cam.run(bundle, options)
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stdout.splitlines()) == 250


def test_a_file_that_is_not_a_video_is_an_error_with_ffmpegs_message(bundle, tmp_path):
    needs.installed("ffmpeg", "ffmpeg")
    path = tmp_path / "-notes.txt"
    path.write_text("no video")
    done = cam.run(bundle, ["--source", str(path), "--headless"])
    assert done.returncode == 1
    assert f"error: {path}: ffmpeg: " in done.stderr.decode()
    assert "Invalid data found when processing input" in done.stderr.decode()


def test_without_ffmpeg_a_video_is_an_error_that_names_the_package(bundle, tmp_path):
    done = cam.run(bundle, ["--source", str(CLIP)], environment={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert "which is not installed here\nhint: install the package ffmpeg" in done.stderr.decode()


@contextmanager
def silent_after(content):
    """Yield standard input for a program: ``content``, and then nothing, without an end."""
    reader, writer = os.pipe()
    try:
        os.write(writer, content)
        yield reader
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("edgepipe-cam", ["--source", "-", "--headless", "--source-timeout", "0.5"]),
        ("edgepipe-run", ["--input", "-", "--input-timeout", "0.5"]),
    ],
)
def test_standard_input_that_falls_silent_ends_the_run_with_an_error(bundle, program, options):
    with silent_after(bytes(768 + 5)) as stdin:
        done = subprocess.run(
            [needs.built(program), bundle, "--no-pin", *options],
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1, "the frame before"
    *_, error, hint = done.stderr.splitlines()
    assert error == f"{program}: error: standard input: frame 1: incomplete after 0.5 s"
    assert hint == "hint: check the program that writes it"


def run_with_decoder(bundle, folder, script, options=(), start=None):
    """Run the program on a video that a shell script in place of ffmpeg decodes."""
    decoder = folder / "ffmpeg"
    decoder.write_text(f"#!/bin/sh\n{script}\n")
    decoder.chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    return cam.run(
        bundle,
        ["--source", str(CLIP), "--headless", *options],
        environment=environment,
        start=start,
    )


def test_a_decoder_that_falls_silent_ends_the_run_with_an_error(bundle, tmp_path):
    script = "printf 'P6 16 16 255 '; exec sleep 1000"
    done = run_with_decoder(bundle, tmp_path, script, ["--source-timeout", "0.5"])
    assert done.returncode == 1
    *_, error, hint = done.stderr.decode().splitlines()
    assert error == f"edgepipe-cam: error: {CLIP}: no picture from ffmpeg within 0.5 s"
    assert hint == ("hint: check that the file can be read, and that ffmpeg decodes it")


def statistics(events, wanted):
    """Return the first statistics of the page that ``wanted`` accepts."""
    for line in events:
        if line == b"event: statistics\n":
            figures = json.loads(next(events).removeprefix(b"data: "))
            if wanted(figures["source"]):
                return figures["source"]
    raise AssertionError("the page has ended")


def test_a_fifo_that_falls_silent_is_opened_again_counted_and_shown(bundle, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    options = ["--source", str(fifo), "--source-timeout", "0.5"]
    with cam.serving(bundle, options) as (url, process):
        with fifo.open("wb", buffering=0) as silent:
            silent.write(bytes(768 + 5))
            with urllib.request.urlopen(f"{url}events", timeout=60) as events:
                found = statistics(events, lambda source: source["silences"] and source["outage_s"])
                assert (found["captured"], found["fault"]) == (1, f"{fifo}: no picture for 0.5 s")
                # Not with "wb": for a moment, the program may have the fifo closed.
                with fifo.open("r+b", buffering=0) as writer:

                    def is_back(source):
                        writer.write(bytes(768))  # again, as silence counts from the last picture
                        return source["captured"] > 1 and not source["outage_s"]

                    back = statistics(events, is_back)
        assert back["reconnects"] >= 1
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    name = f"edgepipe-cam: {fifo}"
    assert f"{name}: no picture for 0.5 s; closed, to be opened again\n" in said
    assert f"{name}: delivers pictures again, after " in said
    assert re.search(r"source: \d+ captured, .* [1-9]\d* silences, [1-9]\d* reconnects\n", said)


def test_a_source_that_never_returns_ends_the_run_after_the_given_time(bundle, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    options = ["--source", str(fifo), "--source-timeout", "0.2", "--give-up", "0.9", "--headless"]
    done = cam.run(bundle, options)
    assert done.returncode == 1
    *_, error, hint = done.stderr.decode().splitlines()
    assert re.fullmatch(
        f"edgepipe-cam: error: {fifo}: no picture for 0.9 s, although it was opened again "
        r"\d+ times",
        error,
    )
    assert hint == ("hint: check the camera and its cable, or the program that writes the pictures")


def limited(bytes_):
    """Return what limits the memory of a program that is started."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))


def large_jpeg(path):
    """Write a JPEG of 16384x16384 pixels in a few bytes: one gray block, and then its end."""
    small = cv2.imencode(".jpg", np.full((16, 16), 128, np.uint8))[1].tobytes()
    at = small.index(b"\xff\xc0") + 5
    path.write_bytes(small[:at] + struct.pack(">HH", 16384, 16384) + small[at + 4 :])


FEW_BYTES = (4096 + 600) << 20  # the slots reserve 4096 MiB; 16384x16384 pixels take 768 MiB
LARGE = "pixels, expected at most 33554432 in all\nhint: scale it down, or raise the limit"


def test_a_large_picture_is_refused_before_it_is_decoded(bundle, tmp_path):
    large_jpeg(tmp_path / "0.jpg")
    options = ["--source", str(tmp_path), "--headless"]
    done = cam.run(bundle, options, start=limited(FEW_BYTES))
    assert done.returncode == 1
    assert f"JPEG: the picture is 16384x16384 {LARGE}" in done.stderr.decode()


def test_a_decoders_impossible_picture_is_refused(bundle, tmp_path):
    done = run_with_decoder(bundle, tmp_path, "printf 'P6 999999 999999 255 '")
    assert done.returncode == 1
    assert (
        f"error: {CLIP}: the picture is 999999x999999 pixels, expected sides of 1 to 16384\n"
    ) in done.stderr.decode()


def test_a_large_video_is_refused_by_its_decoder(bundle, tmp_path):
    needs.installed("ffmpeg", "ffmpeg")
    options = ["--source", str(CLIP), "--headless", "--max-pixels", "1000"]
    done = cam.run(bundle, options)
    assert done.returncode == 1
    *_, error, hint = done.stderr.decode().splitlines()
    assert error.startswith(f"edgepipe-cam: error: {CLIP}: ffmpeg: ")
    assert hint == (
        "hint: check that ffmpeg decodes it, and that its pictures have at most 1000 pixels"
    )


@pytest.mark.parametrize("source", ["synthetic", "-"])
def test_a_resolution_above_the_limit_is_refused(bundle, source):
    options = ["--source", source, "--resolution", "16384x16384", "--headless"]
    done = cam.run(bundle, options)
    assert done.returncode == 1
    assert f"error: the source: the picture is 16384x16384 {LARGE}" in done.stderr.decode()


def test_a_source_that_needs_more_memory_than_there_is_ends_the_run(bundle, tmp_path):
    done = run_with_decoder(
        bundle,
        tmp_path,
        "printf 'P6 16384 16384 255 '; exec sleep 1000",
        options=["--max-pixels", "268435456"],
        start=limited(FEW_BYTES),
    )
    assert done.returncode == 1, done.stderr.decode()
    *_, error, hint = done.stderr.decode().splitlines()
    assert error == "edgepipe-cam: error: out of memory"
    assert hint == "hint: give the process more memory, or use smaller pictures or fewer slots"


def test_a_stage_that_needs_more_memory_than_there_is_ends_the_run(bundle, tmp_path):
    large_jpeg(tmp_path / "0.jpg")
    options = ["--source", str(tmp_path), "--headless", "--max-pixels", "268435456"]
    done = cam.run(bundle, options, start=limited(FEW_BYTES))
    assert done.returncode == 1, done.stderr.decode()
    *_, error, hint = done.stderr.decode().splitlines()
    assert error.startswith("edgepipe-cam: error: stage 0 'stem' at frame 0: ")
    assert error.endswith(": out of memory")
    assert hint == "hint: give the process more memory, or use smaller pictures or fewer slots"


def test_the_trace_has_a_track_for_the_source_and_each_stage(bundle, tmp_path):
    trace = tmp_path / "trace.json"
    options = ["--source", "synthetic", "--rate", "1000", "--frames", "5", "--headless"]
    assert cam.run(bundle, [*options, "--trace", str(trace)]).returncode == 0
    events = json.loads(trace.read_text())["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    stages = {"stage thread stem", "stage thread body", "stage thread head"}
    assert tracks == {"source", *stages}
    ran = [event["args"]["frame"] for event in events if event["name"] == "stem"]
    assert ran == list(range(5))


def test_a_frame_of_the_networks_own_size_arrives_unchanged(bundle, tmp_path):
    frames = np.random.default_rng(6).integers(0, 256, (2, 16, 16, 3)).astype(np.uint8)
    options = ["--source", "-", "--headless", "--record", str(tmp_path)]
    assert cam.run(bundle, options, stdin=frames.tobytes()).returncode == 0
    assert np.array_equal(np.stack(recorded(tmp_path, 2)), frames)


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ([], 2, "give either --camera or --source"),
        (["--source", "synthetic", "--format", "rgba"], 2, "--format: found 'rgba', expected rgb"),
        (["--source", "synthetic", "--format", "jpg"], 2, "or jpeg; did you mean jpeg?"),
        (["--source", "synthetic", "--lables", "cat"], 2, "'--lables'; did you mean --labels?"),
        (["--source", "synthetic", "--http", "8080"], 2, "expected e.g. 127.0.0.1:8080"),
        (["--source", "synthetic", "--http", "here:80"], 1, "here:80: expected an IPv4 address"),
        (["--camera", "/dev/no-such"], 1, "/dev/no-such: cannot be opened: No such file"),
        (
            ["--camera", "/dev/null"],
            1,
            "/dev/null: not a V4L2 device\nhint: connect a camera; `v4l2-ctl --list-devices` ",
        ),
        (["--source", "/no/such"], 1, "/no/such: no such folder or picture"),
        (["--source", "x" * 300], 1, "xxx: File name too long"),
        (
            ["--source", "synthetic", "--labels", "car,"],
            2,
            "expected names of classes, e.g. person",
        ),
        (
            ["--source", "synthetic", "--labels", "zebra"],
            1,
            "has no class 'zebra', expected one of",
        ),
        (["--source", "synthetic", "--score", "2"], 2, "expected a number from 0 to 1"),
        (["--source", "synthetic", "--slots", "0"], 2, "expected a number from 1 to 1024"),
        (["--source", "-"], 1, "frame 0: the input ends after 5 of 768 bytes"),
    ],
)
def test_errors_say_what_was_found_and_expected(bundle, options, code, text):
    done = cam.run(bundle, [*options], stdin=b"short")
    assert done.returncode == code
    assert text in done.stderr.decode()


def test_ctrl_c_ends_it_cleanly(bundle):
    with cam.serving(bundle, ["--source", "synthetic"]) as (url, process):
        with urllib.request.urlopen(f"{url}events", timeout=60) as events:
            while not events.readline().startswith(b"event: result"):
                pass
        process.send_signal(signal.SIGINT)
        _, account = process.communicate(timeout=60)
    assert process.returncode == 0
    assert " + 0 dropped + 0 failed; " in account


def get(url, path, **headers):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.getheader("Content-Type"), answer.read()


def test_the_page_serves_frames_as_pictures_and_only_to_local_names(bundle):
    with cam.serving(bundle, ["--source", "synthetic", "--rate", "2"]) as (url, _):
        status = 404
        with urllib.request.urlopen(f"{url}events", timeout=60) as events:
            while status == 404:  # of a frame so old that the page no longer has its picture
                while not events.readline().startswith(b"event: result"):
                    pass
                frame = json.loads(events.readline().removeprefix(b"data: "))["frame"]
                status, kind, content = get(url, f"/picture/{frame}")
        assert (status, kind) in {(200, "image/jpeg"), (200, "image/bmp")}
        picture = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
        assert picture.shape == (480, 640, 3)
        assert get(url, "/picture/99999")[0] == 404
        assert get(url, "/picture/1x")[0] == 404
        assert get(url, "/../etc/passwd")[0] == 404
        assert get(url, "/", Host="evil.example")[0] == 403
        assert get(url, "/?x=1")[0] == 200
