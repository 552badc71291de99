"""Drawings of networks: nothing overlaps, edges go down, and stages do not mix."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from edgepipe.bundle_report.graph_layout import Layout, layout
from edgepipe.bundle_report.model import Report
from edgepipe.bundle_report.reading import read_report


@pytest.fixture(params=["few_stages", "many_stages"])
def drawn(request: pytest.FixtureRequest) -> tuple[Report, Layout]:
    bundle: Path = request.getfixturevalue(request.param)
    report = read_report(bundle)
    return report, layout(report)


def test_every_operator_and_input_has_a_place(drawn: tuple[Report, Layout]) -> None:
    report, found = drawn
    names = [name for name, _ in report.inputs] + [o.name for o in report.operators]
    assert [node.name for node in found.nodes] == names
    assert found.rows == 1 + max(node.row for node in found.nodes)


def test_nodes_of_a_row_do_not_overlap(drawn: tuple[Report, Layout]) -> None:
    _, found = drawn
    for row in range(found.rows):
        xs = sorted(node.x for node in found.nodes if node.row == row)
        assert xs
        assert all(right - left >= 0.999 for left, right in itertools.pairwise(xs))


def test_every_edge_goes_down_and_bends_in_each_row_between(drawn: tuple[Report, Layout]) -> None:
    report, found = drawn
    number = {node.name: index for index, node in enumerate(found.nodes)}
    edges = [(edge.source, edge.target) for edge in found.edges]
    assert edges == [(number[name], number[o.name]) for o in report.operators for name in o.inputs]
    for edge in found.edges:
        source, target = found.nodes[edge.source], found.nodes[edge.target]
        assert target.row - source.row == len(edge.xs) + 1


def test_edges_do_not_cross_nodes(drawn: tuple[Report, Layout]) -> None:
    _, found = drawn
    for edge in found.edges:
        for row, x in enumerate(edge.xs, found.nodes[edge.source].row + 1):
            assert all(abs(node.x - x) > 0.5 for node in found.nodes if node.row == row)


def test_a_stage_is_below_the_stages_before_it(drawn: tuple[Report, Layout]) -> None:
    report, found = drawn
    row = {node.name: node.row for node in found.nodes}
    ranges = []
    for stage in report.stages:
        rows = [row[o.name] for o in report.operators if o.stage == stage.name]
        ranges.append((min(rows), max(rows)))
    for (_, end), (begin, _) in itertools.pairwise(ranges):
        assert begin > end


def test_the_same_report_is_drawn_alike(report: Report) -> None:
    assert layout(report) == layout(report)
