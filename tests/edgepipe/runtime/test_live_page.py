"""The live page of edgepipe-cam in a real browser."""

import re

import cam_programs as cam
import pipeline_bundles as bundles
import pytest
from live_page import DRAW, open_browser, shown_frame, text_of, wait_until

# Numbers as long as they get, and the tiles that are too narrow for theirs.
FILL = """
for (const id of ["median", "p95", "p99"]) show(id, "88888");
show("frame", "88888888");
"""
OVERFLOWING = """
return [...document.querySelectorAll("dd")].filter((tile) => tile.scrollWidth > tile.clientWidth)
  .map((tile) => tile.textContent);
"""


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


def test_frames_statistics_and_results_are_live(browser, tmp_path):
    bundle = cam.make_bundle(tmp_path)

    def text(name):
        return text_of(browser, name)

    with cam.serving(bundle, ["--source", "synthetic"]) as (url, process):
        browser.get(url)
        wait_until(browser, lambda: shown_frame(browser) >= 0)
        first = shown_frame(browser)
        wait_until(browser, lambda: shown_frame(browser) > first + 3)
        wait_until(browser, lambda: text("rate")[:1].isdigit() and float(text("rate")) > 0)
        assert text("connection") == "live"
        assert text("network") == "tiny"
        assert text("source") == "synthetic pictures, 640x480"
        both = "return ['median', 'p99'].map((id) => document.getElementById(id).textContent)"
        median, p99 = map(float, browser.execute_script(both))  # of the same moment
        assert 0 < median <= p99
        assert "+ 0 dropped + 0 failed" in text("accounting")
        rows = browser.execute_script("return document.getElementById('stages').rows.length")
        assert rows == 3
        assert "%" in text("found")
        assert browser.get_log("browser") == []

        process.kill()
        wait_until(browser, lambda: text("connection") == "no connection")

    side, middle, outside, landmark, keypoint = browser.execute_async_script(DRAW)
    assert min(map(max, (side, landmark, keypoint))) > 150
    assert middle == outside == [0, 0, 0]
    boxes = browser.execute_script("return document.getElementById('picture').dataset.boxes")
    assert boxes == "1"
    assert text("found") == "cat \N{MULTIPLICATION SIGN} 1road 25.0%edge"

    browser.execute_script(FILL)
    for width in (320, 390, 1400):
        size = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": True}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        assert browser.execute_script("return document.documentElement.scrollWidth") == width
        assert browser.execute_script(OVERFLOWING) == [], width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_faults_of_the_accelerator_and_the_recovery_are_shown(browser, tmp_path):
    network = bundles.make_network()
    (frame,) = bundles.frames(1)
    files = bundles.compile_files(network) | bundles.compile_fallback(network)
    golden = {"frame": frame, "scores": network.run(frame)}
    bundle = bundles.write_bundle(tmp_path / "tiny", files, golden)
    options = ["--source", "synthetic", "--device", "model", "--fault", "hang=1"]
    with cam.serving(bundle, [*options, "--device-timeout", "0.1"]) as (url, _):
        browser.get(url)
        browser.get_log("browser")  # discards messages about the previous test's server
        # The fault is shown at once, and the frame is counted when it has run again.
        again = re.compile(r"body: [1-9]\d* frames run again after a reset, ")
        wait_until(browser, lambda: again.match(text_of(browser, "faults")) is not None)
        fault = "stage 1 'body' at frame 0: stage body: vta: hangs"
        assert fault in text_of(browser, "faults")
        assert browser.get_log("browser") == []
