"""The live page with many readers, and with readers that do not read."""

import fcntl
import itertools
import json
import os
import re
import resource
import socket
import struct
import subprocess
import termios
import time
from contextlib import ExitStack
from pathlib import Path

import cam_programs as cam
import page_readers as readers
import pytest
from lateness import LateError, in_time_half_of
from live_page import open_browser, shown_frame, text_of, wait_until
from needs import built

SYNTHETIC = ["--source", "synthetic"]
DROPPED_S, LATEST_DROPPED_S = 5, 20  # of a reader that takes nothing
PAGE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return cam.make_bundle(tmp_path_factory.mktemp("bundle"))


def threads_of(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"^Threads:\t(\d+)$", status, re.M)[1])


def until(condition, limit_s=60):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_three_hundred_readers_are_served_by_one_thread(bundle):
    with cam.serving(bundle, [*SYNTHETIC, "--http-readers", "300"]) as (url, process):
        with readers.reading(url, 1) as one:
            one.read_until(lambda: one.results[0] > 2)
            before = threads_of(process)
        with readers.reading(url, 300) as many:
            many.read_until(lambda: min(many.results) > 2 and min(many.statistics) > 2)
            assert threads_of(process) == before


def test_fifty_tabs_follow_the_frames_and_leave_the_pipeline_at_its_rate(bundle):
    with open_browser() as browser, cam.serving(bundle, SYNTHETIC) as (url, process):
        until(lambda: cam.has_published(process.pid))
        until(lambda: cam.delivered(process.pid)[0] > 30)  # it has warmed up
        alone = cam.delivered(process.pid)
        time.sleep(3)
        alone_hz = rate_since(alone, process.pid)
        # Like the browser, the others take the picture of each result.
        with readers.reading(url, 49, pictures=range(49)) as raw:
            browser.get(url)
            wait_until(browser, lambda: shown_frame(browser) >= 0)
            first = shown_frame(browser)
            before, pictures_bytes = list(raw.results), raw.pictures_bytes
            followed = cam.delivered(process.pid)
            raw.read_until(
                lambda: min(raw.results) > max(before) + 20 and shown_frame(browser) > first + 20
            )
            assert rate_since(followed, process.pid) >= alone_hz / 2
            assert raw.pictures_bytes > pictures_bytes
            assert_all_is_well(browser)


def rate_since(earlier, pid):
    """Return a pipeline's delivered frames per second since an earlier ``cam.delivered``."""
    frames, age_s = cam.delivered(pid)
    return (frames - earlier[0]) / (age_s - earlier[1])


def assert_all_is_well(browser):
    assert text_of(browser, "connection") == "live"
    assert text_of(browser, "dropped") == "0"
    assert "+ 0 dropped + 0 failed" in text_of(browser, "accounting")
    assert browser.get_log("browser") == []


def test_one_reader_too_many_is_told_to_come_back(bundle):
    with cam.serving(bundle, [*SYNTHETIC, "--http-readers", "3"]) as (url, _):
        with readers.reading(url, 3) as three:
            three.read_until(lambda: min(three.statistics) > 0)
            with readers.connect(url, readers.EVENTS) as fourth:
                answer = fourth.recv(4096)
            assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"\r\nRetry-After: 5\r\n" in answer
            told = b"this page has 3 readers, more are not allowed; try again later\n"
            assert answer.endswith(told)
            assert readers.status_of(url, PAGE) == 200
        until(lambda: readers.status_of(url, readers.EVENTS) == 200)


def test_a_browser_that_is_one_reader_too_many_says_so_and_tries_again(bundle):
    options = [*SYNTHETIC, "--http-readers", "1"]
    with open_browser() as browser, cam.serving(bundle, options) as (url, _):
        with readers.reading(url, 1) as one:
            one.read_until(lambda: one.statistics[0] > 0)
            browser.get(url)
            text = "this page has 1 readers, more are not allowed; try again later"
            one.read_until(lambda: text_of(browser, "connection").strip() == text)
        wait_until(browser, lambda: text_of(browser, "connection") == "live")


@in_time_half_of(2)
def test_readers_that_stop_reading_are_dropped_and_do_not_block_others(bundle):
    options = [*SYNTHETIC, "--http-readers", "12"]
    with cam.serving(bundle, options) as (url, _), ExitStack() as stack:
        stalled = [
            stack.enter_context(readers.connect(url, readers.EVENTS, readers.STALLED_BUFFER_BYTES))
            for _ in range(12)
        ]
        assert readers.status_of(url, PAGE) == 200
        waits_s = seconds_until_cut(stalled)  # reading would keep a connection
        until(lambda: readers.status_of(url, readers.EVENTS) == 200)
        for made in stalled:
            with pytest.raises(ConnectionResetError):
                while made.recv(65536):
                    pass
    assert min(waits_s) > DROPPED_S - 1
    if max(waits_s) > LATEST_DROPPED_S:
        raise LateError(f"dropped after {max(waits_s):.0f} s, expected {LATEST_DROPPED_S} s")


def seconds_until_cut(stalled):
    """Wait until all connections are cut; return the time of each since its last byte came."""
    held, since = [0] * len(stalled), [time.monotonic()] * len(stalled)
    waits_s = {}

    def look():
        for index, made in enumerate(stalled):
            if index in waits_s:
                continue
            (found,) = struct.unpack("i", fcntl.ioctl(made, termios.FIONREAD, bytes(4)))
            now = time.monotonic()
            if is_cut(made):
                waits_s[index] = now - since[index]
            elif found > held[index]:
                held[index], since[index] = found, now
        return len(waits_s) == len(stalled)

    until(look, limit_s=120)
    return list(waits_s.values())


def test_a_slow_reader_skips_frames_and_is_kept(bundle):
    options = [*SYNTHETIC, "--rate", "1000"]
    with (
        cam.serving(bundle, options) as (url, _),
        readers.connect(url, readers.EVENTS, readers.STALLED_BUFFER_BYTES) as slow,
    ):
        received = b""
        for _ in range(80):
            received += slow.recv(512)
            time.sleep(0.1)
    lines = [line for line in received.split(b"\n")[:-1] if line.startswith(b'data: {"frame"')]
    frames = [json.loads(line.removeprefix(b"data: "))["frame"] for line in lines]
    assert len(frames) > 2
    assert frames == sorted(set(frames))


def test_requests_that_arrive_slowly_are_ended_and_do_not_block_others(bundle):
    with cam.serving(bundle, SYNTHETIC) as (url, _), ExitStack() as stack:
        trickling = [stack.enter_context(readers.connect(url, PAGE[:8])) for _ in range(400)]
        assert readers.status_of(url, PAGE) == 200
        left = set(trickling)
        for letter in itertools.islice(itertools.cycle(b"abcdefgh"), 100):
            for made in list(left):
                try:
                    made.sendall(bytes([letter]))
                except (BrokenPipeError, ConnectionResetError):
                    left.remove(made)
            if not left:
                break
            time.sleep(0.2)
        assert not left
        assert readers.status_of(url, PAGE) == 200


def test_requests_of_one_connection_are_answered_in_their_order(bundle):
    missing = PAGE.replace(b"/ ", b"/none ")
    last = PAGE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    pipelined = PAGE + missing + last
    with cam.serving(bundle, SYNTHETIC) as (url, _), readers.connect(url, pipelined) as made:
        answer = b"".join(iter(lambda: made.recv(65536), b""))
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) == [b"200", b"404", b"200"]


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
        (b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\n", 431),
        (b"GET /picture/99999999999999999999999 HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    ],
)
def test_anything_but_a_plain_get_is_refused(bundle, request_bytes, code):
    with cam.serving(bundle, SYNTHETIC) as (url, _):
        assert readers.status_of(url, request_bytes) == code


def test_more_readers_than_open_files_are_refused_at_the_start(bundle):
    program = [str(built("edgepipe-cam")), str(bundle), *SYNTHETIC, "--http-readers", "200"]
    command = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert (
        "200 readers of the page need 520 open files, but this process may have 256" in done.stderr
    )
    assert (
        "hint: allow fewer readers, or raise the limit of open files (ulimit -n, or LimitNOFILE= "
        "in a systemd unit)\n" in done.stderr
    )


def test_connections_without_a_free_descriptor_are_closed_and_the_page_continues(bundle):
    with cam.serving(bundle, SYNTHETIC) as (url, process):
        limit = len(list(Path(f"/proc/{process.pid}/fd").iterdir())) + 4
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        with ExitStack() as stack:
            many = [stack.enter_context(readers.connect(url, PAGE)) for _ in range(20)]
            # The program also opens files for a moment, so the number varies.
            assert 10 <= sum(is_closed(made) for made in many) < 20
        until(lambda: readers.status_of(url, PAGE) == 200)


def test_without_a_reserve_descriptor_the_page_waits_and_answers_later(bundle):
    with cam.serving(bundle, SYNTHETIC) as (url, process):
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        with readers.connect(url, PAGE) as made:
            time.sleep(0.2)
            began = server_s(process.pid)
            time.sleep(0.5)
            assert server_s(process.pid) - began < 0.1
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
            assert made.recv(10) == b"HTTP/1.1 2"


def server_s(pid):
    """Return the processor time of the page's thread, in seconds."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text() == "http\n":
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    raise AssertionError("the page has no thread")


def is_cut(made):
    """Return whether the other side has reset a connection, without reading from it."""
    closed = 7  # TCP_CLOSE
    return made.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == closed


def is_closed(made):
    try:
        return made.recv(10) == b""
    except ConnectionResetError:
        return True
