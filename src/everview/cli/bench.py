"""``everview bench``: what a view costs on the user's own data."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from everview.cli.inputs import add_log_arguments, duration, positive, query_and_schema, table_files
from everview.errors import EverviewError

if TYPE_CHECKING:
    from everview.tools.bench import Measurement

OPTION = "--data"
WRONG = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_log_arguments(parser, OPTION)
    parser.add_argument(
        "--batch",
        action="append",
        type=positive,
        metavar="N",
        help="updates a batch; may be repeated; default: 1, 100 and 10000, as far as the data goes",
    )
    parser.add_argument(
        "--seconds", type=duration, default=10.0, metavar="S", help="at most so long for each batch size; default: 10"
    )


def run(options: argparse.Namespace, out: TextIO) -> int:
    """Run the command."""
    from everview.engine.explain import is_rules
    from everview.tools.bench import measure
    from everview.tools.replay import log_for, one_view

    query, schema = query_and_schema(options)
    if is_rules(query):
        raise EverviewError("the view is given by rules, and is compared with SQL", hint="give a SELECT")
    files = table_files(options.data, OPTION)
    db = one_view(query, schema)
    log = log_for(db, files, initial=options.initial, window=options.window)
    found = measure(db, query, log, sizes=options.batch, seconds=options.seconds)
    text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False) if options.json else "\n".join(_lines(found))
    out.write(f"{text}\n")
    return 0 if found.difference is None else WRONG


def _lines(found: Measurement) -> Iterator[str]:
    data = found.to_dict()
    yield f"view        {data['view']}, {data['class']}"
    yield f"verdict     {data['verdict']}"
    early = {name: updates.before(0) for name, updates in found.log.tables.items()}
    counts = (f"{len(t) - early[name]:,} of {name}" for name, t in found.log.tables.items() if len(t) > early[name])
    yield f"updates     {', '.join(counts)}"
    if any(early.values()):
        rows = ", ".join(f"{count:,} of {name}" for name, count in early.items() if count)
        yield f"            rows that were there before: {rows}"
    if found.log.windowed:
        yield "            rows come in their order under a sliding window: the data does not say which go"
    yield f"loaded      {found.loaded:,} updates in {found.load_seconds:.2f} s, then measured:"
    yield ""
    headings = ("batch", "updates", "µs/update", "steps", "changes", "mean", "p50", "p99")
    yield "".join(f"  {h:>{w}}" for h, w in zip(headings, (9, 9, 9, 7, 11, 9, 9, 9), strict=True))
    for r in found.runs:
        yield (
            f"  {r.size:>9,}  {r.updates:>9,}  {r.update_us:>9.1f}  {r.steps / r.updates:>7.1f}  {r.changes:>11,}"
            f"  {r.mean_ms:>6.2f} ms  {r.p50_ms:>6.2f} ms  {r.p99_ms:>6.2f} ms"
        )
    for r in found.runs:
        if r.size < r.asked:
            yield f"  batches of {r.asked:,} were to be measured, but only {r.size:,} updates were left for them"
    yield "  steps: the kernel's, for an update; mean, p50, p99: from a batch in to its changes out"
    yield ""
    memory = found.memory
    yield (
        f"memory      {memory.total / 1e6:.1f} MB for {memory.rows:,} rows in the tables, "
        f"{memory.per_row:.0f} bytes a row; the view's part is {memory.view / 1e6:.1f} MB"
    )
    yield f"recompute   {found.recompute_seconds * 1e3:.1f} ms for {found.result_rows:,} rows ({found.recomputed_by})"
    yield f"break-even  {_break_even(found)}"
    if isinstance(found.enclosureness, str):
        yield f"λ           not known: {found.enclosureness}"
    else:
        yield f"λ           {found.enclosureness.value:.2f}: {found.enclosureness.prediction}"
        for reason in found.enclosureness.left_out:
            yield f"            left out: {reason}"
    if found.difference is not None:
        yield f"result      WRONG: {found.difference}; please report it"
    elif found.compared:
        yield "result      equal to the query run afresh"
    else:
        yield "result      as many rows as the query run afresh; too many to compare"


def _break_even(found: Measurement) -> str:
    size, least, largest = found.break_even, min(r.size for r in found.runs), max(r.size for r in found.runs)
    if size == 1 == least:
        return "none: recomputing the view is quicker even than a batch of one update"
    guessed = ""
    if found.extrapolated:
        guessed = f" (extrapolated from batches of {largest if size > largest else least:,})"
    return f"batches of {size:,} updates{guessed}: below that, maintaining the view is quicker"
