"""A network's description: the TOML file next to the ONNX file that says what its tensors mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgepipe import schema
from edgepipe.errors import FrontendError, advise
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.names import suggest

BUNDLED_LABELS = "labels.txt"
DETECTION_KINDS = (
    "anchors",
    "boxes",
    "centernet",
    "db",
    "distances",
    "nanodet",
    "ssd",
    "yolox",
)
MAP_KINDS = ("ctc", "db", "keypoints", "segmentation")
POSTPROCESS_KINDS = tuple(sorted({"classify", "none", "own", *DETECTION_KINDS, *MAP_KINDS}))
# What a decoder of the user gives, and the kind whose results have the same form.
GIVES = {"boxes": "boxes", "classes": "classify", "points": "keypoints", "text": "ctc"}
ACTIVATIONS = ("default", "none", "sigmoid", "softmax")
BLANKS = ("first", "last")
FORMULAS = {"anchors": ("v3", "v5"), "boxes": ("", "corners")}
LANDMARK_KINDS = ("distances", "ssd")
_LIMITS = {"per_cell": (1, 64), "points": (0, 512), "point_values": (2, 3)}  # as in the C++ runtime
_MOST_UNCLIP = 10
_MOST_RESULTS = 10_000  # the same as in the C++ runtime
_MOST_STRIDE = 1_000_000  # the same as in the C++ runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Postprocess:
    """How output tensors become results.

    ``classify``: the ``top`` best classes of the only output. ``segmentation``: the class of every
    cell. ``keypoints``: the peak of every heat map. ``ctc``: the text that is read step by step.
    ``db``: the regions of a map of text, with their corners. ``own``: what the user's own decoder
    ``gives``: a Python ``function`` (``FILE:NAME``), or the function ``symbol`` of one of the
    ``libraries``, which are of different architectures; both get ``outputs``, or all outputs.
    ``none``: tensors as they are. All other kinds are detection heads: boxes of at least
    ``score_threshold``, and of two boxes of one class that overlap by more than ``iou_threshold``
    the better one. docs/reference/description.md explains every key. ``labels`` is a text file with
    one class name per line, relative to the description. Anchors are in pixels of the network's
    input.
    """

    kind: str
    labels: str = ""
    strides: tuple[int, ...] = ()
    grids: tuple[int, ...] = ()
    bins: int = 1
    anchors: tuple[tuple[float, ...], ...] = ()
    formula: str = ""
    activation: str = "default"
    per_cell: int = 1
    cell_offset: float = 0.5
    variances: tuple[float, ...] = (0.1, 0.2)
    background: bool = False
    objectness: bool = False
    normalized: bool = False
    points: int = 0
    point_values: int = 2
    score_threshold: float = 0.4
    iou_threshold: float = 0.5
    outputs: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    distances: tuple[str, ...] = ()
    centers: tuple[str, ...] = ()
    landmarks: tuple[str, ...] = ()
    blank: str = "first"
    map_threshold: float = 0.3
    unclip: float = 1.5
    top: int = 5
    gives: str = ""
    most: int = 100
    function: str = ""
    libraries: tuple[str, ...] = ()
    symbol: str = "decode"

    def __post_init__(self) -> None:
        if self.kind not in POSTPROCESS_KINDS:
            raise FrontendError(
                f"postprocess: kind {self.kind!r} is unknown",
                hint=f"known kinds: {', '.join(POSTPROCESS_KINDS)}",
            )
        if self.activation not in ACTIVATIONS:
            raise FrontendError(
                f"postprocess: activation {self.activation!r} is unknown",
                hint=f"known activations: {', '.join(ACTIVATIONS)}",
            )
        formulas = FORMULAS.get(self.kind, ("",))
        if self.formula not in formulas:
            raise FrontendError(
                f"postprocess: formula {self.formula!r} is unknown for kind {self.kind!r}",
                hint=f"known formulas: {', '.join(map(repr, formulas))}",
            )
        for stride in (*self.strides, *self.grids):
            if not 1 <= stride <= _MOST_STRIDE:
                raise FrontendError(
                    f"postprocess: stride {stride}, expected 1 to {_MOST_STRIDE} pixels"
                )
        if self.kind == "own":
            self._check_own()
        elif self.kind in MAP_KINDS:
            self._check_map()
        elif self.kind in DETECTION_KINDS:
            self._check_head()
            self._check_values()

    def _check_head(self) -> None:
        levels = max(len(self.strides), len(self.grids))
        if self.kind == "nanodet":
            counts = {len(self.strides), len(self.scores), len(self.distances)}
            if len(counts) != 1 or 0 in counts or self.bins < 2:
                raise FrontendError(
                    f"postprocess: {len(self.strides)} strides, {len(self.scores)} scores, "
                    f"{len(self.distances)} distances and {self.bins} bins, expected as many "
                    "scores and distances as strides, and at least 2 bins"
                )
            return
        if self.kind == "boxes":
            if len(self.outputs) != 1:
                raise FrontendError(
                    f"postprocess: {len(self.outputs)} outputs, expected the one with the boxes"
                )
            return
        if not levels:
            raise FrontendError("postprocess: no strides, expected one for each head")
        if not self.outputs and not (self.scores and self.distances):
            raise FrontendError(
                "postprocess: no tensors, expected their names in outputs, or in scores and "
                "distances"
            )
        for name in ("outputs", "scores", "distances", "centers", "landmarks"):
            if len(getattr(self, name)) not in (0, 1, levels):
                raise FrontendError(
                    f"postprocess: {len(getattr(self, name))} {name}, expected 1 or {levels}, "
                    "one for each stride"
                )
        wanted = levels if self.kind in ("anchors", "ssd") else 0
        if len(self.anchors) != wanted or any(len(a) % 2 or not a for a in self.anchors):
            raise FrontendError(
                f"postprocess: anchors for {len(self.anchors)} strides, expected {wanted}, each a "
                "list of widths and heights in pixels"
            )
        if bool(self.landmarks) != bool(self.points):
            raise FrontendError(
                f"postprocess: {self.points} points and {len(self.landmarks)} landmarks, expected "
                "both or none"
            )
        if self.landmarks and self.kind not in LANDMARK_KINDS:
            raise FrontendError(
                f"postprocess: landmarks of kind {self.kind!r}, expected kind "
                f"{' or '.join(LANDMARK_KINDS)}"
            )

    def _check_map(self) -> None:
        if len(self.outputs) != 1:
            raise FrontendError(
                f"postprocess: {len(self.outputs)} outputs, expected the one of kind {self.kind!r}"
            )
        if self.blank not in BLANKS:
            raise FrontendError(
                f"postprocess: blank {self.blank!r} is unknown",
                hint=f"known places: {', '.join(BLANKS)}",
            )
        if not 0 <= self.unclip <= _MOST_UNCLIP:
            raise FrontendError(
                f"postprocess: unclip is {self.unclip:g}, expected 0 to {_MOST_UNCLIP}"
            )
        if self.kind == "ctc" and not self.labels:
            raise FrontendError(
                "postprocess: no labels, expected a file with one character per line"
            )

    def _check_own(self) -> None:
        if self.gives not in GIVES:
            raise FrontendError(
                f"postprocess: gives {self.gives!r} is unknown",
                hint=f"known results of a decoder: {', '.join(GIVES)}",
            )
        if not self.function and not self.libraries:
            raise FrontendError(
                "postprocess: kind 'own' has no decoder, expected a function or libraries",
                hint='name a Python function, function = "decoder.py:decode", or shared libraries, '
                'libraries = ["libdecoder.so"]',
            )
        file, _, name = self.function.rpartition(":")
        if self.function and not (file.endswith(".py") and name.isidentifier()):
            raise FrontendError(
                f"postprocess: function is {self.function!r}, expected FILE.py:NAME",
                hint='name the file beside the description, as in "decoder.py:decode"',
            )
        if not 1 <= self.most <= _MOST_RESULTS:
            raise FrontendError(f"postprocess: most is {self.most}, expected 1 to {_MOST_RESULTS}")
        self._check_limits()

    def _check_limits(self) -> None:
        for name, (least, most) in _LIMITS.items():
            if not least <= getattr(self, name) <= most:
                raise FrontendError(
                    f"postprocess: {name} is {getattr(self, name)}, expected {least} to {most}"
                )

    def _check_values(self) -> None:
        self._check_limits()
        if len(self.variances) != 2:
            raise FrontendError(
                f"postprocess: {len(self.variances)} variances, expected 2: of centre and size"
            )
        has_objectness = self.objectness or self.kind in ("anchors", "yolox")
        if has_objectness and self.activation == "softmax":
            raise FrontendError(
                "postprocess: activation is softmax, expected none or sigmoid beside an objectness"
            )

    def in_bundle(self) -> Postprocess:
        """Return a copy with the path of the labels inside a bundle."""
        return dataclasses.replace(self, labels=BUNDLED_LABELS if self.labels else "")

    @property
    def results(self) -> str:
        """The kind whose results these are: of a user's own decoder the one with the same form."""
        return GIVES[self.gives] if self.kind == "own" else self.kind

    def tensors(self) -> tuple[str, ...]:
        """Return the names of the output tensors that the description refers to."""
        return (*self.outputs, *self.scores, *self.distances, *self.centers, *self.landmarks)


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


def settled(
    description: NetworkDescription, probabilities: Mapping[str, bool]
) -> NetworkDescription:
    """Return the description with the activation of a network that ends its scores itself.

    ``probabilities`` says of every output, in order, whether Softmax or a sigmoid computes it: such
    scores leave nothing to do. Otherwise, if the description names an activation, and if scores
    share an output with other values, it is unchanged.
    """
    postprocess = description.postprocess
    scores = {
        "classify": tuple(probabilities)[:1],
        "ctc": postprocess.outputs,
        "distances": postprocess.scores,
        "ssd": postprocess.scores,
    }.get(postprocess.kind, ())
    ended = bool(scores) and all(probabilities[name] for name in scores)
    if postprocess.activation != "default" or not ended:
        return description
    return dataclasses.replace(
        description, postprocess=dataclasses.replace(postprocess, activation="none")
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
