"""Draft a network's description: look at its file, run it once, mark what is only a guess."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from edgepipe import schema
from edgepipe.description import NetworkDescription
from edgepipe.drafting.conventions import guess_fit, guess_values
from edgepipe.drafting.head import Head
from edgepipe.drafting.heads import recognise
from edgepipe.drafting.metadata import Metadata, read_metadata
from edgepipe.drafting.probe import Output, PictureInput, outputs_at, picture_input
from edgepipe.drafting.settings import Setting, comment, table
from edgepipe.errors import FrontendError
from edgepipe.frontend.dequantising import dequantise
from edgepipe.frontend.given_ranges import GivenRange
from edgepipe.frontend.network import read_model
from edgepipe.frontend.picture_input import COLOURS

# Sizes that a network with a dynamic height and width is tried with.
_CLASSIFIER_SIDE = 224
_OTHER_SIDES = (320, 640, 416, 256, 512, 384, 192, 160, 128, 96, 64)
_TEXT_LINE_WIDTH = 320
_NOT_DECODED = "edgepipe does not decode these, so the outputs stay tensors"
_UNDECODED = {
    "class map": 'export the network without its ArgMax to have it decoded (kind = "segmentation")',
    "embedding": "compare it with those of other pictures: its values are no scores of classes",
    "text line": 'to read them, set kind = "ctc", outputs, and labels with one character per line',
    "text map": 'set kind = "db" if it shows where text is, or "segmentation" for a mask',
}
_FOR_CLASSIFIERS = "the input has any size; this one is usual for classification"
_IN_METADATA = "imgsz in the file's metadata"
_ASKED_FOR = "as asked for; the input has any size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A description that was made by looking at a network.

    ``text`` is the TOML file, ``labels`` the class names for the file ``labels_name`` next to it
    (both empty if the network names no classes). ``preprocess`` and ``postprocess`` are the lines
    of its tables.
    """

    picture: PictureInput
    head: Head
    preprocess: tuple[Setting, ...]
    postprocess: tuple[Setting, ...]
    labels_name: str
    labels: tuple[str, ...]
    text: str = field(repr=False)

    @property
    def guesses(self) -> tuple[Setting, ...]:
        """What the user must check."""
        return tuple(s for s in (*self.preprocess, *self.postprocess) if s.is_guess)

    @property
    def description(self) -> NetworkDescription:
        """The description that ``text`` is; raises ``FrontendError`` if it cannot be loaded."""
        values = tomllib.loads(self.text)
        return schema.from_table(NetworkDescription, values, "draft", FrontendError)


def draft(
    path: Path, labels_name: str = "labels.txt", size: tuple[int, int] | None = None
) -> Draft:
    """Return a description of the network in the ONNX file ``path``.

    The network runs once, in float, on a random picture. ``labels_name`` is the file that will
    hold the class names, relative to the description. ``size`` is the (height, width), in pixels,
    of the pictures if those of the input are dynamic. Raises ``FrontendError`` for a file that is
    not a network, for one whose input is not a picture or has another size, and if onnxruntime
    cannot run it.
    """
    model = read_model(path)
    picture = picture_input(path, model)
    metadata = read_metadata(model)
    if picture.channels not in (0, *COLOURS):
        raise FrontendError(
            f"{path}: input {picture.name} has {picture.channels} channels, expected 1 (gray) or "
            "3 (colours)",
            hint="a description turns pictures into the input; export a network that reads one",
        )
    candidates = _candidates(picture, metadata)
    if size is not None:
        candidates = iter([_asked_for(path, picture, size)])
    sizes = _sizes(path, model, picture, metadata, candidates)
    preprocess = _preprocess(model, picture, sizes, metadata, _given_range(path, model, picture))
    postprocess = _postprocess(sizes.head, metadata, labels_name)
    made = Draft(
        picture=picture,
        head=sizes.head,
        preprocess=preprocess,
        postprocess=postprocess,
        labels_name=labels_name if metadata.labels else "",
        labels=metadata.labels,
        text=_text(path, picture, sizes.head, preprocess, postprocess, metadata),
    )
    assert made.description.preprocess.width == sizes.width
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """The size of the picture, why it is that, and what the network makes of such a picture."""

    height: int
    width: int
    height_reason: str
    width_reason: str
    outputs: tuple[Output, ...]
    head: Head

    def settings(self, picture: PictureInput) -> list[Setting]:
        """Return the lines of the size; a dynamic side of the input is a guess."""
        sides = (
            ("width", self.width, self.width_reason, picture.width),
            ("height", self.height, self.height_reason, picture.height),
        )
        return [
            Setting(
                key=key,
                value=value,
                reason=reason or f"pixels, from the shape of the input {picture.name}",
                is_guess=not known and reason not in (_IN_METADATA, _ASKED_FOR),
            )
            for key, value, reason, known in sides
        ]


def _sizes(
    path: Path,
    model: onnx.ModelProto,
    picture: PictureInput,
    metadata: Metadata,
    candidates: Iterable[tuple[int, int, str]],
) -> _Sizes:
    """Return the first size that the network runs with; 224 counts only for classification."""
    channels = picture.channels or 3
    found: _Sizes | None = None
    refused: FrontendError | None = None
    for height, width, reason in candidates:
        try:
            outputs = outputs_at(path, model, (channels, height, width))
        except FrontendError as error:
            refused = refused or error
            continue
        head = recognise(outputs, height, width, metadata)
        found = _Sizes(
            height=height,
            width=width,
            height_reason="" if picture.height else reason,
            width_reason="" if picture.width else reason,
            outputs=outputs,
            head=head,
        )
        if head.kind == "classify" or reason != _FOR_CLASSIFIERS:
            return found
    if found is None:
        assert refused is not None
        raise refused
    return found


def _candidates(picture: PictureInput, metadata: Metadata) -> Iterator[tuple[int, int, str]]:
    """Yield (height, width, reason) to try in order; the reason is empty for a static size."""
    if picture.height and picture.width:
        yield picture.height, picture.width, ""
        return
    height, width = metadata.size
    if height:
        yield picture.height or height, picture.width or width, _IN_METADATA
    if picture.height:
        why = "the input has any width; this one is usual for lines of text"
        yield picture.height, _TEXT_LINE_WIDTH, why
    yield (
        picture.height or _CLASSIFIER_SIDE,
        picture.width or _CLASSIFIER_SIDE,
        _FOR_CLASSIFIERS,
    )
    for side in _OTHER_SIDES:
        why = "the input has any size, and the network runs with this one; larger takes longer"
        yield picture.height or side, picture.width or side, why


def _asked_for(path: Path, picture: PictureInput, size: tuple[int, int]) -> tuple[int, int, str]:
    """Return the candidate for the size that the caller gave."""
    height, width = size
    if picture.height not in (0, height) or picture.width not in (0, width):
        raise FrontendError(
            f"{path}: the size {width}x{height} was given, but input {picture.name} is "
            f"[{', '.join(picture.dims)}]",
            hint="give a size only for inputs whose height or width is dynamic",
        )
    return height, width, _ASKED_FOR


def _given_range(path: Path, model: onnx.ModelProto, picture: PictureInput) -> GivenRange | None:
    """Return the range of the input, if the network was quantised already."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    try:
        found = dequantise(path, copy)
    except FrontendError:  # inspecting and building the network report it
        return None
    return found.ranges.get(picture.name) if found.was_quantised else None


def _preprocess(
    model: onnx.ModelProto,
    picture: PictureInput,
    sizes: _Sizes,
    metadata: Metadata,
    given: GivenRange | None,
) -> tuple[Setting, ...]:
    values = guess_values(model, picture, sizes.head, metadata, given)
    settings = sizes.settings(picture)
    settings.append(
        Setting(
            key="order",
            value=values.order,
            reason=f"order of the channels: {values.order_reason}",
            is_guess=values.is_guess and values.order != "GRAY",
        )
    )
    settings += guess_fit(sizes.head, sizes.height, sizes.width)
    reasons: dict[str, tuple[float | tuple[float, ...], str]] = {
        "scale": (values.scale, "the network sees (byte * scale - mean) / std"),
        "mean": (values.mean, "one value per channel, in the order of the channels"),
        "std": (values.std, "one value per channel, in the order of the channels"),
    }
    settings += [
        Setting(
            key=key, value=value, reason=f"{values.reason}; {meaning}", is_guess=values.is_guess
        )
        for key, (value, meaning) in reasons.items()
    ]
    return tuple(settings)


def _postprocess(head: Head, metadata: Metadata, labels_name: str) -> tuple[Setting, ...]:
    if head.kind != "none":
        reason = head.text
    elif head.family:
        reason = f"{head.text}; {head.remedy or _UNDECODED.get(head.family, _NOT_DECODED)}"
    else:
        reason = "the outputs stay tensors"
    settings = [Setting(key="kind", value=head.kind, reason=reason, is_guess=head.is_guess)]
    if metadata.labels:
        settings.append(
            Setting(
                key="labels",
                value=labels_name,
                reason=f"{len(metadata.labels)} class names from {metadata.labels_key!r} in the "
                "file's metadata",
                is_guess=len(metadata.labels) != head.classes,
            )
        )
    return (*settings, *head.settings)


def _text(
    path: Path,
    picture: PictureInput,
    head: Head,
    preprocess: tuple[Setting, ...],
    postprocess: tuple[Setting, ...],
    metadata: Metadata,
) -> str:
    header = [
        *comment(
            f"Description of {path.name}, drafted by `edgepipe init`. The input is {picture}."
        ),
        *comment(
            "Check every line that is marked as a guess: from pictures that it does not expect, a "
            "network computes wrong results, and no error shows that. "
            "docs/reference/description.md explains every key."
        ),
    ]
    ending = table("postprocess", postprocess)
    if head.kind != "none" and not metadata.labels:
        with_names = f'labels = "classes.txt" names the {head.classes} classes, one per line'
        ending += "\n".join(comment(with_names)) + "\n"
    return "\n".join(header) + "\n\n" + table("preprocess", preprocess) + "\n" + ending


def write(made: Draft, path: Path, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Write the description to ``path`` and its labels next to it; return what was written.

    Raises ``FrontendError`` if one of the files exists, unless ``overwrite``; nothing is written
    then.
    """
    files = {path: made.text}
    if made.labels:
        files = {path.parent / made.labels_name: "\n".join(made.labels) + "\n", **files}
    for file in files:
        if file.exists() and not overwrite:
            raise FrontendError(
                f"{file}: exists already",
                hint="give the description another name, or replace the file",
                option="overwrite",
            )
    for file, text in files.items():
        _replace(file, text)
    return tuple(files)


def _replace(path: Path, text: str) -> None:
    """Write a file that appears only when it is complete."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as cause:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise FrontendError(
            f"{path}: cannot be written ({cause.strerror})", hint="name a file in another folder"
        ) from cause
