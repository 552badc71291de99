"""The tag of the wheel `edgepipe` says which systems its programs run on."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import edgepipe

SCRIPT = Path(__file__).resolve().parents[2] / "cross" / "host_wheel.py"
NAME = f"edgepipe-{edgepipe.__version__}"
INFO = f"{NAME}.dist-info"
# The programs of the installed package: the wheel's, as `make wheel` gets them.
SITE = Path(sysconfig.get_path("platlib")) / "edgepipe"
LIBRARY = SITE / "_lib" / "libedgepipe_runtime.so"
PROGRAMS = [Path(sys.executable).parent / name for name in ("edgepipe-run", "edgepipe-rpcd")]


def write_wheel(folder, files):
    """Write a wheel as scikit-build-core does, for this machine, with ``files`` by name."""
    platform = sysconfig.get_platform().replace("-", "_")
    label = f"py3-none-{platform}"
    wheel = folder / f"{NAME}-{label}.whl"
    head = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, path in files.items():
            archive.write(path, name)
        version = f"Name: edgepipe\nVersion: {edgepipe.__version__}\n"
        archive.writestr(f"{INFO}/METADATA", f"Metadata-Version: 2.1\n{version}")
        archive.writestr(f"{INFO}/WHEEL", f"{head}Tag: {label}\n")
        names = [*archive.namelist(), f"{INFO}/RECORD"]
        archive.writestr(f"{INFO}/RECORD", "".join(f"{name},,\n" for name in names))
    return wheel


def tagged(wheel, target):
    command = [sys.executable, SCRIPT, wheel, target]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def newest(files, library):
    """The newest version of the symbols of ``library``, such as GLIBC, that ``files`` need."""
    found = set()
    for file in files:
        command = ["readelf", "--wide", "--dyn-syms", file]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found |= set(re.findall(rf"UND \S+@{library}_([\d.]+)", text))
    return max(tuple(int(part) for part in version.split(".")) for version in found)


def test_the_tag_is_a_glibc_that_has_every_symbol_of_the_programs(tmp_path):
    files = {"edgepipe/_lib/" + LIBRARY.name: LIBRARY}
    files |= {f"{NAME}.data/scripts/{path.name}": path for path in PROGRAMS}
    done = tagged(write_wheel(tmp_path, files), tmp_path / "wheels")
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert f"{wheel.stat().st_size} bytes" in done.stdout
    tag = re.search(r"-py3-none-manylinux_2_(\d+)_(\w+)\.whl$", wheel.name)
    assert tag is not None, wheel.name
    assert (2, int(tag[1])) >= newest(files.values(), "GLIBC")
    with zipfile.ZipFile(wheel) as archive:
        for name, path in files.items():
            assert archive.read(name) == path.read_bytes(), f"{name} was changed"
        assert f"-manylinux_2_{tag[1]}_{tag[2]}\n" in archive.read(f"{INFO}/WHEEL").decode()


def test_no_program_depends_on_a_version_of_python():
    (info,) = SITE.parent.glob("edgepipe-*.dist-info")
    assert "\nTag: py3-none-" in (info / "WHEEL").read_text()
    extensions = [path for path in SITE.parent.glob("edgepipe/**/*.so") if "cpython" in path.name]
    assert not extensions
    for path in (LIBRARY, *PROGRAMS):
        listed = ["readelf", "--wide", "--dyn-syms", path]
        text = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
        assert not re.findall(r"UND (_?Py[A-Z_]\w*)", text), path
        dynamic = ["readelf", "--wide", "--dynamic", path]
        text = subprocess.run(dynamic, capture_output=True, text=True, check=True).stdout
        assert "libpython" not in text
        found = re.search(r"runpath: \[(.*)\]", text)
        for folder in ("tvm_ffi", "tvm") if found else ():
            for minor in range(11, 16):
                place = f"/lib/python3.{minor}/site-packages/{folder}/lib"
                assert f"$ORIGIN/..{place}" in found[1].split(":"), place


def compile_library(source, output, *options):
    path = output.with_suffix(".c")
    path.write_text(source)
    compiler = shutil.which("cc") or "gcc"
    subprocess.run([compiler, "-shared", "-fPIC", path, "-o", output, *options], check=True)


@pytest.mark.parametrize("found", [True, False], ids=["on-this-machine", "nowhere"])
def test_a_program_that_needs_a_library_of_this_machine_only_is_refused(tmp_path, found):
    own = tmp_path / "libown.so"
    compile_library("int own(void) { return 1; }\n", own)
    user = tmp_path / "user.so"
    place = [f"-Wl,-rpath,{tmp_path}"] if found else []
    text = "#include <string.h>\nint own(void);\nint user(char *t) { return own() + strlen(t); }\n"
    compile_library(text, user, f"-L{tmp_path}", "-lown", *place)
    done = tagged(write_wheel(tmp_path, {"edgepipe/user.so": user}), tmp_path / "wheels")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "libown" in done.stderr
    assert not (tmp_path / "wheels").exists()
