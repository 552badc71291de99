"""Published statistics of arbitrary text are a note, or can be shown: `make fuzz` runs this."""

from __future__ import annotations

import json
import sys
from typing import Any

import atheris

with atheris.instrument_imports():
    from edgepipe.top import snapshot, text


TIMES: dict[str, Any] = dict.fromkeys(
    ("count", "min_ms", "median_ms", "p95_ms", "p99_ms", "max_ms", "mean_ms"), 2
)
STAGE = {"name": "a", "cores": [1], "busy": TIMES, "utilisation": 0.5, "waiting": 1}
STAGE |= {"retries": 1, "fallback_frames": 0, "fault": "hangs"}
PIPELINE = {"submitted": 5, "delivered": 4, "dropped": 0, "failed": 0, "in_flight": 1, "slots": 2}
PIPELINE |= {"latency": TIMES, "elapsed_s": 1.5, "frames_per_second": 2.5, "stages": [STAGE]}
SOURCE = {"description": "d", "captured": 5, "dropped": 1, "missed": 1, "reconnects": 1}
SOURCE |= {"silences": 1, "outage_s": 2.5, "fault": "silent"}
LIVE = {"network": "n", "device": "d", "pipeline": PIPELINE, "source": SOURCE}
RECORD = {"version": 1, "id": "7-0", "pid": 7, "program": "p", "uptime_s": 80, "live": LIVE}
VALUES = (
    None,
    True,
    -1,
    0,
    2.5,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x1b",
    [],
    {},
)


def mutated(provider: Any) -> str:
    """Return a record of which values are replaced by other JSON values, removed or doubled."""
    record = json.loads(json.dumps(RECORD))
    for _ in range(provider.ConsumeIntInRange(0, 3)):
        place = record
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = keys[provider.ConsumeIntInRange(0, len(keys) - 1)]
            if isinstance(place[key], (dict, list)) and provider.ConsumeIntInRange(0, 3):
                place = place[key]
                continue
            choice = provider.ConsumeIntInRange(0, len(VALUES) + 1)
            if choice < len(VALUES):
                place[key] = VALUES[choice]
            elif isinstance(place, list) and choice == len(VALUES):
                place.append(place[key])
            else:
                del place[key]
            break
    return json.dumps(record)


def test_one_input(data: bytes) -> None:
    """Read two files' content as `edgepipe top` does, and show what they say."""
    provider = atheris.FuzzedDataProvider(data)
    if provider.ConsumeBool():
        published = f"{mutated(provider)}\n{mutated(provider)}"
    else:
        published = provider.ConsumeUnicodeNoSurrogates(sys.maxsize)
    reading = snapshot.parse("83.5\n" + published)
    for before in (None, *reading.snapshots):
        found = [(now, snapshot.rates(now, before)) for now in reading.snapshots]
        text.paragraphs(found)
        for now, rates in found:
            text.line(now, rates)


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
