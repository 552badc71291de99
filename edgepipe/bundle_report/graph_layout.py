"""Where the operators of a network are drawn: in rows from inputs to outputs, stage below stage.

An edge over several rows passes through a bend in every row between, so that it does not cross
operators. The order in a row, then the places, follow from the neighbours' (Sugiyama, Tagawa and
Toda, "Methods for visual understanding of hierarchical system structures", 1981).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from edgepipe.bundle_report.model import Report

_BEND = 0.25  # the width of a bend; an operator has 1
_ORDER_SWEEPS = 8
_PLACE_SWEEPS = 12
_MOST_BENDS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The place of an operator, or of an input of the network: ``x`` in widths of an operator."""

    name: str
    x: float
    row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A line from one node to another, both by number, through ``xs`` in the rows between."""

    source: int
    target: int
    xs: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A drawing: inputs of the network first, then operators in the report's order."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    rows: int


@dataclass(slots=True, eq=False)
class _Place:
    """A node or bend, and its neighbours in the row above and below."""

    row: int
    width: float
    x: float
    above: list[_Place] = field(default_factory=list)
    below: list[_Place] = field(default_factory=list)


def layout(report: Report) -> Layout:
    """Return the drawing of a report's network."""
    names = [name for name, _ in report.inputs]
    names += [operator.name for operator in report.operators]
    number = {name: index for index, name in enumerate(names)}
    rows = _rows(report, number)
    places = [_Place(row=row, width=1.0, x=0.0) for row in rows]
    every = list(places)
    edges: list[tuple[int, int, list[_Place]]] = []
    for operator in report.operators:
        target = number[operator.name]
        for source in (number[name] for name in operator.inputs if name in number):
            between = range(rows[source] + 1, rows[target])
            if len(every) + len(between) > _MOST_BENDS:
                between = range(0)
            bends = [_Place(row=row, width=_BEND, x=0.0) for row in between]
            chain = [places[source], *bends, places[target]]
            if bends or rows[target] == rows[source] + 1:
                for upper, lower in itertools.pairwise(chain):
                    upper.below.append(lower)
                    lower.above.append(upper)
            every += bends
            edges.append((source, target, bends))
    _arrange(every)
    return Layout(
        nodes=tuple(
            Node(name=name, x=round(place.x, 3), row=place.row)
            for name, place in zip(names, places, strict=True)
        ),
        edges=tuple(
            Edge(source=source, target=target, xs=tuple(round(bend.x, 3) for bend in bends))
            for source, target, bends in edges
        ),
        rows=max(rows, default=-1) + 1,
    )


def _rows(report: Report, number: dict[str, int]) -> list[int]:
    """Return the row of every node: below its inputs, and below the stages before its own."""
    rows = [0] * len(number)
    first = 1  # the inputs have a row for themselves
    for stage in report.stages:
        own = [operator for operator in report.operators if operator.stage == stage.name]
        for operator in own:
            above = [rows[number[name]] + 1 for name in operator.inputs if name in number]
            rows[number[operator.name]] = max([first, *above])
        first = max((rows[number[operator.name]] + 1 for operator in own), default=first)
    return rows


def _arrange(every: list[_Place]) -> None:
    """Order the places of each row, then move them near their neighbours."""
    count = max((place.row for place in every), default=-1) + 1
    rows: list[list[_Place]] = [[] for _ in range(count)]
    for place in every:
        rows[place.row].append(place)
    for row in rows:
        _spread(row, [0.0] * len(row))
    for sweep in range(_ORDER_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            row.sort(key=lambda place: _mean(place.above if down else place.below, place.x))
            _spread(row, [_mean(p.above if down else p.below, p.x) for p in row])
    for sweep in range(_PLACE_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _spread(row, [_mean([*p.above, *p.below], p.x) for p in row])


def _mean(places: Sequence[_Place], otherwise: float) -> float:
    return sum(place.x for place in places) / len(places) if places else otherwise


def _spread(row: Sequence[_Place], wishes: Sequence[float]) -> None:
    """Place a row in its order, as near to the wishes as its widths allow (isotonic regression)."""
    offsets, at = [], 0.0
    for index, place in enumerate(row):
        at += (row[index - 1].width + place.width) / 2 if index else 0.0
        offsets.append(at)
    blocks: list[tuple[float, int]] = []  # sum of the wishes of places that touch, their number
    for wish, offset in zip(wishes, offsets, strict=True):
        total, count = wish - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    index = 0
    for total, count in blocks:
        for _ in range(count):
            row[index].x = total / count + offsets[index]
            index += 1
