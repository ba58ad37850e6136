"""What tests share: queries from rule text, random queries and databases, and DuckDB as the oracle.

None of it uses Everview's own SQL or evaluation: ``cq``, ``ucq`` and ``constraints`` are parsers of their own,
``evaluate`` asks another engine.
"""

from __future__ import annotations

import atexit
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations
from typing import TypeAlias

import duckdb
from hypothesis import strategies as st

from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics, UnionQuery
from everview.query.constraints import (
    Constraints,
    FunctionalDependency,
    InclusionDependency,
    SmallDomainConstraint,
)
from everview.query.terms import Const, Term, Var

Cell: TypeAlias = int | str | None
Row: TypeAlias = tuple[Cell, ...]
Database: TypeAlias = dict[str, list[Row]]

# --- rule text -------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(?:(:-|[(),.])|(-?\d+)|'((?:[^']|'')*)'|([A-Za-z]\w*)|(\S))")
_Token: TypeAlias = tuple[str, str]


def cq(text: str, semantics: Semantics = Semantics.SET) -> ConjunctiveQuery:
    """One rule, ``q(x, 1) :- r(x, y), s(y, 'a'), y is not null.``; bare words in argument places are variables."""
    (query,) = ucq(text, semantics).members
    return query


def ucq(text: str, semantics: Semantics = Semantics.SET) -> UnionQuery:
    """Any number of rules with the same head, none of them included."""
    tokens = list(_tokens(text))
    members = []
    while tokens:
        members.append(_rule(tokens, semantics))
    return UnionQuery(tuple(members))


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text.rstrip()):
        mark, number, string, word, junk = match.groups()
        if junk is not None:
            raise ValueError(f"unexpected {junk!r} in {text!r}")
        if mark is not None:
            yield "mark", mark
        elif number is not None:
            yield "number", number
        elif word is not None:
            yield "word", word
        else:
            yield "string", string.replace("''", "'")


def _rule(tokens: list[_Token], semantics: Semantics) -> ConjunctiveQuery:
    name, head = _call(tokens)
    _expect(tokens, ":-")
    atoms: list[Atom] = []
    refused: set[Var] = set()
    while True:
        if tokens[1] == ("word", "is"):
            refused.add(Var(tokens.pop(0)[1]))
            for word in ("is", "not", "null"):
                _expect(tokens, word)
        else:
            atoms.append(Atom(*_call(tokens)))
        if tokens[0][1] != ",":
            break
        tokens.pop(0)
    _expect(tokens, ".")
    return ConjunctiveQuery(head, tuple(atoms), semantics=semantics, not_null=frozenset(refused), name=name)


def _call(tokens: list[_Token]) -> tuple[str, tuple[Term, ...]]:
    name = tokens.pop(0)[1]
    _expect(tokens, "(")
    terms: list[Term] = []
    while tokens[0][1] != ")" or tokens[0][0] == "string":
        kind, value = tokens.pop(0)
        terms.append(Var(value) if kind == "word" else Const(int(value) if kind == "number" else value))
        if tokens[0][1] == ",":
            tokens.pop(0)
    _expect(tokens, ")")
    return name, tuple(terms)


def _expect(tokens: list[_Token], wanted: str) -> None:
    kind, value = tokens.pop(0) if tokens else ("end", "the end")
    if value != wanted or kind == "string":
        raise ValueError(f"expected {wanted!r}, found {value!r}")


_CONSTRAINT = re.compile(
    r"""(?P<relation>\w+)\[(?P<columns>[\d,\s]+)(?:->(?P<dependent>[\d,\s]*))?\]
        (?:\s*in\s*\{(?P<values>[^}]*)\}(?P<nullable>\s*or\s+null)?
          |(?P<required>\s*not\s+null)
          |\s*<=\s*(?P<target>\w+)\[(?P<targets>[\d,\s]+)\](?P<unique>\s*unique)?
          |(?P<key>\s*key)?)
        (?:[\s,;.]+|$)""",
    re.VERBOSE,
)


def constraints(text: str) -> Constraints:
    """``S[1] in {1, 2}``, ``E[2] <= T[1]``, ``E[1->2]``; positions count from 1, a comma or a new line separates.

    ``in {…} or null`` is a nullable column, ``E[2] not null`` one without NULL, ``unique`` says that the target has one
    row a value, and ``key`` that the determinant has.
    """
    small: list[SmallDomainConstraint] = []
    inclusions: list[InclusionDependency] = []
    functional: list[FunctionalDependency] = []
    required: set[tuple[str, int]] = set()
    text = text.strip()
    place = 0
    while place < len(text):
        match = _CONSTRAINT.match(text, place)
        if match is None:
            raise ValueError(f"not a constraint: {text[place:]!r}")
        place = match.end()
        relation, columns = match["relation"], _positions(match["columns"])
        if match["values"] is not None:
            values = frozenset(_constant(v) for v in match["values"].split(","))
            (position,) = columns
            small.append(SmallDomainConstraint(relation, position, values, match["nullable"] is not None))
        elif match["required"] is not None:
            required |= {(relation.lower(), c) for c in columns}
        elif match["target"] is not None:
            targets = _positions(match["targets"])
            inclusions.append(
                InclusionDependency(relation, columns, match["target"], targets, match["unique"] is not None)
            )
        elif match["dependent"] is not None:
            dependent = _positions(match["dependent"])
            functional.append(FunctionalDependency(relation, columns, dependent, match["key"] is not None))
        else:
            raise ValueError(f"not a constraint: {match[0]!r}")
    return Constraints(tuple(small), tuple(inclusions), tuple(functional), frozenset(required))


def _positions(text: str) -> tuple[int, ...]:
    return tuple(int(p) - 1 for p in text.split(",") if p.strip())


def _constant(text: str) -> Const:
    text = text.strip()
    return Const(text[1:-1] if text.startswith("'") else int(text))


# --- evaluation by DuckDB --------------------------------------------------------------------------------------------


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    atexit.register(_duckdb.cache_clear)
    return connection


def evaluate(query: ConjunctiveQuery | UnionQuery, database: Mapping[str, Sequence[Row]]) -> Counter[Row]:
    """The result with its multiplicities (all 1 for sets), computed by DuckDB from SQL text; () is a row too.

    NULL never joins, and is refused where the query says so. A relation that the database lacks is empty.
    """
    union = query if isinstance(query, UnionQuery) else UnionQuery((query,))
    if not union.members:
        return Counter()
    relations: dict[str, str] = {}
    tables: list[str] = []
    for atom in (a for m in union.members for a in m.atoms):
        if atom.relation not in relations:
            relations[atom.relation] = f"t{len(tables)}"
            tables.append(_table(relations[atom.relation], len(atom.terms), database.get(atom.relation, ())))
    between = " UNION ALL " if union.semantics is Semantics.BAG else " UNION "
    selects = between.join(select(m, relations) for m in union.members)
    if len(union.members[0].head) == 0:
        return Counter(() for _ in _duckdb().execute(f"WITH {', '.join(tables)} {selects}").fetchall())
    rows = _duckdb().execute(f"WITH {', '.join(tables)} {selects}").fetchall()
    return Counter(tuple(_decoded(c) for c in row) for row in rows)


def select(query: ConjunctiveQuery, relations: Mapping[str, str]) -> str:
    """The SELECT of a query over tables with columns c0, c1, …, named as ``relations`` says."""
    if query.predicates or any(a.computed for a in query.atoms):
        raise NotImplementedError("values are encoded, so only equalities can be evaluated")
    places: dict[Var, str] = {}
    conditions: list[str] = []
    for i, atom in enumerate(query.atoms):
        for j, term in enumerate(atom.terms):
            place = f"a{i}.c{j}"
            if isinstance(term, Const):
                conditions.append(f"{place} = {_encoded(term.value)}")
            elif term in places:
                conditions.append(f"{places[term]} = {place}")
            else:
                places[term] = place
    conditions += [f"{places[v]} IS NOT NULL" for v in sorted(query.not_null)]
    head = [places[t] if isinstance(t, Var) else _encoded(t.value) for t in query.head]
    distinct = "DISTINCT " if query.semantics is Semantics.SET else ""
    sources = ", ".join(f"{relations[a.relation]} a{i}" for i, a in enumerate(query.atoms))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {distinct}{', '.join(head) or '1'} FROM {sources}{where}"


def _table(name: str, arity: int, rows: Sequence[Row]) -> str:
    columns = ", ".join(f"c{i}" for i in range(arity)) or "flag"
    values = ", ".join(f"({', '.join(map(_encoded, row)) or '1'})" for row in rows)
    if not rows:
        empty = ", ".join("NULL::VARCHAR" for _ in range(max(arity, 1)))
        return f"{name}({columns}) AS (SELECT {empty} WHERE false)"
    return f"{name}({columns}) AS (VALUES {values})"


def _encoded(value: object) -> str:
    """One SQL type for all values, so that 1 and '1' can meet in a column and still differ."""
    if value is None:
        return "NULL::VARCHAR"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise NotImplementedError(f"{value!r} is neither a whole number nor a string")
    return "'" + ("i" if isinstance(value, int) else "s") + str(value).replace("'", "''") + "'"


def _decoded(cell: str | None) -> Cell:
    if cell is None:
        return None
    return int(cell[1:]) if cell[0] == "i" else cell[1:]


# --- random queries and databases ------------------------------------------------------------------------------------


@st.composite
def queries(
    draw: st.DrawFn,
    *,
    max_atoms: int = 4,
    max_vars: int = 4,
    max_arity: int = 3,
    relations: int = 3,
    self_joins: bool = True,
    constants: bool = True,
    repeats: bool = True,
    head_extras: bool = True,
    arity: int | None = None,
    full: bool | None = None,
    not_null: bool = False,
    semantics: Semantics = Semantics.SET,
    arities: Sequence[int] | None = None,
) -> ConjunctiveQuery:
    """A random query over r0, r1, …, whose arities are drawn (0 to ``max_arity``) unless ``arities`` gives them.

    ``repeats``: a variable may stand twice in one atom. ``head_extras``: the head may repeat variables and hold
    constants. ``arity`` fixes the number of columns of the head; ``full`` puts every variable there (True) or lets any
    subset be there (None). ``not_null``: some variables may refuse NULL though they stand in one place only.
    """
    if arities is None:
        arities = draw(st.lists(st.integers(0, max_arity), min_size=relations, max_size=relations))
    names = [f"x{i}" for i in range(max_vars)]
    if self_joins:
        symbols = draw(st.lists(st.integers(0, len(arities) - 1), min_size=1, max_size=max_atoms))
    else:
        most = min(max_atoms, len(arities))
        symbols = draw(st.lists(st.integers(0, len(arities) - 1), min_size=1, max_size=most, unique=True))
    atoms = []
    for symbol in symbols:
        terms: list[Term] = []
        for _ in range(arities[symbol]):
            allowed = [Var(n) for n in names if repeats or Var(n) not in terms]
            options: st.SearchStrategy[Term] = st.sampled_from(allowed)
            if constants:
                options = st.one_of(options, options, options, st.sampled_from([Const(1), Const(2)]))
            terms.append(draw(options))
        atoms.append(Atom(f"r{symbol}", tuple(terms)))
    known = sorted(frozenset().union(*(a.variables for a in atoms)))
    head = draw(_heads(known, head_extras=head_extras, arity=arity, full=full))
    refused = draw(st.frozensets(st.sampled_from(known))) if not_null and known else frozenset()
    return ConjunctiveQuery(head, tuple(atoms), semantics=semantics, not_null=refused)


@st.composite
def _heads(
    draw: st.DrawFn, known: Sequence[Var], *, head_extras: bool, arity: int | None, full: bool | None
) -> tuple[Term, ...]:
    if arity is not None:
        terms: st.SearchStrategy[Term] = st.sampled_from([Const(1), Const(2)])
        if known:
            variables: st.SearchStrategy[Term] = st.sampled_from(known)
            terms = st.one_of(variables, variables, terms) if head_extras else variables
        return tuple(draw(st.lists(terms, min_size=arity, max_size=arity)))
    order = draw(st.permutations(known))
    free = order if full else order[: draw(st.integers(0, len(order)))]
    head: list[Term] = list(free)
    if head_extras:
        more: list[Term] = [Const(1), Const(2), *free]
        for extra in draw(st.lists(st.sampled_from(more), max_size=2)):
            head.insert(draw(st.integers(0, len(head))), extra)
    return tuple(head)


@st.composite
def unions(
    draw: st.DrawFn,
    *,
    max_members: int = 3,
    max_head: int = 2,
    max_atoms: int = 3,
    max_vars: int = 3,
    relations: int = 3,
    constants: bool = True,
    not_null: bool = False,
    semantics: Semantics = Semantics.SET,
) -> UnionQuery:
    """A random union of queries over the same relations."""
    arities = draw(st.lists(st.integers(0, 2), min_size=relations, max_size=relations))
    arity = draw(st.integers(0, max_head))
    member = queries(
        max_atoms=max_atoms,
        max_vars=max_vars,
        constants=constants,
        arity=arity,
        not_null=not_null,
        arities=arities,
        semantics=semantics,
    )
    return UnionQuery(tuple(draw(st.lists(member, min_size=1, max_size=max_members))))


@st.composite
def hierarchical_queries(
    draw: st.DrawFn,
    *,
    max_vars: int = 6,
    max_atoms: int = 6,
    nullary: bool = True,
    full: bool | None = None,
    semantics: Semantics = Semantics.SET,
) -> ConjunctiveQuery:
    """A random hierarchical query: a random forest of variables, an atom for some of its root paths, a random head.

    Relations are R0, R1, …, one an atom; the order of an atom's columns is random, and so are the variables' names.
    """
    size = draw(st.integers(0 if nullary else 1, max_vars))
    names = draw(st.permutations("ABCDEFGHIJ"[:size]))
    paths: list[tuple[str, ...]] = []
    for i, name in enumerate(names):
        parent = draw(st.integers(-1, i - 1))
        paths.append((*(paths[parent] if parent >= 0 else ()), name))
    if not paths:
        ends: list[tuple[str, ...]] = [()]
    else:
        ends = draw(st.lists(st.sampled_from(paths + ([()] if nullary else [])), min_size=1, max_size=max_atoms))
    atoms = tuple(Atom(f"R{i}", tuple(Var(n) for n in draw(st.permutations(path)))) for i, path in enumerate(ends))
    known = sorted(frozenset().union(*(a.variables for a in atoms)))
    return ConjunctiveQuery(draw(_heads(known, head_extras=False, arity=None, full=full)), atoms, semantics=semantics)


def relations_of(query: ConjunctiveQuery | UnionQuery) -> dict[str, int]:
    """The arity of every relation that the query reads."""
    members = query.members if isinstance(query, UnionQuery) else (query,)
    return {a.relation: len(a.terms) for m in members for a in m.atoms}


def databases(
    query: ConjunctiveQuery | UnionQuery,
    *,
    domain: Sequence[Cell] = (1, 2, 3),
    nulls: bool = False,
    duplicates: bool = False,
    max_rows: int = 6,
) -> st.SearchStrategy[Database]:
    """Small databases for a query over a tiny domain, so that values meet; ``duplicates`` lets a row come twice."""
    cells = st.sampled_from([*domain, None] if nulls else list(domain))
    tables = {
        name: st.lists(st.tuples(*[cells] * arity), max_size=max_rows, unique=not duplicates)
        for name, arity in relations_of(query).items()
    }
    return st.fixed_dictionaries(tables)


def legal(database: Mapping[str, Sequence[Row]], rules: Constraints) -> Database:
    """The largest part of a database, reading from the front, that satisfies the constraints.

    NULL passes a small domain only where it is nullable, passes every inclusion, and is no key.
    """
    kept: Database = {name: list(rows) for name, rows in database.items()}
    for name, position in rules.not_null:
        for relation in [r for r in kept if r.lower() == name]:
            kept[relation] = [r for r in kept[relation] if r[position] is not None]
    for domain in rules.small_domains:
        values = {c.value for c in domain.values}
        rows = kept.get(domain.relation, [])
        kept[domain.relation] = [
            r for r in rows if (domain.nullable if r[domain.position] is None else r[domain.position] in values)
        ]
    for dependency in rules.functional:
        kept[dependency.relation] = _functional(kept.get(dependency.relation, []), dependency)
    for inclusion in rules.inclusions:
        if inclusion.unique:
            key = FunctionalDependency(inclusion.target, inclusion.target_positions, (), is_key=True)
            kept[inclusion.target] = _functional(kept.get(inclusion.target, []), key)
    changed = True
    while changed:
        changed = False
        for d in rules.inclusions:
            there = {tuple(r[j] for j in d.target_positions) for r in kept.get(d.target, [])}
            rows = kept.get(d.relation, [])
            fine = [r for r in rows if None in (k := tuple(r[i] for i in d.positions)) or k in there]
            changed = changed or len(fine) < len(rows)
            kept[d.relation] = fine
    return kept


def _functional(rows: Sequence[Row], dependency: FunctionalDependency) -> list[Row]:
    known: dict[Row, Row] = {}
    kept: list[Row] = []
    for row in rows:
        key = tuple(row[i] for i in dependency.determinant)
        rest = tuple(row[i] for i in dependency.dependent)
        if dependency.is_key:
            if key not in known and None not in key:
                kept.append(row)
        elif known.get(key, rest) == rest:
            kept.append(row)
        known.setdefault(key, rest)
    return kept


# --- comparison ------------------------------------------------------------------------------------------------------


def isomorphic(one: ConjunctiveQuery, other: ConjunctiveQuery) -> bool:
    """True if renaming variables makes one query the other: same head, same atoms."""
    if len(one.atoms) != len(other.atoms) or len(one.variables) != len(other.variables):
        return False
    targets = sorted(other.variables)
    wanted = (other.head, Counter((a.relation, a.terms) for a in other.atoms))
    for images in permutations(targets):
        renamed = one.substitute(dict(zip(sorted(one.variables), images, strict=True)))
        if (renamed.head, Counter((a.relation, a.terms) for a in renamed.atoms)) == wanted:
            return True
    return False


def same_members(one: Sequence[ConjunctiveQuery], other: Sequence[ConjunctiveQuery]) -> bool:
    """True if both hold the same queries up to order and the names of variables."""
    rest = list(other)
    for query in one:
        match = next((o for o in rest if isomorphic(query, o)), None)
        if match is None:
            return False
        rest.remove(match)
    return not rest
