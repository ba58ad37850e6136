"""Values of plain data, each checked to be of its kind: what is read from a file may be anything."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from everview.query.types import DAY_TIME_UNITS, DataType, Kind, day_time

_UNITS: Final = "|".join(DAY_TIME_UNITS)
_LENGTH: Final = re.compile(rf"INTERVAL ({_UNITS})(?: TO ({_UNITS}))?")
_TYPE: Final = re.compile(r"(\w+)(?:\((\d+), (\d+)\))?")


def place(value: object) -> int:
    """A number that is not negative: of a column, or of rows."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{short(value)} is no number of a column or of rows")
    return value


def places(values: Iterable[object]) -> tuple[int, ...]:
    """Several of them."""
    return tuple(map(place, values))


def text(value: object) -> str:
    """Text."""
    if not isinstance(value, str):
        raise TypeError(f"{short(value)} is no text")
    return value


def texts(values: Iterable[object]) -> tuple[str, ...]:
    """Several texts."""
    return tuple(map(text, values))


def truth(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise TypeError(f"{short(value)} is neither true nor false")
    return value


def short(value: object) -> str:
    """A value as it is shown in an error."""
    shown = json.dumps(value, default=lambda v: type(v).__name__)
    return shown if len(shown) <= 60 else shown[:59] + "…"


def type_to_data(type_: DataType) -> str:
    """A type as text: its name, and what it is made of: precision and scale, or parts."""
    if type_.is_nested:
        names = [f"{json.dumps(name)}: " for name in type_.names] or [""] * len(type_.parts)
        parts = (name + type_to_data(part) for name, part in zip(names, type_.parts, strict=True))
        return f"{type_.kind.value}<{', '.join(parts)}>"
    if type_.kind is Kind.DAY_TIME:
        return str(type_)
    return (
        f"{type_.kind.value}({type_.precision}, {type_.scale})" if type_.precision or type_.scale else type_.kind.value
    )


def type_from_data(text: str) -> DataType:
    """The type that a text names."""
    try:
        found, end = _type_at(text, 0)
    except RecursionError:
        raise ValueError(f"{short(text)} is nested too deeply") from None
    if end != len(text):
        raise ValueError(f"{text!r} is no type")
    return found


def _type_at(text: str, start: int) -> tuple[DataType, int]:
    length = _LENGTH.match(text, start)
    if length is not None:
        return day_time(length[1], length[2] or length[1]), length.end()
    found = _TYPE.match(text, start)
    if found is None:
        raise ValueError(f"{text!r} is no type")
    kind, at = Kind(found[1]), found.end()
    if text[at : at + 1] != "<":
        return DataType(kind, int(found[2] or 0), int(found[3] or 0)), at
    parts: list[DataType] = []
    names: list[str] = []
    while text[at : at + 1] in ("<", ","):
        at += 1 if text[at] == "<" else 2
        if kind is Kind.STRUCT:
            name, at = json.JSONDecoder().raw_decode(text, at)
            if not isinstance(name, str):
                raise ValueError(f"{text!r} is no type")
            names.append(name)
            at += 2
        part, at = _type_at(text, at)
        parts.append(part)
    wanted = {Kind.ARRAY: 1, Kind.MAP: 2, Kind.STRUCT: len(names)}.get(kind)
    if text[at : at + 1] != ">" or len(parts) != wanted:
        raise ValueError(f"{text!r} is no type")
    return DataType(kind, parts=tuple(parts), names=tuple(names)), at + 1
