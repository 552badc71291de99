"""Packages of another architecture: where apt looks for them, and what dpkg is told of them."""

import os
import subprocess

import pytest

from edgepipe.virtual_board import debian_packages, root_file_system
from edgepipe.virtual_board.debian_packages import PackageStore

REPOSITORIES = """\
Debian|main|http://127.0.0.1:9/debian|bookworm
Debian|main|http://127.0.0.1:9/debian-security|bookworm-security
Other|main|http://127.0.0.1:9/other|bookworm
"""


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """Replace apt-get by a program that knows repositories and fetches nothing."""
    program = tmp_path / "programs/apt-get"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" != indextargets ] || printf "{REPOSITORIES}"\n')
    program.chmod(0o755)
    keyring = tmp_path / "keys.gpg"
    keyring.touch()
    monkeypatch.setattr(debian_packages, "KEYRING", keyring)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("updates", [True, False])
def test_apt_uses_this_machines_debian_repositories_with_and_without_updates(
    apt, updates, tmp_path
):
    PackageStore(folder=tmp_path / "store", log=tmp_path / "log", updates=updates).update()
    lines = (tmp_path / "store/sources.list").read_text().splitlines()
    suites = [line.split()[3] for line in lines]
    assert suites == ["bookworm", "bookworm-security"][: 1 + updates]


@pytest.mark.parametrize("architecture", ["arm64", "armhf"])
def test_apt_looks_for_packages_of_the_stores_architecture(apt, architecture, tmp_path):
    store = PackageStore(folder=tmp_path / "store", log=tmp_path / "log", architecture=architecture)
    store.update()
    text = (tmp_path / "store/apt.conf").read_text()
    assert f'APT::Architecture "{architecture}";\n' in text


@pytest.mark.parametrize("architecture", ["arm64", "armhf"])
def test_dpkg_finds_the_files_of_a_library_by_its_architecture(architecture, tmp_path):
    control = tmp_path / "tree/DEBIAN/control"
    control.parent.mkdir(parents=True)
    control.write_text(
        f"Package: libx\nVersion: 1\nArchitecture: {architecture}\nMulti-Arch: same\n"
        "Maintainer: nobody <nobody@example.invalid>\nDescription: x\n"
    )
    (tmp_path / "tree/usr").mkdir()
    package = tmp_path / "libx.deb"
    subprocess.run(["dpkg-deb", "-b", tmp_path / "tree", package], check=True, capture_output=True)
    root_file_system.register({"libx": package}, tmp_path / "root")
    records = tmp_path / "root/var/lib/dpkg"
    assert (records / f"info/libx:{architecture}.list").read_text() == "/.\n/usr\n"
    status = ["dpkg-query", f"--admindir={records}", "-W", "-f", "${Package}:${Architecture}"]
    shown = subprocess.run(status, check=True, capture_output=True, text=True).stdout
    assert shown == f"libx:{architecture}"
