"""Scheme files: numbers and names survive, and everything that does not belong there is refused."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe import exports
from edgepipe.errors import BundleError, QuantizeError
from edgepipe.quantize import scheme_file
from edgepipe.quantize.options import MOST_SEED, LayerOptions, QuantizeOptions
from edgepipe.quantize.rounding import RULES as ROUNDINGS
from edgepipe.quantize.scheme import Scheme, TensorRange
from edgepipe.quantize.thresholds import RULES

MOST = float(np.finfo(np.float32).max)
RESTORE = "restore the exported number"
BY_RULE = "restore the exported values, or remove the key"
LAYER = 'write [layers."NAME"] above its keys'
TABLE = 'write [tensors."NAME"] above its values'
KEYS = "correct the scheme; docs/reference/scheme.md explains every key"
VERSION = "export the scheme with this version of edgepipe"


def tensor(
    low: list[float], high: list[float], threshold: float, by_rule: bool = True
) -> TensorRange:
    return TensorRange(
        low=np.array(low),
        high=np.array(high),
        mean=np.array(low) / 2 + np.array(high) / 2,
        threshold=threshold,
        thresholds=dict.fromkeys(RULES, 1.5) if by_rule else {},
    )


def scheme(**tensors: TensorRange) -> Scheme:
    return Scheme(
        network="1a" * 32,
        preprocess="2b" * 32,
        frames=3,
        options=QuantizeOptions(
            frames=3,
            layers={
                "y": LayerOptions(
                    threshold="mse", equalise=0.25, bias_correction=False, rounding="reconstruct"
                )
            },
        ),
        tensors=tensors or {"x": tensor([-1.5, 0.0], [1.5, 0.25], 1.25)},
    )


def written(folder: Path, text: str) -> Path:
    path = folder / "net.scheme.toml"
    path.write_text(text, encoding="utf-8")
    return path


finite = st.floats(-MOST, MOST, allow_nan=False)
names = st.text(st.characters(exclude_categories=("Cs",)))
ranges = st.lists(st.tuples(finite, finite), min_size=1, max_size=4).flatmap(
    lambda pairs: st.builds(
        tensor,
        st.just([min(pair) for pair in pairs]),
        st.just([max(pair) for pair in pairs]),
        st.floats(0, MOST),
        st.booleans(),
    )
)
layers = st.builds(
    LayerOptions,
    threshold=st.none() | st.sampled_from(sorted(RULES)),
    equalise=st.none() | st.floats(0, 1),
    bias_correction=st.none() | st.booleans(),
    rounding=st.none() | st.sampled_from(sorted(ROUNDINGS)),
)
options = st.builds(
    QuantizeOptions,
    threshold=st.sampled_from(sorted(RULES)),
    frames=st.integers(1, 10**9),
    equalise=st.floats(0, 1),
    leaky_steps=st.just(1),
    bias_correction=st.booleans(),
    float_layers=st.lists(names, max_size=2).map(tuple),
    int16_layers=st.lists(names, max_size=2).map(tuple),
    rounding=st.sampled_from(sorted(ROUNDINGS)),
    seed=st.integers(0, MOST_SEED),
    layers=st.dictionaries(names, layers, max_size=2),
)


@given(tensors=st.dictionaries(names, ranges, max_size=3), chosen=options)
def test_every_number_and_every_name_survives(
    tmp_path_factory: pytest.TempPathFactory,
    tensors: dict[str, TensorRange],
    chosen: QuantizeOptions,
) -> None:
    original = Scheme(
        network="ab", preprocess="cd", frames=chosen.frames, options=chosen, tensors=tensors
    )
    text = scheme_file.to_toml(original)
    found = scheme_file.read(written(tmp_path_factory.mktemp("scheme"), text))
    assert (found.network, found.preprocess, found.frames) == ("ab", "cd", chosen.frames)
    assert found.options == chosen
    assert list(found.tensors) == list(tensors)
    for name, expected in tensors.items():
        for key in ("low", "high", "mean"):
            one, other = getattr(found.tensors[name], key), getattr(expected, key)
            assert one.tobytes() == other.astype(np.float64).tobytes()  # also the sign of zero
        assert found.tensors[name].threshold == expected.threshold
        assert found.tensors[name].thresholds == expected.thresholds
    assert scheme_file.to_toml(found) == text


@given(names)
def test_a_string_is_one_line_of_printable_characters(text: str) -> None:
    line = exports.toml_string(text, QuantizeError)
    assert line.isprintable()
    assert tomllib.loads(f"key = {line}") == {"key": text}


def test_characters_beyond_16_bits_are_no_surrogate_pairs() -> None:
    assert exports.toml_string('a"\\\n\x7f\U0001f600\U000e0001', QuantizeError) == (
        '"a\\"\\\\\\u000A\\u007F\U0001f600\\U000E0001"'
    )


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(QuantizeError, match=r"'a\\ud800': has a surrogate \(U\+D800\)") as caught:
        exports.toml_string("a\ud800", QuantizeError)
    assert caught.value.hint == "rename the tensor in the ONNX file"


def test_chosen_steps_are_comments() -> None:
    scales = {"x.int8": np.array([0.5, 0.25])}
    text = scheme_file.to_toml(scheme(), scales, {"x.int8": -128})
    assert "\n# int8: steps 0.25 to 0.5, zero point -128\nthreshold" in text
    assert "\n# int8: step 0.5, zero point 0\n" in scheme_file.to_toml(
        scheme(), {"x": np.array([0.5, 0.5])}
    )


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        (
            "format = 1",
            "format = 2",
            "format: found 2, expected 1",
            VERSION,
        ),
        ("format = 1", "", "format: found none, expected 1", VERSION),
        ("frames = 3", "frames = 0", "frames: found 0, expected at least 1", RESTORE),
        ("frames = 3", "frames = 3\nzeal = 1", "unknown key 'zeal'", "known keys: format, network"),
        ("frames = 3\n", "", "key 'frames' is missing", KEYS),
        ("equalise = 0.5", "equalise = 2.0", "equalise is 2.0, expected 0 to 1", KEYS),
        ("equalise = 0.5", 'equalise = "0.5"', "found a string '0.5', expected a float", KEYS),
        (
            '"nearest"',
            '"up"',
            "rounding 'up' is unknown, expected nearest or reconstruct",
            "known names: nearest, reconstruct",
        ),
        (
            "seed = 0",
            "seed = -1",
            f"seed is -1, expected a whole number from 0 to {MOST_SEED}",
            KEYS,
        ),
        ("seed = 0", "seed = 0.5", "seed: found a float 0.5, expected an integer", KEYS),
        (
            '"weighted-mse"',
            '"best"',
            "threshold rule 'best' is unknown",
            "known rules: max, percentile",
        ),
        ('[tensors."x"]', "[tensor]", "unknown key 'tensor'", "known keys: format, network"),
        ('[layers."y"]', "[[layers]]", "layers: expected a table for each layer", LAYER),
        ('[layers."y"]', "[layers]", "layer threshold_rule: found a string, expected a tab", KEYS),
        (
            "equalise = 0.25",
            "equalize = 0.25",
            "layer y: unknown key 'equalize'",
            "known keys: threshold_rule, equalise, bias_correction, rounding",
        ),
        ("equalise = 0.25", "equalise = -1", "layer y: equalise is -1.0, expected 0 to 1", KEYS),
        (
            'rounding = "reconstruct"',
            'rounding = "reconstructed"',
            "layer y: rounding 'reconstructed' is unknown, expected nearest or reconstruct",
            "did you mean: reconstruct",
        ),
        (
            '"mse"',
            '"least"',
            "layer y: threshold rule 'least' is unknown",
            "known rules: max, percentile",
        ),
        (
            "bias_correction = false",
            "bias_correction = 0",
            "layer y: bias_correction: found an integer 0, expected a boolean",
            KEYS,
        ),
        (
            "max = 1.5, ",
            "",
            "tensor x: thresholds: found percentile, mse, weighted-mse, expected max, percentile, "
            "mse, weighted-mse",
            BY_RULE,
        ),
        (
            "max = 1.5",
            "max = nan",
            "tensor x: thresholds: max: found nan, expected 0 to 3.402823e+38",
            BY_RULE,
        ),
        ("max = 1.5", "max = true", "thresholds: max: found a boolean True, expected a", KEYS),
        ("thresholds = {", "thresholds = [[]] #", "thresholds: found an array, expected a", KEYS),
        (
            '[tensors."x"]',
            "[[tensors]]",
            "tensors: expected a table",
            TABLE,
        ),
        ('[tensors."x"]', "[tensors]", "tensor threshold: found a float, expected a table", KEYS),
        ("mean = ", "middle = ", "tensor x: unknown key 'middle'", "known keys: threshold, low"),
        ("threshold = 1.25\n", "", "tensor x: key 'threshold' is missing", KEYS),
        (
            "threshold = 1.25",
            "threshold = -1.0",
            "tensor x: threshold: found -1.0, expected 0 to 3.402823e+38",
            "give the largest magnitude that int8 should cover",
        ),
        ("= 1.25", "= nan", "tensor x: threshold: found nan", "magnitude that int8 should cover"),
        ("= 1.25", f"= 1{'0' * 400}", "found an integer that is too large for a float", KEYS),
        (
            "low = [-1.5, 0.0]",
            "low = [-1.5]",
            "tensor x: found 1 values in low, 2 in high and 2 in mean, expected one for each",
            "restore the exported values",
        ),
        (
            "low = [-1.5",
            "low = [-inf",
            "tensor x: channel 0: low: found -inf, expected -3.402823e+38 to 3.402823e+38",
            "give a finite float32 number",
        ),
        (
            "low = [-1.5, 0.0]",
            "low = [-1.5, 0.5]",
            "tensor x: channel 1: low: found 0.5, expected at most high, which is 0.25",
            "exchange the two, or restore the exported values",
        ),
        (
            "mean = [0.0",
            "mean = [1.6",
            "tensor x: channel 0: mean: found 1.6, expected -1.5 to 1.5, as low and high say",
            "change low, high and mean together",
        ),
        ("format = 1", "format 1", "not valid TOML", KEYS),
    ],
)
def test_what_does_not_belong_there_is_refused(
    tmp_path: Path, old: str, new: str, message: str, hint: str
) -> None:
    text = scheme_file.to_toml(scheme())
    assert text.count(old) == 1
    path = written(tmp_path, text.replace(old, new))
    with pytest.raises(QuantizeError) as caught:
        scheme_file.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert hint in str(caught.value.hint)


def test_an_integer_is_a_threshold(tmp_path: Path) -> None:
    text = scheme_file.to_toml(scheme()).replace("max = 1.5", "max = 2")
    assert scheme_file.read(written(tmp_path, text)).tensors["x"].thresholds["max"] == 2.0


@pytest.mark.parametrize("key", ["seed = 0", "float_layers = []"])
def test_files_of_older_versions_lack_keys_that_have_a_default(tmp_path: Path, key: str) -> None:
    text = scheme_file.to_toml(scheme())
    assert text.count(f"{key}\n") == 1
    found = scheme_file.read(written(tmp_path, text.replace(f"{key}\n", "")))
    assert found.options == scheme().options


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuantizeError, match=r"none.toml: no such file"):
        scheme_file.read(tmp_path / "none.toml")


def in_the_bundle(folder: Path) -> Path:
    (folder / "bundle").mkdir()
    return folder / "bundle/net.scheme.toml"


def without_a_folder(folder: Path) -> Path:
    return folder / "none/net.scheme.toml"


def on_a_description(folder: Path) -> Path:
    return written(folder, "[preprocess]\nwidth = 4\n")


def on_a_folder(folder: Path) -> Path:
    return folder


def on_bytes(folder: Path) -> Path:
    (folder / "net.onnx").write_bytes(b"\x08\xff")
    return folder / "net.onnx"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (in_the_bundle, "is the bundle that is built, or in it"),
        (without_a_folder, "its folder does not exist"),
        (on_a_description, "exists and is not a scheme, expected one or nothing"),
        (on_a_folder, "exists and is not a scheme, expected one or nothing"),
        (on_bytes, "exists and is not a scheme, expected one or nothing"),
    ],
)
def test_a_scheme_replaces_only_schemes(
    tmp_path: Path, make: Callable[[Path], Path], message: str
) -> None:
    with pytest.raises(QuantizeError, match=message) as caught:
        exports.check_target(scheme_file.EXPORT, make(tmp_path), tmp_path / "bundle")
    assert caught.value.hint == "choose another file for the scheme"
    assert caught.value.option == "export_scheme"


def test_an_older_scheme_may_be_replaced(tmp_path: Path) -> None:
    path = written(tmp_path, scheme_file.to_toml(scheme()))
    exports.check_target(scheme_file.EXPORT, path, tmp_path / "bundle")
    older = path.read_text()
    with exports.prepared(scheme_file.EXPORT, path, "new") as place:
        assert path.read_text() == older
        place()
    assert path.read_text() == "new"
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("older", ["", "older"])
def test_a_failed_bundle_leaves_what_was_there(tmp_path: Path, older: str, placed: bool) -> None:
    path = tmp_path / "net.scheme.toml"
    if older:
        path.write_text(older)

    def fail(place: Callable[[], None]) -> None:
        if placed:
            place()
        raise BundleError("no space")

    with pytest.raises(BundleError), exports.prepared(scheme_file.EXPORT, path, "new") as place:
        fail(place)
    assert [found.read_text() for found in tmp_path.iterdir()] == ([older] if older else [])


def test_a_scheme_that_cannot_be_written_stops_before_the_bundle(tmp_path: Path) -> None:
    path = tmp_path / "none" / "net.scheme.toml"
    reached = False
    with (
        pytest.raises(QuantizeError, match="cannot be written"),
        exports.prepared(scheme_file.EXPORT, path, "new"),
    ):
        reached = True
    assert not reached


def test_neither_pictures_nor_a_scheme() -> None:
    with pytest.raises(QuantizeError, match="neither calibration pictures nor a scheme") as caught:
        scheme_file.require_ranges(None, None)
    assert caught.value.hint == "give a folder of typical pictures"
