"""The live page of edgepipe-cam in a real browser."""

import cam_programs as cam
import pytest
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
TEXT = "return document.getElementById(arguments[0]).textContent"
# Draws a box over a black picture with the page's own function; gives the colour of the box's left
# side, of its middle, and of a point outside.
DRAW = """
const done = arguments[arguments.length - 1];
createImageBitmap(new ImageData(new Uint8ClampedArray(4 * 832 * 400), 832, 400)).then((black) => {
  draw(black, {frame: 5, detections: [
    {box: [100, 100, 300, 200], label: "cat", label_index: 2, score: 0.5}]});
  const context = document.getElementById("picture").getContext("2d");
  done([[100, 150], [200, 150], [50, 150]].map(
    ([x, y]) => [...context.getImageData(x, y, 1, 1).data].slice(0, 3)));
});
"""


@pytest.fixture(scope="module")
def browser():
    chromium = installed("chromium", "chromium")
    driver = installed("chromedriver", "chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    service = webdriver.ChromeService(executable_path=driver)
    browser = webdriver.Chrome(options=options, service=service)
    yield browser
    browser.quit()


def wait_until(browser, condition):
    WebDriverWait(browser, 30, poll_frequency=0.05).until(lambda _: condition())


def test_frames_statistics_and_results_are_live(browser, tmp_path):
    bundle = cam.make_bundle(tmp_path)

    def shown_frame():
        return browser.execute_script("return document.getElementById('picture').dataset.frame")

    def text(name):
        return browser.execute_script(TEXT, name)

    with cam.serving(bundle, ["--source", "synthetic"]) as (url, process):
        browser.get(url)
        wait_until(browser, lambda: shown_frame() is not None)
        first = int(shown_frame())
        wait_until(browser, lambda: int(shown_frame()) > first + 3)
        wait_until(browser, lambda: text("rate")[:1].isdigit() and float(text("rate")) > 0)
        assert text("connection") == "live"
        assert text("network") == "tiny"
        assert text("source") == "synthetic pictures, 640x480"
        assert 0 < float(text("median")) <= float(text("p99"))
        assert "+ 0 dropped + 0 failed" in text("accounting")
        rows = browser.execute_script("return document.getElementById('stages').rows.length")
        assert rows == 3
        assert "%" in text("found")
        assert browser.get_log("browser") == []

        process.kill()
        wait_until(browser, lambda: text("connection") == "no connection")

    side, middle, outside = browser.execute_async_script(DRAW)
    assert max(side) > 150
    assert middle == outside == [0, 0, 0]
    boxes = browser.execute_script("return document.getElementById('picture').dataset.boxes")
    assert boxes == "1"
    assert text("found").startswith("cat")
