"""``manifest.json``: what a bundle holds, as frozen values with one JSON form."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from edgepipe import schema
from edgepipe.description import Postprocess
from edgepipe.errors import BundleError
from edgepipe.frontend.preprocess import Preprocess
from vta_stages.accelerator import Accelerator

FORMAT = 2
MOST_VERSION = 2**31 - 1
FOLDS = {"vta": 1, "vta_2x2": 2, "vta_4x4": 4}
"""How many pixels on each axis are one in a layout of the accelerator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor at a stage boundary. ``shape`` is logical; ``bytes`` is its size in ``layout``."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage: its device kind, its folder, and the tensors it reads and writes.

    ``fallback`` is the folder of ARM kernels that compute the same tensors if the device of a VTA
    stage fails; empty if the bundle has none. ``cores`` and ``realtime_priority`` come from the
    board's file. A single thread may run on any of the cores; several ``threads`` have one core
    each. ``modelled_us`` is the time of an ARM stage on them, in microseconds, by the costs in the
    board's file; 0 for a VTA stage, whose program has its cycles.
    """

    name: str
    kind: str
    folder: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fallback: str = ""
    cores: tuple[int, ...] = ()
    threads: int = 1
    realtime_priority: int = 0
    modelled_us: int = 0

    def __post_init__(self) -> None:
        cores = len(set(self.cores))
        if not 1 <= self.threads <= max(1, cores):
            raise BundleError(
                f"stage {self.name}: {self.threads} threads on {cores} cores, "
                "expected one core per thread",
                hint="build the bundle again",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The device and stage of an operator, and the reason."""

    operator: str
    kind: str
    device: str
    stage: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What a board must match before the bundle may run there."""

    configuration: str
    revision: str
    clock_hz: int
    bitstream: str
    builder_version: str

    @classmethod
    def of(cls, accelerator: Accelerator, *, bitstream: str, builder_version: str) -> Self:
        """Return the fingerprint of boards with ``accelerator``."""
        return cls(
            configuration=accelerator.configuration,
            revision=accelerator.revision,
            clock_hz=accelerator.clock_hz,
            bitstream=bitstream,
            builder_version=builder_version,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenFile:
    """A golden tensor, as computed by integer Relax on stock TVM."""

    tensor: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """Golden inputs and the outputs that they must give, bit for bit."""

    inputs: tuple[GoldenFile, ...]
    outputs: tuple[GoldenFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file of the bundle: its size and the SHA-256 digest of its content, as hex."""

    path: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        parts = self.path.split("/")
        if {"", ".", ".."} & {*parts} or any(letter < " " for letter in self.path):
            raise BundleError(
                f"manifest.json: files: {self.path!r} is not a plain relative path",
                hint="do not use this bundle: it is not from `edgepipe build`",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The contents of ``manifest.json``.

    ``version`` is chosen at the build and grows with every release; 0 means none.
    ``slots`` is the default number of frames in flight; 0 means one per stage and two for the
    caller. ``live_slots`` is that number for cameras, 0 means ``slots``. ``seed`` is that of the
    random choices of the build.
    """

    format: int
    name: str
    version: int = 0
    board: str
    board_architecture: str = ""
    architectures: tuple[str, ...]
    accelerator: Accelerator
    fingerprint: Fingerprint
    tensors: tuple[Tensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stages: tuple[Stage, ...]
    slots: int = 0
    live_slots: int = 0
    seed: int = 0
    placement: tuple[Placement, ...]
    preprocess: Preprocess
    postprocess: Postprocess
    golden: Golden
    files: tuple[FileEntry, ...]

    @property
    def version_text(self) -> str:
        """The version in words."""
        return f"version {self.version}" if self.version else "no version"

    def tensor(self, name: str) -> Tensor:
        """Return the tensor named ``name``.

        Raises BundleError for an unknown name.
        """
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise BundleError(f"manifest.json: no tensor {name!r}")


def to_json(manifest: Manifest) -> str:
    """Return the manifest's text; equal manifests give equal bytes."""
    table = dataclasses.asdict(manifest) | {"accelerator": manifest.accelerator.values()}
    return json.dumps(table, indent=1) + "\n"


def from_json(text: str | bytes, where: str) -> Manifest:
    """Parse a manifest; raise ``BundleError`` if it is damaged or has another format."""
    try:
        table: Any = json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise BundleError(
            f"{where}: manifest.json is damaged: {cause}", hint="build the bundle again"
        ) from cause
    _check_format(table, where)
    return schema.from_table(Manifest, table, f"{where}: manifest.json", BundleError)


def check_format(text: bytes, where: str) -> None:
    """Raise ``BundleError`` for a manifest of another format; accept all else, even damage."""
    try:
        table: Any = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(table, dict) and isinstance(table.get("format"), int):
        _check_format(table, where)


def _check_format(table: Any, where: str) -> None:
    found = table.get("format") if isinstance(table, dict) else None
    if found != FORMAT:
        raise BundleError(
            f"{where}: bundle format {found!r}, this edgepipe reads format {FORMAT}",
            hint="build the bundle with this version of edgepipe",
        )


def is_in_blocks(layout: str) -> bool:
    """Return whether a layout is one of the accelerator's."""
    return layout in FOLDS


def vta_layout(factor: int) -> str:
    """Return the accelerator's layout in which ``factor`` x ``factor`` pixels are one."""
    return next(layout for layout, folds in FOLDS.items() if folds == factor)


def tensor_bytes(shape: tuple[int, ...], dtype: str, layout: str, accelerator: Accelerator) -> int:
    """Return the bytes of a tensor of logical ``shape`` in ``layout``."""
    if is_in_blocks(layout):
        _, channels, height, width = shape
        factor = FOLDS[layout]
        blocks = -(-channels * factor**2 // accelerator.block_in)
        return blocks * (height // factor) * (width // factor) * accelerator.inp_bytes
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
