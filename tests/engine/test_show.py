"""Rows as text and as HTML."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from everview.engine.show import as_html, as_text

TABLE = pa.table(
    {
        "city": ["Bonn", None, "東京"],
        "n": pa.array([1, 20, None], pa.int64()),
        "sum": pa.array([Decimal("1.50"), None, Decimal("-22.00")], pa.decimal128(10, 2)),
        "ok": [True, False, None],
    }
)


def test_text_is_aligned_numbers_to_the_right_and_nulls_named() -> None:
    assert as_text(TABLE).splitlines() == [
        "city |    n |    sum | ok",
        "-----+------+--------+------",
        "Bonn |    1 |   1.50 | true",
        "NULL |   20 |   NULL | false",
        "東京 | NULL | -22.00 | NULL",
        "(3 rows)",
    ]


def test_text_says_how_many_rows_are_not_shown() -> None:
    assert as_text(TABLE.slice(0, 1), 1999).splitlines()[-1] == "(2,000 rows, the first 1 shown)"
    assert as_text(TABLE.slice(0, 1)).splitlines()[-1] == "(1 row)"
    assert as_text(TABLE.slice(0, 0)).splitlines()[-1] == "(0 rows)"


def test_a_value_is_one_line_and_not_too_long() -> None:
    shown = as_text(pa.table({"s": ["a\nb\x1b[31m", "x" * 100], "b": [b"\x00\xff", b""]}))
    assert [line.count("\n") for line in shown.splitlines()] == [0] * 5
    assert "a\\nb\\x1b[31m" in shown
    assert "x" * 59 + "… " in shown
    assert "X'00FF'" in shown


def test_html_escapes_names_and_values() -> None:
    shown = as_html(pa.table({"<b>": ["<script>"], "n": [1]}), 4)
    assert "<script>" not in shown
    assert "<b>" not in shown
    assert "<td>&lt;script&gt;</td>" in shown
    assert '<td style="text-align: right">1</td>' in shown
    assert "(5 rows, the first 1 shown)" in shown


def test_a_table_without_columns_has_its_count() -> None:
    assert as_text(pa.table({})) == "(0 rows)"
    assert "(0 rows)" in as_html(pa.table({}))
