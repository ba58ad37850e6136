"""What a strategy counts of itself and of its heavy and light parts, read from its unit for ``stats``."""

from __future__ import annotations

from typing import Any

from everview.kernel.machine import Unit
from everview.strategies.strategy import Gauge, Maintained, RowCount


def read_gauges(unit: Unit, maintained: Maintained) -> dict[str, Any]:
    """The numbers by their names: the strategy's own, then those of its parts; θ follows from N and ε."""
    found: dict[str, Any] = {name: _read(unit, gauge) for name, gauge in maintained.gauges.items()}
    parts = maintained.parts
    if parts is None:
        return found
    base = _read(unit, parts.base)
    return found | {
        "epsilon": float(parts.epsilon),
        "N": base,
        "theta": base ** float(parts.epsilon),
        "heavy_keys": sum(_read(unit, gauge) for gauge in parts.heavy_keys),
        "minor": _read(unit, parts.minor),
        "major": _read(unit, parts.major),
        "moved": _read(unit, parts.moved),
    }


def _read(unit: Unit, gauge: Gauge | RowCount) -> int:
    if isinstance(gauge, RowCount):
        return unit.table_stats()[gauge.table][0]
    row = unit.find(gauge.table, gauge.key)
    return 0 if row is None else row[0][gauge.value]
