"""What the live page shows: the camera's picture, results in its pixels, and no flicker."""

import json
import urllib.request

import cam_programs as cam
import cv2
import numpy as np
import pytest
from live_page import open_browser, shown_frame, text_of, wait_until

# Draws a box of a picture that is twice as large as its copy; returns the colours of its left side
# and of the place where it would be without the reduction.
DRAW_REDUCED = """
const done = arguments[arguments.length - 1];
createImageBitmap(new ImageData(new Uint8ClampedArray(4 * 832 * 400), 832, 400)).then((black) => {
  draw(black, {frame: 5, picture: {width: 832, height: 400, reduction: 2}, detections: [
    {box: [400, 200, 1200, 600], label: "cat", label_index: 2, score: 0.5,
     points: [[1400, 300, 1]]}]});
  const context = document.getElementById("picture").getContext("2d");
  done([[200, 200], [400, 250], [700, 150]].map(
    ([x, y]) => [...context.getImageData(x, y, 1, 1).data].slice(0, 3)));
});
"""
# The height of the list of results with classes in three lines, and then with one class.
LIST_MANY_AND_ONE = """
const box = {box: [0, 0, 9, 9], score: 1};
const heights = [24, 1].map((count) => {
  const names = Array.from({length: count}, (_, index) => `a long name ${index}`);
  list(names.map((label, label_index) => ({...box, label, label_index})), {});
  return found.getBoundingClientRect().height;
});
return [...heights, found.children.length];
"""
# Looks at the picture before every repaint for some seconds: a row of its pixels, its size and its
# frame, and what moves on the page meanwhile.
WATCH = """
const done = arguments[arguments.length - 1];
const canvas = document.getElementById("picture");
const seen = {blank: 0, looks: 0, frames: [], sizes: [], shift: 0};
const observer = new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) seen.shift += entry.value;
});
observer.observe({type: "layout-shift"});
const end = performance.now() + arguments[0];
function look() {
  const row = canvas.getContext("2d").getImageData(0, canvas.height >> 1, canvas.width, 1).data;
  seen.looks += 1;
  seen.blank += row.every((value, index) => index % 4 === 3 || value === 0);
  const last = (kept, value) => { if (kept.at(-1) !== value) kept.push(value); };
  last(seen.frames, Number(canvas.dataset.frame));
  last(seen.sizes, `${canvas.width}x${canvas.height} ${canvas.clientWidth}x${canvas.clientHeight}`);
  if (performance.now() < end) requestAnimationFrame(look);
  else done(seen);
}
requestAnimationFrame(look);
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return cam.make_bundle(tmp_path_factory.mktemp("bundle"))


def first_result(url):
    """Return the first result that the page announces, and its picture."""
    with urllib.request.urlopen(f"{url}events", timeout=60) as events:
        while not events.readline().startswith(b"event: result"):
            pass
        result = json.loads(events.readline().removeprefix(b"data: "))
        with urllib.request.urlopen(f"{url}picture/{result['frame']}", timeout=60) as answer:
            content = np.frombuffer(answer.read(), np.uint8)
    return result, cv2.imdecode(content, cv2.IMREAD_COLOR)


def test_pictures_are_the_cameras_own(bundle, tmp_path):
    picture = np.zeros((30, 50, 3), np.uint8)
    picture[:, :25] = (200, 100, 50)
    assert cv2.imwrite(str(tmp_path / "0.png"), picture)
    options = ["--source", str(tmp_path), "--loop", "--rate", "5"]
    with cam.serving(bundle, options) as (url, _):
        result, shown = first_result(url)
    assert result["picture"] == {"width": 50, "height": 30, "reduction": 1}
    assert np.abs(shown[:, [5, 45]].astype(int) - picture[:, [5, 45]]).max() <= 12


def test_large_pictures_are_reduced_by_a_whole_number(bundle):
    options = ["--source", "synthetic", "--resolution", "1921x1080", "--rate", "2"]
    with cam.serving(bundle, options) as (url, _):
        result, shown = first_result(url)
    assert result["picture"] == {"width": 961, "height": 540, "reduction": 2}
    assert shown.shape == (540, 961, 3)


def test_results_are_those_of_the_lines_of_json(bundle, tmp_path):
    lines = tmp_path / "lines.jsonl"
    options = ["--source", "synthetic", "--rate", "5", "--jsonl", str(lines)]
    with cam.serving(bundle, options) as (url, _):
        result, _ = first_result(url)
        result.pop("picture")
        written = [json.loads(line) for line in lines.read_text().splitlines()]
    assert result in written


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


def test_boxes_are_in_pixels_of_the_picture_also_on_a_smaller_copy(browser, bundle):
    with cam.serving(bundle, ["--source", "synthetic"]) as (url, process):
        browser.get(url)
        wait_until(browser, lambda: shown_frame(browser) >= 0)
        process.kill()
    side, without, point = browser.execute_async_script(DRAW_REDUCED)
    assert max(side) > 150
    assert without == [0, 0, 0]
    assert max(point) > 150


def test_fewer_results_do_not_move_what_is_below(browser, bundle):
    with cam.serving(bundle, ["--source", "synthetic"]) as (url, process):
        browser.get(url)
        wait_until(browser, lambda: shown_frame(browser) >= 0)
        process.kill()
        wait_until(browser, lambda: text_of(browser, "connection") == "no connection")
    many, one, entries = browser.execute_script(LIST_MANY_AND_ONE)
    assert many == one > 60
    assert entries == 1


def test_nothing_flickers_at_thirty_pictures_per_second(browser, bundle):
    browser.set_script_timeout(60)
    with cam.serving(bundle, ["--source", "synthetic", "--rate", "30"]) as (url, _):
        browser.get(url)
        wait_until(browser, lambda: shown_frame(browser) > 10)
        wait_until(browser, lambda: browser.execute_script("return stages.rows.length > 0"))
        seen = browser.execute_async_script(WATCH, 5000)
    assert seen["looks"] > 20
    assert seen["blank"] == 0
    assert len(seen["sizes"]) == 1
    assert seen["frames"] == sorted(set(seen["frames"]))
    assert len(seen["frames"]) > 10
    assert seen["shift"] == 0


def test_a_picture_that_is_cleared_between_two_repaints_would_be_noticed(browser, bundle):
    with cam.serving(bundle, ["--source", "synthetic", "--rate", "30"]) as (url, _):
        browser.get(url)
        wait_until(browser, lambda: shown_frame(browser) > 0)
        browser.execute_script("setInterval(() => { picture.width = picture.width; }, 20)")
        seen = browser.execute_async_script(WATCH, 2000)
    assert seen["blank"] > 0
