"""Recognise what a network's outputs are from their number and shapes, and from its metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from edgepipe.drafting.anchored_heads import retinaface, ssd, yolo_grids
from edgepipe.drafting.grid_heads import grid_of, yolov8_grids, yolov8_pairs, yolox_grids
from edgepipe.drafting.head import STRIDES, THRESHOLDS, Head, Seen, listed
from edgepipe.drafting.map_heads import chosen_classes, maps
from edgepipe.drafting.metadata import Metadata
from edgepipe.drafting.probe import Output
from edgepipe.drafting.settings import Setting, Value
from edgepipe.drafting.yolo_heads import dense_yolo

_DEFAULT_TOP = 5
_LEAST_BINS, _MOST_BINS = 4, 33
_LANDMARKS = 10  # five points
_LEAST_CHARACTERS = 30
_WORDS_FOR_SIZES = ("wh", "size", "dim")
_WORDS_FOR_OFFSETS = ("reg", "off")


def recognise(outputs: Sequence[Output], height: int, width: int, metadata: Metadata) -> Head:
    """Return what ``outputs`` are for a picture of ``height`` x ``width`` pixels."""
    seen = Seen(outputs=outputs, height=height, width=width, metadata=metadata)
    for rule in _RULES:
        head = rule(seen)
        if head is not None:
            return head
    names = ", ".join(str(output) for output in outputs)
    return Head(family="", text=f"no known form of outputs: {names}")


def _classifier(seen: Seen) -> Head | None:
    if len(seen.outputs) != 1:
        return None
    (output,) = seen.outputs
    classes = _length(output.shape)
    if not classes:
        return None
    if output.is_direction:
        return Head(family="embedding", text=f"{output} is a vector of length 1 (an embedding)")
    ends = "probabilities" if output.maker == "Softmax" else "scores"
    return Head(
        family="classification",
        text=f"{output} is one of {classes} {ends}",
        kind="classify",
        is_guess=output.maker != "Softmax" and len(seen.metadata.labels) != classes,
        classes=classes,
        settings=(
            Setting(
                key="top",
                value=min(_DEFAULT_TOP, classes),
                reason="how many of the best classes to report",
            ),
        ),
    )


def _length(shape: Sequence[int]) -> int:
    """Return how many values a vector has: ``[n]``, ``[1, n]`` or ``[1, n, 1, 1]``, else 0."""
    sizes = [size for size in shape if size != 1]
    is_single = len(shape) == 1 or (len(shape) in (2, 4) and shape[0] == 1)
    return sizes[0] if is_single and len(sizes) == 1 else 0


def _vectors(seen: Seen) -> Head | None:
    """A classifier that gives something else, too: an embedding, or the scores of another task."""
    lengths = [_length(output.shape) for output in seen.outputs]
    if len(lengths) < 2 or not all(lengths):
        return None
    listed_outputs = ", ".join(str(output) for output in seen.outputs)
    return Head(
        family="classification",
        text=f"a vector in each of {len(lengths)} outputs: {listed_outputs}",
        classes=next((n for n in lengths if n == len(seen.metadata.labels)), lengths[0]),
        remedy='kind "classify" reads the only output of a network; export it with nothing but the '
        "scores of the classes",
    )


def _nanodet(seen: Seen) -> Head | None:
    """Per stride one output of scores [1, n, classes] and one of distances [1, n, 4 * bins]."""
    by_cells: dict[int, list[Output]] = {}
    for output in seen.outputs:
        if len(output.shape) != 3 or output.shape[0] != 1:
            return None
        by_cells.setdefault(output.shape[1], []).append(output)
    strides = {seen.cells(stride): stride for stride in reversed(STRIDES)}
    if len(by_cells) < 2 or any(
        cells not in strides or len(pair) != 2 for cells, pair in by_cells.items()
    ):
        return None
    ordered = [by_cells[cells] for cells in sorted(by_cells, reverse=True)]
    pairs = [_scores_and_distances(pair) for pair in ordered]
    found = {(scores.shape[2], distances.shape[2]) for scores, distances in pairs}
    if len(found) != 1:
        return None
    ((classes, values),) = found
    bins = values // 4
    if values % 4 or not _LEAST_BINS <= bins <= _MOST_BINS:
        return None
    taken = [strides[cells] for cells in sorted(by_cells, reverse=True)]
    sure = all(scores.are_shares and not distances.are_shares for scores, distances in pairs)
    why = "values from 0 to 1" if sure else "by their names and sizes"
    return Head(
        family="NanoDet",
        text=f"for each of the strides {listed(taken)}: scores of {classes} classes, and distances "
        f"of {bins} bins",
        kind="nanodet",
        classes=classes,
        settings=(
            Setting(key="strides", value=tuple(taken), reason="pixels per cell, by the sizes"),
            Setting(key="bins", value=bins, reason=f"{values} distances for 4 sides"),
            Setting(
                key="scores",
                value=tuple(scores.name for scores, _ in pairs),
                reason=f"the outputs of {classes} scores for each stride: {why}",
                is_guess=not sure,
            ),
            Setting(
                key="distances",
                value=tuple(distances.name for _, distances in pairs),
                reason="the outputs of distances for each stride",
                is_guess=not sure,
            ),
            *THRESHOLDS,
        ),
    )


def _scores_and_distances(pair: Sequence[Output]) -> tuple[Output, Output]:
    """Return scores first: those are from 0 to 1, or named so, or not a usual size of distances."""

    def is_less_likely_scores(output: Output) -> tuple[bool, bool, bool]:
        name = output.name.lower()
        named = any(word in name for word in ("cls", "class", "score", "conf"))
        return not output.are_shares, not named, output.shape[2] in (32, 44, 64, 68)

    one, other = sorted(pair, key=is_less_likely_scores)
    return one, other


def _scrfd_faces(seen: Seen) -> Head | None:
    """SCRFD: for each stride lists of 1, 4 and 10 columns, or grids of as many values a box."""
    in_grids = _scrfd_grids(seen)
    if in_grids is not None:
        return in_grids
    widths = sorted(output.shape[-1] for output in seen.outputs if output.shape)
    strides = len(widths) // 3
    if strides > 1 and widths == sorted([1, 4, _LANDMARKS] * strides):
        return _scrfd_lists(seen, strides)
    return None


def _scrfd_grids(seen: Seen) -> Head | None:
    """For each stride [1, k, h, w], [1, 4 * k, h, w] and [1, 10 * k, h, w], k boxes in a cell."""
    outputs: dict[tuple[int, int], Output] = {}
    for output in seen.outputs:
        grid = grid_of(output.shape, seen)
        if grid is None or grid[1]:
            return None
        outputs[grid[0], grid[2]] = output
    strides = sorted({stride for stride, _ in outputs})
    each = min((values for _, values in outputs), default=1)
    wanted = {(stride, n * each) for stride in strides for n in (1, 4, _LANDMARKS)}
    if len(strides) < 2 or outputs.keys() != wanted or len(outputs) != len(seen.outputs):
        return None
    by_columns = {n: [outputs[stride, n * each] for stride in strides] for n in (1, 4, _LANDMARKS)}
    return _scrfd(strides, each, by_columns)


def _scrfd_lists(seen: Seen, count: int) -> Head:
    """For each stride scores, distances and landmarks in lists of the boxes of its cells."""
    by_columns: dict[int, list[Output]] = {}
    for output in sorted(seen.outputs, key=lambda o: -o.shape[-2] if len(o.shape) > 1 else 0):
        by_columns.setdefault(output.shape[-1], []).append(output)
    strides = tuple(8 << level for level in range(count))
    boxes = [output.shape[-2] for output in by_columns[1]]
    each = boxes[0] // seen.cells(strides[0])
    if not each or boxes != [each * seen.cells(stride) for stride in strides]:
        return Head(family="SCRFD", text=_scrfd_text(count))
    return _scrfd(strides, each, by_columns)


def _scrfd_text(count: int) -> str:
    return f"boxes, scores and landmarks of faces for {count} strides (SCRFD)"


def _scrfd(strides: Sequence[int], each: int, by_columns: Mapping[int, Sequence[Output]]) -> Head:
    scores, distances, landmarks = (by_columns[columns] for columns in (1, 4, _LANDMARKS))
    usual = "as SCRFD is trained"
    keys: tuple[tuple[str, Value, str], ...] = (
        ("strides", tuple(strides), "pixels per cell, by the sizes"),
        ("per_cell", each, "boxes of a cell, by the sizes"),
        ("scores", tuple(o.name for o in scores), "one score of each box"),
        ("distances", tuple(o.name for o in distances), "four distances of each box"),
        ("landmarks", tuple(o.name for o in landmarks), "x and y of five points of each box"),
        ("points", _LANDMARKS // 2, "points of each box"),
        ("activation", "none" if all(o.are_shares for o in scores) else "sigmoid", "of the scores"),
        ("cell_offset", 0.0, f"distances are from a corner of the cell, {usual}"),
    )
    settings = [Setting(key=k, value=v, reason=r, is_guess=k == "cell_offset") for k, v, r in keys]
    return Head(
        family="SCRFD",
        text=_scrfd_text(len(strides)),
        kind="distances",
        classes=1,
        settings=(*settings, *THRESHOLDS),
    )


def _centernet(seen: Seen) -> Head | None:
    """CenterNet: a heat map [1, classes, h / 4, w / 4], sizes and offsets [1, 2, ...]."""
    maps = seen.shapes(4)
    if len(maps) != len(seen.outputs) or len(maps) < 3:
        return None
    if len({shape[2:] for shape in maps}) != 1 or maps[0][2] * 4 != seen.height:
        return None
    pairs = [shape for shape in maps if shape[1] == 2]
    heats = {shape[1] for shape in maps if shape[1] != 2}
    if not pairs or len(heats) != 1:
        return None
    (classes,) = heats
    text = f"heat maps of {classes} classes at stride 4, sizes and offsets (CenterNet)"
    both = [output.name for output in seen.outputs if output.shape[1] == 2]
    if len(both) != 2:
        return Head(family="CenterNet", text=text, classes=classes)
    sizes, offsets, why = _sizes_and_offsets(both)
    heat = next(output for output in seen.outputs if output.shape[1] != 2)
    keys: tuple[tuple[str, Value, str], ...] = (
        ("strides", (4,), "pixels per cell, by the sizes"),
        ("scores", (heat.name,), "the heat maps"),
        ("activation", "none" if heat.are_shares else "sigmoid", "of the heat maps"),
        ("distances", (sizes,), f"the sizes of the boxes, {why}"),
        ("centers", (offsets,), f"the offsets of the centres, {why}"),
    )
    sure = ("strides", "scores", "activation")
    settings = [Setting(key=k, value=v, reason=r, is_guess=k not in sure) for k, v, r in keys]
    return Head(
        family="CenterNet",
        text=text,
        kind="centernet",
        classes=classes,
        settings=(*settings, *THRESHOLDS),
    )


def _sizes_and_offsets(names: Sequence[str]) -> tuple[str, str, str]:
    """Return the names of the sizes and of the offsets, and how they were told apart."""
    first, second = names
    by_name = _likeness_to_sizes(first) - _likeness_to_sizes(second)
    if not by_name:
        return first, second, "by the order of the outputs"
    return (first, second, "by the names") if by_name > 0 else (second, first, "by the names")


def _likeness_to_sizes(name: str) -> int:
    """Return 1 for the name of sizes, -1 for one of offsets, 0 for others."""
    is_sizes, is_offsets = (
        any(word in name.lower() for word in words)
        for words in (_WORDS_FOR_SIZES, _WORDS_FOR_OFFSETS)
    )
    return is_sizes - is_offsets


def _text(seen: Seen) -> Head | None:
    """A reader of text lines: [1, steps, characters] or [steps, 1, characters]."""
    if len(seen.outputs) != 1 or len(seen.shapes(3)) != 1:
        return None
    *single, characters = seen.shapes(3)[0]
    steps = max(single)
    # CRNN's last pooling adds a step.
    widths = (4 * steps, 8 * steps, 4 * (steps - 1))
    if 1 not in single or characters < _LEAST_CHARACTERS or seen.width not in widths:
        return None
    text = f"{steps} steps of {characters} characters, one of them blank (CTC)"
    return Head(family="text line", text=text, classes=characters)


_RULES: tuple[Callable[[Seen], Head | None], ...] = (
    _classifier,
    _vectors,
    _nanodet,
    retinaface,
    _scrfd_faces,
    dense_yolo,
    yolov8_grids,
    yolov8_pairs,
    yolox_grids,
    yolo_grids,
    ssd,
    _centernet,
    _text,
    chosen_classes,
    maps,
)
