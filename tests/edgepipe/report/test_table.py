"""Tables: columns are aligned, numbers to the right."""

from edgepipe.report.table import format_table


def test_text_is_left_and_numbers_are_right_aligned():
    table = format_table(["stage", "ms"], [["arm0", "3.1"], ["vta1", "120.5"]])
    assert table.splitlines() == ["stage     ms", "-----  -----", "arm0     3.1", "vta1   120.5"]


def test_a_table_without_rows_is_its_header():
    assert format_table(["a", "b"], []).splitlines() == ["a  b", "-  -"]
