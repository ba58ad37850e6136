"""Writes what is generated in README.md and docs/: run by ``make docs``; ``--check`` only says what is stale.

- In every Markdown file, a ```console block is run: what stands after each ``$ everview …`` line is what it prints.
- A ```python block that is followed by a ```text block is run, and the text is what it prints.
- With ``--demo``, the README's ``$ make demo`` block is written anew, its progress left out: that takes a minute.
- docs/workloads.md and the pictures in docs/images are written as a whole.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import update_picture

import everview as ev
from everview.cli.embedded import example
from everview.cli.main import main as everview_command
from everview.engine.explain import explain_all
from everview.plan.explain import Explanation
from everview.strategies.bounds import Bound

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS = ROOT / "benchmarks" / "workloads"
sys.path.insert(0, str(ROOT))  # for benchmarks.texts, which is no part of the package
CONSOLE = re.compile(r"(?m)^```console\n(.*?)^```$", re.DOTALL)
PYTHON = re.compile(r"(?m)^(```python\n((?:(?!```).)*)^```\n+```text\n).*?(^```)$", re.DOTALL)
DEMO = re.compile(r"(?m)^```shell-session\n\$ make demo\n(.*?)^```$", re.DOTALL)
PROGRESS = re.compile(r"(?m)^batch 0 .*?^all changes are read.*?\n", re.DOTALL)


def main() -> int:
    """Write, or with ``--check`` compare; returns 1 if something is stale."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if something is stale")
    parser.add_argument("--demo", action="store_true", help="run the demo on Spark, too, and write what it prints")
    options = parser.parse_args()
    check = options.check
    os.chdir(ROOT)
    if options.demo:
        readme = ROOT / "README.md"
        readme.write_text(
            with_demo(readme.read_text(encoding="utf-8"), run_command("$ everview demo")), encoding="utf-8"
        )
    stale = []
    for path, wanted in generated():
        known = path.read_text(encoding="utf-8") if path.is_file() else None
        if known == wanted:
            continue
        stale.append(path)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
    for path in stale:
        print(f"{'stale' if check else 'wrote'}: {path.relative_to(ROOT)}")
    if check and stale:
        print("run make docs")
    return 1 if check and stale else 0


def generated() -> Iterator[tuple[Path, str]]:
    """Every generated file with what it should hold."""
    docs = ROOT / "docs"
    yield docs / "workloads.md", workloads_page()
    for name, picture in PICTURES.items():
        yield docs / "images" / f"{name}.svg", picture() + "\n"
    for path in [ROOT / "README.md", *sorted(docs.rglob("*.md"))]:
        if path != docs / "workloads.md":
            yield path, refreshed(path.read_text(encoding="utf-8"))


# --- what examples print ---------------------------------------------------------------------------------------------


def refreshed(text: str) -> str:
    """A page with the output of its console and Python blocks brought up to date."""
    text = CONSOLE.sub(lambda m: f"```console\n{console(m[1])}```", text)
    return PYTHON.sub(lambda m: m[1] + python(m[2]) + m[3], text)


def console(block: str) -> str:
    """A console block with what its commands print; a command may go on in lines that begin with ``> ``."""
    done = ""
    for command in commands(block):
        done += command + run_command(command)
    return done


def commands(block: str) -> list[str]:
    """The command lines of a block, each with its continuation lines, output left out."""
    found: list[str] = []
    going_on = False
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append(line)
            going_on = True
        elif going_on and line.startswith("> "):
            found[-1] += line
        else:
            going_on = False
    return found


def run_command(command: str) -> str:
    """What ``$ everview …`` prints, standard error included."""
    words = shlex.split("\n".join(line[2:] for line in command.splitlines()).replace("\\\n", ""))
    if words[:1] != ["everview"]:
        raise ValueError(f"only everview can be run, not {command!r}")
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), suppress(SystemExit):
        everview_command(words[1:])
    return printed.getvalue()


def with_demo(page: str, printed: str) -> str:
    """A page whose demo block shows what the demo printed, but for its progress, which is never twice the same."""
    shown = PROGRESS.sub("…\n", printed).partition("\nNext: ")[0].rstrip("\n")
    return DEMO.sub(lambda _: f"```shell-session\n$ make demo\n{shown}\n```", page)


def python(code: str) -> str:
    """What a Python block prints."""
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "README", "exec"), {"__name__": "example"})
    return printed.getvalue()


# --- pictures --------------------------------------------------------------------------------------------------------


def _example_picture(script: str, view: str) -> Callable[[], str]:
    return lambda: next(e for e in explain_all(example(script)) if e.plan.view.name == view).to_svg()


def _workload_picture(folder: str, name: str) -> Callable[[], str]:
    def draw() -> str:
        text = (WORKLOADS / folder / f"{name}.sql").read_text(encoding="utf-8")
        view = f"CREATE MATERIALIZED VIEW {name.replace('-', '_')} AS {text}"
        return ev.explain(view, (WORKLOADS / folder / "schema.sql").read_text(encoding="utf-8")).to_svg()

    return draw


PICTURES: dict[str, Callable[[], str]] = {
    "three_hops": _example_picture("graph.sql", "three_hops"),
    "revenue_by_city": _example_picture("shop.sql", "revenue_by_city"),
    "buyers": _example_picture("shop.sql", "buyers"),
    "dumbbell": _workload_picture("crown", "dumbbell"),
    "one-update": update_picture.draw,
}

# --- workloads -------------------------------------------------------------------------------------------------------

TITLES = {
    "crown": "The queries of the CROWN paper",
    "tpch": "TPC-H",
    "chbench": "CH-benCHmark",
    "nexmark": "Nexmark",
    "finance": "The finance queries of DBToaster",
    "tpcds": "TPC-DS",
    "job": "The Join Order Benchmark",
}
WITH_TREES = ("crown", "tpch")
INTRODUCTIONS = {
    "crown": "A graph `g`, and the tables of the LDBC Social Network Benchmark. Filters keep a tenth of the values.",
    "tpch": "The 22 queries with the validation parameters, as written. ORDER BY without LIMIT is dropped with "
    "a remark.",
    "chbench": "The 22 analytical queries over the tables of TPC-C, as published.",
    "nexmark": "q0 to q22 over tables of persons, auctions and bids, without q12, which goes by processing time. "
    "q13 joins its side input as it is now, and q14 counts characters without a function of the user's.",
    "finance": "Over the open bids and asks of an order book.",
    "tpcds": "The 99 queries with DuckDB's parameters, in Spark's dialect. `make workloads` fetches the texts.",
    "job": "The 113 queries over the Internet Movie Database. `make workloads` fetches the texts.",
}
SEQUENCES = {"any": "any updates", "fifo": "FIFO", "insert_only": "inserts"}


def workloads_page() -> str:
    """docs/workloads.md."""
    lines = [
        "# Verdicts on known workloads",
        "",
        "Written by `make docs` from the files in `benchmarks/workloads`; `tests/test_workloads.py` holds the expected",
        "outcomes. *Classes* holds for every core of the view, and conditions across relations play no part in it.",
        "*Tree* shows each core's join tree; [x] is a generalized node, ⋈ a bag. *Constant for* lists what updates",
        "take constant (amortised) time. Bounds are explained in [explain.md](explain.md).",
        "",
        "Each query of the workloads but the first is kept equal to DuckDB after every batch, feeds included",
        "(`tests/engine/test_workloads.py`, `tests/engine/test_tpch.py`).",
    ]
    for folder, title in TITLES.items():
        lines += ["", f"## {title}", "", INTRODUCTIONS[folder], "", *workload_section(folder, title)]
    return "\n".join(lines) + "\n"


def workload_section(folder: str, title: str) -> list[str]:
    """What is said of a workload; where its texts have not been fetched, as it was."""
    from benchmarks.texts import has_texts, schema, texts

    if not has_texts(folder):
        page = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
        return page.partition(f"## {title}\n")[2].partition("\n## ")[0].rstrip("\n").split("\n")[3:]
    with_trees = folder in WITH_TREES
    rows = [workload_row(name, text, schema(folder), with_trees) for name, text in texts(folder).items()]
    planned = sum(len(row) > 3 for row in rows)
    columns = ["query", "classes", *(["tree", "height"] if with_trees else ["cores"])]
    columns += ["update", "delay", "space", "constant for"]
    return [
        f"{planned} of {len(rows)} rows are planned.",
        "",
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in _filled(row, len(columns))) + " |" for row in rows),
    ]


def _filled(row: list[str], size: int) -> list[str]:
    return row + [""] * (size - len(row))


def workload_row(name: str, text: str, schema: str, with_trees: bool) -> list[str]:
    """What is said of a query."""
    try:
        return _planned(name, ev.explain(text, schema), with_trees)
    except ev.errors.UnsupportedError as error:
        return _refused(name, error)


def _planned(name: str, verdict: Explanation, with_trees: bool) -> list[str]:
    plan = verdict.plan
    held = [k.replace("_", "-") for k, holds in verdict.classes.items() if holds]
    kinds = plan.constant_update_for
    constant = SEQUENCES["any"] if "any" in kinds else ", ".join(SEQUENCES[k] for k in kinds) or "–"
    shape = [str(len(plan.cores))]
    if with_trees:
        shape = ["; ".join(c.maintenance.summary for c in plan.cores), str(max(c.height for c in plan.cores))]
    costs = [_cost(plan.bounds.update), _cost(plan.bounds.delay), _cost(plan.bounds.space)]
    return [name, ", ".join(held) or "none", *shape, *costs, constant]


def _cost(bound: Bound) -> str:
    """The bound with the short words of its caveat."""
    known = ("amortised", "per derivation", "per candidate", "per group")
    return " ".join([bound.short, *(word for word in known if any(word in c for c in bound.caveats))])


def _refused(name: str, error: ev.errors.UnsupportedError) -> list[str]:
    return [name, f"refused: {error.construct}", f"{error.message} (at {error.position})"]


if __name__ == "__main__":
    sys.exit(main())
