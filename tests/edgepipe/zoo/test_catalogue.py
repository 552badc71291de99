"""The zoo's own file: every network has what a build and a reader need; wrong names."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.models import preprocess
from edgepipe import description, resources
from edgepipe.errors import ZooError
from edgepipe.zoo import catalogue

MODELS = catalogue.models()


@pytest.mark.parametrize("name", MODELS)
def test_a_description_can_be_loaded(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    path = tmp_path / f"{name}.toml"
    path.write_text(model.description_text, encoding="utf-8")
    loaded = description.load(path)
    assert preprocess(name) == loaded.preprocess
    pre = loaded.preprocess
    assert model.size == (pre.width, pre.height, pre.channels)
    if model.labels:
        assert loaded.postprocess.labels == f"{name}.labels.txt"


@pytest.mark.parametrize("name", MODELS)
def test_a_network_is_in_a_package_or_in_the_examples(name: str) -> None:
    model = MODELS[name]
    assert len(model.sha256) == 64
    if model.package:
        assert model.member
        assert model.wheel_bytes > 0
        assert model.wheel.name == model.package.partition("==")[0]
    else:
        assert catalogue.example(f"{name}.onnx").is_file()
        assert not model.description


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ZooError, match="ppocr_dt: is not a network of the zoo, expected one of 8"):
        catalogue.model("ppocr_dt")
    with pytest.raises(ZooError) as failed:
        catalogue.model("ppocr_dt")
    assert str(failed.value.hint).startswith("did you mean: ppocr_det, ")


def test_a_file_that_only_the_repository_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "folder", lambda name: tmp_path / name)
    with pytest.raises(ZooError, match=r"net\.onnx: is not in .*examples, expected the file of"):
        catalogue.example("net.onnx")
    with pytest.raises(ZooError) as failed:
        catalogue.example("net.onnx")
    assert failed.value.hint == (
        "run the command in a clone of edgepipe's repository; its examples/ has the file"
    )
