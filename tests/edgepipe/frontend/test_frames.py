"""Frames of folders, single pictures and .npz archives, samples of them, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.errors import MediaError
from edgepipe.frontend.frames import chosen, frames_from, sample_of
from edgepipe.frontend.preprocess import Preprocess

CLIP = Path(__file__).resolve().parents[3] / "examples/pedestrians.avi"
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


@given(st.integers(0, 200), st.integers(1, 200), st.integers(0, 2**31 - 1))
def test_a_choice_is_ascending_and_as_large_as_it_can_be(count: int, most: int, seed: int) -> None:
    found = chosen(count, most, seed)
    assert found == sorted(set(found) & set(range(count)))
    assert len(found) == min(count, most)
    assert chosen(count, most, seed) == found


def test_a_seed_always_chooses_the_same() -> None:
    """A change of these numbers changes every bundle from a large folder."""
    assert chosen(10, 4, 0) == [1, 2, 3, 8]
    assert chosen(10, 4, 1) == [2, 4, 7, 9]


def test_every_part_of_a_large_folder_is_chosen_about_as_often() -> None:
    counts = np.bincount([place for seed in range(400) for place in chosen(20, 5, seed)])
    assert counts.size == 20
    assert counts.min() > 60  # of 100 expected; its standard deviation is 9
    assert counts.max() < 140


@pytest.fixture(params=["folder", "archive"])
def ten_frames(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Ten frames whose values are their places: a folder, or an archive of two arrays."""
    frames = np.full((10, 6, 8, 3), np.arange(10)[:, None, None, None], np.uint8)
    if request.param == "archive":
        np.savez(tmp_path / "calib.npz", a=frames[:3], b=frames[3:])
        return tmp_path / "calib.npz"
    for place, frame in enumerate(frames):
        cv2.imwrite(str(tmp_path / f"{place}.png"), frame)
    return tmp_path


@pytest.mark.parametrize(("most", "seed"), [(4, 0), (4, 1), (1, 7), (10, 3), (64, 3)])
def test_a_sample_has_the_chosen_frames_in_order(ten_frames: Path, most: int, seed: int) -> None:
    found = list(sample_of(ten_frames, SMALL, most, seed))
    assert [int(frame[0, 0, 0, 0]) for frame in found] == chosen(10, most, seed)
    assert all(frame.shape == (1, 6, 8, 3) for frame in found)


def test_a_sample_of_one_picture_is_the_picture(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.full((30, 40, 3), 9, np.uint8))
    (found,) = sample_of(tmp_path / "a.png", SMALL, 64, 5)
    assert int(found[0, 0, 0, 0]) == 9


def test_a_sample_of_a_video_is_its_first_frames() -> None:
    found = list(sample_of(CLIP, SMALL, 3, 5))
    expected = [frame for frame, _ in zip(frames_from(CLIP, SMALL), range(3), strict=False)]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["missing", "missing.npz"])
def test_a_sample_of_what_is_missing_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(MediaError, match=f"{name}: no such file or folder"):
        list(sample_of(tmp_path / name, SMALL, 64, 0))


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
