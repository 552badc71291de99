"""The files of a user's own decoder that a build puts into a bundle, and its trial there."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgepipe import boards
from edgepipe.bundle import decoder_files
from edgepipe.bundle.decoder_files import DecoderFiles
from edgepipe.decoder_trial import try_decoder
from edgepipe.description import Postprocess
from edgepipe.errors import FrontendError, RuntimeFailure
from edgepipe.progress import Silent

AARCH64 = (2, 183)
GOLDEN = {"scores": np.zeros((1, 5), np.float32), "mask": np.zeros((1, 4), np.int8)}


def library(word: int, machine: int, *, order: int = 1, kind: int = 3) -> bytes:
    """Return the header of an ELF file, and some more bytes."""
    return struct.pack("<4s2B10x2H", b"\x7fELF", word, order, kind, machine) + bytes(44)


def read(folder: Path, contents: dict[str, bytes], **settings: Any) -> DecoderFiles:
    """Write the files, and read them as a description beside them names them."""
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    given = {"gives": "boxes", **settings}
    return decoder_files.read(
        Postprocess(kind="own", **given), folder / "net.toml", ("scores", "mask")
    )


def test_a_bundle_has_the_function_and_a_library_for_each_architecture(tmp_path: Path) -> None:
    contents = {
        "own.py": b"def decode(outputs): ...",
        "a.so": library(*AARCH64),
        "b.so": library(2, 62),
        "c.so": library(1, 40),
    }
    found = read(tmp_path, contents, function="own.py:decode", libraries=("a.so", "b.so", "c.so"))
    assert found.files == {
        "decoder/own.py": contents["own.py"],
        "decoder/aarch64.so": contents["a.so"],
        "decoder/x86_64.so": contents["b.so"],
        "decoder/armhf.so": contents["c.so"],
    }
    assert found.architectures == ("aarch64", "armhf", "x86_64")
    assert found.source == "def decode(outputs): ..."
    assert found.postprocess.function == "decoder/own.py:decode"
    assert found.postprocess.libraries[0] == "decoder/aarch64.so"
    assert found.postprocess.outputs == ("scores", "mask")
    only = read(tmp_path, {}, function="own.py:decode", outputs=("scores",))
    assert only.postprocess.outputs == ("scores",)
    assert only.postprocess.libraries == ()


def test_other_kinds_have_no_files(tmp_path: Path) -> None:
    found = decoder_files.read(Postprocess(kind="classify", labels="a/b.txt"), tmp_path / "x", ())
    assert found == DecoderFiles(postprocess=Postprocess(kind="classify", labels="labels.txt"))


@pytest.mark.parametrize(
    ("contents", "settings", "message", "hint"),
    [
        (
            {},
            {"function": "own.py:decode"},
            "own.py: the decoder cannot be read (No such file or directory)",
            "name a Python file beside the description",
        ),
        (
            {"own.py": b"\xff"},
            {"function": "own.py:decode"},
            "own.py: the decoder cannot be read (it is not UTF-8 text)",
            "save the Python file as UTF-8",
        ),
        (
            {},
            {"libraries": ("a.so",)},
            "a.so: the decoder cannot be read (No such file or directory)",
            "build the library, or correct its path, which is relative to the description",
        ),
        (
            {"a.so": b"\x7fELF"},
            {"libraries": ("a.so",)},
            "a.so: is not a shared library of Linux",
            "compile the decoder with -shared -fPIC, for the machine that runs it",
        ),
        (
            {"a.so": library(*AARCH64, kind=1)},
            {"libraries": ("a.so",)},
            "a.so: is not a shared library of Linux",
            "compile the decoder with -shared -fPIC, for the machine that runs it",
        ),
        (
            {"a.so": library(2, 243)},
            {"libraries": ("a.so",)},
            "a.so: is a library for ELF machine 243, expected one for x86_64, aarch64, armhf",
            "build the library with the board's toolchain",
        ),
        (
            {"a.so": library(*AARCH64), "b.so": library(*AARCH64)},
            {"libraries": ("a.so", "b.so")},
            "b.so: is a second decoder for aarch64, beside ",
            "name one library for each architecture",
        ),
    ],
)
def test_files_that_cannot_decode_are_refused(
    tmp_path: Path, contents: dict[str, bytes], settings: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(FrontendError, match=re.escape(message)) as caught:
        read(tmp_path, contents, **settings)
    assert caught.value.hint == hint


class Notices(Silent):
    """Keeps the notices of a build."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


def tried(folder: Path, source: bytes, **settings: Any) -> list[str]:
    """Try a decoder as a build for an Ultra96 does; return the notices."""
    contents = {"own.py": source, "a.so": library(*AARCH64)}
    files = read(folder, contents, function="own.py:decode", **{"outputs": ("scores",), **settings})
    notices = Notices()
    try_decoder(files, ("ant",), GOLDEN, boards.load("ultra96"), notices)
    return notices.texts


def test_a_build_tries_the_function_on_the_golden_outputs(tmp_path: Path) -> None:
    good = b"def decode(outputs):\n    assert outputs['scores'].shape == (1, 5)\n    return []\n"
    assert tried(tmp_path, good, libraries=("a.so",)) == []
    assert tried(tmp_path, good) == [
        "the decoder has no library for aarch64: programs in C++, such as edgepipe-run, cannot run "
        "this bundle on ultra96"
    ]
    with pytest.raises(RuntimeFailure, match=r"own decoder: exception: KeyError: 'x' \(own.py:1\)"):
        tried(tmp_path, b"def decode(outputs): return outputs['x']")


def test_only_float_outputs_are_decoded(tmp_path: Path) -> None:
    with pytest.raises(FrontendError, match="output 'mask' is int8, expected float32") as caught:
        tried(tmp_path, b"def decode(outputs): return []", outputs=("scores", "mask"))
    assert caught.value.hint == (
        "name other outputs, or end the network in DequantizeLinear or Cast"
    )
