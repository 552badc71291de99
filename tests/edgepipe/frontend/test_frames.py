"""frames_from: folders, single pictures and .npz archives, and their errors."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from edgepipe.errors import MediaError
from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.preprocess import Preprocess

SMALL = Preprocess(width=8, height=6, order="BGR", mean=(0.0,) * 3, std=(1.0,) * 3)


def test_a_folder_gives_its_pictures_by_name(tmp_path: Path) -> None:
    for value, name in ((20, "b.png"), (10, "a.png")):
        cv2.imwrite(str(tmp_path / name), np.full((30, 40, 3), value, np.uint8))
    (tmp_path / "readme.txt").write_text("no picture")
    found = list(frames_from(tmp_path, SMALL))
    assert [int(frame[0, 0, 0, 0]) for frame in found] == [10, 20]
    assert all(frame.shape == (1, 6, 8, 3) for frame in found)


def test_an_archive_gives_its_frames_in_order(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (3, 6, 8, 3)).astype(np.uint8)
    np.savez(tmp_path / "calib.npz", a=frames[:2], b=frames[2:])
    found = list(frames_from(tmp_path / "calib.npz", SMALL))
    np.testing.assert_array_equal(np.concatenate(found), frames)


def test_each_unusable_source_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.npz").write_bytes(b"PK not really")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    np.savez(tmp_path / "none.npz", a=np.zeros((0, 6, 8, 3), np.uint8))
    np.savez(tmp_path / "shape.npz", a=np.zeros((2, 6, 6, 3), np.uint8))
    cases = {
        "missing": "missing: no such file or folder",
        "empty": "empty: found no pictures",
        "bad.npz": "bad.npz: is not an .npz archive or is damaged",
        "bad.png": "bad.png: cannot be decoded",
        "none.npz": "none.npz: holds no frames",
        "shape.npz": r"array 'a' is uint8\[2, 6, 6, 3\], expected uint8\[n, 6, 8, 3\]",
    }
    for name, message in cases.items():
        with pytest.raises(MediaError, match=message):
            list(frames_from(tmp_path / name, SMALL))
