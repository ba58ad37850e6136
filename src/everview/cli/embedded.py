"""``everview demo --embedded``: the verdict on views of several kinds, then some of them at work, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from textwrap import wrap
from typing import TextIO

from everview.cli.live import run_live
from everview.engine.explain import explain_all
from everview.errors import EverviewError
from everview.plan.explain import Explanation

WIDTH = 110
SHOWN_IN_FULL = "three_hops"
SCRIPTS = ("graph.sql", "shop.sql", "refused.sql")
SEQUENCES = {"any": "any updates", "fifo": "FIFO", "insert_only": "inserts", "keyed": "keyed"}
HEADINGS = ("view", "classes", "update", "delay", "space", "constant for")


def run_embedded(out: TextIO) -> int:
    """Explain the example views, one of them in full and all in a table, and then let three of them live."""
    out.write("Everview says what maintaining a view costs before there is any data, and then maintains it.\n")
    verdicts = list(_verdicts())
    rows: list[tuple[str, ...]] = []
    for number, (name, verdict) in enumerate(verdicts, start=1):
        out.write(f"\n{number}/{len(verdicts)} {name}\n")
        if isinstance(verdict, EverviewError):
            out.writelines(f"    {line}\n" for line in f"refused: {verdict}".splitlines())
            rows.append((name, f"refused: {getattr(verdict, 'construct', verdict.message)}", "", "", "", ""))
        else:
            out.writelines(f"    {line}\n" for line in _lines(verdict))
            rows.append(_row(name, verdict))
        out.flush()
    out.write("\nAll of them\n")
    out.writelines(f"{line}\n" for line in _table(rows))
    out.write(
        "\nN: rows stored; λ: enclosureness of the updates; Δ, Δ⁺, Δw: changed rows, at the output, before projection,"
    )
    out.write("\nin weight only; |Q|: rows of the result.\n")
    run_live(out)
    out.write("\nNext: everview explain --sql FILE, docs/engine.md, docs/explain.md\n")
    return 0


def example(name: str) -> str:
    """The text of one of the scripts that come with the package."""
    return files("everview.cli").joinpath("examples", name).read_text(encoding="utf-8")


def _verdicts() -> Iterator[tuple[str, Explanation | EverviewError]]:
    """Every view of the scripts, or the error of a script that is refused."""
    for script in SCRIPTS:
        try:
            for explanation in explain_all(example(script)):
                yield explanation.plan.view.name, explanation
        except EverviewError as error:
            yield script, error


def _lines(verdict: Explanation) -> Iterator[str]:
    if verdict.plan.view.name == SHOWN_IN_FULL:
        yield from str(verdict).splitlines()
        return
    text = str(verdict).splitlines()
    yield from _first(text, "verdict")
    for part in verdict.plan.parts:
        for core in part.cores:
            yield f"tree        {core.maintenance.summary}"
    for note in verdict.notes[:1]:
        yield from (f"{'note' if i == 0 else '':<12}{row}" for i, row in enumerate(wrap(note, WIDTH - 16)))


def _first(text: Sequence[str], name: str) -> Iterator[str]:
    """The entry of that name: its line and those that continue it."""
    start = next(i for i, line in enumerate(text) if line.startswith(name))
    yield text[start]
    for line in text[start + 1 :]:
        if not line.startswith("    "):
            return
        yield line


def _row(name: str, verdict: Explanation) -> tuple[str, ...]:
    bounds = verdict.plan.bounds
    kinds = verdict.plan.constant_update_for
    constant = SEQUENCES["any"] if "any" in kinds else ", ".join(SEQUENCES[k] for k in kinds) or "–"
    return name, verdict.best_class, bounds.update.short, bounds.delay.short, bounds.space.short, constant


def _table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    listed = [HEADINGS, *rows]
    widths = [max(len(row[i]) for row in listed) for i in range(len(HEADINGS))]
    for number, row in enumerate(listed):
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        if number == 0:
            yield "  ".join("─" * width for width in widths)
