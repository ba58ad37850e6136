"""Random formulas as people write them, over tables with labels, NULL, copies and other tables, beside brute force.

What is written is also what is evaluated: neither the parser nor the model of formulas has a part in the oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

import everview as ev
from everview.errors import DegreeExceeded, FormulaLimitError
from tests.engine.test_formula_views import changes
from tests.scale import scaled

Formula = tuple[Any, ...]
Row = tuple[Any, ...]
Rows = dict[str, Counter[Row]]
TABLES = {"B": "e", "R": "e", "E": "ee", "T": "eee", "L": "ees", "M": "se", "Z": "es"}
"""Of each column whether it may hold elements or is text."""
TEXTS = ["a", "b", "it's"]
WORDS = {"and": ("and", "&"), "or": ("or", "|"), "implies": ("implies", "->"), "iff": ("iff", "<->")}
BINDING = {"iff": 0, "implies": 1, "or": 2, "and": 3}
UNARY = 4


class Writer:
    """Writes formulas: some columns of elements meet constants and ``_`` only in all of one formula."""

    def __init__(self, random: Random, elements: Sequence[int]) -> None:
        self.random = random
        self.elements = elements
        self.parts = 12
        self.names = (f"v{number}" for number in range(100))
        self.has_distances = random.random() < 0.4
        self.columns = {name: [self._use(kind) for kind in kinds] for name, kinds in TABLES.items()}
        self.columns |= {"B": ["variable"], "R": ["variable"]}

    def _use(self, kind: str) -> str:
        return "text" if kind == "s" else self.random.choice(["variable"] * 5 + ["label"])

    def formula(self, free: list[str], rank: int) -> Formula:
        """A formula with some of these variables, quantifiers nested so deep at most."""
        random = self.random
        self.parts -= 1
        kind = random.random() if self.parts >= 0 else 1
        if rank and kind < 0.5:
            variable = next(self.names) if random.random() < 0.8 or not free else random.choice(free)
            inner = [*(v for v in free if v != variable), variable]
            return "quantifier", self._asked(), variable, self.formula(inner, rank - 1)
        if kind < 0.57:
            return "not", self.formula(free, rank)
        if kind < 0.85:
            return random.choice(tuple(WORDS)), self.formula(free, rank), self.formula(free, rank)
        return self._atom(free)

    def _asked(self) -> tuple[Any, ...]:
        modulus = self.random.choice([2, 2, 3, 4])
        sign = self.random.choice([">=", "<=", "="])
        found: tuple[Any, ...] = self.random.choice(
            [
                ("exists",),
                ("exists",),
                ("forall",),
                (sign, self.random.randint(0, 3)),
                ("mod", self.random.randrange(modulus), modulus),
            ]
        )
        return found

    def _atom(self, free: list[str]) -> Formula:
        random = self.random
        kind = random.random()
        if not free or kind < 0.04:
            return "truth", random.random() < 0.5
        if kind < 0.16:
            pair = [random.choice(free), random.choice([*free, random.choice(self.elements)])]
            random.shuffle(pair)
            return "equal", *pair
        if kind < 0.3 and self.has_distances:
            return "near", random.choice(free), random.choice(free), random.randint(0, 3)
        while True:
            name = random.choice(tuple(TABLES))
            terms = [self._term(use, free) for use in self.columns[name]]
            if any(isinstance(term, str) and term != "_" for term in terms):
                return "fact", name, tuple(terms)

    def _term(self, use: str, free: list[str]) -> Any:
        random = self.random
        kind = random.random()
        if use == "variable" and kind < 0.8:
            return random.choice(free)
        if kind < 0.92 if use == "variable" else kind < 0.6:
            return ("text", random.choice(TEXTS)) if use == "text" else random.choice(self.elements)
        return "_"

    # --- as text ---------------------------------------------------------------------------------------------------

    def text(self, formula: Formula, binding: int = 0) -> str:
        """The formula in words or signs, with the parentheses that it needs, and now and then some more."""
        random = self.random
        match formula:
            case "truth", value:
                return self._word(str(value))
            case "fact", name, terms:
                return f"{name}({','.join(map(shown, terms))})"
            case "equal", left, right:
                return f"{shown(left)}={shown(right)}"
            case "near", left, right, bound:
                return f"{self._word('dist')}({left}, {right}) <= {bound}"
            case "not", ("equal", left, right) if random.random() < 0.7:
                return f"{shown(left)} != {shown(right)}"
            case "not", ("near", left, right, bound) if random.random() < 0.7:
                return f"dist({left}, {right}) > {bound}"
            case "not", body:
                return f"{self._word(random.choice(['not', '!']))} {self.text(body, UNARY)}"
            case "quantifier", asked, variable, body:
                if random.random() < 0.5:
                    return f"{self._quantifier(asked)} {variable}. {self.text(body, UNARY)}"
                return f"{self._quantifier(asked)} {variable} ({self.text(body)})"
        word, left, right = formula
        own = BINDING[word]
        sides = self.text(left, own + (word == "implies")), self.text(right, own + (word != "implies"))
        found = f" {self._word(random.choice(WORDS[word]))} ".join(sides)
        return f"({found})" if own < binding or random.random() < 0.1 else found

    def _quantifier(self, asked: tuple[Any, ...]) -> str:
        match asked:
            case (word,):
                return self._word(word)
            case sign, number:
                return f"exists {sign} {number}"
        _, residue, modulus = asked
        return self.random.choice([f"exists[{residue} mod {modulus}]", f"exists {residue} mod {modulus}"])

    def _word(self, word: str) -> str:
        return "".join(self.random.choice([c.upper(), c.lower(), c.lower()]) for c in word)


def shown(term: Any) -> str:
    return "'" + term[1].replace("'", "''") + "'" if isinstance(term, tuple) else str(term)


def atoms(formula: Formula) -> Iterator[Formula]:
    if formula[0] in ("truth", "fact", "equal", "near"):
        yield formula
    for part in formula[1:]:
        if (
            isinstance(part, tuple)
            and part
            and part[0] in ("not", "quantifier", *WORDS, "truth", "fact", "equal", "near")
        ):
            yield from atoms(part)


class Model:
    """A formula over the rows of tables, by definition."""

    def __init__(self, formula: Formula, rows: Rows, domain: str) -> None:
        self.formula = formula
        columns: dict[str, set[int]] = {atom[1]: set() for atom in atoms(formula) if atom[0] == "fact"}
        for atom in atoms(formula):
            if atom[0] == "fact":
                columns[atom[1]] |= {i for i, t in enumerate(atom[2]) if isinstance(t, str) and t != "_"}
        self.facts = {t: [r for r in rows[t] if all(r[i] is not None for i in found)] for t, found in columns.items()}
        elements = {row[i] for t, found in columns.items() for row in self.facts[t] for i in found}
        if domain == "schema":
            for name in TABLES.keys() - columns.keys():
                places = [i for i, kind in enumerate(TABLES[name]) if kind == "e"]
                elements |= {row[i] for row in rows[name] for i in places} - {None}
        self.elements = sorted(elements)
        self.neighbours: dict[int, set[int]] = {a: set() for a in elements}
        for name, found in columns.items():
            for row in self.facts[name]:
                for a, b in product((row[i] for i in found), repeat=2):
                    self.neighbours[a] |= {b} - {a}

    @property
    def degree(self) -> int:
        return max(map(len, self.neighbours.values()), default=0)

    def answers(self, head: Sequence[str]) -> set[Row]:
        every = product(self.elements, repeat=len(head))
        return {row for row in every if self.holds(self.formula, dict(zip(head, row, strict=True)))}

    def holds(self, formula: Formula, at: dict[str, int]) -> bool:
        def value(term: Any) -> Any:
            return at[term] if isinstance(term, str) else term[1] if isinstance(term, tuple) else term

        match formula:
            case "truth", found:
                return bool(found)
            case "fact", name, terms:
                wanted = [(i, value(t)) for i, t in enumerate(terms) if t != "_"]
                return any(all(row[i] == v for i, v in wanted) for row in self.facts[name])
            case "equal", left, right:
                return bool(value(left) == value(right))
            case "near", left, right, bound:
                reached = {at[left]}
                for _ in range(bound):
                    reached |= {b for a in reached for b in self.neighbours[a]}
                return at[right] in reached
            case "not", body:
                return not self.holds(body, at)
            case "quantifier", asked, variable, body:
                found = sum(self.holds(body, {**at, variable: a}) for a in self.elements)
                return self.is_met(asked, found)
        word, *parts = formula
        left, right = (self.holds(part, at) for part in parts)
        return {"and": left and right, "or": left or right, "implies": not left or right, "iff": left == right}[word]

    def is_met(self, asked: tuple[Any, ...], witnesses: int) -> bool:
        match asked:
            case ("exists",):
                return witnesses > 0
            case ("forall",):
                return witnesses == len(self.elements)
            case "mod", residue, modulus:
                return bool(witnesses % modulus == residue)
        sign, number = asked
        return bool({">=": witnesses >= number, "<=": witnesses <= number, "=": witnesses == number}[sign])


def a_row(random: Random, name: str, elements: Sequence[int]) -> Row:
    return tuple(
        (None if random.random() < 0.06 else random.choice(elements))
        if kind == "e"
        else (None if random.random() < 0.1 else random.choice(TEXTS))
        for kind in TABLES[name]
    )


def changed(random: Random, rows: Rows, elements: Sequence[int]) -> tuple[Rows, list[tuple[bool, str, Row]]]:
    """The rows after some changes, and the changes: whether a row comes, of which table, and the row."""
    rows = {name: Counter(found) for name, found in rows.items()}
    done = []
    for _ in range(random.choice([1, 1, 2, 4, 8])):
        name = random.choice(tuple(TABLES))
        comes = not rows[name] or random.random() < 0.65
        row = a_row(random, name, elements) if comes else random.choice(sorted(rows[name], key=repr))
        rows[name][row] += 1 if comes else -1
        rows[name] = +rows[name]
        done.append((comes, name, row))
    return rows, done


@pytest.mark.parametrize("seed", range(scaled(12)))
def test_formulas_as_they_are_written(seed: int, tmp_path: Path) -> None:
    random = Random(f"texts {seed}")
    degree = random.choice([2, 3])
    elements = list(range(1, 8)) if random.random() < 0.7 else list(range(-4, 3))
    late = random.choice(["Z", "M", "R"]) if random.random() < 0.3 else None
    rows: Rows = {name: Counter() for name in TABLES}
    db = ev.Database()
    for name in TABLES.keys() - {late}:
        create(db, name)
    views: dict[str, tuple[list[str], Formula, str, str]] = {}
    while len(views) < 3:
        head = list("xyz")[: random.choice([0, 1, 1, 1, 2, 2, 2, 3])]
        writer = Writer(random, [*elements, 99])
        formula = writer.formula(head, random.choice([1, 2, 2, 3] if len(head) < 3 else [0, 1]))
        read = {atom[1] for atom in atoms(formula) if atom[0] == "fact"}
        if late in read or not read:
            continue
        domain, name = random.choice(["schema", "query"]), f"q{len(views)}"
        text = f"{name}({', '.join(head)}) := {writer.text(formula)}"
        try:
            db.formula(text, degree=degree, domain=domain)  # type: ignore[arg-type]
        except FormulaLimitError:
            continue
        views[name] = head, formula, domain, text
    if late is not None:
        create(db, late)
    told = {name for name, (head, *_) in views.items() if len(head) < 3 and random.random() < 0.7}
    feeds = {name: db.view(name).changes(per_update=random.random() < 0.3) for name in told}
    seen = {name: Counter(db.view(name)) for name in told}
    for step in range(6):
        after, done = changed(random, rows, elements)
        try:
            with db.batch() as batch:
                for comes, table, row in done:
                    (batch.insert if comes else batch.delete)(table, [row])
        except DegreeExceeded:
            assert any(Model(f, after, d).degree > degree for _, f, d, _ in views.values())
        else:
            rows = after
        for name, (head, formula, domain, text) in views.items():
            view, right = db.view(name), Model(formula, rows, domain).answers(head)
            found = list(view)
            assert set(found) == right, (text, domain, rows)
            assert len(found) == len(right)
            for row in random.sample([*product([*elements, 99], repeat=len(head))], min(9, 8 ** len(head))):
                assert (row in view) == (row in right), (text, domain, row, rows)
            if len(head) < 3:
                assert view.count() == len(right)
            if name in feeds:
                seen[name].update(changes(feeds[name]))
                assert +seen[name] == Counter(right), (text, domain, rows)
            for length in range(1, len(head) + 1):
                start = tuple(random.choices(elements, k=length))
                looked_up = view.lookup(**dict(zip(head, start, strict=False))).to_pylist()
                assert {tuple(r.values()) for r in looked_up} == {r for r in right if r[:length] == start}
        if step == 3:
            db.save(tmp_path / "saved.db")
            db = ev.Database.load(tmp_path / "saved.db", verify=random.random() < 0.5)
            feeds = {name: db.view(name).changes() for name in told}


def create(db: ev.Database, name: str) -> None:
    columns = ", ".join(f"c{i} {'BIGINT' if kind == 'e' else 'STRING'}" for i, kind in enumerate(TABLES[name]))
    db.sql(f"CREATE TABLE {name} ({columns})")
