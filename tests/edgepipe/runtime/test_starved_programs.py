"""A program that finds no memory ends in order, with an error, whichever allocation fails."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pipeline_bundles as bundles
import pytest
import starved_programs
from needs import built

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return starved_programs.compile_library(tmp_path_factory.mktemp("starved"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, network, files):
    golden = {"frame": bundles.frames(1)[0], "scores": network.run(bundles.frames(1)[0])}
    return bundles.write_bundle(tmp_path_factory.mktemp("starved") / "tiny", files, golden)


@pytest.fixture
def accelerator(tmp_path):
    path = tmp_path / "accelerator.json"
    path.write_text(json.dumps(dataclasses.asdict(bundles.ACCELERATOR)))
    return path


@pytest.fixture
def starved(library, tmp_path):
    """Return a function that starves a program: its messages of ends with exit code 1."""

    def run(program: str, *options: object, step: int = 1, forever: bool = True) -> list[str]:
        (tmp_path / "ends").mkdir()
        command = [built(program), *map(str, options)]
        ends = starved_programs.run(library, tmp_path / "ends", command, step=step, forever=forever)
        failed = []
        for name, end in ends.items():
            assert end.code in (0, 1), (name, end)
            if end.code == 1:
                _, found, told = end.said.rpartition(f"{program}: error: ")
                error, hint, *_ = [*told.splitlines(), "", ""]  # results may follow
                assert found, (name, end)
                assert hint.startswith("hint: "), (name, end)
                failed.append(f"{found}{error}\n{hint}")
        return failed

    return run


@contextlib.contextmanager
def absent_machine(path: Path) -> Iterator[Path]:
    """Yield a socket that accepts QEMU's clients and at once closes their connections."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(64)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield path
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_edgepipe_vta_run(starved, accelerator, tmp_path):
    for name in ("insns", "memory"):
        (tmp_path / name).write_bytes(bytes(64))
    files = [f"--{name}={tmp_path / name}" for name in ("insns", "memory", "output")]
    failed = starved("edgepipe-vta-run", f"--accelerator={accelerator}", *files)
    told = "edgepipe-vta-run: error: out of memory\nhint: give the process more memory"
    assert failed.count(told) > 100


def test_edgepipe_arm_stage(starved, bundle, tmp_path):
    (tmp_path / "frame").write_bytes(bundles.frames(1)[0].tobytes())
    stage = ("--threads", 2, bundle / "stages/0_arm", 1)
    failed = starved("edgepipe-arm-stage", *stage, tmp_path / "frame", tmp_path / "features")
    told = "edgepipe-arm-stage: error: out of memory\nhint: give the process more memory"
    assert failed.count(told) > 100


def test_edgepipe_fpga_model(starved, accelerator, tmp_path):
    (tmp_path / "ram").write_bytes(bytes(1 << 20))
    with absent_machine(tmp_path / "qtest") as qtest:
        failed = starved(
            "edgepipe-fpga-model",
            f"--memory={tmp_path / 'ram'}",
            "--registers=0",
            "--interrupt=1",
            f"--qtest={qtest}",
            f"--accelerator={accelerator}",
            "--fault=hang=2",
        )
    told = "edgepipe-fpga-model: error: out of memory\nhint: give the process more memory"
    assert failed.count(told) > 100


def test_edgepipe_rpcd_at_its_start(starved):
    failed = starved("edgepipe-rpcd", "--until-eof", "--allow-root")
    told = "edgepipe-rpcd: error: out of memory\nhint: give the process more memory"
    assert failed.count(told) > 10


def test_edgepipe_run(starved, bundle):
    failed = starved("edgepipe-run", bundle, "--golden", step=19)
    advice = "hint: give the process more memory, or use smaller pictures or fewer slots"
    assert failed.count(f"edgepipe-run: error: out of memory\n{advice}") > 20


def test_edgepipe_cam(starved, bundle):
    source = ("--source", "synthetic", "--frames", "3", "--rate", "1000", "--headless")
    failed = starved("edgepipe-cam", bundle, *source, step=19)
    advice = "hint: give the process more memory, or use smaller pictures or fewer slots"
    assert failed.count(f"edgepipe-cam: error: out of memory\n{advice}") > 20
