"""Mutations of JSON that keep it JSON, so that readers get past the parser."""

from __future__ import annotations

import json
import random
from typing import Any

import atheris

VALUES = (None, True, -1, 0, 2.5, 2**63, 1e308, float("nan"), "", "x", "..", "/", "\n", [], {})
_KEEPS_JSON = 0.7  # of the mutations; the rest are libFuzzer's, of bytes
_ENDS_HERE = 0.4  # so that deep values are reached, too


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Return mutated data of at most ``max_size`` bytes, the same for the same ``seed``.

    Data that is not a JSON object is mutated as bytes.
    """
    choice = random.Random(seed)
    if data[:1] == b"{" and choice.random() < _KEEPS_JSON:
        try:
            table = json.loads(data)
            _change(table, choice)
            text = json.dumps(table).encode()
        except (ValueError, RecursionError):
            text = b""
        if 0 < len(text) <= max_size:
            return text
    mutated: bytes = atheris.Mutate(data, max_size)
    return mutated


def _change(table: Any, choice: random.Random) -> None:
    """Replace, remove, repeat or move one value at any depth."""
    place = table
    while place:
        keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = choice.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and choice.random() > _ENDS_HERE:
            place = place[key]
            continue
        action = choice.randrange(4)
        if action == 0:
            del place[key]
        elif action == 1 and isinstance(place, list):
            place.append(place[key])
        elif action == 2:
            place[key] = place[choice.choice(keys)]
        else:
            place[key] = choice.choice(VALUES)
        return
