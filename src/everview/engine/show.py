"""Rows for a reader: an Arrow table as text or as HTML, for the ``repr`` and the notebook view of what holds rows."""

from __future__ import annotations

from html import escape
from typing import Any, Final
from unicodedata import combining, east_asian_width

import pyarrow as pa

SHOWN_ROWS: Final = 20
"""How many rows a ``repr`` shows; whoever calls takes no more out of what it shows."""
_MOST_WIDTH: Final = 60
"""A longer value is cut, and ends in …"""


def as_text(table: pa.Table, more_rows: int | None = 0) -> str:
    """The rows under their columns' names, and how many there are; ``more_rows`` are there beside those shown.

    None for ``more_rows``: there are some, which nobody has counted.
    """
    heads = [_cell(name) for name in table.column_names]
    cells = _cells(table)
    right = [_is_number(field.type) for field in table.schema]
    widths = [max(map(_width, column)) for column in zip(heads, *cells, strict=True)]
    lines = [_line(row, widths, right) for row in (heads, *cells)]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in [*(lines if heads else ()), _footer(table.num_rows, more_rows)])


def as_html(table: pa.Table, more_rows: int | None = 0) -> str:
    """The same as an HTML table, every name and value escaped."""
    right = [' style="text-align: right"' if _is_number(field.type) else "" for field in table.schema]
    heads = "".join(f"<th{a}>{escape(_cell(n))}</th>" for n, a in zip(table.column_names, right, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{a}>{escape(c)}</td>" for c, a in zip(row, right, strict=True)) + "</tr>\n"
        for row in _cells(table)
    )
    footer = escape(_footer(table.num_rows, more_rows))
    return f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n<p>{footer}</p>"


def _cells(table: pa.Table) -> list[list[str]]:
    columns = [[_cell(v) for v in column.to_pylist(maps_as_pydicts="strict")] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _cell(value: Any) -> str:
    """A value as SQL would name it, on one line and not too long."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        text = f"X'{value[:_MOST_WIDTH].hex().upper()}'"
    elif isinstance(value, str):
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value[: _MOST_WIDTH + 1])
    else:
        text = str(value)
    return text if len(text) <= _MOST_WIDTH else text[: _MOST_WIDTH - 1] + "…"


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    padded = []
    for cell, width, is_right in zip(cells, widths, right, strict=True):
        blanks = " " * (width - _width(cell))
        padded.append(blanks + cell if is_right else cell + blanks)
    return " | ".join(padded)


def _width(text: str) -> int:
    """How many columns of a terminal it takes."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _footer(shown: int, more: int | None) -> str:
    if more is None:
        return f"(the first {shown:,} rows, there are more)"
    total = shown + more
    count = f"{total:,} row" if total == 1 else f"{total:,} rows"
    return f"({count})" if not more else f"({count}, the first {shown:,} shown)"
