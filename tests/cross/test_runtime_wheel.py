"""The wheel for Python on a board: its tags, its contents, and that it runs when installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from needs import BUILD, lacking

import edgepipe

SCRIPT = Path(__file__).resolve().parents[2] / "cross" / "runtime_wheel.py"
LIBRARY = "edgepipe_runtime/libedgepipe_c.so"


def write_wheel(folder, library):
    command = [sys.executable, SCRIPT, edgepipe.__version__, folder, library]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("machine", "name"), [(183, "aarch64"), (40, "armv7l")])
def test_the_tag_is_that_of_the_librarys_processor(tmp_path, machine, name):
    library = tmp_path / "libedgepipe_c.so"
    library.write_bytes(b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little") + b"code")
    done = write_wheel(tmp_path / "wheels", library)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert wheel.name == f"edgepipe_runtime-{edgepipe.__version__}-py3-none-linux_{name}.whl"
    assert f"{wheel.stat().st_size} bytes" in done.stdout
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(LIBRARY) == library.read_bytes()
        assert "edgepipe_runtime/__init__.py" in archive.namelist()
        info = f"edgepipe_runtime-{edgepipe.__version__}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        assert f"Tag: py3-none-linux_{name}\n" in archive.read(f"{info}/WHEEL").decode()
    assert "Requires-Python: >=3.8\n" in metadata
    assert [line for line in metadata.splitlines() if line.startswith("Requires-Dist")] == [
        "Requires-Dist: numpy>=1.17"
    ]


def test_a_file_that_is_no_library_is_refused(tmp_path):
    (tmp_path / "text").write_bytes(b"no library, but long enough")
    done = write_wheel(tmp_path, tmp_path / "text")
    assert done.returncode == 1
    assert "text: is no library for aarch64, armv7l, x86_64" in done.stderr


def test_the_installed_wheel_finds_its_library(tmp_path):
    library = BUILD / "host" / "lib" / "libedgepipe_c.so"
    if not library.is_file():
        lacking(f"{library} is missing; `make test` builds it")
    assert write_wheel(tmp_path, library).returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", tmp_path / "site", wheel], check=True)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "import edgepipe_runtime as e\nfrom edgepipe_runtime import library\n"
        "print(library.library_path())\n"
        "try: e.load('net.edgepipe')\nexcept e.EdgepipeError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    path, error = done.stdout.splitlines()
    assert path == str(tmp_path / "site" / LIBRARY)
    assert "net.edgepipe" in error
