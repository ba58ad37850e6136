"""Everview keeps SQL views fresh under inserts and deletes, with a proven cost per update.

>>> import everview as ev
>>> verdict = ev.explain("SELECT a.src, a.dst AS mid, b.dst FROM follows a JOIN follows b ON a.dst = b.src",
...                      schema="CREATE TABLE follows (src BIGINT, dst BIGINT)")
>>> verdict.to_dict()["bounds"]["update"]
'O(1)'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from everview import errors

if TYPE_CHECKING:
    from everview.engine.database import Database
    from everview.engine.explain import explain, explain_all
    from everview.engine.run_query import Result
    from everview.plan.explain import Explanation
    from everview.tools.enclosureness import enclosureness

__version__ = "0.1.0"
__all__ = ["Database", "Explanation", "Result", "__version__", "enclosureness", "errors", "explain", "explain_all"]

_HOMES = {
    "Database": "everview.engine.database",
    "Result": "everview.engine.run_query",
    "Explanation": "everview.plan.explain",
    "enclosureness": "everview.tools.enclosureness",
    "explain": "everview.engine.explain",
    "explain_all": "everview.engine.explain",
}


def __getattr__(name: str) -> Any:
    """Public names are looked up when first used: importing Everview stays quick."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'everview' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
