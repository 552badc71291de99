"""The wheels that `make bench-counts` compares with have fixed versions and digests."""

from __future__ import annotations

import re

from bench import counts


def test_every_wheel_is_pinned_by_version_and_digest() -> None:
    lines = [
        line for line in counts.WHEELS.read_text().splitlines() if line and not line.startswith("#")
    ]
    for line in lines:
        assert re.fullmatch(r"[a-z]+==[\d.]+ --hash=sha256:[0-9a-f]{64}", line), line
    versions = counts.pinned_versions()
    assert len(versions) == len(lines)
    assert set(counts.OTHERS) < set(versions)


def test_the_table_says_which_versions_ran() -> None:
    figures = counts.figures_of("stem", {"edgepipe": 1e6, "onnxruntime": 2e6, "ncnn": 4e6})
    sources = {figure.name: figure.source for figure in figures}
    versions = counts.pinned_versions()
    assert sources["stem: onnxruntime"] == f"onnxruntime {versions['onnxruntime']}"
    assert sources["stem: edgepipe / ncnn"] == f"ncnn {versions['ncnn']}"
    assert sources["stem: edgepipe"] == ""
