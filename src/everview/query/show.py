"""Conjunctive queries in words: as a rule, and short names for their atoms."""

from __future__ import annotations

from everview.query.conjunctive import Atom, ConjunctiveQuery
from everview.query.terms import Term, Var


def show_query(query: ConjunctiveQuery) -> str:
    """The query as a rule; columns that nothing else mentions are left out."""
    used = used_variables(query)
    atoms = [f"{a.relation}({', '.join(shown_terms(a, used))})" for a in query.atoms]
    once = [v for v in sorted(query.not_null) if query.places[v] == 1]
    body = [*atoms, *map(str, query.predicates), *(f"{v} is not null" for v in once)]
    return f"{query.name}({', '.join(map(str, query.head))}) :- {', '.join(body)}."


def used_variables(query: ConjunctiveQuery) -> frozenset[Var]:
    """The variables that are output, joined or mentioned in a condition."""
    joined = {v for v, places in query.places.items() if places > 1}
    mentioned = {v for p in query.predicates for v in p.variables}
    computed = {v for a in query.atoms for c in a.computed for v in c.expression.variables}
    return query.free | joined | mentioned | computed


def shown_terms(atom: Atom, used: frozenset[Var]) -> list[str]:
    """The terms of an atom, with a run of columns that nobody uses shown as one …"""
    shown: list[str] = []
    few = sum(isinstance(t, Var) and t not in used for t in atom.terms) <= 1

    def text(term: Term) -> str:
        return str(term) if not isinstance(term, Var) or term in used else "_" if few else "…"

    for term in atom.terms:
        if text(term) != "…" or not shown or shown[-1] != "…":
            shown.append(text(term))
    return shown + [str(c) for c in atom.computed]


def atom_labels(query: ConjunctiveQuery) -> tuple[str, ...]:
    """A short distinct name for each atom: its relation, with the alias where the relation occurs twice."""
    relations = [a.relation for a in query.atoms]
    labels = []
    for i, atom in enumerate(query.atoms):
        if relations.count(atom.relation) == 1:
            labels.append(atom.relation)
        elif atom.alias and atom.alias != atom.relation:
            labels.append(f"{atom.relation} {atom.alias}")
        else:
            labels.append(f"{atom.relation}#{relations[: i + 1].count(atom.relation)}")
    return tuple(labels)
