"""`make bench-accuracy` gives `edgepipe accuracy` the test pictures that it counts itself."""

from __future__ import annotations

import numpy as np

from bench.accuracy_command import write_pictures
from bench.models import preprocess
from edgepipe.accuracy.data import read_labels, read_pictures


def test_written_pictures_are_read_as_the_same_frames_with_their_labels(tmp_path) -> None:
    frames = np.random.default_rng(5).integers(0, 256, (12, 28, 28, 1), np.uint8)
    classes = [7, 1, 0, 9, 3, 3, 2, 5, 8, 4, 6, 1]
    listed = write_pictures(tmp_path / "t10k", frames, classes)
    samples = list(read_pictures(tmp_path / "t10k", preprocess("fmnist_resnet8")))
    labels = read_labels(listed, ())
    assert [labels[sample.name] for sample in samples] == classes
    assert np.array_equal(np.concatenate([sample.frame for sample in samples]), frames)


def test_pictures_that_are_there_are_not_written_again(tmp_path) -> None:
    frames = np.zeros((1, 28, 28, 1), np.uint8)
    listed = write_pictures(tmp_path / "t10k", frames, [3])
    assert write_pictures(tmp_path / "t10k", frames, [4]) == listed
    assert listed.read_text() == "00000.png,3\n"


def test_an_interrupted_write_begins_again(tmp_path) -> None:
    frames = np.zeros((2, 28, 28, 1), np.uint8)
    write_pictures(tmp_path / "t10k", frames, [3, 4]).unlink()
    (tmp_path / "t10k" / "00001.png").unlink()
    write_pictures(tmp_path / "t10k", frames, [3, 4])
    assert (tmp_path / "t10k" / "00001.png").is_file()
