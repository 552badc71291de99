"""edgepipe-cam on the virtual board with the kernel's test camera, vivid, at /dev/video0."""

import io
import re
import socket
import subprocess
import tarfile
import time
from contextlib import contextmanager

import cv2
import numpy as np
import pytest
from live_page import DRAW, open_browser, shown_frame, text_of, wait_until
from needs import built
from small_networks import build_small_bundle

from edgepipe import boards
from edgepipe.virtual_board.fpga_model import FpgaOptions

pytestmark = pytest.mark.board

# vivid's pattern: eight bars at 75 %, from the left, in BGR.
BARS = 191 * np.array(
    [
        [1, 1, 1],
        [0, 1, 1],
        [1, 1, 0],
        [0, 1, 0],
        [1, 0, 1],
        [0, 0, 1],
        [1, 0, 0],
        [0, 0, 0],
    ]
)


@pytest.fixture(scope="module")
def camera(virtual_board):
    """Return the board with edgepipe-cam and a camera that gives ten pictures a second."""
    virtual_board.load_fpga(FpgaOptions(accelerator=boards.load("ultra96").accelerator))
    script = "cat > /usr/local/bin/edgepipe-cam && chmod +x /usr/local/bin/edgepipe-cam"
    must(virtual_board, script, stdin=built("edgepipe-cam", "aarch64").read_bytes())
    prepare_camera(virtual_board)
    return virtual_board


def prepare_camera(board):
    # Without the text overlay of vivid.
    must(board, "v4l2-ctl --set-parm 10 && v4l2-ctl --set-ctrl osd_text_mode=2")


def must(board, command, stdin=b""):
    done = board.run([command], stdin=stdin, deadline_s=120)
    assert done.returncode == 0, done.stderr.decode()
    return done


def account(text):
    """Return submitted, delivered, dropped and failed, and the camera's counters."""
    frames = re.search(r"(\d+) submitted = (\d+) delivered \+ (\d+) dropped \+ (\d+) failed", text)
    source = re.search(
        r"source: (\d+) captured, (\d+) taken .* (\d+) dropped, (\d+) missed, \d+ silences, "
        r"(\d+) reconnects",
        text,
    )
    assert frames, text
    assert source, text
    return [int(n) for n in frames.groups()], [int(n) for n in source.groups()]


@pytest.fixture(scope="module")
def program(architecture, camera, machine, board_file, tmp_path_factory):
    """Return the command of edgepipe-cam for ``architecture``, with a small bundle."""
    folder = tmp_path_factory.mktemp("camera")
    bundle = build_small_bundle(folder, board=str(board_file(architecture)))
    path = f"/root/small-{architecture}.edgepipe"
    must(machine, f"cat > {path}", stdin=bundle.read_bytes())
    return f"edgepipe-cam {path} --camera /dev/video0"


@pytest.mark.parametrize("name", ["yuyv", "nv12", "rgb", "bgr"])
def test_every_format_gives_the_cameras_colours(machine, program, name):
    done = must(
        machine,
        f"rm -rf /tmp/record; {program} --format {name} --resolution 640x360 --frames 3 --headless"
        " --record /tmp/record --jsonl /tmp/lines && tar -c -C /tmp/record .",
    )
    said = done.stderr.decode()
    assert f"source: /dev/video0, {name} 640x360 from vivid" in said
    (submitted, delivered, dropped, failed), (captured, taken, replaced, *_) = account(said)
    assert submitted == 3 == delivered + dropped + failed
    assert captured == taken + replaced
    assert taken >= delivered == 3
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        content = tar.extractfile("./00000002.ppm").read()
    frame = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    assert frame.shape == (16, 16, 3)
    bars = frame[:8].reshape(8, 8, 2, 3).mean(axis=(0, 2))
    assert np.abs(bars - BARS).max() <= 12


def test_a_format_that_the_camera_lacks_is_an_error(machine, program):
    done = machine.run([f"{program} --format jpeg --headless"])
    assert done.returncode == 1
    assert re.search(r"/dev/video0: none of its \d+ formats is jpeg", done.stderr.decode())


@contextmanager
def running(board, command, port=None):
    """Run edgepipe-cam on the board; yield its remote and local process; kill it afterwards."""
    forward = ["-L", f"{port}:127.0.0.1:8080", "-o", "ExitOnForwardFailure=yes"] if port else []
    command = board.ssh_command([f"echo $$; exec {command}"], forward)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    number = int(process.stdout.readline())
    try:
        for line in process.stderr:
            if line.startswith("source: "):
                break
        else:
            pytest.fail("edgepipe-cam ended at once")
        yield number, process
    finally:
        board.run([f"kill -9 {number}"])
        process.kill()
        process.communicate()


def ends_cleanly(board, number, process):
    """Interrupt the program and return its account."""
    must(board, f"kill -INT {number}")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return account(said)


def lines_of(board):
    return int(must(board, "wc -l < /tmp/lines").stdout)


def wait_for_lines(board, more_than):
    end = time.monotonic() + 60
    while (found := lines_of(board)) <= more_than:
        assert time.monotonic() < end, "no more frames come"
        time.sleep(0.2)
    return found


def test_the_drivers_buffers_are_exported_as_dma_bufs_and_returned(machine, program):
    with running(machine, f"{program} --headless --jsonl /tmp/lines") as (number, process):
        # ls fails if a file that it has listed is closed before it reads the link.
        links = must(machine, f"ls -l /proc/{number}/fd || true").stdout.decode()
        assert links.count("dmabuf") >= 3
        (submitted, delivered, dropped, failed), _ = ends_cleanly(machine, number, process)
        assert submitted == delivered + dropped + failed
    # A stream that was not closed would block the next one.
    must(machine, "v4l2-ctl --stream-mmap --stream-count=1")


def test_an_unplugged_camera_is_used_again_when_it_returns(machine, program):
    driver = "/sys/bus/platform/drivers/vivid"
    try:
        with running(machine, f"{program} --headless --jsonl /tmp/lines") as (number, process):
            wait_for_lines(machine, 0)
            must(machine, f"echo vivid.0 > {driver}/unbind; sleep 1; test ! -e /dev/video0")
            stalled = lines_of(machine)
            must(machine, f"kill -0 {number}; echo vivid.0 > {driver}/bind; test -e /dev/video0")
            wait_for_lines(machine, stalled + 1)
            (submitted, delivered, dropped, failed), counters = ends_cleanly(
                machine, number, process
            )
            assert submitted == delivered + dropped + failed
            assert counters[4] == 1
    finally:
        machine.run([f"test -e /dev/video0 || echo vivid.0 > {driver}/bind"])
        prepare_camera(machine)


def test_the_page_is_live_through_a_tunnel(machine, program):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (
        open_browser() as browser,
        running(machine, f"{program} --resolution 640x360", port) as (number, process),
    ):
        browser.get(f"http://127.0.0.1:{port}/")
        wait_until(browser, lambda: shown_frame(browser) >= 0, 60)
        first = shown_frame(browser)
        wait_until(browser, lambda: shown_frame(browser) > first + 3, 60)
        wait_until(browser, lambda: text_of(browser, "rate")[:1].isdigit(), 60)
        assert text_of(browser, "connection") == "live"
        assert text_of(browser, "source") == "/dev/video0, yuyv 640x360 from vivid"
        assert float(text_of(browser, "median")) > 0
        assert re.match(r"\d+ submitted = ", text_of(browser, "accounting"))
        # The camera's picture: white on the left, black on the right.
        left, right = browser.execute_script(
            "const canvas = document.getElementById('picture');"
            "const context = canvas.getContext('2d');"
            "return [0.03, 0.97].map((x) => [...context.getImageData("
            "  x * canvas.width, canvas.height / 2, 1, 1).data].slice(0, 3));"
        )
        assert min(left) > 150
        assert max(right) < 60
        (_, delivered, _, failed), _ = ends_cleanly(machine, number, process)
        assert delivered > 3
        assert failed == 0
        wait_until(browser, lambda: text_of(browser, "connection") == "no connection")
        side, middle, outside, *_ = browser.execute_async_script(DRAW)
    assert max(side) > 150
    assert middle == outside == [0, 0, 0]
