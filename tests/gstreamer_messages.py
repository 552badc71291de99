"""The results in what ``gst-launch-1.0 -m`` prints."""

from __future__ import annotations

import json
import re
from typing import Any

_RESULT = re.compile(r'edgepipe-result, .*json=\(string\)"(.*)";$', re.M)


def lines_of(printed: str) -> list[dict[str, Any]]:
    """Return the lines of JSON, without their times and the names of their pictures."""
    lines = [json.loads(re.sub(r"\\(.)", r"\1", text)) for text in _RESULT.findall(printed)]
    for line in lines:
        del line["latency_ms"], line["source"]
    return lines
