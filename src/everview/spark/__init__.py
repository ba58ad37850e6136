"""Everview on Spark: views over streams of changes, kept fresh by shards, exactly once.

>>> from everview.spark import maintain, materialize  # doctest: +SKIP
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everview.spark.maintain import maintain
    from everview.spark.materialize import materialize
    from everview.spark.metrics import stats
    from everview.spark.migration import saved_identity, saved_offsets, saved_tables
    from everview.spark.statistics import Statistics, statistics_of

__all__ = [
    "Statistics",
    "maintain",
    "materialize",
    "saved_identity",
    "saved_offsets",
    "saved_tables",
    "statistics_of",
    "stats",
]

_HOMES = {
    "maintain": "everview.spark.maintain",
    "materialize": "everview.spark.materialize",
    "stats": "everview.spark.metrics",
    "saved_identity": "everview.spark.migration",
    "saved_offsets": "everview.spark.migration",
    "saved_tables": "everview.spark.migration",
    "Statistics": "everview.spark.statistics",
    "statistics_of": "everview.spark.statistics",
}


def __getattr__(name: str) -> Any:
    """Public names are looked up when first used: a shard's process has no need of pyspark."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'everview.spark' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Importing a submodule binds its name in the package: where a function has that name, it is the function's."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
