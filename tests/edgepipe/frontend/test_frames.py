"""frames_from: folders, single pictures and .npz archives, and their errors."""

from __future__ import annotations

from collections.abc import Callable
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
    (tmp_path / "nothing.npz").write_bytes(b"")
    np.save(tmp_path / "one.npy", np.zeros((2, 6, 8, 3), np.uint8))
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    np.savez(tmp_path / "pickled.npz", a=np.array([{}], object))
    np.savez(tmp_path / "scalar.npz", a=np.uint8(1))
    (tmp_path / "folder.npz").mkdir()
    np.savez(tmp_path / "none.npz", a=np.zeros((0, 6, 8, 3), np.uint8))
    np.savez(tmp_path / "shape.npz", a=np.zeros((2, 6, 6, 3), np.uint8))
    cases = {
        "missing": "missing: no such file or folder",
        "empty": "empty: no pictures",
        "bad.npz": "bad.npz: not an .npz archive, or damaged",
        "bad.png": "bad.png: cannot be decoded",
        "nothing.npz": "nothing.npz: not an .npz archive, or damaged",
        "one.npz": "one.npz: not an .npz archive, or damaged",
        "pickled.npz": "pickled.npz: not an .npz archive, or damaged",
        "scalar.npz": "scalar.npz: contains no frames",
        "folder.npz": r"folder.npz: cannot be read \(Is a directory\)",
        "none.npz": "none.npz: contains no frames",
        "shape.npz": r"array 'a' is uint8\[2, 6, 6, 3\], expected uint8\[n, 6, 8, 3\]",
    }
    for name, message in cases.items():
        with pytest.raises(MediaError, match=message) as caught:
            list(frames_from(tmp_path / name, SMALL))
        assert caught.value.hint


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damage_anywhere_in_an_archive_is_an_error_or_changes_nothing_but_the_frames(
    tmp_path: Path, save: Callable[..., None]
) -> None:
    path = tmp_path / "calib.npz"
    save(path, a=np.full((2, 6, 8, 3), 7, np.uint8))
    good = path.read_bytes()
    refused = 0
    for position in range(0, len(good), 3):
        path.write_bytes(good[:position] + bytes([good[position] ^ 0xFF]) + good[position + 1 :])
        try:
            list(frames_from(path, SMALL))
        except MediaError:
            refused += 1
        path.write_bytes(good[:position])
        with pytest.raises(MediaError):
            list(frames_from(path, SMALL))
    assert refused > 0
