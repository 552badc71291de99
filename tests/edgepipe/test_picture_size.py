"""Sizes from headers agree with what OpenCV decodes, for every format it writes."""

import struct

import cv2
import numpy as np
import pytest

from edgepipe.media import PICTURE_SUFFIXES
from edgepipe.picture_size import picture_size


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
        (".webp", (cv2.IMWRITE_WEBP_QUALITY, 101)),  # without loss: VP8L
    ],
)
def test_the_size_is_that_of_the_decoded_picture(suffix, options):
    assert picture_size(encoded(suffix, options)) == (70, 48)


@pytest.mark.parametrize("suffix", [".pgm", ".png", ".tif", ".bmp"])
def test_gray_pictures_too(suffix):
    assert picture_size(encoded(suffix, shape=(48, 70))) == (70, 48)


@pytest.mark.parametrize(
    ("content", "size"),
    [
        (b"P6 # a comment\n12\t# 5\n\n7\r\n255 \n", (12, 7)),
        (b"P6 999999 999999 255 ", (999999, 999999)),
        (b"MM\0*\0\0\0\x08\0\x02" + struct.pack(">HHIHHHHIHH", 256, 3, 1, 12, 0, 257, 3, 1, 7, 0),
         (12, 7)),
        (b"BM" + bytes(12) + struct.pack("<Iii", 40, 12, -7), (12, 7)),
        (b"BM" + bytes(12) + struct.pack("<IHH", 12, 12, 7), (12, 7)),
        (b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x0b\0\0\x06\0\0", (12, 7)),
    ],
)  # fmt: skip
def test_rarer_headers(content, size):
    assert picture_size(content) == size


@pytest.mark.parametrize("suffix", PICTURE_SUFFIXES)
def test_a_header_that_is_cut_anywhere_has_no_size_or_the_right_one(suffix):
    content = encoded(suffix, shape=(48, 70) if suffix == ".pgm" else (48, 70, 3))
    for end in range(min(len(content), 700)):
        assert picture_size(content[:end]) in (None, (70, 48))
    assert picture_size(b"GIF89a") is None
