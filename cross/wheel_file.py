"""Write a wheel: a ZIP file with a package, its description and the digests of all files."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

LICENSE = Path(__file__).resolve().parents[1] / "LICENSE"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date of a ZIP file, so that equal files give equal wheels


def write_wheel(
    target: Path, name: str, version: str, tag: str, metadata: str, files: Mapping[str, bytes]
) -> Path:
    """Return the path of the wheel of package ``name`` with ``files``, in the folder ``target``.

    ``metadata`` are further lines of METADATA, each with its end.
    """
    contents = dict(files)
    info = f"{name}-{version}.dist-info"
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.4\nName: {name.replace('_', '-')}\nVersion: {version}\n{metadata}"
        "License-Expression: Apache-2.0\nLicense-File: LICENSE\n"
    ).encode()
    pure = str(tag.endswith("-any")).lower()
    contents[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: edgepipe\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
    ).encode()
    contents[f"{info}/licenses/LICENSE"] = LICENSE.read_bytes()
    # RECORD: path, digest in URL-safe base64 without padding, and size (PyPA, "Binary
    # distribution format"); it has no digest of its own.
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in contents.items())
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    target.mkdir(parents=True, exist_ok=True)
    wheel = target / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in contents.items():
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.external_attr = (0o755 if data[:4] == b"\x7fELF" else 0o644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
