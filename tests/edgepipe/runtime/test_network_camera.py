"""edgepipe-cam with a camera on the network."""

import dataclasses
import json
import math
import re
import subprocess
import urllib.request

import cam_programs as cam
import camera_servers
import pytest
from needs import built

from edgepipe.bundle import storage

PASSWORD = "Gx7secretQ"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return cam.make_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture
def camera():
    started = camera_servers.MjpegCamera()
    yield started
    if started._server is not None:
        started.stop()


def started(bundle, url, *options):
    """Start the program; its account goes to standard error, its results to standard output."""
    command = [built("edgepipe-cam"), bundle, "--no-pin", "--headless", "--source", url, *options]
    return subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_pictures_over_http_become_frames(bundle, camera):
    done = cam.run(bundle, ["--source", camera.url, "--headless", "--frames", "20"])
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["frame"] for line in lines] == list(range(20))
    assert lines[3]["source"] == f"{camera.url}#3"
    account = done.stderr.decode()
    assert f"source: {camera.url}\n" in account
    assert "0 missed, 0 silences, 0 reconnects" in account


def test_a_stream_over_rtsp_becomes_frames_and_its_password_appears_nowhere(bundle):
    with camera_servers.rtsp_camera("viewer", PASSWORD) as url:
        done = cam.run(bundle, ["--source", url, "--headless", "--frames", "5"])
    assert done.returncode == 0, done.stderr.decode()
    text = done.stdout.decode() + done.stderr.decode()
    assert PASSWORD not in text
    assert re.search(r"^source: rtsp://127\.0\.0\.1:\d+/street$", text, re.M)


def test_a_refused_password_is_an_error_that_does_not_show_it(bundle):
    with camera_servers.rtsp_camera("viewer", "another") as url:
        wrong = url.replace("another", PASSWORD)
        done = cam.run(bundle, ["--source", wrong, "--headless", "--frames", "5"])
    error = done.stderr.decode()
    assert done.returncode == 1
    assert "401 Unauthorized" in error
    assert PASSWORD not in error
    assert error.splitlines()[-1].startswith("hint: check the address, the name and password in it")


def test_an_address_that_nobody_serves_is_an_error_at_once(bundle, camera):
    camera.stop()
    url = camera.url.replace("http://", f"http://viewer:{PASSWORD}@")
    done = cam.run(bundle, ["--source", url, "--headless"])
    assert done.returncode == 1
    assert f"edgepipe-cam: error: {camera.url}: ffmpeg: " in done.stderr.decode()
    assert "Connection refused" in done.stderr.decode()
    assert PASSWORD not in done.stderr.decode()


def test_an_address_of_another_kind_is_an_error_that_lists_the_known_ones(bundle):
    url = f"rtps://viewer:{PASSWORD}@door/stream"
    done = cam.run(bundle, ["--source", url, "--headless"])
    error = done.stderr.decode()
    assert done.returncode == 1
    assert (
        "rtps://door/stream: found an address of rtps, "
        "expected rtsp, rtsps, http, https, rtmp, srt or udp"
    ) in error
    assert "hint: begin it with one of these, as in rtsp://door/stream" in error
    assert PASSWORD not in error


def test_a_camera_that_ends_its_stream_is_opened_again_and_counted(bundle, camera):
    camera.left = 15
    process = started(bundle, camera.url, "--frames", "30")
    for _ in range(10):
        process.stdout.readline()
    camera.stop()
    camera.left = math.inf
    lines = iter(process.stderr.readline, "")
    fault = next(line for line in lines if "to be opened again" in line)
    assert fault.startswith(f"edgepipe-cam: {camera.url}: ")
    camera.start()
    back = next(line for line in lines if "delivers pictures again" in line)
    assert re.search(r"after \d+(\.\d+)? s$", back)
    _, account = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "0 silences, 1 reconnects" in account


def test_a_silent_camera_is_opened_again(bundle, camera):
    camera.left = 15
    # The first picture must come within this time, too, and ffmpeg takes long on a busy machine.
    process = started(bundle, camera.url, "--frames", "30", "--source-timeout", "5")
    lines = iter(process.stderr.readline, "")
    assert next(line for line in lines if "no picture for 5 s; closed" in line)
    camera.left = math.inf
    _, account = process.communicate(timeout=60)
    assert process.returncode == 0
    assert re.search(r" [1-9]\d* silences", account)  # more on a machine that pauses


def test_a_camera_that_never_returns_ends_the_run_after_the_given_time(bundle, camera):
    process = started(bundle, camera.url, "--give-up", "1")
    process.stdout.readline()
    camera.stop()
    _, account = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "no picture for 1 s, although it was opened again 0 times" in account


def test_a_pipeline_that_is_slower_gets_the_newest_picture_and_drops_are_counted(bundle, camera):
    camera.period_s = 0
    source = ["--source", camera.url, "--jsonl", "/dev/null"]
    with cam.serving(bundle, source) as (url, _):
        found = {}
        while not found.get("edgepipe_source_dropped_total"):
            text = urllib.request.urlopen(f"{url}metrics", timeout=10).read().decode()
            lines = [line for line in text.splitlines() if line[0] != "#" and "{" not in line]
            found = {name: float(value) for name, value in map(str.split, lines)}
    taken, dropped = (found[f"edgepipe_source_{kind}_total"] for kind in ("taken", "dropped"))
    assert found["edgepipe_source_captured_total"] - taken - dropped in (0, 1)


def test_ctrl_c_while_it_waits_for_the_first_picture_ends_the_run(bundle, camera):
    camera.left = 0
    process = started(bundle, camera.url)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(2)
    process.communicate(timeout=20)
    assert process.returncode == 0  # as whenever Ctrl-C ends a run


@pytest.mark.parametrize(("options", "expected"), [([], 2), (["--slots", "3"], 3)])
def test_a_camera_has_fewer_frames_in_flight_than_a_file(
    bundle, camera, tmp_path, options, expected
):
    manifest = storage.read_manifest(bundle)
    contents = {entry.path: storage.read_file(bundle, entry) for entry in manifest.files}
    storage.write(
        tmp_path / "live",
        contents,
        lambda files: dataclasses.replace(manifest, files=files, slots=5, live_slots=2),
    )

    def slots(source, *given):
        with (
            cam.serving(tmp_path / "live", ["--source", source, *given]) as (url, _),
            urllib.request.urlopen(f"{url}events", timeout=60) as events,
        ):
            while not events.readline().startswith(b"event: statistics"):
                pass
            return json.loads(events.readline().removeprefix(b"data: "))["pipeline"]["slots"]

    assert slots(camera.url, *options) == expected
    if not options:
        assert slots("synthetic") == 5
