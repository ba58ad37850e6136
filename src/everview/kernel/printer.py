"""Programs as text, as SQLite's EXPLAIN shows its opcodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from everview.kernel.cursors import Ask, Buckets, Concat, Guard, Member, Node, Part, Union
from everview.kernel.program import (
    Add,
    Before,
    Call,
    Compute,
    Count,
    Cursor,
    Each,
    Emit,
    Find,
    Function,
    GetLevel,
    If,
    InOrder,
    Insert,
    Instruction,
    Math,
    Operand,
    Order,
    Output,
    Procedure,
    Program,
    Rank,
    Remove,
    Scan,
    Select,
    SetLevel,
    Silent,
    Size,
    Step,
    Store,
    Table,
    Test,
)

_SYMBOLS = {
    Math.ADD: "+",
    Math.SUBTRACT: "-",
    Math.MULTIPLY: "*",
    Math.DIVIDE: "//",
    Math.REMAINDER: "%",
    Math.ROOT: "root",
    Math.FLOAT_ADD: "+.",
    Math.FLOAT_SUBTRACT: "-.",
    Math.FLOAT_MULTIPLY: "*.",
    Math.FLOAT_DIVIDE: "/.",
    Math.FLOAT_SCALE: "copies of.",
}
_TESTS = {Test.EQUAL: "=", Test.NOT_EQUAL: "≠", Test.LESS: "<", Test.AT_MOST: "≤"}


def show_program(program: Program) -> str:
    """The whole program: tables, channels, procedures, cursors."""
    lines = [_table(t) for t in program.tables]
    lines += [f"channel {name}: {width} words" for name, width in program.channels]
    for procedure in program.procedures:
        lines += ["", *_procedure(procedure)]
    for cursor in program.cursors:
        lines += ["", *_cursor(cursor)]
    for function in program.functions:
        lines += ["", *_function(function)]
    return "\n".join(lines)


def _table(table: Table) -> str:
    parts = [f"index {i} on ({', '.join(table.key[c] for c in cs)})" for i, cs in enumerate(table.indexes)]
    parts += [_order(i, order, table) for i, order in enumerate(table.orders)]
    parts += [f"{table.levels} levels"] if table.levels > 1 else []
    widths = [f":{table.width(c)}" if table.width(c) > 1 else "" for c in range(len(table.values))]
    values = " → " + ", ".join(map("".join, zip(table.values, widths, strict=True))) if table.values else ""
    return "; ".join([f"table {table.name}({', '.join(table.key)}){values}", *parts])


def _order(number: int, order: Order, table: Table) -> str:
    measure = f", ranks by {table.values[order.measure]}" if order.measure is not None else ""
    columns = []
    for c in order.columns:
        how = f"{' by value' if c in order.by_value else ''}{' descending' if c in order.descending else ''}"
        columns.append(f"{table.key[c]}{how}")
    return f"order {number} by ({', '.join(columns)}){measure}"


def _procedure(procedure: Procedure) -> Iterator[str]:
    yield f"procedure {procedure.name}({', '.join(map(str, procedure.parameters))})"
    yield from _block(procedure.body, 1)


def _function(function: Function) -> Iterator[str]:
    yield f"function {function.name}({', '.join(map(str, function.parameters))})"
    yield from _block(function.body, 1)
    yield f"  give {', '.join(map(str, function.results))}"


def _cursor(cursor: Cursor) -> Iterator[str]:
    yield f"cursor {cursor.name}({', '.join(map(str, cursor.parameters))})"
    yield from _product(cursor.steps, f"row {_key(cursor.outputs)}", 1)


def _product(steps: Iterable[Node], row: str, depth: int) -> Iterator[str]:
    """Steps, each within those before it, and what is done with a row."""
    for step in steps:
        yield from _node(step, "  " * depth, depth)
        depth += 1
    yield "  " * depth + row


def _node(node: Node, indent: str, depth: int) -> Iterator[str]:
    match node:
        case Step() | InOrder():
            yield f"{indent}for {node.row} in {_step(node)}"
        case Guard():
            yield f"{indent}if {node.left} {_TESTS[node.test]} {node.right}"
        case Ask():
            yield f"{indent}{_key(node.targets)} ← {node.question}"
        case Concat():
            yield f"{indent}for {_key(node.words)} in all of"
            for part in node.parts:
                yield from _part("part", part, depth)
        case Union():
            yield f"{indent}for {_key(node.words)} once in any of"
            for member in node.members:
                yield from _part(f"member if {member.test}", member, depth)
        case Buckets():
            yield f"{indent}for {_key(node.words)} once in any of"
            head = f"bucket of each {node.each.row} in {_step(node.each)} if {node.bucket.test}"
            yield from _part(head, node.bucket, depth)


def _part(head: str, part: Part | Member, depth: int) -> Iterator[str]:
    yield "  " * (depth + 1) + head
    yield from _product(part.steps, f"give {_key(part.outputs)}", depth + 2)


def _step(step: Step | InOrder) -> str:
    if isinstance(step, Step):
        return _group(step)
    direction = "down" if step.descending else "up"
    return f"{_range(step.table, step.order, step.key)} {direction} from {step.start}"


def _block(body: Iterable[Instruction], depth: int) -> Iterator[str]:
    for instruction in body:
        yield from _instruction(instruction, "  " * depth, depth)


def _instruction(i: Instruction, indent: str, depth: int) -> Iterator[str]:
    match i:
        case Compute():
            yield f"{indent}{i.target} ← {i.left} {_SYMBOLS[i.operation]} {i.right}"
        case Find():
            yield f"{indent}find {i.row} in {i.table}[{_key(i.key)}]"
            yield from _branches(indent, depth, ("found", i.found), ("missing", i.missing))
        case Insert():
            yield f"{indent}insert {i.row} into {i.table}[{_key(i.key)}]"
        case Remove():
            yield f"{indent}remove {i.row} from {i.table}"
        case Store():
            yield f"{indent}{i.row}.v{i.column} ← {i.source}"
        case SetLevel():
            yield f"{indent}level {i.row} ← {i.level}"
        case GetLevel():
            yield f"{indent}{i.target} ← level {i.row}"
        case Count():
            yield f"{indent}{i.target} ← count {_group(i)}"
        case If():
            yield f"{indent}if {i.left} {_TESTS[i.test]} {i.right}"
            yield from _branches(indent, depth, ("then", i.then), ("else", i.otherwise))
        case Each() | Scan():
            word = "each" if isinstance(i, Each) else "scan"
            yield f"{indent}{word} {i.row} in {_group(i)}"
            yield from _block(i.body, depth + 1)
        case Emit():
            yield f"{indent}emit {i.channel}: {', '.join(map(str, i.outputs))}"
        case Call():
            yield f"{indent}call {i.procedure}({', '.join(map(str, i.arguments))})"
        case Select():
            yield f"{indent}select {i.row} at {i.rank} in {_range(i.table, i.order, i.key)}"
            yield from _branches(indent, depth, ("found", i.found), ("missing", i.missing))
        case Rank():
            yield f"{indent}{i.target} ← rank {i.row} in {i.table} order {i.order} by {i.width}"
        case Size():
            yield f"{indent}{i.target} ← size {_range(i.table, i.order, i.key)}"
        case Before():
            yield f"{indent}{i.target} ← before {_range(i.table, i.order, i.key)} by {i.width}"
        case Add():
            stays = " to stay" if i.vanished is None else ""
            yield f"{indent}add {i.row} in {i.table}[{_key(i.key)}] += {_key(i.changes)}{stays}"
            branches = (("appeared", i.appeared), ("vanished", i.vanished or ()), ("else", i.otherwise))
            yield from _branches(indent, depth, *branches)
        case Silent():
            yield f"{indent}silently"
            yield from _block(i.body, depth + 1)


def _branches(indent: str, depth: int, *branches: tuple[str, tuple[Instruction, ...]]) -> Iterator[str]:
    for word, body in branches:
        if body:
            yield f"{indent}{word}"
            yield from _block(body, depth + 1)


def _key(key: Iterable[Output]) -> str:
    return ", ".join(map(str, key))


def _range(table: str, order: int, key: Iterable[Operand]) -> str:
    return f"{table} order {order}[{_key(key)}]"


def _group(group: Count | Each | Scan | Step) -> str:
    levels = f" level ≥ {group.level}" if group.level else ""
    if group.highest is not None:
        levels = f" levels {group.level} to {group.highest}"
    return f"{group.table}.{group.index}[{_key(group.key)}]{levels}"
