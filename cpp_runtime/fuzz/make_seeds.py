"""Write the fuzz targets' seeds, the parts of a small real bundle: make_seeds.py FOLDER."""

from __future__ import annotations

import json
import struct
import sys
import tarfile
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "edgepipe" / "bitstream")]

import bit_files  # noqa: E402
import pipeline_bundles as bundles  # noqa: E402

HTTP_REQUEST = b"""GET /picture/7?x=1 HTTP/1.1\r
Host: door.example:8080\r
Authorization: Basic eDowMTIzNDU2Nzg5YWJjZGVm\r
Connection: keep-alive, close\r
Content-Length: 0\r
\r
"""
RPC_KEY = b"client:key -timeout=5"
RPC_GREETING = struct.pack("<ii", 0xFF271, len(RPC_KEY)) + RPC_KEY
PROGRAM_PARTS = ("program.json", "insns.bin", "relocs.bin", "consts.bin")


def program_seed(parts: dict[str, bytes]) -> bytes:
    """Join a program's files in the format of fuzz_program.cc."""
    *first, last = (parts[name] for name in PROGRAM_PARTS)
    return b"".join(struct.pack("<I", len(part)) + part for part in first) + last


def pipeline_seed() -> bytes:
    """Return a pipeline.json with a stage of each kind that needs a path."""
    tensor = {"dtype": "int8", "shape": [1, 4], "layout": "nchw", "bytes": 4}
    stage = {"cores": [1, 2], "inputs": ["a"], "outputs": ["b"]}
    return json.dumps(
        {
            "format": 4,
            "name": "graph",
            "tensors": [tensor | {"name": name} for name in "abc"],
            "inputs": ["a"],
            "outputs": ["c"],
            "stages": [
                stage | {"name": "one", "kind": "bundle", "bundle": "net", "stage": "arm0"},
                stage | {"name": "two", "kind": "arm", "folder": "1", "outputs": ["c"]},
                stage | {"name": "three", "kind": "library", "library": "f.so", "symbol": "f"},
            ],
        }
    ).encode()


def picture_seeds() -> dict[str, bytes]:
    """Return a small picture of each kind of file."""
    picture = np.random.default_rng(1).integers(0, 256, (32, 40, 3), np.uint8)
    gray = np.ascontiguousarray(picture[:, :, 0])
    files = {"ppm": picture, "pgm": gray, "jpg": picture, "gray.jpg": gray}
    return {name: cv2.imencode(f".{name[-3:]}", file)[1].tobytes() for name, file in files.items()}


def v4l2_seed() -> bytes:
    """Return a good driver's answers in the format of fuzz_v4l2_answers.cc: gray, 4x2 pixels."""

    def answer(bytes_: int, **words: int) -> bytes:
        """Return success and a structure of that many bytes, with words at offsets ``at_N``."""
        content = bytearray(bytes_)
        for name, word in words.items():
            struct.pack_into("<I", content, int(name.removeprefix("at_")), word)
        return b"\xff" + bytes(content)

    grey = int.from_bytes(b"GREY", "little")
    refuses = b"\x16"  # EINVAL
    buffers = range(4)
    parts = [answer(104, at_84=0x0400_0001)]  # QUERYCAP: captures, streams
    parts += [answer(64, at_44=grey), refuses]  # ENUM_FMT
    parts += [answer(208, at_8=4, at_12=2, at_16=grey, at_24=4)]  # S_FMT
    parts += [answer(20, at_0=len(buffers))]  # REQBUFS
    parts += [answer(88, at_0=index, at_72=8) + refuses for index in buffers]  # QUERYBUF, EXPBUF
    parts += [answer(88, at_0=index) for index in buffers]  # QBUF
    parts += [b"\xff"]  # STREAMON
    taken = [b"\xff" + answer(88, at_0=index, at_8=8) for index in buffers]  # wait, DQBUF
    given = [answer(88)] * 3  # QBUF
    return b"".join([*parts, *taken[:3], *given, taken[3], *taken])


def main(folder: Path) -> None:
    """Write FOLDER/TARGET/NAME for every target."""
    network = bundles.make_network()
    files = bundles.compile_files(network)
    frame = bundles.frames(1)[0]
    golden = {"frame": frame, "scores": network.run(frame)}
    folder.mkdir(parents=True, exist_ok=True)
    bundle = bundles.write_bundle(folder / "tiny.edgepipe", files, golden)
    with tarfile.open(bundle) as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        manifest_text = manifest.read()
    small = folder / "small.edgepipe"
    with tarfile.open(small, "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.add(Path(__file__), "stages/0_arm/plan.json")
    seeds = {
        ("archive", "small"): small.read_bytes(),
        ("archive", "bundle"): bundle.read_bytes(),
        ("manifest", "bundle"): manifest_text,
        ("arm-plan", "first"): files["stages/0_arm/plan.json"],
        ("arm-plan", "last"): files["stages/2_arm/plan.json"],
        ("program", "body"): program_seed(
            {name: files[f"stages/1_vta/{name}"] for name in PROGRAM_PARTS}
        ),
        ("pipeline-description", "graph"): pipeline_seed(),
        ("http-request", "page"): HTTP_REQUEST,
        ("v4l2-answers", "camera"): v4l2_seed(),
        ("rpc-greeting", "client"): RPC_GREETING,
        ("bit-header", "zynq"): bit_files.make_bit(bit_files.make_stream()),
    } | {("picture", name): content for name, content in picture_seeds().items()}
    for (target, name), content in seeds.items():
        path = folder / target / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
