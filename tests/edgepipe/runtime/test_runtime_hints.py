"""The hints of the C++ runtime's errors, each checked by its text, from the real programs.

Hints that only a certain machine can give are in the C++ tests of memory and devices.
"""

from __future__ import annotations

import dataclasses
import os
import resource
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import cam_programs as cam
import needs
import numpy as np
import pytest

import edgepipe
from edgepipe.bundle import storage
from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.simulator import Simulator
from vta_stages.accelerator import Accelerator

VECTORS = Path(__file__).parents[2] / "data" / "vta_vectors"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cam.make_bundle(tmp_path_factory.mktemp("bundle"))


def error_of(
    program: str,
    *arguments: str | Path,
    start: Callable[[], None] | None = None,
    **environment: str,
) -> Iterator[str]:
    """Run a program that fails, after ``start`` in its process; yield its lines."""
    ran = subprocess.run(
        [needs.built(program), *arguments],
        env=os.environ | environment,
        preexec_fn=start,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    return iter(ran.stderr.splitlines())


def test_frames_that_cannot_be_opened(bundle: Path, tmp_path: Path) -> None:
    *_, error, hint = error_of("edgepipe-run", bundle, "--input", tmp_path / "none.ppm")
    assert error.endswith("none.ppm: cannot be opened: No such file or directory")
    assert hint == "hint: check the name and the permissions"


def test_a_port_that_is_taken(bundle: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        source = ("--source", "synthetic", "--frames", "1", "--no-pin")
        *_, error, hint = error_of("edgepipe-cam", bundle, *source, "--http", address)
    assert f"{address}: cannot be bound: Address already in use" in error
    assert hint == "hint: choose another port, or stop the program that uses it"


@pytest.mark.parametrize(
    ("library", "content", "remedy"),
    [
        ("libturbojpeg.so.0", b"\xff\xd8", "hint: install libturbojpeg0"),
        ("libz.so.1", b"\x89PNG", "hint: install zlib1g"),
    ],
)
def test_a_machine_without_a_decoder(
    bundle: Path, tmp_path: Path, library: str, content: bytes, remedy: str
) -> None:
    empty = ["cc", "-shared", "-x", "c", "-o", tmp_path / library, "-"]
    subprocess.run(empty, input=b"", check=True)
    (tmp_path / "a.jpg").write_bytes(content)
    source = ("--source", tmp_path / "a.jpg", "--frames", "1", "--no-pin", "--headless")
    *_, error, hint = error_of("edgepipe-cam", bundle, *source, LD_LIBRARY_PATH=str(tmp_path))
    assert f"{library} cannot be loaded" in error
    assert hint == remedy


def test_a_machine_without_libmosquitto(bundle: Path, tmp_path: Path) -> None:
    empty = ["cc", "-shared", "-x", "c", "-o", tmp_path / "libmosquitto.so.1", "-"]
    subprocess.run(empty, input=b"", check=True)
    options = ("--source", "synthetic", "--no-pin", "--headless", "--mqtt", "127.0.0.1")
    *_, error, hint = error_of("edgepipe-cam", bundle, *options, LD_LIBRARY_PATH=str(tmp_path))
    assert "libmosquitto.so.1 cannot be loaded, it is needed for MQTT" in error
    assert hint == "hint: install libmosquitto1"


def test_a_program_that_breaks_a_rule() -> None:
    vector = np.load(VECTORS / "0.0.1" / "34_conv.npz")
    with (
        Simulator(Accelerator(revision="0.0.1")) as simulator,
        pytest.raises(RuntimeFailure) as caught,
    ):
        simulator.run_image(vector["insns"], vector["dram_before"][:256])
    assert caught.value.hint == (
        "the program breaks a rule of the accelerator: build it again, or report it"
    )


def test_a_bundle_for_other_processors(bundle: Path, tmp_path: Path) -> None:
    manifest = storage.read_manifest(bundle)
    contents = {entry.path: storage.read_file(bundle, entry) for entry in manifest.files}
    for path, content in contents.items():
        if path.endswith(".json"):
            contents[path] = content.replace(b'"x86_64"', b'"riscv64"')
    other = tmp_path / "other"
    storage.write(other, contents, lambda files: dataclasses.replace(manifest, files=files))
    with pytest.raises(RuntimeFailure) as caught:
        edgepipe.load(other)
    assert caught.value.hint == "build the bundle again, for this machine's processor or board"


def test_a_machine_without_room_for_threads(bundle: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to others
        shutil.copytree(bundle, Path(folder) / "bundle")
        Path(folder).chmod(0o755)
        ran = subprocess.run(
            [needs.built("edgepipe-run"), Path(folder) / "bundle", "--golden", "--no-pin"],
            user=65534 if os.geteuid() == 0 else None,  # no limit applies to root
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ran.returncode == 1
    *_, error, hint = ran.stderr.splitlines()
    assert error.endswith("cannot be started: Resource temporarily unavailable")
    assert hint == "hint: raise the limits of this process: ulimit -u and -v, TasksMax= of a unit"


def test_kernels_larger_than_a_process_may_write(bundle: Path) -> None:
    *_, error, hint = error_of(
        "edgepipe-run",
        bundle,
        "--golden",
        "--no-pin",
        start=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert error.endswith("bytes, this process may write files of at most 1000")
    assert hint == "hint: raise the limit: ulimit -f, or LimitFSIZE= of a unit"
