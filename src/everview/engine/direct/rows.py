"""What follows the core of a view without groups, described for the kernel: conditions, outputs, and DISTINCT."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from everview.engine.direct.columns import has_code, type_code
from everview.engine.direct.expressions import NOTHING, Code, Constants, NotInWords, Writer, is_exact
from everview.engine.expressions.evaluate import Evaluator
from everview.engine.operators.counts import Fold
from everview.engine.operators.select import Projection
from everview.engine.values.words import arrow_type, is_wide, to_words
from everview.programs.counts import ROWS, TRACE
from everview.query.terms import Const, Expression, Var
from everview.query.types import DataType, Kind


def rows_of(
    projection: Projection, fold: Fold | None, constants: Constants, *, as_words: bool = False
) -> dict[str, Any]:
    """Conditions across tables, output columns, and where rows are counted that are told once each.

    ``as_words`` says that all outputs have to be words, as those of which a fold keeps rows.
    """
    core, as_words = projection.core, as_words or fold is not None
    if core.widths != (1,):
        raise NotInWords
    outputs = core.maintained.outputs
    writer = Writer(constants, {v: (i, core.types[v]) for i, v in enumerate(outputs)})
    residual = projection.residual
    fixed = {i: _fixed(e, projection, constants) for i, e in enumerate(projection.outputs) if _is_fixed(e)}
    return {
        "conditions": [] if residual is None else [writer.code(c) for c in residual.conditions],
        "outputs": [
            (None, NOTHING) if fixed.get(i) is not None else _output(e, projection, writer, as_words)
            for i, e in enumerate(projection.outputs)
        ],
        "fixed": [(i, constant) for i, constant in fixed.items() if constant is not None],
        "types": [type_code(_known(e.type), required=_never_null(e, projection)) for e in projection.outputs],
        "distinct": None if fold is None else kept_rows(fold),
    }


def _is_fixed(expression: Expression) -> bool:
    """True if it is the same in all rows."""
    return not isinstance(expression.term, Var) and not expression.variables


def _fixed(expression: Expression, projection: Projection, constants: Constants) -> int | None:
    """The number of a word, or text, that all rows have in a column; None if it is none."""
    type_ = expression.type
    if isinstance(expression.term, Const):
        values = pa.array([expression.term.value]).cast(arrow_type(type_))
    else:
        (values,), failed = Evaluator([expression]).tried({}, 1)
        if failed is not None and failed[0].as_py():
            return None
    value = values[0].as_py()
    if value is not None and is_wide(type_):
        return constants.number(value, type_) if isinstance(value, str) else None
    return constants.word(to_words(values, type_, projection.dictionary)[0].as_py())


def _output(expression: Expression, projection: Projection, writer: Writer, as_word: bool) -> tuple[int | None, Code]:
    """A column: of the core as it is, or what is computed."""
    if isinstance(expression.term, Var) and expression.term in projection.shown:
        return writer.column(expression.term), []
    type_ = expression.type
    if isinstance(expression.term, Var) and not (as_word and is_wide(type_)):
        return None, writer.widened(expression.term, type_)
    if not (is_exact(type_) or type_.kind is Kind.DOUBLE or (type_.kind is Kind.DECIMAL and not as_word)):
        raise NotInWords(f"{expression}")
    return None, writer.code(expression)


def _never_null(expression: Expression, projection: Projection) -> bool:
    """True if a column of the core is shown that has no NULL: nobody need look for it."""
    term = expression.term
    return isinstance(term, Var) and term in projection.shown and projection.core.plan.is_never_null(term)


def _known(type_: DataType) -> DataType:
    if not has_code(type_):
        raise NotInWords(f"a column of type {type_}")
    return type_


def kept_rows(fold: Fold) -> dict[str, Any]:
    """A fold's table and procedures."""
    part = fold.part
    return {
        "add": part._procedures["add"],
        "trace": part._procedures[TRACE],
        "traced": part._channels[TRACE],
        "settle": part._procedures["settle"],
        "drop": part._procedures["drop"],
        "table": part._tables[ROWS],
        "wide": [i for i, type_ in enumerate(fold.types) if is_wide(type_)],
    }
