"""What a strategy counts of itself and of its heavy and light parts, read from its part of the unit for ``stats``."""

from __future__ import annotations

from typing import Any

from everview.kernel.machine import Part
from everview.strategies.strategy import Gauge, Maintained, RowCount


def read_gauges(part: Part, maintained: Maintained) -> dict[str, Any]:
    """The numbers by their names: the strategy's own, then those of its parts; θ follows from N and ε."""
    found: dict[str, Any] = {name: _read(part, gauge) for name, gauge in maintained.gauges.items()}
    parts = maintained.parts
    if parts is None:
        return found
    base = _read(part, parts.base)
    return found | {
        "epsilon": float(parts.epsilon),
        "N": base,
        "theta": base ** float(parts.epsilon),
        "heavy_keys": sum(_read(part, gauge) for gauge in parts.heavy_keys),
        "minor": _read(part, parts.minor),
        "major": _read(part, parts.major),
        "moved": _read(part, parts.moved),
    }


def _read(part: Part, gauge: Gauge | RowCount) -> int:
    if isinstance(gauge, RowCount):
        return part.size(gauge.table)
    row = part.find(gauge.table, gauge.key)
    return 0 if row is None else row[0][gauge.value]
