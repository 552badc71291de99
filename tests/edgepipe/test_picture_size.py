"""Sizes from headers agree with what OpenCV decodes, for every format it writes."""

import struct

import cv2
import numpy as np
import pytest

from edgepipe.media import PICTURE_SUFFIXES
from edgepipe.picture_size import other_kind, picture_size


def encoded(suffix, options=(), shape=(48, 70, 3)):
    pixels = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    good, content = cv2.imencode(suffix, pixels, list(options))
    assert good
    return content.tobytes()


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        *((suffix, ()) for suffix in PICTURE_SUFFIXES if suffix != ".pgm"),
        (".jpg", (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)),
        (".jpg", (cv2.IMWRITE_JPEG_RST_INTERVAL, 4)),
    ],
)
def test_the_size_is_that_of_the_decoded_picture(suffix, options):
    assert picture_size(encoded(suffix, options)) == (70, 48)


@pytest.mark.parametrize("suffix", [".pgm", ".png", ".bmp"])
def test_gray_pictures_too(suffix):
    assert picture_size(encoded(suffix, shape=(48, 70))) == (70, 48)


@pytest.mark.parametrize(
    ("content", "size"),
    [
        (b"P6 # a comment\n12\t# 5\n\n7\r\n255 \n", (12, 7)),
        (b"P6 999999 999999 255 ", (999999, 999999)),
        (b"BM" + bytes(8) + struct.pack("<IIii", 54, 40, 12, -7) + bytes(28), (12, 7)),
        (b"BM" + bytes(8) + struct.pack("<IIii", 53, 40, 12, 7) + bytes(28), None),
        (b"P6 12 7 65535 ", None),
        (b"P4 12 7 ", None),
    ],
)  # fmt: skip
def test_rarer_headers(content, size):
    assert picture_size(content) == size


@pytest.mark.parametrize("suffix", PICTURE_SUFFIXES)
def test_a_header_that_is_cut_anywhere_has_no_size_or_the_right_one(suffix):
    content = encoded(suffix, shape=(48, 70) if suffix == ".pgm" else (48, 70, 3))
    for end in range(min(len(content), 700)):
        assert picture_size(content[:end]) in (None, (70, 48))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (encoded(".tif"), "TIFF"),
        (b"MM\0*", "TIFF"),
        (encoded(".webp"), "WebP"),
        (encoded(".webp", (cv2.IMWRITE_WEBP_QUALITY, 101)), "WebP"),  # without loss: VP8L
        (b"RIFF\0\0\0\0WEBPVP8X", "WebP"),
        (b"GIF89a", "GIF"),
        (b"BM" + bytes(12) + struct.pack("<I12xHI", 12, 0, 0) + bytes(24),
         "BMP (header of 12 bytes, 0 bits, compression 0)"),
        (b"BM" + bytes(12) + struct.pack("<I10xHI", 40, 8, 1) + bytes(24),
         "BMP (header of 40 bytes, 8 bits, compression 1)"),
        (b"BM" + bytes(12) + struct.pack("<I10xHI", 40, 16, 0) + bytes(24),
         "BMP (header of 40 bytes, 16 bits, compression 0)"),
        (encoded(".bmp", shape=(48, 70, 4)), None),
        (b"BM", None),
        (b"\xff\xd8\xff\xc0\0\x14\x08\0\1\0\1\4", "CMYK JPEG"),
        (b"\xff\xd8\xff\xc0\0\x11\x08\0\1\0\1\3", None),
        (b"\xff\xd8\xff\xc0\0\x14\x08\0\1\0\1", None),
        (b"", None),
    ],
)  # fmt: skip
def test_kinds_that_are_not_read(content, kind):
    assert other_kind(content) == kind
