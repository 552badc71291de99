"""The installed C++ package: public headers, library and CMake files, without the source tree."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pipeline_bundles as bundles
import pytest
from needs import EMULATORS, cpp_package, installed

from edgepipe import resources
from edgepipe.cli.main import main
from edgepipe.errors import EdgepipeError

PROJECT = Path(__file__).parent / "cpp_project"
HEADERS = Path(__file__).resolve().parents[3] / "cpp_runtime" / "include"
PUBLIC = sorted(path.relative_to(HEADERS).as_posix() for path in HEADERS.glob("edgepipe/*.h"))


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=600, check=False
    )


def succeed(*command: object) -> str:
    ran = run(*command)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def compile_project(package: Path, folder: Path, *options: object) -> Path:
    """Copy the project away from the repository and build it; return its program."""
    shutil.copytree(PROJECT, folder / "source")
    build = folder / "build"
    succeed("cmake", "-S", folder / "source", "-B", build, f"-Dedgepipe_DIR={package}", *options)
    succeed("cmake", "--build", build)
    return build / "own-parts"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return cpp_package("host", tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def own_parts(package, tmp_path_factory):
    return compile_project(package, tmp_path_factory.mktemp("project"))


@pytest.mark.parametrize("header", PUBLIC)
def test_a_public_header_compiles_alone(package, header):
    include = next(package.parents[2].rglob("include"))
    compiler = ("c++", "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only")
    succeed(*compiler, "-I", include, "-include", header, "-x", "c++", "/dev/null")


def test_a_program_runs_stages_in_memory_of_its_own(own_parts):
    said = succeed(own_parts, "pipeline")
    assert "20 frames submitted" in said or "20 submitted" in said


@pytest.mark.sim
def test_a_program_runs_a_bundle_on_a_device_of_its_own(own_parts, tmp_path):
    network = bundles.make_network()
    (frame,) = bundles.frames(1)
    golden = {"frame": frame, "scores": network.run(frame)}
    bundle = bundles.write_bundle(tmp_path / "tiny", bundles.compile_files(network), golden)
    said = succeed(own_parts, "run", bundle, "--golden", "--frames", "5", "--device", "counted")
    assert "golden: 5 frames x 1 outputs are bit-equal" in said
    assert "VTA stages ran on: counted" in said
    assert "counted: 5 runs" in said


def test_help_lists_a_device_of_its_own(own_parts):
    text = succeed(own_parts, "run", "--help")
    assert "counted      the simulator, with a count of its runs" in text
    wrong = run(own_parts, "run", "b", "--golden", "--device", "other")
    assert wrong.returncode == 2
    assert "expected auto, simulator, timed, uio, model, driver:PATH or counted" in wrong.stderr


@pytest.mark.cross
def test_a_program_for_a_board_is_built_against_the_installed_library(tmp_path):
    package = cpp_package("aarch64", tmp_path / "sdk")
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={package / 'toolchain.cmake'}"
    program = compile_project(package, tmp_path, toolchain)
    emulator = EMULATORS["aarch64"]
    installed(emulator[0], "qemu-user-static")
    assert "20 " in succeed(*emulator, program, "pipeline")


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
