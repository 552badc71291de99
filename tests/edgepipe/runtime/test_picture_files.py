"""Picture files give the same lines in `edgepipe run`, edgepipe-run and edgepipe-cam."""

from __future__ import annotations

import io
import itertools
import json
import struct
import subprocess
import zlib

import cv2
import numpy as np
import pipeline_bundles as bundles
import pytest
from needs import built

from edgepipe.errors import MediaError
from edgepipe.run import RunOptions, run_bundle

pytestmark = pytest.mark.sim

SIDE = bundles.SIZE
GRAY, RGB, PALETTE, GRAY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGB_ALPHA: 4}
PNG_KINDS = [
    *((GRAY, depth) for depth in (1, 2, 4, 8, 16)),
    *((PALETTE, depth) for depth in (1, 2, 4, 8)),
    *itertools.product((RGB, GRAY_ALPHA, RGB_ALPHA), (8, 16)),
]
# First row and column of each part of an interlaced picture, and the steps (PNG, figure 8).
PASSES = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2)]
PASSES.append((1, 0, 2, 1))


def chunk(kind, content):
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))


def filtered(row, above, step, kind):
    """Return a row of bytes as a PNG stores it under a filter."""
    row, above = row.astype(int), above.astype(int)
    left = np.concatenate([np.zeros(step, int), row])[: row.size]
    corner = np.concatenate([np.zeros(step, int), above])[: row.size]
    guess = left + above - corner
    near = np.stack([abs(guess - left), abs(guess - above), abs(guess - corner)])
    paeth = np.choose(near.argmin(axis=0), [left, above, corner])
    predicted = [0 * row, left, above, (left + above) // 2, paeth][kind]
    return bytes([kind]) + ((row - predicted) % 256).astype(np.uint8).tobytes()


def png(values, colour, depth, *, interlaced=False):
    """Encode values uint16[h, w, channels] with all five filters in turn."""
    height, width, channels = values.shape
    step = max(1, channels * depth // 8)
    data, kinds = b"", itertools.cycle(range(5))
    for top, left, down, right in PASSES if interlaced else [(0, 0, 1, 1)]:
        part = values[top::down, left::right]
        above = None
        for line in part if part.size else ():
            bits = (line.reshape(-1, 1) >> np.arange(depth - 1, -1, -1)) & 1
            row = np.packbits(bits.astype(np.uint8).reshape(-1))
            data += filtered(row, np.zeros_like(row) if above is None else above, step, next(kinds))
            above = row
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    palette = np.random.default_rng(1).integers(0, 256, 3 << depth, np.uint8).tobytes()
    packed = zlib.compress(data)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + (chunk(b"PLTE", palette) if colour == PALETTE else b"")
        + chunk(b"IDAT", packed[:20])
        + chunk(b"IDAT", packed[20:])
        + chunk(b"IEND", b"")
    )


def with_rows(colour, rows):
    """Encode one pixel of 8 bits per channel, with rows as they are and a palette of one colour."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, colour, 0, 0, 0)
    chunks = [
        (b"IHDR", header),
        (b"PLTE", bytes(3)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in chunks)


def orientation_tag(orientation, order):
    """Return Exif data with one entry, the orientation."""
    mark, letter = ("<", b"II") if order == "little" else (">", b"MM")
    entry = struct.pack(f"{mark}HHIHH", 0x0112, 3, 1, orientation, 0)
    return letter + struct.pack(f"{mark}HIH", 42, 8, 1) + entry + bytes(4)


def turned(coded, orientation, order):
    """Return a JPEG or PNG with Exif data, which give its orientation."""
    tiff = orientation_tag(orientation, order)
    if coded.startswith(b"\x89PNG"):
        end = coded.index(b"IHDR") + 21
        return coded[:end] + chunk(b"eXIf", tiff) + coded[end:]
    segment = b"\xff\xe1" + struct.pack(">H", len(tiff) + 8) + b"Exif\0\0" + tiff
    return coded[:2] + segment + coded[2:]


def bmp(bits, *, from_top=False, colours=0, header=40, masks=()):
    """Return a bitmap of random pixels of the network's size."""
    random = np.random.default_rng(bits + colours)
    row_bytes = (SIDE * bits // 8 + 3) // 4 * 4
    pixels = random.integers(0, 256, (SIDE, row_bytes), np.uint8)
    palette = random.bytes(4 * (colours or 256)) if bits == 8 else b""
    info = struct.pack("<iiHHIIiiII", SIDE, -SIDE if from_top else SIDE, 1, bits, 3 if masks else 0,
                       0, 0, 0, colours, 0)  # fmt: skip
    rest = struct.pack(f"<{len(masks)}I", *masks).ljust(header - 40, b"\0")
    head = struct.pack("<I", header) + info + rest + palette
    size = 14 + len(head) + pixels.size
    return b"BM" + struct.pack("<IHHI", size, 0, 0, 14 + len(head)) + head + pixels.tobytes()


MASKS = (0x00FF0000, 0x0000FF00, 0x000000FF)
BITMAPS = {
    "24": bmp(24),
    "24_from_top": bmp(24, from_top=True),
    "24_v5": bmp(24, header=124),
    "32": bmp(32),
    "32_from_top": bmp(32, from_top=True),
    "32_v4": bmp(32, header=108),
    "32_masks": bmp(32, masks=MASKS),
    "32_v5_masks": bmp(32, header=124, masks=MASKS),
    "8": bmp(8),
    "8_few": bmp(8, colours=100),  # some pixels have a colour that the palette lacks
    "8_v4_from_top": bmp(8, from_top=True, header=108),
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, files):
    return bundles.write_bundle(tmp_path_factory.mktemp("files") / "tiny", files, {})


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder of PNG and BMP files of every kind, of the network's size, one with a wrong name."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(2)
    for (colour, depth), interlaced in itertools.product(PNG_KINDS, (False, True)):
        values = rng.integers(0, 1 << depth, (SIDE, SIDE, CHANNELS[colour]), np.uint16)
        name = f"{colour}_{depth:02}{'_interlaced' * interlaced}.png"
        (folder / name).write_bytes(png(values, colour, depth, interlaced=interlaced))
    for name, content in BITMAPS.items():
        (folder / f"{name}.bmp").write_bytes(content)
    (folder / "named.jpg").write_bytes(BITMAPS["24"])
    return folder


def program(name, *arguments, stdin=b""):
    return subprocess.run(
        [built(name), *arguments], input=stdin, capture_output=True, timeout=120, check=False
    )


def lines(text):
    """Return lines of JSON without their latency, the only field that may differ."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(line.pop("latency_ms") > 0 for line in found)
    return found


def recorded(bundle, source, folder):
    """Return what the network saw of each picture, uint8[h, w, 3] in BGR, and the lines."""
    ran = program("edgepipe-cam", bundle, "--source", source, "--headless", "--record", folder)
    assert ran.returncode == 0, ran.stderr.decode()
    return [cv2.imread(str(path)) for path in sorted(folder.glob("*.ppm"))], lines(ran.stdout)


def test_files_of_every_kind_give_the_same_pixels_and_lines_everywhere(bundle, pictures, tmp_path):
    seen, of_camera = recorded(bundle, pictures, tmp_path)
    files = sorted(pictures.iterdir())
    assert len(seen) == len(files) == 2 * len(PNG_KINDS) + len(BITMAPS) + 1
    for file, pixels in zip(files, seen, strict=True):
        np.testing.assert_array_equal(pixels, cv2.imread(str(file)), err_msg=file.name)
    assert [line["source"] for line in of_camera] == [file.name for file in files]
    of_program = program("edgepipe-run", bundle, "--input", pictures)
    assert lines(of_program.stdout) == of_camera
    text = io.StringIO()
    run_bundle(RunOptions(bundle=bundle, source=pictures), lines=text)
    assert lines(text.getvalue()) == of_camera


def test_photographs_stand_upright_as_their_exif_data_says(bundle, tmp_path):
    scene = np.zeros((SIDE, SIDE, 3), np.uint8)
    scene[: SIDE // 2, : SIDE // 2] = 255  # one bright quarter and, below it, a gray one
    scene[SIDE // 2 :, : SIDE // 2] = 120
    folder = tmp_path / "pictures"
    folder.mkdir()
    for suffix in (".jpg", ".png"):
        coded = cv2.imencode(suffix, scene)[1].tobytes()
        for orientation, order in itertools.product(range(10), ("little", "big")):
            content = turned(coded, orientation, order)
            (folder / f"{orientation}_{order}{suffix.upper()}").write_bytes(content)
    lying = turned(cv2.imencode(".jpg", scene)[1].tobytes(), 6, "little")
    (folder / "no_42.jpg").write_bytes(lying.replace(b"II*\0", b"II\0\0"))
    (folder / "no_order.jpg").write_bytes(lying.replace(b"II*\0", b"IM*\0"))
    (folder / "filled.jpg").write_bytes(lying[:2] + b"\xff\xff" + lying[2:])  # ITU T.81, B.1.1.2
    seen, _ = recorded(bundle, folder, tmp_path / "seen")
    files = sorted(folder.iterdir())
    for file, pixels in zip(files, seen, strict=True):
        np.testing.assert_array_equal(pixels, cv2.imread(str(file)), err_msg=file.name)
    assert len({pixels.tobytes() for pixels in seen}) >= 8


JPEG_SAMPLINGS = {
    "444": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "422": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "420": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    "440": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440,
    "411": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411,
}


def test_libturbojpeg_and_opencv_decode_to_the_same_bytes(bundle, tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    random = np.random.default_rng(6)
    scene = cv2.GaussianBlur(random.integers(0, 256, (SIDE, SIDE, 3), np.uint8), (0, 0), 2)
    for (name, sampling), quality, progressive in itertools.product(
        JPEG_SAMPLINGS.items(), (30, 75, 95), (0, 1)
    ):
        settings = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling]
        settings += [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_PROGRESSIVE, progressive]
        path = folder / f"{name}_{quality}_{progressive}.jpg"
        assert cv2.imwrite(str(path), scene, settings)
    cv2.imwrite(str(folder / "grey.jpg"), scene[:, :, 0])
    seen, _ = recorded(bundle, folder, tmp_path / "seen")
    for file, pixels in zip(sorted(folder.iterdir()), seen, strict=True):
        np.testing.assert_array_equal(pixels, cv2.imread(str(file)), err_msg=file.name)


def test_a_damaged_png_is_refused_with_its_name(bundle, tmp_path):
    good = png(np.zeros((SIDE, SIDE, 3), np.uint16), RGB, 8)
    for content, reason in [
        (b"\x89PNG", "PNG: it does not begin like a PNG file"),
        (good[:8] + chunk(b"IEND", b""), "PNG: it does not begin with its header"),
        (good[:-30], "PNG: it ends too early"),
        (with_rows(RGB, bytes([9, *bytes(3)])), "PNG: filter 9, expected 0 to 4"),
        (with_rows(PALETTE, bytes([0, 1])), "PNG: a colour is not in its palette"),
        (good.replace(b"IHDR\0\0", b"IHDR\0\1"), "PNG: the picture is 65552x16 pixels"),
        (good[:24] + b"\x03" + good[25:], "PNG: colour type 2 with 3 bits"),
        (good[:48] + b"\0\0" + good[50:], "PNG: its data cannot be decompressed to 784 bytes"),
    ]:
        (tmp_path / "one.png").write_bytes(content)
        ran = program("edgepipe-run", bundle, "--input", tmp_path / "one.png")
        assert ran.returncode == 1
        assert reason in ran.stderr.decode()


def test_other_kinds_are_refused_by_all_programs_with_one_remedy(bundle, tmp_path):
    scene = np.zeros((SIDE, SIDE, 3), np.uint8)
    for number, (suffix, kind, name) in enumerate(
        [
            (".webp", "WebP", "a.webp"),
            (".tif", "TIFF", "a.tiff"),
            (".webp", "WebP", "a.jpg"),
            (".tif", "TIFF", "a.bmp"),
        ]
    ):
        source = tmp_path / str(number) / name
        source.parent.mkdir()
        source.write_bytes(cv2.imencode(suffix, scene)[1].tobytes())
        error = f"{source}: found a {kind} picture, expected .bmp, .jpeg, .jpg, .pgm, .png or .ppm"
        hint = "convert it to PNG: ffmpeg -i IN OUT.png"
        for given in (source, source.parent):
            for command in (
                ("edgepipe-run", bundle, "--input", given),
                ("edgepipe-cam", bundle, "--source", given, "--headless"),
            ):
                told = program(*command).stderr.decode().splitlines()
                assert told[-2:] == [f"{command[0]}: error: {error}", f"hint: {hint}"]
            with pytest.raises(MediaError) as caught:
                run_bundle(RunOptions(bundle=bundle, source=given), lines=io.StringIO())
            assert (str(caught.value), caught.value.hint) == (error, hint)


def test_a_bitmap_of_another_kind_is_refused_by_all_programs(bundle, tmp_path):
    path = tmp_path / "one.bmp"
    path.write_bytes(bmp(16))
    ran = program("edgepipe-run", bundle, "--input", path)
    assert "BMP: found a header of 40 bytes with 16 bits per pixel" in ran.stderr.decode()
    assert ran.stderr.decode().endswith("hint: convert it to PNG: ffmpeg -i IN.bmp OUT.png\n")
    with pytest.raises(MediaError, match="header of 40 bytes, 16 bits") as caught:
        run_bundle(RunOptions(bundle=bundle, source=path), lines=io.StringIO())
    assert caught.value.hint == "convert it to PNG: ffmpeg -i IN OUT.png"


def test_a_jpeg_for_printing_is_refused_by_all_programs(bundle, tmp_path):
    coded = cv2.imencode(".jpg", np.zeros((SIDE, SIDE, 3), np.uint8))[1].tobytes()
    at = coded.index(b"\xff\xc0\0\x11") + 2
    fourth = b"\4" + coded[at + 9 : at + 11]  # a component like the first
    frame = b"\0\x14" + coded[at + 2 : at + 7] + b"\4" + coded[at + 8 : at + 17] + fourth
    path = tmp_path / "print.jpg"
    path.write_bytes(coded[:at] + frame + coded[at + 17 :])
    ran = program("edgepipe-run", bundle, "--input", path)
    assert "JPEG: found CMYK colours, for printing, expected RGB or gray" in ran.stderr.decode()
    assert ran.stderr.decode().endswith("hint: convert it to PNG: ffmpeg -i IN OUT.png\n")
    with pytest.raises(MediaError, match=r"print\.jpg: found a CMYK JPEG picture"):
        run_bundle(RunOptions(bundle=bundle, source=path), lines=io.StringIO())


RAW_COMMANDS = {
    "edgepipe-run": ("--input", "-"),
    "edgepipe-cam": ("--source", "-", "--headless", "--no-pin"),
}


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".webp", ".tif", ".ppm"])
@pytest.mark.parametrize("name", RAW_COMMANDS)
def test_compressed_bytes_are_not_taken_for_raw_frames(bundle, name, suffix):
    content = cv2.imencode(suffix, np.zeros((SIDE, SIDE, 3), np.uint8))[1].tobytes()
    ran = program(name, bundle, *RAW_COMMANDS[name], stdin=content)
    kind = {".jpg": "JPEG", ".webp": "WebP", ".tif": "TIFF"}.get(suffix, suffix[1:].upper())
    assert ran.returncode == 1
    assert ran.stderr.decode().splitlines()[-2:] == [
        f"{name}: error: standard input: frame 0: the input is {kind}, expected raw frames of "
        f"{3 * SIDE * SIDE} bytes",
        "hint: decode it first, or name its file instead of passing its bytes",
    ]
    assert ran.stdout == b""


@pytest.mark.parametrize(
    "begin", [b"\xff\xd8\xff\xe0\0\x10", b"\xff\xd8\xff\xfe\xff\xff", b"\xff\xd8\xff\xdb\0\x43"]
)
@pytest.mark.parametrize("name", RAW_COMMANDS)
def test_raw_pixels_that_begin_like_a_jpeg_are_pixels(bundle, tmp_path, name, begin):
    frame = begin + bytes([255, 250, 255]) * SIDE * SIDE
    ran = program(name, bundle, *RAW_COMMANDS[name], stdin=frame[: 3 * SIDE * SIDE])
    assert ran.returncode == 0, ran.stderr.decode()
    assert len(lines(ran.stdout)) == 1
    (tmp_path / "frames.raw").write_bytes(frame[: 3 * SIDE * SIDE])
    of_file = program("edgepipe-run", bundle, "--input", tmp_path / "frames.raw")
    assert lines(of_file.stdout)[0]["classes"] == lines(ran.stdout)[0]["classes"]
