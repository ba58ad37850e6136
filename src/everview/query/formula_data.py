"""Formulas as plain data: for checkpoints, and for whoever wants to know whether two views are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from everview.query.formula import (
    And,
    AtLeast,
    Condition,
    Distance,
    Equal,
    Fact,
    Formula,
    FormulaQuery,
    Not,
    Or,
    Quantifier,
    Residue,
    Truth,
)
from everview.query.formula_facts import FactRelation, FactSource
from everview.query.formula_normal import normalised
from everview.query.terms import Const, Term, Var
from everview.query.types import DataType
from everview.query.view import FormulaBody

Data: TypeAlias = dict[str, Any]
ToData: TypeAlias = Callable[[Term], Data]
FromData: TypeAlias = Callable[[Data], Term]


def body_to_data(body: FormulaBody, term: ToData, type_: Callable[[DataType], str]) -> Data:
    """A view's body; ``term`` and ``type_`` write the things that all bodies have."""
    return {
        "name": body.query.name,
        "head": [v.name for v in body.query.head],
        "formula": _to_data(body.query.formula, term),
        "relations": [
            {
                "name": r.name,
                "arity": r.arity,
                "edges": r.has_edges,
                "sources": [
                    {
                        "table": s.table,
                        "columns": list(s.columns),
                        "tests": [[i, term(c)] for i, c in s.tests],
                        "not_null": list(s.not_null),
                        **({"bit": list(s.bit)} if s.bit is not None else {}),
                    }
                    for s in r.sources
                ],
            }
            for r in body.relations
        ],
        "element": type_(body.element),
        "degree": body.degree,
        "domain": body.domain,
        "component": body.component,
        "independent": body.is_independent,
    }


def body_from_data(data: Data, term: FromData, type_: Callable[[str], DataType]) -> FormulaBody:
    """The body that plain data holds."""
    query = FormulaQuery(str(data["name"]), tuple(Var(str(n)) for n in data["head"]), _from_data(data["formula"], term))
    relations = tuple(
        FactRelation(str(r["name"]), int(r["arity"]), tuple(_source(s, term) for s in r["sources"]), bool(r["edges"]))
        for r in data["relations"]
    )
    component = data["component"]
    return FormulaBody(
        query,
        normalised(query),
        relations,
        type_(data["element"]),
        int(data["degree"]),
        str(data["domain"]),
        None if component is None else str(component),
        bool(data["independent"]),
    )


def _source(data: Data, term: FromData) -> FactSource:
    tests = []
    for column, written in data["tests"]:
        constant = term(written)
        if not isinstance(constant, Const):
            raise TypeError(f"{constant} is no constant")
        tests.append((int(column), constant))
    bit = data.get("bit")
    return FactSource(
        str(data["table"]),
        tuple(map(int, data["columns"])),
        tuple(tests),
        tuple(map(int, data["not_null"])),
        None if bit is None else (int(bit[0]), int(bit[1])),
    )


def _to_data(formula: Formula, term: ToData) -> Data:
    match formula:
        case Truth(value):
            return {"truth": value}
        case Fact(relation, terms):
            return {"fact": relation, "terms": list(map(term, terms))}
        case Equal(left, right):
            return {"equal": [term(left), term(right)]}
        case Distance(left, right, bound):
            return {"distance": bound, "ends": [left.name, right.name]}
        case Not(body):
            return {"not": _to_data(body, term)}
        case And(parts):
            return {"and": [_to_data(p, term) for p in parts]}
        case Or(parts):
            return {"or": [_to_data(p, term) for p in parts]}
        case Quantifier(condition, variable, body):
            asked = [condition.least] if isinstance(condition, AtLeast) else [condition.residue, condition.modulus]
            return {"witnesses": asked, "variable": variable.name, "body": _to_data(body, term)}


def _from_data(data: Data, term: FromData) -> Formula:
    match data:
        case {"truth": value}:
            return Truth(bool(value))
        case {"fact": relation, "terms": terms}:
            return Fact(str(relation), tuple(map(term, terms)))
        case {"equal": [left, right]}:
            return Equal(term(left), term(right))
        case {"distance": bound, "ends": [left, right]}:
            return Distance(Var(str(left)), Var(str(right)), int(bound))
        case {"not": body}:
            return Not(_from_data(body, term))
        case {"and": parts}:
            return And(tuple(_from_data(p, term) for p in parts))
        case {"or": parts}:
            return Or(tuple(_from_data(p, term) for p in parts))
        case {"witnesses": asked, "variable": variable, "body": body}:
            condition: Condition = AtLeast(int(asked[0])) if len(asked) == 1 else Residue(*map(int, asked))
            return Quantifier(condition, Var(str(variable)), _from_data(body, term))
    raise ValueError(f"{data!r} is no formula")
