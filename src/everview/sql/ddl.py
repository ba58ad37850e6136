"""CREATE TABLE: columns, keys, foreign keys, and CHECK (column IN (…)) as a small domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from everview.errors import OptionError, SchemaError
from everview.query.schema import Column, Enforcement, ForeignKey, Schema, SmallDomain, Table, Updates
from everview.query.terms import Const
from everview.query.types import DataType, Kind
from everview.sql.datatypes import read_type, refuse_collation, same_word
from everview.sql.dialect import CHECK_OPTIONS
from everview.sql.literals import constant, is_string_literal, literal_type, parse_string
from everview.sql.sql_text import SqlText


@dataclass
class _Draft:
    """A table in the making, with the places of its constraints for errors that are found later."""

    name: str
    columns: list[Column] = field(default_factory=list)
    primary_key: tuple[str, ...] = ()
    key_enforcement: Enforcement = Enforcement.ENFORCED
    checks: list[exp.CheckColumnConstraint] = field(default_factory=list)
    places: dict[str, exp.Expr] = field(default_factory=dict)


@dataclass(frozen=True)
class References:
    """A table's foreign keys with their places: they can only be checked once all tables are read."""

    table: str
    keys: tuple[tuple[ForeignKey, exp.Expr], ...]


def create_table(source: SqlText, statement: exp.Expr, schema: Schema) -> tuple[Table, References]:
    """The table that a CREATE TABLE statement makes."""
    target = statement.this
    if statement.args.get("expression"):
        raise source.unsupported(
            "CREATE TABLE AS SELECT",
            source.keyword(statement.expression, "AS"),
            message="CREATE TABLE AS SELECT is not supported",
            hint="use CREATE MATERIALIZED VIEW … AS SELECT …",
        )
    if not isinstance(target, exp.Schema):
        raise source.schema("CREATE TABLE needs a list of columns", target, hint="CREATE TABLE t (a INT, b STRING)")
    draft = _Draft(".".join(p.name for p in target.this.parts))
    if draft.name in schema:
        raise source.schema(
            f"there is a table {draft.name} already",
            target.this,
            hint="choose another name, or write CREATE TABLE IF NOT EXISTS",
        )
    keys: list[tuple[ForeignKey, exp.Expr]] = []
    for part in target.expressions:
        if isinstance(part, exp.ColumnDef):
            _column(source, draft, part, keys)
        else:
            _constraint(source, draft, part, keys)
    if not draft.columns:
        raise source.schema(f"table {draft.name} has no columns", target.this, hint="give it at least one")
    key = {c.lower() for c in draft.primary_key}
    columns = tuple(replace(c, nullable=c.nullable and c.name.lower() not in key) for c in draft.columns)
    domains = tuple(_domain(source, draft, columns, check) for check in draft.checks)
    try:
        foreign = tuple(k for k, _ in keys)
        updates = _updates(source, statement)
        table = Table(draft.name, columns, draft.primary_key, foreign, domains, draft.key_enforcement, updates)
    except SchemaError as error:
        raise error.located(source.position(target), source.text) from None
    return table, References(draft.name, tuple(keys))


def table_text(table: Table) -> str:
    """The CREATE TABLE statement of a table."""
    parts = [f"{_quoted([c.name])} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in table.columns]
    if table.primary_key:
        parts.append(f"PRIMARY KEY ({_quoted(table.primary_key)}){_enforced(table.key_enforcement)}")
    for key in table.foreign_keys:
        target = f"{qualified(key.target)} ({_quoted(key.target_columns)})"
        parts.append(f"FOREIGN KEY ({_quoted(key.columns)}) REFERENCES {target}{_enforced(key.enforcement)}")
    for domain in table.small_domains:
        listed = ", ".join(map(str, domain.values))
        parts.append(f"CHECK ({_quoted([domain.column])} IN ({listed})){_enforced(domain.enforcement)}")
    options = options_text(None if table.updates is Updates.ANY else table.updates.value)
    return f"CREATE TABLE {qualified(table.name)} ({', '.join(parts)}){options}"


def options_text(updates: str | None) -> str:
    """The clause that says how a table may change; nothing if in any way."""
    return "" if updates is None else f" OPTIONS (updates = '{updates}')"


def _updates(source: SqlText, statement: exp.Expr) -> Updates:
    """How the table may change, as OPTIONS (updates = …) says."""
    properties = statement.args.get("properties")
    clauses = [p for p in (properties.expressions if properties else ()) if isinstance(p, exp.OptionsProperty)]
    found = Updates.ANY
    names = [u.value for u in Updates]
    listed = "', '".join(names)
    for entry in (e for clause in clauses for e in clause.expressions):
        if entry.this.name.lower() != "updates":
            raise OptionError(
                f"a table has no option {entry.this.name}", option=entry.this.name, hint="it has one: updates"
            ).located(source.position(entry.this), source.text)
        value = entry.args["value"]
        if not (isinstance(value, exp.Literal) and value.is_string and value.name.lower() in names):
            raise OptionError(
                f"option updates is {value.sql()}", option="updates", hint=f"it is one of '{listed}'"
            ).located(source.position(value), source.text)
        found = Updates(value.name.lower())
    return found


def _enforced(enforcement: Enforcement) -> str:
    return f" {enforcement.value}" if enforcement.value else ""


def _quoted(names: Sequence[str]) -> str:
    return ", ".join("`" + name.replace("`", "``") + "`" for name in names)


def qualified(name: str) -> str:
    """A table's or view's name with each of its parts in quotes."""
    return ".".join(_quoted([part]) for part in name.split("."))


def _column(source: SqlText, draft: _Draft, node: exp.ColumnDef, keys: list[tuple[ForeignKey, exp.Expr]]) -> None:
    name, kind = node.name, node.args.get("kind")
    if kind is None:
        raise source.schema(f"column {name} has no type", node, hint=f"write {name} INT, or another type")
    if name.lower() in draft.places:
        raise source.schema(f"table {draft.name} has two columns named {name}", node, hint="rename one of them")
    draft.places[name.lower()] = node
    type_ = read_type(kind, source)
    if type_.kind is Kind.INTERVAL:
        raise source.unsupported(
            "INTERVAL type",
            node,
            message=f"column {name} is an INTERVAL, which no table can hold",
            hint="use INTERVAL DAY TO SECOND, or a part of it; a number of months is an INT",
        )
    nullable = True
    for constraint in node.args.get("constraints") or ():
        inner = constraint.kind
        if isinstance(inner, exp.NotNullColumnConstraint):
            nullable = bool(inner.args.get("allow_null"))
        elif isinstance(inner, exp.PrimaryKeyColumnConstraint):
            _primary_key(source, draft, [name], node, _enforcement(source, inner.args.get("options"), node))
        elif isinstance(inner, exp.Reference):
            keys.append((_reference(source, [name], inner, node), node))
        elif isinstance(inner, exp.CheckColumnConstraint):
            draft.checks.append(inner)
        elif isinstance(inner, exp.CollateColumnConstraint):
            refuse_collation(inner.this, source, node, f"column {name}")
        elif not isinstance(inner, exp.CommentColumnConstraint):
            word = type(inner).__name__.replace("ColumnConstraint", "").upper()
            raise source.unsupported(
                f"{word} constraint", node, hint="NOT NULL, PRIMARY KEY, REFERENCES and CHECK work"
            )
    draft.columns.append(Column(name, type_, nullable))


def _constraint(source: SqlText, draft: _Draft, node: exp.Expr, keys: list[tuple[ForeignKey, exp.Expr]]) -> None:
    if isinstance(node, exp.Constraint):
        for inner in node.expressions:
            _constraint(source, draft, inner, keys)
    elif isinstance(node, exp.PrimaryKey):
        names = [(e.this if isinstance(e, exp.Ordered) else e) for e in node.expressions]
        for name in names:
            _known(source, draft, name)
        enforcement = _enforcement(source, node.args.get("options"), node)
        _primary_key(source, draft, [n.name for n in names], node, enforcement)
    elif isinstance(node, exp.ForeignKey):
        for name in node.expressions:
            _known(source, draft, name)
        reference = node.args.get("reference")
        if reference is None:
            raise source.schema("a foreign key needs REFERENCES", node, hint="FOREIGN KEY (a) REFERENCES t (b)")
        keys.append((_reference(source, [e.name for e in node.expressions], reference, node), node))
    elif isinstance(node, exp.CheckColumnConstraint):
        draft.checks.append(node)
    elif isinstance(node, exp.Identifier | exp.Column):
        raise source.schema(f"column {node.name} has no type", node, hint=f"write {node.name} INT, or another type")
    else:
        word = type(node).__name__.replace("ColumnConstraint", "").upper()
        raise source.unsupported(f"{word} constraint", node, hint="PRIMARY KEY, FOREIGN KEY and CHECK work")


def _known(source: SqlText, draft: _Draft, name: exp.Expr) -> None:
    if name.name.lower() not in draft.places:
        raise source.schema(
            f"a constraint of table {draft.name} names column {name.name}, which the table does not have",
            name,
            hint=f"its columns are {', '.join(c.name for c in draft.columns)}",
        )


def _primary_key(source: SqlText, draft: _Draft, names: list[str], where: exp.Expr, enforcement: Enforcement) -> None:
    if draft.primary_key:
        raise source.schema(
            f"table {draft.name} has two primary keys",
            where,
            hint="for a key of several columns write PRIMARY KEY (a, b) once, after the columns",
        )
    if len({n.lower() for n in names}) != len(names):
        raise source.schema("the primary key names a column twice", where)
    draft.primary_key, draft.key_enforcement = tuple(names), enforcement


def _enforcement(source: SqlText, options: Sequence[str] | None, where: exp.Expr) -> Enforcement:
    """What the words behind a constraint say; those that would have to change other rows are refused."""
    words = [" ".join(o.upper().split()) for o in options or ()]
    for word in words:
        if word.startswith("ON ") and not word.endswith((" NO ACTION", " RESTRICT")):
            raise source.unsupported(
                word,
                where,
                message=f"{word} is not supported: a foreign key refuses batches, and changes no rows by itself",
                hint="leave it out, and change the rows that point at others in the same batch",
            )
    if "NOT ENFORCED" in words:
        return Enforcement.RELIED_ON if "RELY" in words else Enforcement.IGNORED
    return Enforcement.ENFORCED


def _reference(source: SqlText, columns: list[str], reference: exp.Expr, where: exp.Expr) -> ForeignKey:
    options = list(reference.args.get("options") or ())
    if isinstance(where, exp.ForeignKey):
        options += where.args.get("options") or ()
        options += [f"ON {word.upper()} {where.args[word]}" for word in ("delete", "update") if where.args.get(word)]
    enforcement = _enforcement(source, options, where)
    target = reference.this
    named = target.expressions if isinstance(target, exp.Schema) else []
    table = target.this if isinstance(target, exp.Schema) else target
    return ForeignKey(tuple(columns), ".".join(p.name for p in table.parts), tuple(e.name for e in named), enforcement)


def _domain(source: SqlText, draft: _Draft, columns: tuple[Column, ...], constraint: exp.Expr) -> SmallDomain:
    check = constraint.this
    node = check.unnest()
    if isinstance(node, exp.EQ):
        node = exp.In(this=node.this, expressions=[node.expression])
    column = node.this.unnest() if isinstance(node, exp.In) else None
    if not isinstance(node, exp.In) or not node.expressions or not isinstance(column, exp.Column):
        raise source.unsupported(
            "CHECK",
            source.keyword(check, "CHECK"),
            message="only CHECK (column IN (value, …)) is supported",
            hint="drop the CHECK: Everview does not need it",
        )
    found = next((c for c in columns if c.name.lower() == column.name.lower()), None)
    if found is None:
        _known(source, draft, column)
        raise AssertionError
    enforcement = _enforcement(source, constraint.meta.get(CHECK_OPTIONS), check)
    return SmallDomain(found.name, tuple(_value(source, v, found) for v in node.expressions), enforcement)


def _value(source: SqlText, node: exp.Expr, column: Column) -> Const:
    value = constant(node, column.type)
    if value is None and is_string_literal(node):
        parsed = parse_string(node.name, column.type)
        value = Const(parsed) if parsed is not None else None
    if value is None:
        shown = literal_type(node)
        what = f"{node.sql()} ({shown})" if shown else node.sql()
        raise source.mismatch(f"{what} is not a value of column {column.name}, which is {column.type}", node)
    if column.type.padded and isinstance(value.value, str):
        return Const(value.value.ljust(column.type.length or 0))
    return value


def resolve_references(source: SqlText, schema: Schema, references: list[References]) -> Schema:
    """Fill in omitted target columns, and check that every foreign key points at a key that exists."""
    tables = list(schema.tables)
    for entry in references:
        if not entry.keys:
            continue
        index = next(i for i, t in enumerate(tables) if t.name == entry.table)
        complete = tuple(_complete(source, schema, tables[index], key, where) for key, where in entry.keys)
        tables[index] = replace(tables[index], foreign_keys=complete)
    return Schema(tuple(tables))


def _complete(source: SqlText, schema: Schema, table: Table, key: ForeignKey, where: exp.Expr) -> ForeignKey:
    target = schema.table(key.target)
    if target is not None and not key.target_columns:
        if not target.primary_key:
            raise source.schema(
                f"a foreign key points at {target.name}, which has no primary key", where, hint="declare PRIMARY KEY"
            )
        key = replace(key, target_columns=target.primary_key)
    try:
        others = (replace(t, foreign_keys=()) for t in schema.tables if t.name != table.name)
        Schema((*others, replace(table, foreign_keys=(key,)))).check_references()
    except SchemaError as error:
        raise error.located(source.position(where), source.text) from None
    if target is not None:
        _check_types(source, table, key, target, where)
    return key


def _check_types(source: SqlText, table: Table, key: ForeignKey, target: Table, where: exp.Expr) -> None:
    if len(key.columns) != len(key.target_columns):
        raise source.schema(
            f"the foreign key has {len(key.columns)} columns, and its target {len(key.target_columns)}", where
        )
    for mine, theirs in zip(key.columns, key.target_columns, strict=True):
        a, b = _type(table, mine), _type(target, theirs)
        alike = a == b if a.padded or b.padded or a.kind is Kind.DECIMAL else same_word(a, b)
        if not alike:
            raise source.schema(
                f"{table.name}.{mine} is {a}, and {target.name}.{theirs}, at which its foreign key points, is {b}",
                where,
                hint=f"declare {mine} as {b}",
            )


def _type(table: Table, column: str) -> DataType:
    return table.columns[table.positions([column])[0]].type
