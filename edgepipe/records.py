"""A frame's line of JSON: what ``edgepipe run`` writes, with the fields of ``edgepipe-run``."""

from __future__ import annotations

import math
from collections.abc import Callable

from edgepipe.description import DETECTION_KINDS
from edgepipe.runtime.results import Detection, FrameResult, Point

Record = dict[str, object]


def result_record(result: FrameResult, source: str, kind: str) -> Record:
    """Return a frame's line of ``results.jsonl``; ``edgepipe-run`` gives the same fields.

    ``result`` is in pixels of the picture named ``source``. ``kind`` is that of the bundle's
    results (``Postprocess.results``): a detector's line has detections even if it found none.
    """
    record: Record = {
        "frame": result.frame,
        "source": source,
        "latency_ms": round(result.latency_ms, 3),
    }
    fields = _detections if kind in DETECTION_KINDS else _FIELDS.get(kind, _none)
    record.update(fields(result))
    return record


def _rounded(value: float, decimals: int) -> float | None:
    """Return a rounded number; None for infinity and NaN, which JSON lacks: null in C++, too."""
    return round(value, decimals) if math.isfinite(value) else None


def _none(result: FrameResult) -> Record:
    return {}


def _detections(result: FrameResult) -> Record:
    return {
        "detections": [
            {
                "label": d.label,
                "label_index": d.label_index,
                "score": _rounded(d.score, 4),
                "box": [_rounded(v, 1) for v in (d.left, d.top, d.right, d.bottom)],
                **_box_points(d),
            }
            for d in result.detections
        ]
    }


def _box_points(detection: Detection) -> Record:
    if not detection.points:
        return {}
    return {"points": [[*_place(p), _rounded(p.score, 4)] for p in detection.points]}


def _place(point: Point) -> list[float | None]:
    return [_rounded(point.x, 1), _rounded(point.y, 1)]


def _classes(result: FrameResult) -> Record:
    return {
        "classes": [
            {
                "label": c.label,
                "label_index": c.label_index,
                "score": _rounded(c.score, 4),
                "probability": _rounded(c.probability, 4),
            }
            for c in result.classes
        ]
    }


def _keypoints(result: FrameResult) -> Record:
    return {
        "points": [
            {
                "label": p.label,
                "label_index": index,
                "score": _rounded(p.score, 4),
                "point": _place(p),
            }
            for index, p in enumerate(result.points)
        ]
    }


def _areas(result: FrameResult) -> Record:
    areas = result.class_map.areas() if result.class_map is not None else ()
    return {
        "areas": [
            # A share is a quotient of counts, which the C++ runtime rounds like this.
            {"label": a.label, "label_index": a.label_index, "share": round(a.share * 1e4) / 1e4}
            for a in areas
        ]
    }


def _text(result: FrameResult) -> Record:
    return {"text": result.text, "score": _rounded(result.text_score, 4)}


_FIELDS: dict[str, Callable[[FrameResult], Record]] = {
    "classify": _classes,
    "keypoints": _keypoints,
    "segmentation": _areas,
    "ctc": _text,
}
