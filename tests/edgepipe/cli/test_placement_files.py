"""``--placement`` and ``--export-placement``: the same as ``--place`` and a Python dictionary."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import assert_fails, run, run_cpp

import edgepipe
from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.forecast import ForecastOptions, forecast

KEYS = "correct the placement; docs/reference/placement-file.md explains every key"


def options(built: Path, output: Path) -> tuple[object, ...]:
    folder = built.parent
    start = ("build", folder / "net.onnx", "--board", "host", "--calib", folder / "calib.npz")
    return (*start, "-o", output)


@pytest.fixture(scope="module")
def exported(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the placement of the bundle that other tests only read."""
    path = tmp_path_factory.mktemp("placement") / "net.placement.toml"
    network = built.parent / "net.onnx"
    assert run("inspect", network, "--board", "host", "--export-placement", path) == 0
    return path


def contents(bundle: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(bundle)): path.read_bytes()
        for path in sorted(bundle.rglob("*"))
        if path.is_file()
    }


def digests(bundle: Path) -> dict[str, str]:
    """Return the digests of all files but the manifest, which also has the reasons."""
    return {entry.path: entry.sha256 for entry in storage.read_manifest(bundle).files}


def stages(bundle: Path) -> list[tuple[str, str]]:
    return [(p.operator, p.stage) for p in storage.read_manifest(bundle).placement]


def edited(exported: Path, folder: Path, old: str, new: str) -> Path:
    text = exported.read_text()
    changed = re.sub(old, new, text, count=1, flags=re.M)
    assert changed != text
    path = folder / "edited.toml"
    path.write_text(changed)
    return path


def test_a_file_that_was_not_edited_gives_the_same_programs(
    built: Path, exported: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again.toml"
    bundle = tmp_path / "same"
    start = options(built, bundle)
    assert run(*start, "--placement", exported, "--export-placement", again) == 0
    assert stages(bundle) == stages(built)
    assert digests(bundle) == digests(built)
    lines = [
        [line.partition("  #")[0] for line in path.read_text().splitlines()]
        for path in (again, exported)
    ]
    assert lines[0] == lines[1]


def test_options_a_file_and_a_dictionary_give_the_same_bundle(
    built: Path, exported: Path, tmp_path: Path
) -> None:
    path = edited(exported, tmp_path, '^("block_Relu" = )"vta"', r'\1"arm"')
    by_file, by_option, by_dictionary = (tmp_path / name for name in ("file", "option", "python"))
    assert run(*options(built, by_file), "--placement", path) == 0
    devices = dict(re.findall(r'^"(.*)" = "(\w+)"  #', path.read_text(), re.M))
    wishes = [word for item in devices.items() for word in ("--place", "=".join(item))]
    assert run(*options(built, by_option), *wishes) == 0
    folder = built.parent
    network, frames = folder / "net.onnx", folder / "calib.npz"
    found = forecast(ForecastOptions(model=network, board=boards.load("host")))
    objects = {operator: devices[operator.name] for operator in found.operators[:3]}
    names = {operator.name: devices[operator.name] for operator in found.operators[3:]}
    edgepipe.build(
        network,
        board="host",
        calibration=frames,
        output=by_dictionary,
        placement={**objects, **names},
    )
    assert contents(by_option) == contents(by_file)
    assert contents(by_dictionary) == contents(by_file)
    assert stages(by_file) != stages(built)
    golden = {name: value for name, value in digests(built).items() if name.startswith("golden/")}
    assert golden.items() <= digests(by_file).items()
    assert run_cpp("edgepipe-run", by_file, "--golden").returncode == 0


def test_place_takes_precedence_over_a_file(
    built: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = built.parent / "net.onnx"
    start = ("inspect", network, "--board", "host", "--json", "--placement", exported)
    assert run(*start, "--place", "block_Relu=arm") == 0
    found = json.loads(capsys.readouterr().out)["operators"]
    assert {o["name"]: o["device"] for o in found}["block_Relu"] == "arm"
    assert sum(o["device"] == "vta" for o in found) == exported.read_text().count('= "vta"') - 1


def test_cuts_are_in_the_file(built: Path, tmp_path: Path) -> None:
    path, bundle = tmp_path / "cut.toml", tmp_path / "cut"
    network = built.parent / "net.onnx"
    cut = ("--cut", "stem_Clip", "--cut", "block_Relu", "--export-placement", path)
    assert run("inspect", network, "--board", "host", *cut) == 0
    assert 'cuts = ["stem_Clip", "block_Relu"]' in path.read_text()
    assert run(*options(built, bundle), "--placement", path) == 0
    kinds = [stage.kind for stage in storage.read_manifest(bundle).stages]
    assert kinds == ["arm", "vta", "vta", "arm"]


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        (
            '^("block_Relu" = )"vta"',
            r'\1"gpu"',
            r", line \d+: operators: block_Relu: device 'gpu' is unknown",
            "give arm or vta, arm@1,2 for these cores, vta+arm:32 to share it, with its last 32 "
            "channels on arm, or arm/GENERATOR for a code generator",
        ),
        (
            '^"block_Relu" =',
            '"block_Rely" =',
            r", line \d+: operator 'block_Rely' is unknown",
            "did you mean: block_Relu",
        ),
        (
            '^"block_Relu" =.*$',
            "",
            r", line 7: operators: block_Relu is missing",
            "give every operator a device, arm or vta",
        ),
        (
            '^(network = ")....',
            r"\1aaaa",
            ": belongs to another network: it names 0 operators that this one does not have",
            "export the placement of this network",
        ),
        (
            '^("logits" = )"arm"',
            r'\1"vta"',
            r", line \d+: logits: cannot be placed on vta: decoding: layout and type",
            "leave it on arm: --place logits=arm",
        ),
        (
            "^format = 1",
            "format = 9",
            ", line 3: format: found 9, expected 1",
            "export the placement with this version of edgepipe",
        ),
        (
            r"^cuts = \[\]",
            'cuts = ["blok_Relu"]',
            "cuts: operator 'blok_Relu' is unknown",
            "did you mean: block_Relu",
        ),
        (
            "^cuts = ",
            "cust = ",
            ", line 5: unknown key 'cust'",
            "known keys: format, network, cuts",
        ),
        (r"^cuts = \[\]", "cuts = 1", ", line 5: cuts: found an integer", KEYS),
        (
            r"^\[operators\]",
            "[operator]",
            ": operators: expected a table",
            'write [operators] above lines such as "conv1" = "vta"',
        ),
        (r"^\[operators\]", "[operators", r"not valid TOML: .*\(at line 7", KEYS),
        ("^(.block_Relu. = .*)$", r"\1\n\1", r"not valid TOML: .*\(at line \d+", KEYS),
    ],
)
def test_a_file_that_does_not_fit_is_one_error_with_its_line(
    old: str,
    new: str,
    message: str,
    hint: str,
    built: Path,
    exported: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = edited(exported, tmp_path, old, new)
    network = built.parent / "net.onnx"
    code = run("inspect", network, "--board", "host", "--placement", path)
    printed = capsys.readouterr().err
    assert code == 1
    assert re.search(re.escape(str(path)) + ".*" + message.removeprefix(str(path)), printed)
    (line,) = [line for line in printed.splitlines() if line.startswith("edgepipe: error: ")]
    assert line
    assert hint in printed


def test_the_line_of_an_error_is_that_of_its_operator(
    built: Path, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = edited(exported, tmp_path, '^("logits" = )"arm"', r'\1"vta"')
    number = [line.startswith('"logits" ') for line in path.read_text().splitlines()].index(True)
    code = run("inspect", built.parent / "net.onnx", "--board", "host", "--placement", path)
    assert_fails(capsys, code, f"{path}, line {number + 1}: logits: cannot be placed on vta")


def on_a_description(built: Path, folder: Path) -> Path:
    return built.parent / "net.toml"


def without_a_folder(built: Path, folder: Path) -> Path:
    return folder / "none/net.placement.toml"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (on_a_description, "exists and is not a placement, expected one or nothing"),
        (without_a_folder, "its folder does not exist"),
    ],
)
def test_a_placement_replaces_only_placements(
    make: Callable[[Path, Path], Path],
    message: str,
    built: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = make(built, tmp_path)
    for start in (("inspect", built.parent / "net.onnx"), options(built, tmp_path / "out")):
        code = run(*start, "--export-placement", path)
        assert_fails(
            capsys,
            code,
            f"{path}: {message}",
            "choose another file for the placement: --export-placement FILE",
        )
    assert not (tmp_path / "out").exists()


def test_a_scheme_and_a_placement_need_two_files(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "both.toml"
    code = run(
        *options(built, tmp_path / "out"), "--export-scheme", path, "--export-placement", path
    )
    assert_fails(capsys, code, f"{path}: is the file of the scheme, too", "choose another file for")


def test_an_operator_with_two_devices_is_refused(built: Path, tmp_path: Path) -> None:
    network = built.parent / "net.onnx"
    found = forecast(ForecastOptions(model=network, board=boards.load("host")))
    operator = next(each for each in found.operators if each.name == "block_Relu")
    with pytest.raises(edgepipe.PartitionError) as caught:
        edgepipe.build(
            network,
            board="host",
            calibration=built.parent / "calib.npz",
            output=tmp_path / "out",
            placement={operator: "arm", "block_Relu": "vta"},
        )
    assert str(caught.value) == "block_Relu: is placed on arm and on vta"
    assert caught.value.hint == "name each operator once, as an object or by its name"
