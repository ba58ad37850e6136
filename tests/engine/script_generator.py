"""Random scripts: views, feeds, and batches of updates over random tables."""

from __future__ import annotations

import random

from tests.engine.case_data import Fallible, Row, Step, TableDef
from tests.engine.query_generator import Queries, Relation
from tests.engine.schema_generator import tables, value


class Script:
    """Makes the steps of a case."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.r = random.Random(seed)
        self.tables = tables(self.r)
        self.domain = self.r.choice((1, 2, 3, 5))
        self.inserted: dict[str, list[Row]] = {t.name: [] for t in self.tables}
        self.queries = Queries(self.r, [Relation(t.name, [(c.name, c.kind) for c in t.columns]) for t in self.tables])
        self.views: list[str] = []
        self.feeds = 0
        self.most = self.r.choice((4, 7, 12))
        self.queries.most = 3 if self.most == 12 else 4
        self.fails = seed % 3 == 1
        """Views have expressions that fail on some data, and batches pass through such states."""
        self.queries.risk = 0.25 if self.fails else 0.0

    def row(self, table: TableDef) -> Row:
        known = self.inserted[table.name]
        if known and not table.key and self.r.random() < 0.2:
            return self.r.choice(known)
        return tuple(value(self.r, c, i in table.key, self.domain) for i, c in enumerate(table.columns))

    def operation(self, style: str) -> tuple[str, str, tuple[Row, ...]]:
        r = self.r
        table = r.choice(self.tables)
        known = self.inserted[table.name]
        full = len(known) >= self.most
        if style == "insert" and not full:
            delete = False
        else:
            delete = bool(known) and (full or r.random() < (0.45 if style != "insert" else 1.0))
        if delete and style == "keys":
            delete = r.random() < 0.8
        if delete:
            count = r.randint(1, min(len(known), 4))
            rows = known[:count] if style == "fifo" else r.sample(known, count)
            for row in rows:
                known.remove(row)
            return "delete", table.name, tuple(rows)
        rows = [self.row(table) for _ in range(r.randint(1, max(2, self.most // 2)))]
        if table.key and r.random() < 0.5:
            gone = {tuple(row[i] for i in table.key) for row in rows}
            self.inserted[table.name] = [k for k in known if tuple(k[i] for i in table.key) not in gone]
            last = {tuple(row[i] for i in table.key): row for row in rows}
            self.inserted[table.name] += last.values()
            return "upsert", table.name, tuple(rows)
        known += rows
        return "insert", table.name, tuple(rows)

    def adversarial(self) -> list[tuple[str, str, tuple[Row, ...]]]:
        """The same rows in and out again, within one batch."""
        table = self.r.choice(self.tables)
        rows = tuple(self.row(table) for _ in range(self.r.randint(1, 3)))
        known = self.inserted[table.name]
        out = tuple(self.r.sample(known, min(len(known), 2)))
        return [
            ("insert", table.name, rows),
            ("delete", table.name, out),
            ("insert", table.name, out),
            ("delete", table.name, rows[:2]),
            ("insert", table.name, rows[:1]),
            ("delete", table.name, rows[2:]),
            ("delete", table.name, rows[:1]),
        ]

    def passing(self) -> list[tuple[str, str, tuple[Row, ...]]]:
        """Several operations over several tables: rows that come and go again, or go and come, and some that stay."""
        r = self.r
        lanes: list[list[tuple[str, str, tuple[Row, ...]]]] = []
        for table in r.sample(self.tables, r.randint(1, min(3, len(self.tables)))):
            known = self.inserted[table.name]
            for _ in range(r.randint(1, 2)):
                row = (self.row(table),)
                lanes.append([("insert", table.name, row), ("delete", table.name, row)])
            if known and r.random() < 0.6:
                out = (r.choice(known),)
                lanes.append([("delete", table.name, out), ("insert", table.name, out)])
            lanes.append([self.operation("random")])
        found = []
        while lanes:
            lane = r.choice(lanes)
            found.append(lane.pop(0))
            lanes = [rest for rest in lanes if rest]
        return found

    def bad(self) -> Step:
        r = self.r
        saved = {k: list(v) for k, v in self.inserted.items()}
        operations = [self.operation("random") for _ in range(r.randint(0, 2))]
        operations = [o for o in operations if o[0] != "upsert"]
        table = r.choice(self.tables)
        kind = r.choice(["over_delete", "duplicate_key", "type", "null", "overflow", "arity", "expression"])
        operations.append((kind, table.name, (self.row(table), self.row(table))))
        operations += [o for o in [self.operation("insert")] if o[0] == "insert"]
        self.inserted = saved
        return Step("bad", option=kind, operations=tuple(operations))

    def filled(self) -> Step:
        """Rows for every table at once, as many as there will be."""
        operations = []
        for table in self.tables:
            rows = tuple(self.row(table) for _ in range(self.r.randint(1, self.most)))
            self.inserted[table.name] += rows
            operations.append(("insert", table.name, rows))
        return Step("batch", operations=tuple(operations), option=self.r.choice(["plain", "apply"]))

    def view(self) -> Step:
        name = f"v{len(self.views)}"
        if self.r.random() < 0.06 and (found := self.queries.rules(name)):
            text, sql, head = found
            self.views.append(name)
            self.queries.relations.append(Relation(name, [(h, "n") for h in head]))
            return Step("rules", name, text, option=sql)
        self.queries.probes, self.queries.inputs = [], []
        text, kinds = self.queries.query()
        self.views.append(name)
        readable = [(f"c{i}", k) for i, k in enumerate(kinds) if k != "v"]
        if readable and self.r.random() < 0.6:
            self.queries.relations.append(Relation(name, readable))
        fallible = Fallible(tuple(self.queries.probes), tuple(self.queries.inputs)) if self.fails else None
        return Step("view", name, text, fallible=fallible)

    def steps(self) -> tuple[Step, ...]:
        r = self.r
        style = r.choice(["insert", "fifo", "random", "random", "keys"])
        found: list[Step] = []
        wanted = r.choices((1, 2, 3), (5, 3, 1))[0]
        late = r.random() < 0.4
        if not late:
            found += [self.view() for _ in range(wanted)]
        if r.random() < 0.75:
            found.append(self.filled())
        for _ in range(r.randint(2, 6)):
            roll = r.random()
            if late and len(self.views) < wanted and roll < 0.5:
                found.append(self.view())
            if self.views and r.random() < 0.35:
                self.feeds += 1
                option = r.choice(["net", "net", "per_update", "subscribe", "subscribe_per_update"])
                found.append(Step("feed", r.choice(self.views), option=option))
            if self.feeds and r.random() < 0.1:
                found.append(Step("close", option=str(r.randrange(self.feeds))))
            if r.random() < 0.12:
                found.append(self.bad())
            if r.random() < 0.12:
                operations = self.adversarial()
            elif self.fails and r.random() < 0.5:
                operations = self.passing()
            else:
                operations = [self.operation(style) for _ in range(r.choices((1, 2, 4), (4, 2, 1))[0])]
            found.append(Step("batch", operations=tuple(operations), option=r.choice(["plain", "plain", "apply"])))
        while len(self.views) < wanted:
            found.append(self.view())
        return tuple(found)
