"""Sort keys, window functions and conditions on the clock as plain data, and back."""

from __future__ import annotations

from typing import Any

from everview.query.clock import ClockBound, Shift, Unit
from everview.query.data_values import place, places, text, truth, type_from_data, type_to_data
from everview.query.view import SortKey, WindowCall

Data = dict[str, Any]


def sort_key_to_data(key: SortKey) -> Data:
    """A key that rows are put in order by."""
    return {"column": key.column, "descending": key.descending, "nulls_first": key.nulls_first}


def window_call_to_data(call: WindowCall) -> Data:
    """A window function."""
    return {
        "name": call.name,
        "text": call.text,
        "arguments": list(call.arguments),
        "keys": list(map(sort_key_to_data, call.keys)),
        "frame": call.frame,
        "by_place": call.by_place,
        "type": type_to_data(call.type),
        "reading": call.reading,
    }


def clock_bound_to_data(bound: ClockBound) -> Data:
    """A condition on the clock."""
    shifts = [{"unit": s.unit.value, "amount": s.amount} for s in bound.shifts]
    return {"column": bound.column, "operator": bound.operator, "shifts": shifts}


def clock_bound_from_data(data: Data) -> ClockBound:
    """The condition that plain data holds."""
    shifts = tuple(Shift(Unit(text(s["unit"])), int(s["amount"])) for s in data["shifts"])
    return ClockBound(place(data["column"]), text(data["operator"]), shifts)


def sort_key_from_data(data: Data) -> SortKey:
    """The key that plain data holds."""
    return SortKey(place(data["column"]), truth(data["descending"]), truth(data["nulls_first"]))


def window_call_from_data(data: Data) -> WindowCall:
    """The window function that plain data holds."""
    return WindowCall(
        text(data["name"]),
        text(data["text"]),
        places(data["arguments"]),
        tuple(map(sort_key_from_data, data["keys"])),
        text(data["frame"]),
        truth(data["by_place"]),
        type_from_data(text(data["type"])),
        text(data.get("reading", "")),
    )
