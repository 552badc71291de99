"""The recipe of a build: what it says on the way."""

from __future__ import annotations

import pytest

from edgepipe.progress import Silent
from edgepipe.recipe import notice_few_pictures


class Notices(Silent):
    """Keeps the notices of a build."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, ["calibrated with 1 picture: ranges are reliable with 16 or more typical ones"]),
        (15, ["calibrated with 15 pictures: ranges are reliable with 16 or more typical ones"]),
        (16, []),
    ],
)
def test_few_calibration_pictures_are_named(count: int, expected: list[str]) -> None:
    progress = Notices()
    notice_few_pictures(count, progress)
    assert progress.texts == expected
