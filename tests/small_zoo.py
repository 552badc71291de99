"""A zoo of one small network, whose package is in a folder instead of on PyPI."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
import small_networks

from edgepipe.zoo import catalogue

LICENCE = "Permission is hereby granted, free of charge, to any person"
MEMBER = "small/net.onnx"


class SmallZoo:
    """A folder with the wheel of package ``small`` and a file of the zoo that has network ``tiny``.

    ``environment`` makes pip take packages from the folder alone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.network = small_networks.classifier().SerializeToString()
        self.environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
        self.file = folder / "models.toml"
        self.write()

    def write(self, *, sha256: str = "", member: str = MEMBER, licence: str = "MIT") -> None:
        """Write the wheel under a licence, and the file of the zoo; a value may be wrong."""
        with zipfile.ZipFile(self.folder / "small-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(MEMBER, self.network)
            info = "small-1.0.dist-info"
            wheel.writestr(
                f"{info}/METADATA",
                f"Metadata-Version: 2.1\nName: small\nVersion: 1.0\nLicense: {licence}\n"
                "Requires-Python: <3.13\n",
            )
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/LICENSE", LICENCE)
            wheel.writestr(f"{info}/RECORD", "")
        self.file.write_text(
            f"""\
[models.tiny]
title = "Tiny"
task = "classification"
package = "small==1.0"
licence = "MIT"
member = "{member}"
sha256 = "{sha256 or hashlib.sha256(self.network).hexdigest()}"
labels = ["ant", "bee", "cow", "dog", "emu"]
description = '''
{small_networks.DESCRIPTION}
labels = "tiny.labels.txt"
'''

[models.tiny.figures]
stages = 3
frames_per_second = 1.5
latency_ms = 2.5
cosine = 0.5
compares = "logits"
pictures = 4
date = "2026-11-27"
""",
            encoding="utf-8",
        )

    def set_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make this process use this zoo for a test."""
        monkeypatch.setattr(catalogue, "FILE", self.file)
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
