"""The windows of the benchmark of the search are networks of their own."""

from __future__ import annotations

from bench.split import FREE, windows
from edgepipe import boards
from edgepipe.partition.search.judge import Judge
from edgepipe.partition.search.table import CostTable, Row


def test_windows_have_few_free_rows_and_read_nothing_outside() -> None:
    rows = [Row(name="r0", inputs=(), arm_ms=1.0, vta_ms=None)]
    for number in range(1, 60):
        inputs = (number - 1, number - 2) if number > 1 else (0,)
        vta_ms = 1.0 if number % 3 else None
        rows.append(Row(name=f"r{number}", inputs=inputs, arm_ms=2.0, vta_ms=vta_ms))
    found = list(windows(CostTable(rows=tuple(rows), board=boards.load("ultra96"))))
    assert len(found) == 6
    assert found[0].rows[1].name == "r1"
    assert found[-1].rows[-1].name == "r59"
    for table in found:
        assert sum(row.is_free for row in table.rows) == FREE
        for number, row in enumerate(table.rows):
            assert all(0 <= each < number for each in row.inputs)
        Judge(table).estimate((False,) * len(table.rows))
