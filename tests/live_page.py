"""edgepipe-cam's live page in a real browser, for tests here and on the virtual board."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from needs import installed
from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Draws results on a black picture with the page's own function; returns the colours of a box's left
# side, of its centre, of a place outside, of the box's landmark and of a keypoint.
DRAW = """
const done = arguments[arguments.length - 1];
createImageBitmap(new ImageData(new Uint8ClampedArray(4 * 832 * 400), 832, 400)).then((black) => {
  draw(black, {frame: 5, detections: [
    {box: [100, 100, 300, 200], label: "cat", label_index: 2, score: 0.5, points: [[500, 300, 1]]}],
    points: [{label: "nose", label_index: 1, score: 0.9, point: [600, 300]}],
    areas: [{label: "road", label_index: 0, share: 0.25}], text: "edge"});
  const context = document.getElementById("picture").getContext("2d");
  done([[100, 150], [200, 150], [50, 150], [500, 300], [600, 300]].map(
    ([x, y]) => [...context.getImageData(x, y, 1, 1).data].slice(0, 3)));
});
"""


@contextmanager
def open_browser() -> Iterator[Any]:
    """Yield a headless Chromium."""
    options = webdriver.ChromeOptions()
    options.binary_location = installed("chromium", "chromium")
    for flag in FLAGS:
        options.add_argument(flag)
    driver = installed("chromedriver", "chromium-driver")
    service = webdriver.ChromeService(executable_path=driver)
    browser = webdriver.Chrome(options=options, service=service)
    try:
        yield browser
    finally:
        browser.quit()


def wait_until(browser: Any, condition: Callable[[], bool], limit_s: float = 90) -> None:
    """Wait until the page meets a condition."""
    WebDriverWait(browser, limit_s, poll_frequency=0.05).until(lambda _: condition())


def text_of(browser: Any, name: str) -> str:
    """Return the text of one of the page's elements."""
    script = "return document.getElementById(arguments[0]).textContent"
    return str(browser.execute_script(script, name))


def shown_frame(browser: Any) -> int:
    """Return the number of the frame that is drawn, -1 before the first."""
    script = "return document.getElementById('picture').dataset.frame ?? -1"
    return int(browser.execute_script(script))
