"""Weights in a file beside the network: they are read, and each bad file is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_networks

from edgepipe.errors import FrontendError
from edgepipe.frontend.network import load_network
from edgepipe.tvm_adapter import run_module

DATA = "net.onnx.data"


def saved(folder: Path, location: str = DATA) -> Path:
    """Save a network with its weights in another file, as PyTorch's default exporter does."""
    model = small_networks.classifier()
    onnx.save(
        model, folder / "net.onnx", save_as_external_data=True, location=location, size_threshold=0
    )
    return folder / "net.onnx"


def test_weights_in_another_file_are_those_of_the_network(tmp_path: Path) -> None:
    network = load_network(saved(tmp_path))
    onnx.save(small_networks.classifier(), tmp_path / "whole.onnx")
    whole = load_network(tmp_path / "whole.onnx")
    picture = np.random.default_rng(0).normal(0, 1, network.input_shape).astype(np.float32)
    expected = run_module(whole.module, {whole.input_name: picture})
    for name, values in run_module(network.module, {network.input_name: picture}).items():
        np.testing.assert_array_equal(values, expected[name])


def remove(data: Path) -> None:
    data.unlink()


def make_folder(data: Path) -> None:
    data.unlink()
    data.mkdir()


def link(data: Path) -> None:
    data.rename(data.with_name("blob"))
    data.symlink_to("blob")


def link_twice(data: Path) -> None:
    os.link(data, data.with_name("blob"))


def cut(data: Path) -> None:
    data.write_bytes(data.read_bytes()[:10])


@pytest.mark.parametrize(
    ("damage", "message", "hint"),
    [
        (
            remove,
            "which is missing; expected it in the folder of the network",
            "the exporter wrote two files: keep them in one folder, under their names",
        ),
        (
            make_folder,
            "which is not a file; expected it in the folder of the network",
            "the exporter wrote two files: keep them in one folder, under their names",
        ),
        (
            link,
            "which is a link; expected a file of its own",
            f"copy net.onnx and {DATA} into another folder (cp -L copies what a link names), and "
            "use them there",
        ),
        (
            link_twice,
            "which is a link; expected a file of its own",
            f"copy net.onnx and {DATA} into another folder (cp -L copies what a link names), and "
            "use them there",
        ),
        (
            cut,
            " bytes, but that file has 10",
            "copy both files again, or export the network again: they do not belong together",
        ),
    ],
)
def test_a_bad_file_of_weights_is_named(
    damage: Callable[[Path], None], message: str, hint: str, tmp_path: Path
) -> None:
    path = saved(tmp_path)
    damage(tmp_path / DATA)
    with pytest.raises(FrontendError) as caught:
        load_network(path)
    assert str(caught.value).startswith(f"{path}: weight ")
    assert f" is in {DATA!r}" in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.hint == hint


@pytest.mark.parametrize("location", ["", "/etc/passwd", "../net.onnx.data"])
def test_weights_outside_the_folder_are_refused(location: str, tmp_path: Path) -> None:
    path = saved(tmp_path)
    model = onnx.load(path, load_external_data=False)
    for constant in model.graph.initializer:
        for entry in constant.external_data:
            if entry.key == "location":
                entry.value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FrontendError) as caught:
        load_network(path)
    assert f" is in {location!r}, expected a file in the folder of the network" in str(caught.value)
    assert caught.value.hint == "export the network again, with both files in one folder"
