"""Whether a core's result has a row: by lookups, or by a function of its program, as its strategy says."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from everview.engine.values.rows import words_array, zeros
from everview.kernel.machine import Part
from everview.query.terms import Var
from everview.strategies.strategy import Maintained


def has_row(part: Part, maintained: Maintained, words: Mapping[Var, int]) -> bool | None:
    """Whether the result has a row with these words, one for each output variable; None: list it to know."""
    match maintained.test:
        case None:
            return None
        case str() as function:
            row = [pa.array([words[v]], pa.int64()) for v in maintained.outputs] or [zeros(1)]
            return bool(words_array(part.ask(function, row)[0])[0].as_py() != 0)
        case lookups:
            for lookup in lookups:
                found = part.find(lookup.table, [words[v] for v in lookup.key])
                if found is None or found[1] < lookup.level:
                    return False
            return True
