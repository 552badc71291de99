"""A network's description: the TOML file next to the ONNX file that says what its tensors mean."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from edgepipe import schema
from edgepipe.errors import FrontendError, advise
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.names import suggest

BUNDLED_LABELS = "labels.txt"
POSTPROCESS_KINDS = ("classify", "nanodet", "none")
_MOST_STRIDE = 1_000_000  # the same as in the C++ runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Postprocess:
    """How output tensors become results.

    ``nanodet``: per stride one tensor of scores [1, n, classes] and one of distances
    [1, n, 4 * bins]; boxes above ``score_threshold``, non-maximum suppression at ``iou_threshold``.
    ``classify``: the ``top`` best classes of the only output. ``none``: tensors as they are.
    ``labels`` is a text file with one class name per line, relative to the description.
    """

    kind: str
    labels: str = ""
    strides: tuple[int, ...] = ()
    bins: int = 0
    score_threshold: float = 0.4
    iou_threshold: float = 0.5
    scores: tuple[str, ...] = ()
    distances: tuple[str, ...] = ()
    top: int = 5

    def __post_init__(self) -> None:
        if self.kind not in POSTPROCESS_KINDS:
            raise FrontendError(
                f"postprocess: kind {self.kind!r} is unknown",
                hint=f"known kinds: {', '.join(POSTPROCESS_KINDS)}",
            )
        if self.kind == "nanodet":
            counts = {len(self.strides), len(self.scores), len(self.distances)}
            if len(counts) != 1 or 0 in counts or self.bins < 2:
                raise FrontendError(
                    f"postprocess: {len(self.strides)} strides, {len(self.scores)} scores, "
                    f"{len(self.distances)} distances and {self.bins} bins, expected as many "
                    "scores and distances as strides, and at least 2 bins"
                )
            for stride in self.strides:
                if not 1 <= stride <= _MOST_STRIDE:
                    raise FrontendError(
                        f"postprocess: stride {stride}, expected 1 to {_MOST_STRIDE} pixels"
                    )

    def in_bundle(self) -> Postprocess:
        """Return a copy with the path of the labels inside a bundle."""
        return dataclasses.replace(self, labels=BUNDLED_LABELS if self.labels else "")

    def tensors(self) -> tuple[str, ...]:
        """Return the names of the output tensors that the description refers to."""
        return (*self.scores, *self.distances)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDescription:
    """The whole file: how pictures become the input, and how outputs become results."""

    preprocess: Preprocess
    postprocess: Postprocess = Postprocess(kind="none")


def load(path: Path) -> NetworkDescription:
    """Load a description; raise ``FrontendError`` on a missing file, unknown key or wrong value."""
    with advise("correct the description; docs/reference/description.md explains every key"):
        table = schema.read_toml(path, FrontendError)
        return schema.from_table(NetworkDescription, table, path.name, FrontendError)


def beside(model: Path) -> Path:
    """Return the default path of ``model``'s description: the same name with ``.toml``."""
    return model.with_suffix(".toml")


def check_outputs(description: NetworkDescription, outputs: tuple[str, ...], where: Path) -> None:
    """Raise ``FrontendError`` if the description names an output that the network lacks."""
    for name in description.postprocess.tensors():
        if name not in outputs:
            raise FrontendError(
                f"{where.name}: postprocess: the network has no output {name!r}",
                hint=suggest(name, outputs),
            )


def labels_of(description: NetworkDescription, where: Path) -> tuple[str, ...]:
    """Return the class names of the description at ``where``; empty if it names no file.

    Raises FrontendError for a file that cannot be read.
    """
    if not description.postprocess.labels:
        return ()
    path = where.parent / description.postprocess.labels
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "it is not UTF-8 text"
        raise FrontendError(
            f"{path}: labels cannot be read ({reason})",
            hint="name a text file with one class name per line, relative to the description",
        ) from cause
