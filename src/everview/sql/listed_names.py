"""Names of the SELECT list that stand for what stands before them in it: ``SELECT a + 1 AS b, b * 2 AS c``.

As in Spark a column of FROM comes first, and such a name before a column of a query around.
"""

from __future__ import annotations

from sqlglot import exp

from everview.sql.session import Rows


def spell_listed(rows: Rows, select: exp.Select, shown: list[str]) -> None:
    """Write out what these names stand for; ``shown`` is what the outputs are called as they are written."""
    known = {c.name.lower() for c in rows.scope.columns}
    named: dict[str, list[exp.Expr]] = {}
    listed: list[exp.Expr] = []
    for node, name in zip(list(select.expressions), shown, strict=True):
        found = exp.Paren(this=node.this.copy() if isinstance(node, exp.Alias) else node.copy())
        is_spelled = False
        for column in list(found.find_all(exp.Column)):
            meant = named.get(column.name.lower(), ())
            inside = column.find_ancestor(exp.Query) is not None
            if not meant or column.table or inside or column.name.lower() in known:
                continue
            if len(meant) > 1:
                raise rows.source.ambiguous(
                    f"{column.name} is ambiguous: {len(meant)} columns before it have the name",
                    column,
                    hint="give them distinct names",
                )
            column.replace(exp.Paren(this=meant[0].copy()))
            is_spelled = True
        if is_spelled:
            alias = exp.alias_(found.this, name, quoted=True)
            alias.meta.update(node.meta)
            node = alias
        listed.append(node)
        if isinstance(node, exp.Alias):
            named.setdefault(node.alias.lower(), []).append(node.this)
    select.set("expressions", listed)


def with_aliases(rows: Rows, condition: exp.Expr, projections: list[tuple[exp.Expr, str]]) -> exp.Expr:
    """QUALIFY with what aliases of the SELECT list stand for, where no column has the name."""
    named = {node.alias.lower(): node.this for node, _ in projections if isinstance(node, exp.Alias)}
    holder = exp.Paren(this=condition)
    for column in list(holder.find_all(exp.Column)):
        meant = named.get(column.name.lower()) if not column.table else None
        if meant is None:
            continue
        if rows.scope.find(column) is None:
            column.replace(exp.Paren(this=meant.copy()))
        else:
            of = next((c.alias for c in rows.scope.columns if c.name.lower() == column.name.lower()), "")
            rows.source.preferred.append((column, of))
    found: exp.Expr = holder.this
    return found
