"""Weights are read from torch's files without torch, and MobileNetV2 is built from them."""

from __future__ import annotations

import pickle
import sys
import types
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from needs import lacking

from bench import models, pictures
from bench.lacking import LackingError
from edgepipe.zoo.torch_weights import read_weights

MAGIC = 0x1950A86A20F9469CFC6C
MOST_RIGHT = 14  # of 20 photographs of ImageNet


def _saved(path: Path, monkeypatch: pytest.MonkeyPatch, of: str = "_rebuild_tensor_v2") -> None:
    """Write a matrix and its transpose, which share a storage, as torch.save did before 1.6."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    class FloatStorage:
        pass

    def rebuild(*_: object) -> None:
        raise AssertionError("the reader must not call it")

    FloatStorage.__module__, FloatStorage.__qualname__ = "torch", "FloatStorage"
    rebuild.__module__, rebuild.__qualname__ = "torch._utils", of
    torch.FloatStorage, utils.__dict__[of] = FloatStorage, rebuild  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)
    storage = types.SimpleNamespace()

    class Tensor:
        def __init__(self, *place: object) -> None:
            self.place = place

        def __reduce__(self) -> Any:
            return rebuild, (storage, *self.place, False, OrderedDict())

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: object) -> Any:
            return ("storage", FloatStorage, "7", "cpu", 6, None) if value is storage else None

    with path.open("wb") as file:
        for value in (MAGIC, 1001, {"little_endian": True}):
            pickle.dump(value, file, 2)
        tensors = OrderedDict(a=Tensor(0, (2, 3), (3, 1)), b=Tensor(1, (2, 2), (1, 3)))
        Pickler(file, 2).dump(tensors)
        pickle.dump(["7"], file, 2)
        file.write(np.int64(6).tobytes() + np.arange(6, dtype="<f4").tobytes())


def test_tensors_are_read_with_their_offsets_and_strides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _saved(tmp_path / "net.pth", monkeypatch)
    found = read_weights(tmp_path / "net.pth")
    np.testing.assert_array_equal(found["a"], [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(found["b"], [[1, 4], [2, 5]])
    assert found["a"].dtype == np.float32


def test_a_file_cannot_name_other_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _saved(tmp_path / "net.pth", monkeypatch, of="system")
    with pytest.raises(pickle.UnpicklingError, match=r"torch\._utils\.system is not a name that"):
        read_weights(tmp_path / "net.pth")
    (tmp_path / "other.pth").write_bytes(pickle.dumps(5))
    with pytest.raises(pickle.UnpicklingError, match=r"other\.pth is not a file of torch\.save"):
        read_weights(tmp_path / "other.pth")


@pytest.mark.networks
def test_mobilenet_v2_of_the_package_knows_the_classes_of_photographs() -> None:
    try:
        path, photographs = models.model("mobilenetv2_imagenet"), pictures.imagenet()
    except LackingError as error:
        lacking(error)
    pre = models.preprocess("mobilenetv2_imagenet")
    session = onnxruntime.InferenceSession(path)
    classes = [int(name.partition("_")[2]) for name in pictures.IMAGENET]
    right = 0
    for picture, label in zip(photographs, classes, strict=True):
        values = (pre.frame(picture) * pre.scale - pre.mean) / pre.std
        tensor = values.transpose(0, 3, 1, 2).astype(np.float32)
        (logits,) = session.run(None, {"input": tensor})
        right += int(logits.argmax()) == label
    assert right >= MOST_RIGHT
