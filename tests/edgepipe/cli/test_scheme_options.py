"""``--export-scheme`` and ``--scheme``: the same bundle again, and errors that leave no files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import assert_fails, assert_nothing_half_written, build, run, run_cpp

from edgepipe.bundle import storage
from edgepipe.quantize import scheme_file

GIVE = (
    "give the network and the calibration pictures, as many of them, or the scheme that the bundle "
    "was built from, and its float and int16 layers, on a processor with the same vector "
    "instructions, or build it again"
)
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def contents(bundle: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(bundle)): path.read_bytes()
        for path in sorted(bundle.rglob("*"))
        if path.is_file()
    }


@pytest.mark.networks
def test_a_real_network_from_its_scheme_is_the_same_bundle(tmp_path: Path) -> None:
    model, pictures = EXAMPLES / "fmnist_resnet8.onnx", EXAMPLES / "calibration"
    start = ("build", model, "--board", "host")
    scheme, again = tmp_path / "scheme.toml", tmp_path / "again.toml"
    made, same, without = (tmp_path / name for name in ("made", "same", "without"))
    assert run(*start, "--calib", pictures, "-o", made, "--export-scheme", scheme) == 0
    assert run(*start, "--calib", pictures, "-o", same, "--scheme", scheme) == 0
    options = ("--scheme", scheme, "--export-scheme", again)
    assert run(*start, "-o", without, *options) == 0
    assert contents(same) == contents(made)
    assert again.read_bytes() == scheme.read_bytes()
    found, expected = contents(without), contents(made)
    assert found.keys() == expected.keys()
    differing = {name for name in found if found[name] != expected[name]}
    # Without pictures, the golden frame is another one; programs and weights are the same.
    assert differing == {
        *("golden/input.bin", "golden/logits.bin", "manifest.digest", "manifest.json")
    }


def test_accuracy_of_a_bundle_from_a_scheme(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("net.onnx", "net.toml", "calib.npz"):
        shutil.copy(built.parent / name, tmp_path)
    scheme, bundle = tmp_path / "net.scheme.toml", tmp_path / "net.edgepipe"
    model, pictures = tmp_path / "net.onnx", tmp_path / "calib.npz"
    start = ("build", model, "--board", "host", "-o", bundle)
    assert run(*start, "--calib", pictures, "--export-scheme", scheme) == 0
    text = scheme.read_text()
    edited = text.replace("equalise = 0.5", "equalise = 0.0")
    assert edited != text
    scheme.write_text(edited)
    assert run(*start, "--scheme", scheme) == 0
    accuracy = ("accuracy", bundle, "--network", model, "--data", pictures)
    accuracy = (*accuracy, "--layer-pictures", "0")
    assert run(*accuracy, "--scheme", scheme) == 0
    scheme.write_text(text)
    capsys.readouterr()
    code = run(*accuracy, "--scheme", scheme)
    assert_fails(capsys, code, f"quantised with {scheme}, its output logits is not the", GIVE)
    scheme.rename(tmp_path / "other.scheme.toml")
    assert_fails(
        capsys,
        run(*accuracy),
        f"{bundle}: neither calibration pictures nor a scheme are given, and {scheme} does not "
        "exist",
        "give the scheme of the build (--scheme FILE), or the pictures that it was calibrated "
        "with: --calib DIR",
    )


def test_accuracy_finds_network_and_scheme_beside_the_bundle(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("net.onnx", "net.toml", "calib.npz", "net.edgepipe"):
        shutil.copy(built.parent / name, tmp_path)
    scheme, bundle = tmp_path / "net.scheme.toml", tmp_path / "net.edgepipe"
    model, pictures = tmp_path / "net.onnx", tmp_path / "calib.npz"
    start = ("build", model, "--board", "host", "--calib", pictures, "-o", tmp_path / "again")
    assert run(*start, "--export-scheme", scheme) == 0
    accuracy = ("accuracy", bundle, "--data", pictures, "--layer-pictures", "0")
    assert run(*accuracy) == 0
    capsys.readouterr()
    scheme.write_text("broken")  # it is read, unless pictures are given
    assert_fails(capsys, run(*accuracy), f"{scheme}: ")
    assert run(*accuracy, "--calib", pictures) == 0
    model.rename(tmp_path / "other.onnx")
    capsys.readouterr()
    assert_fails(
        capsys,
        run(*accuracy),
        f"{bundle}: no network is given, and {model} does not exist",
        "give the network that the bundle was built from: --network MODEL",
    )


@pytest.mark.networks
def test_accuracy_of_a_bundle_with_a_float_layer(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("net.onnx", "net.toml", "calib.npz"):
        shutil.copy(built.parent / name, tmp_path)
    scheme, bundle = tmp_path / "net.scheme.toml", tmp_path / "net.edgepipe"
    model, pictures = tmp_path / "net.onnx", tmp_path / "calib.npz"
    start = ("build", model, "--board", "host", "--calib", pictures, "-o", bundle)
    assert run(*start, "--float", "block_Relu", "--export-scheme", scheme) == 0
    assert 'float_layers = ["block_Relu"]' in scheme.read_text()
    assert run("inspect", bundle, "--operators") == 0
    assert "Relu: stays float: requested" in capsys.readouterr().out
    accuracy = ("accuracy", bundle, "--network", model, "--data", pictures)
    accuracy = (*accuracy, "--layer-pictures", "0")
    assert run(*accuracy, "--calib", pictures, "--float", "block_Relu") == 0
    assert run(*accuracy, "--scheme", scheme) == 0
    capsys.readouterr()
    code = run(*accuracy, "--calib", pictures)
    assert_fails(capsys, code, "its output logits is not the golden output", GIVE)


@pytest.mark.networks
def test_a_bundle_with_an_int16_region_that_is_cut(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("net.onnx", "net.toml", "calib.npz"):
        shutil.copy(built.parent / name, tmp_path)
    scheme, bundle = tmp_path / "net.scheme.toml", tmp_path / "net.edgepipe"
    model, pictures = tmp_path / "net.onnx", tmp_path / "calib.npz"
    region = ("--int16", "stem_Clip..block_Relu")
    start = ("build", model, "--board", "host", "--calib", pictures, "-o", bundle)
    cut = ("--cut", "block_depth_Clip")
    assert run(*start, *region, *cut, "--export-scheme", scheme) == 0
    assert 'int16_layers = ["stem_Clip..block_Relu"]' in scheme.read_text()
    assert run("inspect", bundle, "--operators") == 0
    shown = capsys.readouterr().out
    assert "Clip: computed in int16: requested" in shown
    tensors = {tensor.name: tensor.dtype for tensor in storage.read_manifest(bundle).tensors}
    assert tensors["block_depth_Clip"] == "int16"
    done = run_cpp("edgepipe-run", bundle, "--golden")
    assert done.returncode == 0, done.stderr
    accuracy = ("accuracy", bundle, "--network", model, "--data", pictures)
    accuracy = (*accuracy, "--layer-pictures", "1", "--json")
    assert run(*accuracy, "--calib", pictures, *region) == 0
    layers = {layer["name"]: layer for layer in json.loads(capsys.readouterr().out)["layers"]}
    assert layers["block_Relu"]["so_far"]["snr_db"] > 60 > layers["logits"]["so_far"]["snr_db"]
    assert run(*accuracy, "--scheme", scheme) == 0


def test_an_unknown_float_layer_is_an_error(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = build(project, "--float", "block_Rel", board="host")
    assert_fails(capsys, code, "layer block_Rel: is unknown, so it cannot stay float", "block_Relu")
    assert_nothing_half_written(project)


@pytest.mark.networks
def test_rounding_by_results_reads_the_pictures_whatever_the_scheme(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scheme, model = project / "net.scheme.toml", project / "net.onnx"
    start = ("build", model, "--board", "host", "-o", project / "out")
    pictures = ("--calib", project / "pictures")
    made = (*start, *pictures, "--rounding", "reconstruct", "--export-scheme", scheme)
    assert run(*made) == 0
    assert 'rounding = "reconstruct"' in scheme.read_text()
    first = contents(project / "out")
    assert run(*start, *pictures, "--scheme", scheme) == 0
    assert contents(project / "out") == first
    capsys.readouterr()
    accuracy = ("accuracy", project / "out", "--network", model, "--data", project / "pictures")
    assert run(*accuracy, "--layer-pictures", "0", "--scheme", scheme, *pictures) == 0
    assert run(*accuracy, "--layer-pictures", "0", "--rounding", "reconstruct", *pictures) == 0
    code = run(*start, "--scheme", scheme)
    assert_fails(
        capsys,
        code,
        f'{scheme}: rounding "reconstruct" reads the ',
        'same pictures, or set rounding = "nearest" in the scheme: --calib DIR',
    )
    assert contents(project / "out") == first
    assert run(*start, "--scheme", scheme, "--rounding", "nearest") == 0


@pytest.mark.networks
def test_a_layer_with_choices_of_its_own_is_the_same_bundle_again(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scheme, again, model = project / "net.scheme.toml", project / "again.toml", project / "net.onnx"
    start = ("build", model, "--board", "host", "--calib", project / "pictures", "-o")
    assert run(*start, project / "plain", "--export-scheme", scheme) == 0
    own = '[layers."block_Relu"]\nbias_correction = false\nrounding = "reconstruct"\n'
    text = scheme.read_text()
    scheme.write_text(text.replace("\n[tensors", f"\n{own}\n[tensors", 1))
    assert run(*start, project / "own", "--scheme", scheme, "--export-scheme", again) == 0
    assert again.read_text() == scheme.read_text()
    own_bundle = contents(project / "own")
    assert run(*start, project / "same", "--scheme", again) == 0
    assert contents(project / "same") == own_bundle
    assert own_bundle != contents(project / "plain")
    accuracy = ("accuracy", project / "own", "--network", model, "--data", project / "pictures")
    calibration = ("--scheme", again, "--calib", project / "pictures")
    assert run(*accuracy, "--layer-pictures", "0", *calibration) == 0
    scheme.write_text(scheme.read_text().replace('"block_Relu"]\nb', '"block_Rel"]\nb'))
    capsys.readouterr()
    code = run(*start, project / "out", "--scheme", scheme)
    assert_fails(capsys, code, "net.scheme.toml: layer block_Rel is unknown", "mean: block_Relu")
    assert not (project / "out").exists()


def test_neither_pictures_nor_a_scheme_is_an_error(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("build", project / "net.onnx", "--board", "host", "-o", project / "out")
    assert_fails(
        capsys,
        code,
        "neither calibration pictures nor a scheme, expected one of them for the ranges",
        "give a folder of typical pictures: --calib DIR",
    )
    assert_nothing_half_written(project)


def test_a_scheme_never_replaces_the_description(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (project / "net.toml").read_bytes()
    code = build(project, "--export-scheme", project / "net.toml", board="host")
    assert_fails(
        capsys,
        code,
        "net.toml: exists and is not a scheme, expected one or nothing",
        "choose another file for the scheme: --export-scheme FILE",
    )
    assert (project / "net.toml").read_bytes() == before
    assert_nothing_half_written(project)


def test_a_scheme_that_is_not_one_is_an_error(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = build(project, "--scheme", project / "net.toml", board="host")
    assert_fails(capsys, code, "net.toml: format: found none, expected 1", "export the scheme with")
    assert_nothing_half_written(project)


def test_a_bundle_that_cannot_be_written_leaves_no_scheme(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def full(path: Path, contents: object, commit: Callable[[], None]) -> None:
        commit()
        written.append((project / "scheme.toml").read_text())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("edgepipe.bundle.storage._write_folder", full)
    code = build(project, "--export-scheme", project / "scheme.toml", board="host")
    assert_fails(capsys, code, "out: cannot be written (No space left on device)")
    assert written[0].startswith(scheme_file._HEADER)
    assert_nothing_half_written(project)
