"""The installed C++ package: public headers, library and CMake files, without the source tree."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import cam_programs as cam
import cv2
import numpy as np
import pipeline_bundles as bundles
import pytest
from levels import every
from needs import EMULATORS, built, cpp_package, installed

from edgepipe import resources
from edgepipe.cli.main import main
from edgepipe.errors import EdgepipeError

PROJECT = Path(__file__).parent / "cpp_project"
ROOT = Path(__file__).resolve().parents[3]
DEVICE_PROJECT = ROOT / "examples" / "cpp_device"
CAMERA_PROJECT = ROOT / "examples" / "cpp_camera"
HEADERS = ROOT / "cpp_runtime" / "include"
PUBLIC = sorted(path.relative_to(HEADERS).as_posix() for path in HEADERS.glob("edgepipe/*.h"))


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=600, check=False
    )


def succeed(*command: object) -> str:
    ran = run(*command)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def compile_project(project: Path, package: Path, folder: Path, *options: object) -> Path:
    """Copy a project away from the repository and build it; return its folder of programs."""
    shutil.copytree(project, folder / "source")
    build = folder / "build"
    succeed("cmake", "-S", folder / "source", "-B", build, f"-Dedgepipe_DIR={package}", *options)
    succeed("cmake", "--build", build)
    return build


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return cpp_package("host", tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def stopwatch(package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    return compile_project(DEVICE_PROJECT, package, folder) / "stopwatch"


@pytest.mark.parametrize("header", every(3, PUBLIC))
def test_a_public_header_compiles_alone(package, header):
    include = next(package.parents[2].rglob("include"))
    compiler = ("c++", "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only")
    succeed(*compiler, "-I", include, "-include", header, "-x", "c++", "/dev/null")


def test_a_program_runs_stages_in_its_own_memory(package, tmp_path):
    said = succeed(compile_project(PROJECT, package, tmp_path) / "own-parts")
    assert "20 frames submitted" in said or "20 submitted" in said


@pytest.mark.sim
def test_a_program_runs_a_bundle_on_its_own_device(stopwatch, tmp_path):
    network = bundles.make_network()
    (frame,) = bundles.frames(1)
    golden = {"frame": frame, "scores": network.run(frame)}
    bundle = bundles.write_bundle(tmp_path / "tiny", bundles.compile_files(network), golden)
    said = succeed(stopwatch, bundle, "--golden", "--frames", "5", "--device", "stopwatch")
    assert "golden: 5 frames x 1 outputs are bit-equal" in said
    assert "VTA stages ran on: stopwatch" in said
    assert "stopwatch: 5 runs" in said


def test_help_lists_a_programs_own_device(stopwatch):
    text = succeed(stopwatch, "--help")
    assert re.search(r"^ +stopwatch +the simulator, with the time of every run$", text, re.M)
    wrong = run(stopwatch, "b", "--golden", "--device", "other")
    assert wrong.returncode == 2
    devices = "auto, simulator, timed, uio, model, rtl:LIBRARY, driver:PATH@REVISION or stopwatch"
    assert f"expected {devices}" in wrong.stderr


def test_a_program_for_a_board_is_built_against_the_installed_library(architecture, tmp_path):
    package = cpp_package(architecture, tmp_path / "sdk")
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={package / 'toolchain.cmake'}"
    program = compile_project(PROJECT, package, tmp_path, toolchain) / "own-parts"
    emulator = EMULATORS[architecture]
    installed(emulator[0], "qemu-user-static")
    assert "20 " in succeed(*emulator, program)


def camera_lines(*command):
    """Return the lines of a program that prints a frame's results, without their times."""
    lines = [json.loads(line) for line in succeed(*command).splitlines() if line.startswith("{")]
    return [{key: value for key, value in line.items() if key != "latency_ms"} for line in lines]


@pytest.mark.sim
def test_the_camera_example_sees_what_edgepipe_run_sees(package, tmp_path):
    tiny = cam.make_bundle(tmp_path)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(9):  # more than the pipeline has slots
        picture = np.random.default_rng(number).integers(0, 256, (20, 30, 3)).astype(np.uint8)
        assert cv2.imwrite(str(folder / f"{number}.png"), picture)
    camera = compile_project(CAMERA_PROJECT, package, tmp_path) / "camera"
    expected = camera_lines(built("edgepipe-run"), tiny, "--input", folder, "--no-pin", "--quiet")
    assert len(expected) == 9
    assert camera_lines(camera, tiny, folder) == expected
    ran = run(camera, tmp_path / "missing", folder)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "missing: no such bundle" in ran.stderr


def test_the_camera_example_is_built_for_boards(architecture, tmp_path):
    package = cpp_package(architecture, tmp_path / "sdk")
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={package / 'toolchain.cmake'}"
    camera = compile_project(CAMERA_PROJECT, package, tmp_path, toolchain) / "camera"
    ran = run(*EMULATORS[architecture], camera)
    assert "camera: expected a bundle and a source" in ran.stderr


def test_a_library_for_another_machine_is_refused(package, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(PROJECT, source)
    ran = run(
        "cmake",
        "-S",
        source,
        "-B",
        tmp_path / "build",
        f"-Dedgepipe_DIR={package}",
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=riscv64",
    )
    assert ran.returncode != 0
    assert "expected riscv64" in " ".join(ran.stderr.split())


def test_the_command_prints_where_the_cmake_package_is(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path)
    with pytest.raises(EdgepipeError, match="expected an installed edgepipe"):
        resources.cmake_dir()
    assert main(["--cmake-dir"]) == 1
    assert "hint: install edgepipe with `pip install .`" in capsys.readouterr().err
    package = tmp_path / "_cpp" / "lib" / "cmake" / "edgepipe"
    package.mkdir(parents=True)
    with pytest.raises(SystemExit) as ended:
        main(["--cmake-dir"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{package}\n"
