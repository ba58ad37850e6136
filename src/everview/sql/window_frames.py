"""Frames of window functions, as SQL that DuckDB reads; which of them always are the whole partition."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from everview.query.types import DataType, Kind
from everview.sql.durations import duration
from everview.sql.nodes import is_whole
from everview.sql.sql_text import SqlText

USUAL: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
"""The frame that ranks and shifts may be written with."""
_ALL: Final = "BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
_EQUAL_KEYS: Final = tuple(
    f"RANGE BETWEEN {start} AND {end}"
    for start in ("UNBOUNDED PRECEDING", "CURRENT ROW")
    for end in ("CURRENT ROW", "UNBOUNDED FOLLOWING")
)
"""Frames that begin and end where rows with equal keys do: without ORDER BY these are all rows."""


def spec_of(window: exp.Expr) -> exp.Expr | None:
    """The frame of a window as it is written."""
    spec = window.args.get("spec")
    return spec if isinstance(spec, exp.Expr) else None


def is_whole_partition(frame: str, *, is_ordered: bool) -> bool:
    """True if a frame has all rows of the partition, whichever row it is of."""
    return frame.endswith(_ALL) or (not is_ordered and (not frame or frame in _EQUAL_KEYS))


def frame_of(source: SqlText, spec: exp.Expr | None, key: DataType | None) -> str:
    """A frame over rows in the order of one key of a type, or of other keys, as SQL; nothing for the usual one."""
    if spec is None:
        return ""
    kind = str(spec.args.get("kind")).upper()
    if kind not in ("ROWS", "RANGE") or spec.args.get("exclude"):
        raise source.unsupported(f"{kind} frame", spec, hint="use ROWS or RANGE")
    start = _edge(source, kind, spec.args.get("start"), spec.args.get("start_side"), key)
    end = _edge(source, kind, spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), key)
    return f"{kind} BETWEEN {start} AND {end}"


def _edge(source: SqlText, kind: str, edge: object, side: object, key: DataType | None) -> str:
    if isinstance(edge, str):
        return edge.upper() if edge.upper() == "CURRENT ROW" else f"UNBOUNDED {str(side).upper()}"
    assert isinstance(edge, exp.Expr)
    if kind == "RANGE" and edge.find(exp.Interval) is not None:
        months, micros = duration(source, edge)
        if min(months, micros) < 0:
            raise source.query("a frame reaches a length of time that is not negative", edge)
        return f"INTERVAL '{months} months {micros} microseconds' {str(side).upper()}"
    if isinstance(edge, exp.Interval):
        raise source.unsupported("frame", edge, hint="write a number of rows")
    is_fraction = isinstance(edge, exp.Literal) and not edge.is_string and not is_whole(edge)
    if kind == "RANGE" and is_fraction and key is not None and key.is_numeric and not key.is_integer:
        number = edge.name.rstrip("dDfF")
        shown = number if key.kind is Kind.DECIMAL else f"CAST({number} AS DOUBLE)"
        return f"{shown} {str(side).upper()}"
    return f"{written_number(source, edge, 0)} {str(side).upper()}"


def written_number(source: SqlText, node: exp.Expr, least: int | None) -> int:
    """A number that stands in the text."""
    inner = node.this if isinstance(node, exp.Neg) else node
    if not is_whole(inner) or (least is not None and (inner is not node or int(inner.name) < least)):
        raise source.unsupported(
            "number of a window function", node, message="a whole number is expected here, written as it is"
        )
    return -int(inner.name) if inner is not node else int(inner.name)
