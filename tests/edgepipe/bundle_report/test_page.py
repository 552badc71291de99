"""The page of a report in a real browser: zoom, search, choice, sorting, and names of strangers."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_page import open_browser, text_of
from report_bundles import statistics, trace
from selenium.webdriver.common.keys import Keys

from edgepipe.bundle_report.comparison import compare
from edgepipe.bundle_report.measured import with_measurement, with_trace
from edgepipe.bundle_report.model import Report
from edgepipe.bundle_report.page_file import to_page
from edgepipe.bundle_report.reading import read_report

HOSTILE = (
    "</script><script>window.owned = 1</script>",
    "<img src=x onerror='window.owned = 2'>",
    '" onfocus="window.owned = 3" autofocus x="',
    "javascript:window.owned = 4",
    "@DATA@ @SCRIPT@ @POLICY@ ${window.owned = 5} `",
    "\u2028window.owned = 6//\u2029<!--<script>",
)
COLUMN = """
const [table, column] = arguments;
return [...document.querySelectorAll(`#${table} tbody tr`)].filter((row) => !row.hidden)
  .map((row) => row.cells[column])
  .map((cell) => cell.querySelector("button")?.title ?? (cell.title || cell.textContent));
"""
FILL_FIRST_ROW = """
const [table, texts] = arguments;
const cells = [...document.querySelector(`#${table} tbody tr`).cells];
if (cells.length !== texts.length) throw new Error(`${cells.length} columns`);
cells.forEach((cell, at) => { (cell.querySelector("button") ?? cell).textContent = texts[at]; });
"""
HIDDEN_WIDTH = """
const area = document.querySelector(`#${arguments[0]} .scroll`);
return area.scrollWidth - area.clientWidth;
"""
LOADED = "return performance.getEntriesByType('resource').map((entry) => entry.name)"
SCALE = "return view.scale"
OVERFLOWING = """
return [...document.querySelectorAll("main *")].filter((one) =>
  !one.closest(".scroll, svg, #details") && one.getBoundingClientRect().right > innerWidth + 1)
  .map((one) => one.tagName + "#" + one.id);
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def page(browser: Any, report: Report, few_stages: Path, many_stages: Path, tmp_path: Path) -> Any:
    """Return the browser with a page that has everything: a run, and another bundle."""
    run = tmp_path / "run.json"
    run.write_text(json.dumps(statistics({"arm0": 2.0, "vta1": 6.0, "arm2": 1.0})))
    measured = with_measurement(report, run)
    show(browser, tmp_path, to_page(measured, compare(report, read_report(many_stages))))
    return browser


def show(browser: Any, folder: Path, text: str) -> None:
    (folder / "report.html").write_text(text, encoding="utf-8")
    browser.get((folder / "report.html").as_uri())


def operators_in(browser: Any) -> list[str]:
    return list(browser.execute_script(COLUMN, "operator_table", 1))


def click_column(browser: Any, table: str, name: str) -> None:
    for head in browser.find_elements("css selector", f"#{table} th"):
        if head.text.rstrip(" ▲▼") == name:
            head.find_element("tag name", "button").click()
            return
    raise AssertionError(f"no column {name}")


def title(browser: Any) -> str:
    return str(browser.execute_script("return document.querySelector('#details h3').textContent"))


def click_node(browser: Any, name: str) -> None:
    centre = (
        "document.getElementById('graph').scrollIntoView({block: 'center'}); centre(arguments[0])"
    )
    browser.execute_script(centre, name)
    browser.execute_script("return places.get(arguments[0]).drawn", name).click()


def test_the_page_shows_the_report_and_loads_nothing(page: Any, report: Report) -> None:
    assert page.title == "net: edgepipe report"
    assert "for ultra96" in text_of(page, "target")
    assert operators_in(page) == [operator.name for operator in report.operators]
    assert f"{report.prediction.frames_per_second:.1f}" in text_of(page, "tiles")
    assert "49.5 frames per second, 50 delivered" in text_of(page, "timelines")
    assert page.execute_script("return document.querySelectorAll('#scene .node').length") == (
        len(report.operators) + 1
    )
    assert page.execute_script("return document.querySelectorAll('#scene .cut').length") == 2
    assert page.execute_script("return !document.getElementById('comparison').hidden")
    assert page.execute_script(LOADED) == []
    assert page.get_log("browser") == []


def test_the_measured_timeline_shows_the_frames_of_a_trace(
    browser: Any, report: Report, tmp_path: Path
) -> None:
    recorded = tmp_path / "trace.json"
    recorded.write_text(json.dumps(trace({"arm0": 2.0, "vta1": 6.0, "arm2": 1.0}, first=100)))
    show(browser, tmp_path, to_page(with_trace(report, recorded)))
    text = text_of(browser, "timelines")
    assert "Measured, trace.json: 166.7 frames per second, 20 delivered, 0 failed" in text
    assert "shows frames from the middle of trace.json as they ran" in text
    charts = "return document.querySelectorAll('#timelines svg').length"
    assert browser.execute_script(charts) == 2
    numbers = """return [...document.querySelectorAll('#timelines svg:last-of-type .run text')]
      .map((one) => one.textContent)"""
    assert {"108", "109", "110", "111"} <= {*browser.execute_script(numbers)}
    assert browser.get_log("browser") == []


def test_a_click_on_an_operator_gives_reason_and_cost(page: Any, report: Report) -> None:
    (right,) = (operator for operator in report.operators if operator.name == "right")
    assert right.layer is not None
    click_node(page, "right")
    assert title(page) == "right"
    details = text_of(page, "details")
    assert "On the VTA: fits the accelerator." in details
    assert f"{right.layer.cycles:,}" in details
    assert f"{100 * (right.layer.ideal_share or 0):.1f} %" in details
    assert "--cut right" in details
    chosen = "return [...document.querySelectorAll('tr.chosen')].map((row) => row.dataset.name)"
    assert {*page.execute_script(chosen)} == {"right"}
    click_node(page, "pool")
    assert "computed together with" in text_of(page, "details")
    page.find_element("css selector", "#details .chip").click()
    assert title(page) == "body_relu"
    click_node(page, "image")
    assert "input of the network" in text_of(page, "details")


def test_buttons_keys_wheel_and_pointer_change_the_view(page: Any) -> None:
    fitted = page.execute_script(SCALE)
    page.find_element("id", "zoom_in").click()
    assert page.execute_script(SCALE) > fitted
    page.find_element("id", "zoom_fit").click()
    assert page.execute_script(SCALE) == pytest.approx(fitted)
    page.find_element("id", "zoom_out").click()
    assert page.execute_script(SCALE) < fitted
    page.execute_script("places.get('body_relu').drawn.focus()")
    page.switch_to.active_element.send_keys("0")
    assert page.execute_script(SCALE) == pytest.approx(fitted)
    page.switch_to.active_element.send_keys("+")
    assert page.execute_script(SCALE) > fitted
    page.switch_to.active_element.send_keys("-")
    wheel = "graph.dispatchEvent(new WheelEvent('wheel', {deltaY: -200, ctrlKey: arguments[0]}))"
    page.execute_script(wheel, False)
    assert page.execute_script(SCALE) == pytest.approx(fitted)  # the wheel alone moves the page
    page.execute_script(wheel, True)
    assert page.execute_script(SCALE) > fitted
    before = page.execute_script("return [view.x, view.y]")
    page.execute_script("""
      const send = (kind, x, y) => graph.dispatchEvent(new PointerEvent(kind,
        {pointerId: 1, clientX: x, clientY: y, bubbles: true}));
      graph.setPointerCapture = () => {};  // there is no such pointer
      send("pointerdown", 100, 100); send("pointermove", 130, 90); send("pointerup", 130, 90);
    """)
    moved = page.execute_script("return [view.x, view.y]")
    assert [moved[0] - before[0], moved[1] - before[1]] == pytest.approx([30, -10])


def test_the_arrows_follow_the_network(page: Any) -> None:
    page.execute_script("places.get('stem_relu').drawn.focus()")
    walked = []
    for key in (Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_UP):
        page.switch_to.active_element.send_keys(key)
        walked.append(title(page))
    assert walked[:2] == ["body_relu", "pool"]
    assert {walked[2]} <= {"left", "right"}
    assert {walked[3]} <= {"left", "right"}
    assert walked[4] == "pool"
    focused = "return document.querySelectorAll('#scene .node[tabindex=\"0\"]').length"
    assert page.execute_script(focused) == 1


def test_the_search_marks_operators_and_filters_the_table(page: Any) -> None:
    page.find_element("tag name", "body").send_keys("/")
    field = page.switch_to.active_element
    assert field.get_attribute("id") == "search"
    field.send_keys("R")
    field.send_keys("ight")
    assert text_of(page, "matches") == "1 operator"
    assert operators_in(page) == ["right"]
    assert page.execute_script("return document.querySelectorAll('.node.match').length") == 1
    field.send_keys(Keys.ENTER)
    assert title(page) == "right"
    field.clear()
    field.send_keys("conv")
    several = operators_in(page)
    assert len(several) > 2
    assert text_of(page, "matches") == f"{len(several)} operators"
    field.send_keys(Keys.ENTER)
    field.send_keys(Keys.ENTER)
    assert title(page) in several
    field.clear()
    field.send_keys("no such thing")
    assert text_of(page, "matches") == "0 operators"
    field.send_keys(Keys.ENTER)  # does nothing


def test_tables_are_sorted_by_a_click_on_a_column(page: Any, report: Report) -> None:
    by_time = sorted(report.operators, key=lambda operator: -operator.ms)
    click_column(page, "operator_table", "time")
    assert operators_in(page)[:3] == [operator.name for operator in by_time[:3]]
    head = "return document.querySelector('#operator_table th[aria-sort=descending]').textContent"
    assert page.execute_script(head) == "time"
    click_column(page, "operator_table", "time")
    assert operators_in(page)[-1] == by_time[0].name
    click_column(page, "operator_table", "of ideal")
    shares = [
        operator.name
        for operator in sorted(
            (o for o in report.operators if o.layer and o.layer.ideal_share is not None),
            key=lambda o: -((o.layer and o.layer.ideal_share) or 0),
        )
    ]
    assert operators_in(page)[: len(shares)] == shares  # those without a share come last
    click_column(page, "operator_table", "operator")
    assert operators_in(page) == sorted(operators_in(page), key=str.lower)
    page.find_element("css selector", "#operator_table td button").click()
    assert title(page) == operators_in(page)[0]


def test_names_of_strangers_are_only_text(browser: Any, report: Report, tmp_path: Path) -> None:
    names = {
        operator.name: HOSTILE[index % len(HOSTILE)] + str(index)
        for index, operator in enumerate(report.operators)
    }
    operators = tuple(
        dataclasses.replace(
            operator,
            name=names[operator.name],
            kind=HOSTILE[0],
            reason=HOSTILE[1],
            inputs=tuple(names.get(name, name) for name in operator.inputs),
        )
        for operator in report.operators
    )
    cuts = tuple(
        dataclasses.replace(cut, operator=names[cut.operator]) for cut in report.what_if.cuts
    )
    hostile = dataclasses.replace(
        report,
        name=HOSTILE[0],
        board=HOSTILE[1],
        operators=operators,
        what_if=dataclasses.replace(report.what_if, cuts=cuts),
    )
    text = to_page(hostile, compare(hostile, report))
    assert text.lower().count("<script") == text.lower().count("</script") == 2
    show(browser, tmp_path, text)
    assert operators_in(browser) == [operator.name for operator in operators]
    for name in names.values():
        browser.execute_script("choose(arguments[0], { move: true })", name)
        assert title(browser) == name
    assert browser.execute_script("return window.owned") is None
    assert browser.execute_script("return document.images.length") == 0
    assert browser.get_log("browser") == []


def test_the_policy_lets_no_other_script_run(page: Any) -> None:
    page.execute_script("""
      const added = document.createElement("div");
      added.innerHTML = "<img src='data:,' onerror='window.owned = 1'>";
      document.body.append(added);
      const script = document.createElement("script");
      script.textContent = "window.owned = 2";
      document.body.append(script);
    """)
    assert page.execute_script("return window.owned") is None
    assert any("Content Security Policy" in entry["message"] for entry in page.get_log("browser"))


@pytest.mark.parametrize("width", [320, 390, 900, 1400])
def test_the_page_fits_its_width(page: Any, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.refresh()
        assert page.execute_script(OVERFLOWING) == []
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_laptop_shows_all_columns_of_a_detectors_operators(
    browser: Any, report: Report, tmp_path: Path
) -> None:
    row = (
        *("124", "PartitionedCall_onnx_tf_prefix_LeakyRelu_113", "input_table", "arm, vta", "vta"),
        *("vta1", "12.58 ms", "14.2 %", "3,859,095", "44.7 %", "881.6 KiB", "11,762"),
        "runs while the VTA has other frames: more frames a second, by the model",
    )
    size = {"width": 1300, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        show(browser, tmp_path, to_page(report))
        browser.execute_script(FILL_FIRST_ROW, "operator_table", row)
        assert browser.execute_script(HIDDEN_WIDTH, "operators") == 0
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_light_and_dark_follow_the_system(page: Any) -> None:
    script = "return getComputedStyle(document.body).backgroundColor"
    colours = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        colours.append(page.execute_script(script))
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert colours == ["rgb(243, 245, 248)", "rgb(18, 22, 28)"]


def test_a_page_names_no_address(report: Report) -> None:
    addresses = re.findall(r"https?://[^\s\"'`]+", to_page(report))
    assert {*addresses} == {"http://www.w3.org/2000/svg"}  # a name of SVG, which is not loaded


def test_the_same_report_gives_the_same_page(report: Report) -> None:
    assert to_page(report) == to_page(report)
