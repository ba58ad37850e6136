"""Set operations, described for the kernel: what follows from what their sides, which it runs before, change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from everview.engine.direct.columns import has_code, type_code
from everview.engine.direct.expressions import Constants, NotInWords
from everview.engine.direct.rows import kept_rows
from everview.engine.operators.set_operations import Concatenation, Counted
from everview.engine.operators.united import United
from everview.query.types import DataType
from everview.query.view import SetOperator

_UNION_ALL, _TESTED = 0, 6
_COUNTED: Final = {
    (SetOperator.UNION, False): 1,
    (SetOperator.EXCEPT, False): 2,
    (SetOperator.EXCEPT, True): 3,
    (SetOperator.INTERSECT, False): 4,
    (SetOperator.INTERSECT, True): 5,
}
"""In the order of the kernel's numbers (``cpp/batch/set_operation.h``)."""

SetOfSides = Concatenation | Counted | United


def set_of(source: SetOfSides, types: Sequence[DataType], constants: Constants) -> dict[str, Any]:
    """Which operation it is, and what it keeps or asks."""
    if not all(map(has_code, types)):
        raise NotInWords("a column of a nested type")
    described: dict[str, Any] = {"sides": len(source.sides), "types": [type_code(t) for t in types]}
    described |= {"kept": None, "tests": [], "constants": []}
    if isinstance(source, Counted):
        described["kind"] = _COUNTED[source.operation.operator, source.operation.all]
        described["kept"] = kept_rows(source.counts)
    elif isinstance(source, United):
        described["kind"] = _TESTED
        described["tests"] = source.tests
        if not all(isinstance(value, str) for value, _ in source.wide_constants):
            raise NotInWords("a constant that is no text, but stored as one is,")
        described["constants"] = [constants.number(value, type_) for value, type_ in source.wide_constants]
    else:
        described["kind"] = _UNION_ALL
    return described
