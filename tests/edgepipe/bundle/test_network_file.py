"""``network.json``: what it records, and records that are missing, damaged or contradictory."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import small_networks

from edgepipe import boards
from edgepipe.bundle import manifest as manifest_format
from edgepipe.bundle import network, storage
from edgepipe.errors import BundleError

REBUILD = "build the bundle again with this version of edgepipe"
AGAIN = "build the bundle again"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return small_networks.build_small_bundle(tmp_path_factory.mktemp("small"), board="ultra96")


def rewritten(bundle: Path, path: Path, content: bytes | None) -> Path:
    """Write the bundle to ``path`` with this content of its record, or without one."""
    manifest = storage.read_manifest(bundle)
    files = {entry.path: storage.read_file(bundle, entry) for entry in manifest.files}
    del files[network.FILE]
    if content is not None:
        files[network.FILE] = content

    storage.write(path, files, lambda entries: dataclasses.replace(manifest, files=entries))
    return path


def record_of(bundle: Path) -> dict:
    return json.loads(storage.read_member(bundle, network.FILE))


def read(path: Path) -> network.NetworkRecord:
    return network.read(path, storage.read_manifest(path))


def test_a_bundle_records_its_operators_and_its_board(bundle: Path) -> None:
    record = read(bundle)
    assert record.board == boards.load("ultra96")
    by_name = {operator.name: operator for operator in record.operators}
    assert by_name["relu"].inputs == ("image.int8",)
    assert by_name["relu"].shape == (1, 16, 16, 16)
    assert by_name["relu"].dtype == "int8"
    assert by_name["relu"].products == 16 * 3 * (3 * 16 - 2) ** 2
    assert by_name["relu"].constant_bytes >= 16 * 3 * 9
    assert by_name["relu"].arm_ms > 0
    assert by_name["relu"].vta_cycles > 0
    assert by_name["image.int8"].refusal == "camera bytes become int8 through a table"
    assert by_name["image.int8"].vta_cycles == 0
    assert json.loads(network.to_json(record)) == record_of(bundle)


def test_a_bundle_without_a_record_says_what_to_do(bundle: Path, tmp_path: Path) -> None:
    path = rewritten(bundle, tmp_path / "old", None)
    assert storage.check(path).name == "net"  # the bundle itself is whole
    with pytest.raises(BundleError, match=r"network\.json is missing, expected the costs") as error:
        read(path)
    assert error.value.hint == REBUILD


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"{", r"network\.json is damaged: ", AGAIN),
        (b"[" * 100_000, r"network\.json is damaged: ", AGAIN),
        (b"[]", r"network\.json: format None, expected 1", REBUILD),
        (b'{"format": 2}', r"network\.json: format 2, expected 1", REBUILD),
        (b'{"format": 1}', r"network\.json: key 'board' is missing", REBUILD),
        (b'{"format": NaN}', "NaN is not a finite number", AGAIN),
        (b'{"format": 1e999}', "1e999 is not a finite number", AGAIN),
    ],
)
def test_a_damaged_record_is_refused(
    bundle: Path, tmp_path: Path, content: bytes, message: str, hint: str
) -> None:
    path = rewritten(bundle, tmp_path / "damaged", content)
    with pytest.raises(BundleError, match=message) as error:
        read(path)
    assert error.value.hint == hint


def less(record: dict) -> None:
    record["operators"].pop()


def twice(record: dict) -> None:
    record["operators"].append(record["operators"][0])


def backwards(record: dict) -> None:
    record["operators"].reverse()


def costly(record: dict) -> None:
    record["operators"][0]["arm_ms"] = -1.0


def unknown(record: dict) -> None:
    record["board"]["colour"] = "green"


def impossible(record: dict) -> None:
    record["board"]["cores"] = -4


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (less, r"3 operators, expected the 4 operators of the manifest", AGAIN),
        (twice, r"5 operators, expected the 4 operators of the manifest", AGAIN),
        (backwards, r"reads .*, expected it to be earlier", AGAIN),
        (costly, r"image\.int8: a cost of -1\.0, expected 0 to 1e\+15", AGAIN),
        (unknown, r"board: unknown key 'colour'", REBUILD),
        (impossible, r"cores is -4, expected >= 0", REBUILD),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(
    bundle: Path, tmp_path: Path, change, message: str, hint: str
) -> None:
    record = record_of(bundle)
    change(record)
    path = rewritten(bundle, tmp_path / "other", json.dumps(record).encode())
    with pytest.raises(BundleError, match=message) as error:
        read(path)
    assert error.value.hint == hint


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"device": "vta"', '"device": "arm"', r" is on arm, expected the device of its stage"),
        ('"stage": "vta1"', '"stage": "vta9"', r" is on vta, expected the device of its stage"),
    ],
)
def test_a_manifest_that_contradicts_its_stages_is_refused(
    bundle: Path, old: str, new: str, message: str
) -> None:
    text = manifest_format.to_json(storage.read_manifest(bundle))
    manifest = manifest_format.from_json(text.replace(old, new), "test")
    with pytest.raises(BundleError, match=message):
        network.read(bundle, manifest)


def test_stages_out_of_order_are_refused(bundle: Path) -> None:
    text = json.loads(manifest_format.to_json(storage.read_manifest(bundle)))
    text["stages"][0]["inputs"] = list(text["outputs"])
    manifest = manifest_format.from_json(json.dumps(text), "test")
    with pytest.raises(BundleError, match=r"stage arm0 reads .*, expected it from an earlier"):
        network.read(bundle, manifest)
