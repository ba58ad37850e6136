"""How large a view may become while it is lowered: subqueries and WITH entries are folded in wherever they are read.

Each fold copies what it folds, so a short text can stand for a view of any size. These limits lie far above what people
write and far below what hurts: whatever keeps them is planned within seconds.
"""

from __future__ import annotations

from typing import Final

MOST_WORDS: Final = 30_000
"""So many words and signs may one statement have: a list of some ten thousand values."""
MOST_TYPES: Final = 8
"""So many calls that are named as types (``string(x)``) may stand in each other."""
MOST_ATOMS: Final = 100
"""So many relations may be joined in one SELECT, those of the subqueries that are folded into it included."""
MOST_RELATIONS: Final = 1_000
"""So many relations may be read by one view in all."""
MOST_PARTS: Final = 4_096
"""So many columns and pieces of text may make up one expression."""
MOST_GUARDS: Final = 20_000
"""So many nodes may a condition have whose parts are written out again, so that some decide about others."""
MOST_NESTED: Final = 100
"""So many operators of one chain (``a / b / c``) may have to be written out for DuckDB as calls within calls."""
MOST_LEVELS: Final = 40
"""So many aggregates may stand in each other in the head of a rule: each is over a variable of its own."""
MOST_EXPANDED: Final = 60_000
"""So many nodes may an expression have once the functions that DuckDB is taught are written out in it."""
