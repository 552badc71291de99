"""The report as one HTML page that loads nothing: style, scripts and data are inside it.

Names come from networks of strangers. The page gets them as JSON in an element that is not a
script, shows them only as text, and its policy lets the browser run no script but its own.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from pathlib import Path

from edgepipe.bundle_report.comparison import Comparison
from edgepipe.bundle_report.graph_layout import layout
from edgepipe.bundle_report.model import Report
from edgepipe.bundle_report.text import as_table

_FOLDER = Path(__file__).with_name("page")
_SCRIPTS = ("elements.js", "graph.js", "details.js", "tables.js", "charts.js", "page.js")
# In JSON, these only appear in strings, where an escape means the same.
_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def to_page(report: Report, comparison: Comparison | None = None) -> str:
    """Return the page's text; the same report gives the same page."""
    style = _read("page.css")
    script = "\n".join(_read(name) for name in _SCRIPTS)
    table = as_table(report, comparison)
    table["layout"] = dataclasses.asdict(layout(report))
    data = json.dumps(table, separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        data = data.replace(character, escape)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = _read("page.html")
    # The data comes last: nothing in it is taken for a place.
    for place, text in (
        ("@POLICY@", policy),
        ("@STYLE@", style),
        ("@SCRIPT@", script),
        ("@DATA@", data),
    ):
        page = page.replace(place, text, 1)
    return page


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return what a content security policy calls a script or style of this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
