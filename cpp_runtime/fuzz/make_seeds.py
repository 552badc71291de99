"""Write the fuzz targets' seeds, the parts of a small real bundle: make_seeds.py FOLDER."""

from __future__ import annotations

import json
import math
import struct
import sys
import tarfile
import zlib
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "edgepipe" / "bitstream")]

import bit_files  # noqa: E402
import board_answers  # noqa: E402
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
PICTURE_FITTINGS = 5  # of fuzz_picture.cc
# PNG specification, 8.2 (first column and row, steps), 6.1 (values of a pixel by colour type) and
# 11.2.2 (their depths).
ADAM7 = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
PROGRAM_PARTS = ("program.json", "insns.bin", "relocs.bin", "consts.bin")


def program_seed(parts: dict[str, bytes]) -> bytes:
    """Join a program's files in the format of fuzz_program.cc."""
    *first, last = (parts[name] for name in PROGRAM_PARTS)
    return b"".join(struct.pack("<I", len(part)) + part for part in first) + last


def results_seed(manifest_text: bytes, kind: str, **shapes: tuple[int, ...]) -> bytes:
    """Return a manifest and numbers in the format of fuzz_results.cc.

    ``shapes`` are those of the network's outputs, by the key of the postprocessing.
    """
    table = json.loads(manifest_text)
    *others, scores = table["tensors"]
    outputs = [
        scores | {"name": key, "shape": shape, "bytes": 4 * math.prod(shape)}
        for key, shape in shapes.items()
    ]
    table["tensors"] = others + outputs
    table["outputs"] = table["stages"][-1]["outputs"] = list(shapes)
    table["golden"]["outputs"] = []
    post = table["postprocess"] | {"kind": kind} | {key: [key] for key in shapes}
    if "distances" in shapes:
        post |= {"strides": [8], "bins": 8 if kind == "nanodet" else 1}
        post |= {"anchors": [[4, 4]] if kind == "ssd" else []}
    table["postprocess"] = post
    text = json.dumps(table).encode()
    numbers = (0.9, 0.1, 2, 3, 0.6, -1, math.nan, 8, 0.5)
    return struct.pack("<I", len(text)) + text + struct.pack("<9f", *numbers)


RESULTS: dict[str, dict[str, tuple[int, ...]]] = {
    "segmentation": {"outputs": (1, 3, 4, 4)},
    "keypoints": {"outputs": (1, 3, 4, 4)},
    "ctc": {"outputs": (1, 5, 4)},
    "db": {"outputs": (1, 1, 8, 8)},
    "boxes": {"outputs": (1, 6, 7)},
    "nanodet": {"scores": (1, 4, 2), "distances": (1, 4, 32)},
    "ssd": {"scores": (1, 4, 3), "distances": (1, 4, 4)},
}


def pipeline_seed() -> bytes:
    """Return a pipeline.json with a stage of each kind, as an export writes it."""
    tensor = {"dtype": "int8", "shape": [1, 4], "layout": "nchw", "bytes": 4}
    server = {"port": 9190, "host": "board", "key": "k", "tracker": False, "timeout_s": 10.0}
    parameter = {"name": "factor", "dtype": "float32", "shape": [2]}
    relax = {"kind": "tvm", "folder": "stages/0_a", "device_kind": "cpu", "device_index": 0}
    relax |= {"order": ["x", "factor"], "parameters": [parameter], "build": {"target": "llvm"}}
    bundle = {"kind": "bundle", "bundle": "bundles/net.edgepipe", "stage": "arm0"}
    kinds: list[dict[str, object]] = [
        relax,
        {"kind": "arm", "folder": "stages/1_b"},
        bundle,
        {"kind": "library", "library": "stages/3_d/f.so", "symbol": "f"},
        {"kind": "python", "folder": "stages/4_e", "function": "stages:f"},
        {"kind": "python", "folder": "stages/5_f", "pickle": "stages/5_f/p", "python": "3.11"},
        {"kind": "remote", "server": server, "stage": relax},
        {"kind": "remote", "server": server, "stage": bundle},
    ]
    names = "abcdefgh"
    tensors = ["in", *(f"{name}.y" for name in names)]
    stages = [
        {"name": name, "inputs": [read], "input_names": ["x"], "outputs": [written], "cores": [1]}
        | kind
        for name, read, written, kind in zip(names, tensors, tensors[1:], kinds, strict=False)
    ]
    return json.dumps(
        {
            "format": 4,
            "name": "graph",
            "tensors": [tensor | {"name": name} for name in tensors],
            "inputs": tensors[:1],
            "outputs": tensors[-1:],
            "stages": stages,
            "parameter_groups": {"weights": "a"},
            "files": [{"path": "stages/3_d/f.so", "sha256": "0" * 64}],
        }
    ).encode()


def png_rows(colour: int, depth: int, interlaced: bool) -> bytes:
    """Return a PNG's header, palette and rows in the format of fuzz_png_rows.cc: 11x9 pixels.

    The rows have random values and every filter in turn.
    """
    generator = np.random.default_rng(colour * 32 + depth)
    width, height = 11, 9
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    palette = generator.bytes(3 << depth) if colour == 3 and depth < 8 else b""
    if colour == 3 and depth == 8:
        palette = generator.bytes(255)  # 85 colours
    rows = b""
    for column, row, column_step, row_step in ADAM7 if interlaced else ((0, 0, 1, 1),):
        columns = len(range(column, width, column_step))
        row_bytes = (columns * PNG_CHANNELS[colour] * depth + 7) // 8
        for number in range(len(range(row, height, row_step))):
            values = generator.bytes(row_bytes)
            if colour == 3 and depth == 8:
                values = bytes(value % 85 for value in values)
            filter_ = 0 if colour == 3 else number % 5
            rows += bytes([filter_]) + values
    return header + bytes([len(palette)]) + palette + rows


def png(rows: bytes) -> bytes:
    """Return the PNG file of what ``png_rows`` gives."""
    header, palette_bytes = rows[:13], rows[13]
    palette, values = rows[14 : 14 + palette_bytes], rows[14 + palette_bytes :]

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    chunks = [chunk(b"IHDR", header), *([chunk(b"PLTE", palette)] if palette else [])]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [*chunks, chunk(b"IDAT", zlib.compress(values)), chunk(b"IEND", b"")]
    )


def exif(orientation: int, order: str) -> bytes:
    """Return the segment of a JPEG that gives its orientation; ``order`` is that of struct."""
    tiff = struct.pack(f"{order}2sHIHHHIHHI", b"II" if order == "<" else b"MM", 42, 8, 1, 0x0112,
                       3, 1, orientation, 0, 0)  # fmt: skip
    content = b"Exif\0\0" + tiff
    return b"\xff\xe1" + struct.pack(">H", 2 + len(content)) + content


PNG_ROWS = {
    f"{colour}-{depth}-{'adam7' if interlaced else 'plain'}": png_rows(colour, depth, interlaced)
    for colour, depths in PNG_DEPTHS.items()
    for depth in depths
    for interlaced in (False, True)
}


def picture_seeds() -> dict[str, bytes]:
    """Return a small picture of each kind of file, in the format of fuzz_picture.cc."""
    picture = np.random.default_rng(1).integers(0, 256, (32, 40, 3), np.uint8)
    gray = np.ascontiguousarray(picture[:, :, 0])
    files = {
        name: cv2.imencode(f".{name[-3:]}", pixels)[1].tobytes()
        for name, pixels in {
            "ppm": picture, "pgm": gray, "jpg": picture, "gray.jpg": gray, "png": picture,
            "bmp": picture, "gray.bmp": gray, "alpha.bmp": np.dstack([picture, gray])
        }.items()
    }  # fmt: skip
    for orientation in range(1, 9):
        order = "<" if orientation % 2 else ">"
        turned = files["jpg"][:2] + exif(orientation, order) + files["jpg"][2:]
        files[f"turned{orientation}.jpg"] = turned
    files |= {f"{name}.png": png(rows) for name, rows in PNG_ROWS.items()}
    return {
        f"{fitting}-{name}": bytes([fitting]) + content
        for name, content in files.items()
        for fitting in range(PICTURE_FITTINGS)
    }


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
        ("bundle", "small"): small.read_bytes(),
        ("bundle", "archive"): bundle.read_bytes(),
        ("bundle", "manifest"): manifest_text,
        ("arm-plan", "first"): files["stages/0_arm/plan.json"],
        ("arm-plan", "last"): files["stages/2_arm/plan.json"],
        ("program", "body"): program_seed(
            {name: files[f"stages/1_vta/{name}"] for name in PROGRAM_PARTS}
        ),
        ("pipeline-description", "graph"): pipeline_seed(),
        ("exported-pipeline", "graph"): pipeline_seed(),
        ("http-request", "page"): HTTP_REQUEST,
        ("v4l2-answers", "camera"): v4l2_seed(),
        ("rpc-greeting", "client"): RPC_GREETING,
        ("bit-header", "zynq"): bit_files.make_bit(bit_files.make_stream()),
    }
    seeds |= {
        ("board-answers", name): answer.encode() for name, answer in board_answers.ANSWERS.items()
    }
    seeds |= {("picture", name): content for name, content in picture_seeds().items()}
    seeds |= {
        ("results", kind): results_seed(manifest_text, kind, **shapes)
        for kind, shapes in RESULTS.items()
    }
    seeds |= {("png-rows", name): content for name, content in PNG_ROWS.items()}
    for (target, name), content in seeds.items():
        path = folder / target / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
