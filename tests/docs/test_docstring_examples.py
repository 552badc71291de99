"""The examples in the docstrings of ``edgepipe.build`` and ``edgepipe.load``, run unchanged."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
import small_networks

import edgepipe


def example_of(function: Callable[..., object]) -> str:
    """Return the indented code of a docstring."""
    text = inspect.cleandoc(function.__doc__ or "")
    found = re.search(r"\n\n((?: {4}.*\n)+)", text)
    assert found, f"{function.__name__} has no example"
    return textwrap.dedent(found[1])


@pytest.mark.sim
@pytest.mark.cross
def test_the_examples_of_build_and_load_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Build ``net.onnx`` with the pictures of a folder; then run a picture of another size."""
    monkeypatch.chdir(tmp_path)
    onnx.save(small_networks.classifier(), "net.onnx")
    Path("net.toml").write_text(small_networks.DESCRIPTION)
    Path("pictures").mkdir()
    for index, frame in enumerate(small_networks.frames(4)):
        cv2.imwrite(f"pictures/{index}.png", frame[0])
    cv2.imwrite("street.jpg", np.full((40, 60, 3), 99, np.uint8))
    build = example_of(edgepipe.build)
    assert 'board="ultra96"' in build
    names: dict[str, object] = {"edgepipe": edgepipe}
    for code in (build.replace("ultra96", "host"), example_of(edgepipe.load)):
        exec(compile(code, "docstring", "exec"), names)
        pipeline = names["pipeline"]
        assert isinstance(pipeline, edgepipe.Pipeline)
        assert len(pipeline("street.jpg").classes) == 5
        pipeline.close()
