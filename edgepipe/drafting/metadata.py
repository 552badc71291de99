"""What exporters write into the metadata of an ONNX file: class names, size, task."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass

import onnx

_NAMES = ("names", "labels", "classes", "class_names", "CLASSES")
_MOST_CHARACTERS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The metadata of a file that matters to its description.

    ``size`` is (height, width) in pixels, (0, 0) if unknown. ``task`` is "detect", "classify",
    "segment", "pose" or "obb" in files of Ultralytics, else empty.
    """

    producer: str
    is_ultralytics: bool
    labels: tuple[str, ...]
    labels_key: str
    size: tuple[int, int]
    task: str


def read_metadata(model: onnx.ModelProto) -> Metadata:
    """Return the metadata of ``model``; entries that cannot be read count as missing."""
    entries = {str(entry.key): str(entry.value) for entry in model.metadata_props}
    key, labels = _labels(entries)
    return Metadata(
        producer=str(model.producer_name),
        is_ultralytics="ultralytics" in entries.get("author", "").lower(),
        labels=labels,
        labels_key=key,
        size=_size(entries.get("imgsz", "")),
        task=entries.get("task", ""),
    )


def _labels(entries: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the first key that contains class names, and the names."""
    for key in _NAMES:
        found = _literal(entries.get(key, ""))
        if isinstance(found, dict):
            pairs = [(int(k), v) for k, v in found.items() if str(k).isdecimal()]
            names = [name for _, name in sorted(pairs, key=lambda pair: pair[0])]
            whole = [number for number, _ in sorted(pairs, key=lambda pair: pair[0])]
            found = names if whole == list(range(len(found))) else None
        if isinstance(found, list | tuple) and found and all(isinstance(n, str) for n in found):
            return key, tuple(" ".join(name.split()) or "?" for name in found)
    return "", ()


def _size(text: str) -> tuple[int, int]:
    found = _literal(text)
    if isinstance(found, int) and not isinstance(found, bool):
        found = [found, found]
    if not isinstance(found, list | tuple) or len(found) != 2:
        return (0, 0)
    height, width = found
    if not all(isinstance(side, int) and 0 < side < 1 << 15 for side in (height, width)):
        return (0, 0)
    return (height, width)


def _literal(text: str) -> object:
    """Return a value written as JSON or as a Python literal, or None."""
    if not text or len(text) > _MOST_CHARACTERS:
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
    return None
