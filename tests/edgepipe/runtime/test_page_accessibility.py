"""The live page without a mouse, without a screen, without motion, and in every colour scheme."""

import itertools
import re
import time

import cam_programs as cam
import pytest
from live_page import DRAW, open_browser, shown_frame, text_of, wait_until
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

TEXT_CONTRAST, GRAPHICS_CONTRAST = 4.5, 3  # WCAG 2.2, 1.4.3 and 1.4.11, level AA
FOCUSABLE = ["pause", "snapshot", "threshold", "SUMMARY"]
# Everything that the page can show: a fault, every tile filled, the keys unfolded.
SHOW_ALL = """
showFaults([{name: "vta0", retries: 2, fallback_frames: 1, fault: "vta: hangs"}]);
showBoard({cores: 4, processor_load: 0.62, program_load: 0.35, temperatures: [
  {sensor: "thermal_zone0", type: "cpu-thermal", celsius: 41.5},
  {sensor: "hwmon1/temp1", type: "pmic", celsius: 39}]});
document.querySelector("details").open = true;
"""
# The text of each element that has some, its colour, and the colour behind it.
COLOURS_OF_TEXTS = """
const behind = (node) => {
  const colour = getComputedStyle(node).backgroundColor;
  return colour === "rgba(0, 0, 0, 0)" ? behind(node.parentElement) : colour;
};
return [...document.body.querySelectorAll("*")]
  .filter((node) => node.tagName !== "SCRIPT" && node.offsetParent !== null &&
    [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
  .map((node) => [node.textContent.trim(), getComputedStyle(node).color, behind(node)]);
"""
COLOURS_OF_LABELS = """
const context = document.createElement("canvas").getContext("2d");
return Array.from({length: 256}, (_, index) => {
  context.fillStyle = colour(index);
  context.fillRect(0, 0, 1, 1);
  return `rgb(${[...context.getImageData(0, 0, 1, 1).data].slice(0, 3)})`;
});
"""
FOCUSED = """
const node = document.activeElement;
const style = getComputedStyle(node);
return [node.id || node.tagName, style.outlineStyle, parseFloat(style.outlineWidth)];
"""
COUNT_SAYINGS = """
window.sayings = [];
new MutationObserver(() => window.sayings.push(document.getElementById("said").textContent))
  .observe(document.getElementById("said"), {childList: true, characterData: true, subtree: true});
"""


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def live(browser, tmp_path_factory):
    """Return the browser with a page that goes on."""
    bundle = cam.make_bundle(tmp_path_factory.mktemp("page"))
    with cam.serving(bundle, ["--source", "synthetic", "--rate", "30"]) as (url, _):
        browser.get(url)
        wait_until(browser, lambda: shown_frame(browser) >= 0)
        wait_until(browser, lambda: text_of(browser, "connection") == "live")
        wait_until(browser, lambda: browser.execute_script("return stages.rows.length > 0"))
        yield browser


def media(browser, **features):
    """Set features of the system, such as its colour scheme; none: the usual ones."""
    values = [{"name": name, "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": values})


# ---- contrast


def luminance(colour):
    """Return the relative luminance of an opaque colour, as WCAG 2.2 defines it."""
    parts = [
        int(part) / 255 for part in re.fullmatch(r"rgb\((\d+), ?(\d+), ?(\d+)\)", colour).groups()
    ]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrasts_are_those_of_their_definition():
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(118, 118, 118)", "rgb(255, 255, 255)") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("connected", [True, False])
def test_every_text_can_be_read(live, scheme, connected):
    media(live, **{"prefers-color-scheme": scheme})
    offline = f"connection.classList.toggle('off', {str(not connected).lower()});"
    texts = live.execute_script(SHOW_ALL + offline + COLOURS_OF_TEXTS)
    live.execute_script("connection.classList.remove('off')")
    media(live)
    shown = {text for text, _, _ in texts}
    assert {
        "Pause",
        "live",
        "Keys",
        "Space",
        "temperature",
        "41.5",
        "vta: hangs",
        "waiting",
    } <= shown
    poor = [(*text, contrast(*text[1:])) for text in texts if contrast(*text[1:]) < TEXT_CONTRAST]
    assert poor == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_control_and_bar_can_be_seen(live, scheme):
    media(live, **{"prefers-color-scheme": scheme})
    script = """
    const of = (id, name) => getComputedStyle(document.querySelector(id))[name];
    const panel = of(".view", "backgroundColor");
    const back = of("body", "backgroundColor");
    pause.focus();
    return [[of("#pause", "borderTopColor"), panel], [of(".bar i", "backgroundColor"), back],
            [of("#pause", "outlineColor"), panel]];
    """
    pairs = live.execute_script(script)
    media(live)
    assert [pair for pair in pairs if contrast(*pair) < GRAPHICS_CONTRAST] == []


def test_the_label_of_every_class_can_be_read(live):
    labels = live.execute_script(COLOURS_OF_LABELS)
    poor = {at: c for at, c in enumerate(labels) if contrast("rgb(0, 0, 0)", c) < TEXT_CONTRAST}
    assert poor == {}


# ---- keyboard


def press(browser, *keys):
    actions = ActionChains(browser)
    for key in keys:
        actions.send_keys(key)
    actions.perform()


def is_paused(browser):
    return text_of(browser, "pause") == "Continue"


def test_tab_reaches_every_control_in_order_and_shows_where_it_is(live):
    live.execute_script("document.querySelector('details').open = false")
    live.execute_script(
        "const [title] = document.getElementsByTagName('h1'); title.tabIndex = -1; title.focus()"
    )
    reached = []
    for _ in FOCUSABLE:
        press(live, Keys.TAB)
        name, style, width = live.execute_script(FOCUSED)
        assert style == "solid" and width >= 2, name
        reached.append(name)
    assert reached == FOCUSABLE


def test_space_pauses_and_does_not_scroll(live):
    live.execute_script("document.activeElement.blur()")
    before = live.execute_script("scrollTo(0, 0); return scrollY")
    press(live, Keys.SPACE)
    assert is_paused(live)
    assert live.execute_script("return scrollY") == before
    press(live, Keys.SPACE)
    assert not is_paused(live)


def test_space_on_a_button_presses_it_once(live):
    live.execute_script("pause.focus()")
    press(live, Keys.SPACE)
    assert is_paused(live)
    press(live, Keys.ENTER)
    assert not is_paused(live)


def test_arrows_move_the_threshold_and_its_value_is_in_percent(live):
    live.execute_script("threshold.focus()")
    press(live, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert text_of(live, "threshold_text") == "2 %"
    spoken = live.execute_script("return threshold.getAttribute('aria-valuetext')")
    assert spoken == "2 percent"
    press(live, Keys.HOME)
    assert text_of(live, "threshold_text") == "0 %"


def test_letters_can_be_switched_off_for_those_who_dictate(live):
    live.execute_script("document.activeElement.blur()")
    press(live, "p")
    assert is_paused(live)
    press(live, "p")
    live.execute_script("letters.click()")
    press(live, "p")
    assert not is_paused(live)
    press(live, Keys.SPACE)
    assert is_paused(live)
    press(live, Keys.SPACE)
    live.refresh()  # it is remembered
    wait_until(live, lambda: shown_frame(live) >= 0)
    assert not live.execute_script("return letters.checked")
    live.execute_script("letters.click()")


# ---- screen readers


def nodes_of(browser):
    """Return the roles and names that Chromium tells screen readers."""
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node["ignored"]
    ]


def test_a_screen_reader_finds_regions_controls_and_headers_by_name(live):
    live.execute_script(SHOW_ALL)
    wait_until(live, lambda: live.execute_script("return stages.rows.length") == 3)
    nodes = nodes_of(live)
    assert {
        ("banner", ""),
        ("main", ""),
        ("region", "Picture"),
        ("region", "Figures"),
        ("heading", "edgepipe"),
        ("heading", "Stages"),
        ("image", "the camera's latest picture with its results"),
        ("image", "graph of the latest frames' latency"),
        ("button", "Pause"),
        ("button", "Snapshot"),
        ("slider", "score at least"),
        ("checkbox", "use the letters P and S"),
        ("list", "results"),
        ("list", "accelerator faults and recovery"),
        ("table", "Stages"),
        ("columnheader", "busy"),
        ("rowheader", "body"),
    } <= set(nodes)
    named = {"button", "slider", "checkbox", "image", "list", "table", "region"}
    assert [node for node in nodes if node[0] in named and not node[1]] == []


def test_results_are_said_seldom_politely_and_only_when_they_change(live):
    live.execute_script(COUNT_SAYINGS)
    began = shown_frame(live)
    time.sleep(11)
    assert shown_frame(live) > began + 20
    sayings = live.execute_script("return window.sayings")
    assert len(sayings) <= 3
    assert all(one != other for one, other in itertools.pairwise(sayings))
    role = "return ['found', 'faults'].map((id) => document.getElementById(id).closest('[role]'))"
    assert live.execute_script(role) == [None, None], "these change all the time"
    assert live.execute_script("return said.getAttribute('role')") == "status"
    assert all(re.fullmatch("[a-z]+", saying) for saying in sayings), "the first class"


def test_what_is_said_has_the_counts_of_boxes(live):
    live.execute_script("setPaused(true)")
    live.execute_async_script(DRAW)
    wait_until(live, lambda: text_of(live, "said").startswith("cat: 1, road, edge"))
    live.execute_script("setPaused(false)")


def test_rows_and_results_stay_the_same_elements(live):
    """Otherwise a screen reader would lose its place four or thirty times a second."""
    script = "for (const node of [stages.rows[0], found.firstElementChild]) node.kept = true;"
    live.execute_script(script)
    frame = int(text_of(live, "frame"))
    wait_until(live, lambda: int(text_of(live, "frame")) > frame + 10)
    kept = "return [stages.rows[0].kept, found.firstElementChild.kept]"
    assert live.execute_script(kept) == [True, True]


# ---- motion


def test_less_motion_is_one_picture_per_second(browser, live):
    media(live, **{"prefers-reduced-motion": "reduce"})
    time.sleep(1.2)  # what was under way
    script = """
    const done = arguments[arguments.length - 1];
    const frames = new Set();
    const observer = new MutationObserver(() => frames.add(picture.dataset.frame));
    observer.observe(picture, {attributes: true, attributeFilter: ["data-frame"]});
    setTimeout(() => { observer.disconnect(); done(frames.size); }, 4500);
    """
    browser.set_script_timeout(60)
    pictures = live.execute_async_script(script)
    media(live)
    assert 1 <= pictures <= 5
