"""A user's folder, and a bundle built once."""

from __future__ import annotations

import cv2
import numpy as np
import onnx
import pytest
from command_line import DESCRIPTION, run
from small_networks import classifier, frames


@pytest.fixture
def project(tmp_path):
    """Create a user's folder: a network, its description, calibration pictures."""
    onnx.save(classifier(), tmp_path / "net.onnx")
    (tmp_path / "net.toml").write_text(DESCRIPTION)
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for index, frame in enumerate(frames(4)):
        cv2.imwrite(str(pictures / f"{index}.png"), frame[0])
    return tmp_path


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Build one bundle for the tests that only read it."""
    folder = tmp_path_factory.mktemp("built")
    onnx.save(classifier(), folder / "net.onnx")
    (folder / "net.toml").write_text(DESCRIPTION)
    np.savez(folder / "calib.npz", frames=np.concatenate(list(frames(4))))
    arguments = ["build", folder / "net.onnx", "--board", "host", "--calib", folder / "calib.npz"]
    assert run(*arguments, "-o", folder / "net.edgepipe") == 0
    return folder / "net.edgepipe"
