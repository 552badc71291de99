"""Plain-text tables with aligned columns."""

from __future__ import annotations

from collections.abc import Sequence

from edgepipe.names import printable


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; columns that contain only numbers are aligned to the right.

    Cells may hold any text; characters that control a terminal are escaped.
    """
    header, *rows = [[printable(cell) for cell in row] for row in (header, *rows)]
    columns = list(zip(*([header, *rows]), strict=True)) if rows else [(h,) for h in header]
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [bool(rows) and all(_is_number(cell) for cell in column[1:]) for column in columns]
    lines = [_line(header, widths, numeric), _line(["-" * w for w in widths], widths, numeric)]
    lines += [_line(row, widths, numeric) for row in rows]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _is_number(cell: str) -> bool:
    try:
        float(cell.rstrip("x%").replace(",", "") or "0")
    except ValueError:
        return cell in ("-", "")
    return True
