"""The reference of the Python API shows every public name once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import edgepipe

PAGES = Path(__file__).resolve().parents[2] / "docs/reference/python"


def test_every_public_name_is_on_one_page() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES.glob("*.md"))
    shown = Counter(re.findall(r"^::: edgepipe\.(\w+)$", text, re.M))
    assert shown == Counter(name for name in edgepipe.__all__ if name != "__version__")
