"""Draws docs/images/one-update.svg: the way of one update through the floors (docs/architecture.md)."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final, NamedTuple


class Step(NamedTuple):
    """A box of the picture: which floor it is on, what happens there, where the code is, and what goes on from it."""

    floor: str
    title: str
    lines: tuple[str, ...]
    modules: tuple[str, ...]
    passes: str


STEPS: Final = (
    Step(
        "engine",
        'db.insert("follows", [(2, 3)])',
        ("The public call. It is one batch, and has the database for itself.",),
        ("engine/database.py", "engine/batch.py"),
        "rows of Python, pandas, Arrow …",
    ),
    Step(
        "engine",
        "read and check",
        (
            "Types, NULLs and CHECKs, before the batch begins. Strings and long",
            "decimals get a number in the value table.",
        ),
        ("engine/input/read.py", "engine/values/words.py", "engine/values/dictionary.py"),
        "columns of 64-bit words, and a weight: +1 comes, −1 goes",
    ),
    Step(
        "engine",
        "run the batch",
        ("The one place in which that happens. What follows is taken back, all", "of it, if anything in it fails."),
        ("engine/transaction.py", "engine/values/rows.py"),
        "changes of one table, in order",
    ),
    Step(
        "kernel",
        "the base table",
        ("Copies are counted, keys looked at: a row that is not there cannot go.",),
        ("engine/base_table.py", "programs/base_table.py"),
        "the same changes, to each view that reads the table, views over views last",
    ),
    Step(
        "engine",
        "into the view",
        (
            "Its stages in turn. Conditions on one table and computed columns, by",
            "Arrow or DuckDB; rows on which one fails are parked.",
        ),
        (
            "engine/view_runtime.py",
            "engine/operators/join.py",
            "engine/expressions/evaluate.py",
            "engine/expressions/parked.py",
        ),
        "arguments of a procedure of the program",
    ),
    Step(
        "kernel",
        "the program",
        (
            "What the strategy has written when the view was defined: it finds, adds",
            "and removes rows of its tables, in C++, and emits the delta.",
        ),
        ("strategies/crown/compile.py", "kernel/machine.py", "kernel/cpp/run/machine.h"),
        "delta of the core: rows with weights, one update after the other",
    ),
    Step(
        "engine",
        "behind the join",
        (
            "Outputs and conditions across tables; groups and aggregates; DISTINCT;",
            "UNION, EXCEPT, INTERSECT. Each keeps what it needs in small programs.",
        ),
        (
            "engine/operators/select.py",
            "engine/operators/group_by.py",
            "engine/operators/set_operations.py",
            "engine/operators/counts.py",
        ),
        "delta of the view — and on to the views that read it",
    ),
    Step(
        "engine",
        "judge the end",
        (
            "A row still parked, a sum beyond its type: the batch is refused, and",
            "nothing has changed. Else it has a version.",
        ),
        ("engine/transaction.py", "engine/expressions/parked.py"),
        "deltas of views that have a feed",
    ),
    Step(
        "engine",
        "tell the feeds",
        ("Net per batch, or each update's own; old and new row of a group side", "by side. Words become values again."),
        ("engine/change_feed.py", "engine/operators/netting.py"),
        "",
    ),
)
END: Final = "Arrow record batches: columns, _change_type, _commit_version, _count"

_SOURCE: Final = Path(__file__).resolve().parent.parent / "src" / "everview"
_WIDTH, _LEFT, _BOX, _MODULES = 904, 24, 600, 650
_LINE, _GAP = 19, 34
_STYLE: Final = (
    "text{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1f2933}"
    ".title{font-weight:700}.head{font-weight:700;font-size:15px}.small{font-size:11.5px;fill:#52606d}"
    ".engine{fill:#e6f0ff;stroke:#2f6fde}.kernel{fill:#fff7e0;stroke:#c98a00}.link{stroke:#7b8794;fill:none}"
    ".tip{fill:#7b8794}"
)


def draw() -> str:
    """The picture as SVG; raises if a module that it names is not there."""
    missing = [name for step in STEPS for name in step.modules if not (_SOURCE / name).is_file()]
    if missing:
        raise FileNotFoundError(f"the picture of an update names what is not there: {', '.join(missing)}")
    drawn: list[str] = []
    y = 92.0
    for step in STEPS:
        height = 2 * 10 + _LINE * (1 + max(len(step.lines), len(step.modules) - 1))
        drawn.append(
            f'<rect class="{step.floor}" x="{_LEFT}" y="{y}" width="{_BOX}" height="{height}" rx="6"/>'
            + _text(_LEFT + 14, y + 24, step.title, "title")
        )
        drawn += [_text(_LEFT + 14, y + 24 + _LINE * (i + 1), line, "") for i, line in enumerate(step.lines)]
        drawn += [_text(_MODULES, y + 24 + _LINE * i, name, "small") for i, name in enumerate(step.modules)]
        y += height
        middle, passes = _LEFT + 40, step.passes or END
        drawn.append(
            f'<path class="link" d="M{middle} {y}V{y + _GAP - 6}"/>'
            f'<path class="tip" d="M{middle - 4} {y + _GAP - 8}h8l-4 8z"/>'
            + _text(middle + 14, y + 21, passes, "small")
        )
        y += _GAP
    height = y + 16
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="the way of one update">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
            _text(_LEFT, 38, "The way of one update", "head"),
            _text(_LEFT, 60, "blue: Python, whole columns at a time · yellow: the kernel, row by row, in C++", "small"),
            _text(_MODULES, 60, "where it is, in src/everview", "small"),
            *drawn,
            "</svg>",
        ]
    )


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(text)}</text>'
