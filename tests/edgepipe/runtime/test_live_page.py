"""The live page of edgepipe-cam in a real browser."""

import colorsys
import re

import cam_programs as cam
import numpy as np
import pipeline_bundles as bundles
import pytest
from live_page import DRAW, open_browser, shown_frame, text_of, wait_until

from edgepipe.report.draw import colour

# Numbers as long as they get, and the tiles that are too narrow for theirs.
FILL = """
for (const id of ["median", "p95", "p99"]) show(id, "88888");
show("frame", "88888888");
"""
OVERFLOWING = """
return [...document.querySelectorAll("dd")].filter((tile) => tile.scrollWidth > tile.clientWidth)
  .map((tile) => tile.textContent);
"""

# Boxes as random numbers give them; returns the places of their labels.
PLACE = """
const [labels, height, width, canvasHeight] = arguments;
return placeLabels(labels, height, width, canvasHeight);
"""
DRAW_TWO = """
const done = arguments[arguments.length - 1];
createImageBitmap(new ImageData(new Uint8ClampedArray(4 * 832 * 400), 832, 400)).then((black) => {
  draw(black, {frame: 7, detections: [
    {box: [100, 100, 300, 200], label: "cat", label_index: 2, score: 0.9},
    {box: [400, 100, 600, 200], label: "dog", label_index: 3, score: 0.4}],
    points: [{label: "nose", label_index: 1, score: -0.3, point: [700, 300]}]});
  done();
});
"""
# The colours of the first classes, as the browser paints them.
PAINT = """
const context = document.createElement("canvas").getContext("2d");
return Array.from({length: arguments[0]}, (_, index) => {
  context.fillStyle = colour(index);
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
});
"""
SET_THRESHOLD = """
const slider = document.getElementById("threshold");
slider.value = arguments[0];
slider.dispatchEvent(new Event("input"));
"""
KEEP_DOWNLOAD = """
HTMLAnchorElement.prototype.click = function() { window.saved = [this.download, this.href]; };
"""
# The colours of a saved picture at the left side of the first box, and inside it.
READ_SAVED = """
const done = arguments[arguments.length - 1];
const saved = new Image();
saved.onload = () => {
  const canvas = document.createElement("canvas");
  canvas.width = saved.width;
  canvas.height = saved.height;
  const context = canvas.getContext("2d");
  context.drawImage(saved, 0, 0);
  const colours = [100, 200].map((x) => [...context.getImageData(x, 150, 1, 1).data]);
  done(colours.map((colour) => colour.slice(0, 3)));
};
element("picture").toBlob((blob) => {
  const reader = new FileReader();
  reader.onload = () => { saved.src = reader.result; };  // the page may not load blob: pictures
  reader.readAsDataURL(blob);
});
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


@pytest.fixture(scope="module")
def quiet_page(browser, tmp_path_factory):
    """Return the browser with a page whose server has ended: only the test draws on it."""
    bundle = cam.make_bundle(tmp_path_factory.mktemp("page"))
    with cam.serving(bundle, ["--source", "synthetic"]) as (url, process):
        browser.get(url)
        wait_until(browser, lambda: shown_frame(browser) >= 0)
        process.kill()
        wait_until(browser, lambda: text_of(browser, "connection") == "no connection")
    browser.get_log("browser")  # discards the message about it
    return browser


def test_labels_neither_overlap_nor_leave_the_picture(quiet_page):
    random = np.random.default_rng(0)
    for count in (2, 5, 40):
        boxes = random.uniform((-20, -20, 5, 5), (600, 380, 300, 200), (count, 4))
        labels = [
            {"left": x, "top": y, "bottom": y + height, "width": 30 + width / 3}
            for x, y, width, height in boxes.tolist()
        ]
        labels += [dict(labels[0]) for _ in range(2)]  # boxes at the same place
        places = quiet_page.execute_script(PLACE, labels, 17, 640, 400)
        assert places[0] is not None
        placed = [
            (place["left"], place["top"], label["width"])
            for label, place in zip(labels, places, strict=True)
            if place
        ]
        assert len(placed) > 1
        for index, (left, top, width) in enumerate(placed):
            assert left >= 0 and top >= 0 and left + width <= 640 and top + 17 <= 400
            for other_left, other_top, other_width in placed[:index]:
                assert (
                    left >= other_left + other_width
                    or other_left >= left + width
                    or abs(top - other_top) >= 17
                )


def test_a_class_has_the_hue_that_edgepipe_run_draws_it_with(quiet_page):
    def hue(red, green, blue):
        return colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)[0]

    for index, painted in enumerate(quiet_page.execute_script(PAINT, 256)):
        apart = abs(hue(*painted) - hue(*reversed(colour(index))))
        assert min(apart, 1 - apart) < 1 / 180, index


def test_the_threshold_hides_what_is_less_certain(quiet_page):
    quiet_page.execute_async_script(DRAW_TWO)
    quiet_page.execute_script(SET_THRESHOLD, 0)
    for threshold, shown in ((0, "cat × 1dog × 1"), (50, "cat × 1"), (95, "")):  # noqa: RUF001
        quiet_page.execute_script(SET_THRESHOLD, threshold)
        assert text_of(quiet_page, "found") == shown
        assert text_of(quiet_page, "threshold_text") == f"{threshold} %"
    quiet_page.execute_script(SET_THRESHOLD, 0)


def test_a_snapshot_is_the_picture_with_its_boxes(quiet_page):
    quiet_page.execute_async_script(DRAW_TWO)
    quiet_page.execute_script(KEEP_DOWNLOAD)
    quiet_page.find_element("id", "snapshot").click()
    wait_until(quiet_page, lambda: quiet_page.execute_script("return !!window.saved"))
    name, address = quiet_page.execute_script("return window.saved")
    assert name == "tiny-frame-7.png"
    assert address.startswith("blob:")
    side, inside = quiet_page.execute_async_script(READ_SAVED)
    assert max(side) > 150
    assert inside == [0, 0, 0]


def test_a_paused_picture_stays_while_the_numbers_go_on(browser, tmp_path):
    bundle = cam.make_bundle(tmp_path)
    with cam.serving(bundle, ["--source", "synthetic"]) as (url, _):
        browser.get(url)
        browser.get_log("browser")  # discards messages about the previous test's server
        wait_until(browser, lambda: shown_frame(browser) >= 0)
        browser.find_element("tag name", "body").send_keys("p")
        assert text_of(browser, "pause") == "Continue"
        held = shown_frame(browser)
        wait_until(browser, lambda: text_of(browser, "frame").isdigit())
        delivered = int(text_of(browser, "frame"))
        wait_until(browser, lambda: int(text_of(browser, "frame")) > delivered + 5)
        assert shown_frame(browser) == held
        browser.find_element("id", "pause").click()
        assert text_of(browser, "pause") == "Pause"
        wait_until(browser, lambda: shown_frame(browser) > held)
        assert browser.get_log("browser") == []


def test_times_below_a_tenth_of_a_millisecond_are_shown_in_microseconds(quiet_page):
    script = "return [0.0456, 0.4, 12, 300].map(duration)"
    expected = ["46 \N{MICRO SIGN}s", "0.40 ms", "12.00 ms", "300 ms"]
    assert quiet_page.execute_script(script) == expected


def test_light_and_dark_follow_the_system(quiet_page):
    script = "return getComputedStyle(document.body).backgroundColor"
    colours = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        quiet_page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        colours.append(quiet_page.execute_script(script))
    assert colours == ["rgb(243, 245, 248)", "rgb(18, 22, 28)"]
    quiet_page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
