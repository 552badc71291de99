"""Pictures for measurements: photographs of packages, and text drawn on them with a fixed seed.

Calibration and evaluation never share a photograph or a seed, except that text for both is drawn
on the photographs for calibration.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from bench.models import BUILD, EXAMPLES
from bench.packages import keep
from edgepipe import media
from edgepipe.zoo.wheels import Package

Picture = NDArray[np.uint8]

FOOLBOX = Package("foolbox==3.3.4", "MIT")
IMAGENET = (
    *("00_243", "01_559", "02_438", "03_990", "04_949", "05_853", "06_609", "07_609", "08_915"),
    *("09_455", "10_541", "11_630", "12_741", "13_471", "14_129", "15_99", "16_251", "17_22"),
    *("18_317", "19_305"),
)
SCIKIT_IMAGE = Package("scikit-image==0.26.0", "BSD-3-Clause")
PHOTOGRAPHS = (
    *("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png"),
    *("camera.png", "coins.png", "grass.png", "gravel.png", "brick.png", "ihc.png"),
    *("hubble_deep_field.jpg", "retina.jpg"),
)
WORDS = (
    *("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "Invoice", "TOTAL", "42.50"),
    *("EUR", "Station", "platform", "exit", "No", "parking", "Coffee", "tea", "water", "open"),
    *("9-17", "CAUTION", "wet", "floor", "Zone", "30", "Meeting", "room", "B2", "please", "ring"),
)
FONTS = (0, 2, 3, 4, 6)  # OpenCV's vector fonts
HEIGHT, WIDTH = 480, 640


def imagenet() -> list[Picture]:
    """Return twenty photographs of ImageNet's classes."""
    names = [f"imagenet_{name}.jpg" for name in IMAGENET]
    return _from_package(FOOLBOX, "foolbox/data", names)


def photographs() -> list[Picture]:
    """Return the photographs for calibration: those of the examples, and a package's."""
    return [
        *(source.picture for source in media.read_source(EXAMPLES / "calibration")),
        *_from_package(SCIKIT_IMAGE, "skimage/data", PHOTOGRAPHS),
    ]


def text(count: int, seed: int) -> list[Picture]:
    """Return pictures with lines of text on paper, and on photographs with and without a box."""
    random = np.random.default_rng(seed)
    behind = photographs()
    return [_with_text(random, behind, index % 3) for index in range(count)]


def pages() -> list[Picture]:
    """Return photographs of printed pages, and parts of them."""
    page, words = _from_package(SCIKIT_IMAGE, "skimage/data", ("page.png", "text.png"))
    height, width = (extent // 2 for extent in page.shape[:2])
    return [
        *(page, words, page[:, :width], page[:, width:]),
        *(page[:height, :width], page[height:, width:]),
    ]


def turned(pictures: list[Picture]) -> list[Picture]:
    """Return the pictures turned by 0, 90, 180, 270, 0 ... degrees."""
    return [np.ascontiguousarray(np.rot90(p, index % 4)) for index, p in enumerate(pictures)]


def lines(count: int, seed: int) -> list[Picture]:
    """Return single lines of text with noise, about half of them upside down."""
    random = np.random.default_rng(seed)
    return [_line(random) for _ in range(count)]


def _words(random: np.random.Generator) -> str:
    return " ".join(random.choice(WORDS, int(random.integers(1, 5))))


def _with_text(random: np.random.Generator, behind: list[Picture], kind: int) -> Picture:
    if kind == 0:
        picture = np.full((HEIGHT, WIDTH, 3), random.integers(200, 256, 3), np.uint8)
    else:
        photograph = behind[int(random.integers(len(behind)))]
        picture = np.asarray(cv2.resize(photograph, (WIDTH, HEIGHT)), np.uint8)
    for _ in range(int(random.integers(3, 9))):
        words, font = _words(random), FONTS[int(random.integers(len(FONTS)))]
        size = float(random.uniform(0.6, 2))
        thickness = max(1, int(2 * size))
        (width, height), _ = cv2.getTextSize(words, font, size, thickness)
        x = int(random.integers(0, max(1, WIDTH - width)))
        y = int(random.integers(height, HEIGHT - 5))
        dark = kind == 0 or random.random() < 0.5
        colour = [int(v) for v in random.integers(0, 70, 3) + (0 if dark else 185)]
        if kind == 2:
            opposite = [255 - value for value in colour]
            cv2.rectangle(picture, (x - 6, y - height - 6), (x + width + 6, y + 10), opposite, -1)
        cv2.putText(picture, words, (x, y), font, size, colour, thickness, cv2.LINE_AA)
    return picture


def _line(random: np.random.Generator) -> Picture:
    words, font = _words(random), FONTS[int(random.integers(len(FONTS)))]
    (width, height), _ = cv2.getTextSize(words, font, 1.2, 2)
    tall = height + 24
    picture = np.full((tall, max(width + 20, 4 * tall), 3), random.integers(120, 256, 3), np.uint8)
    colour = [int(v) for v in random.integers(0, 100, 3)]
    cv2.putText(picture, words, (10, height + 8), font, 1.2, colour, 2, cv2.LINE_AA)
    noisy = picture[:, : 4 * tall] + random.normal(0, random.uniform(0, 15), (tall, 4 * tall, 3))
    picture = np.clip(noisy, 0, 255).astype(np.uint8)
    upside_down = random.random() < 0.5
    return np.ascontiguousarray(picture[::-1, ::-1] if upside_down else picture)


def _from_package(
    package: Package, folder: str, names: list[str] | tuple[str, ...]
) -> list[Picture]:
    kept = {f"{folder}/{name}": BUILD / "pictures" / name for name in names}
    keep(package, kept)
    return [media.read_picture(path) for path in kept.values()]
