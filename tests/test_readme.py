"""The examples of the README and the docs are run, and print what is said; docs/sql.md refuses what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import everview as ev

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SQL_PAGE = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
REFUSED = re.findall(r"(?m)^\| `([^`]+)` \| `([^`]+)` \|", SQL_PAGE.partition("## Refused")[2].partition("\n## ")[0])
TABLES = "CREATE TABLE r (a INT, b INT, s STRING, d DATE); CREATE TABLE t (b INT, c INT)"


def fenced(language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", README)


def run(command: list[str]) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout


def sessions() -> list[tuple[str, str]]:
    """Every command of a console block with the output that follows it."""
    found: list[tuple[str, str]] = []
    for block in fenced("console"):
        for session in re.split(r"(?m)^\$ ", block)[1:]:
            lines = session.splitlines(keepends=True)
            size = 1 + next((i for i, line in enumerate(lines[1:]) if not line.startswith("> ")), len(lines) - 1)
            command = lines[0] + "".join(line[2:] for line in lines[1:size])
            found.append((command.replace("\\\n", ""), "".join(lines[size:])))
    return found


@pytest.mark.parametrize(("command", "output"), sessions())
def test_console(command: str, output: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "everview"
    assert run([sys.executable, "-m", "everview", *arguments]) == output


def printed() -> list[tuple[Path, str, str]]:
    """Every block of Python that another follows with what it prints, in the README and in all pages of docs."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pair = re.compile(r"(?ms)^```python\n((?:(?!```).)*)^```\n+```text\n(.*?)^```$")
    return [(page, *found) for page in pages for found in pair.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "code", "output"), printed(), ids=lambda x: x.name if isinstance(x, Path) else "")
def test_python(page: Path, code: str, output: str) -> None:
    assert run([sys.executable, "-c", code]) == output, page.name


def test_every_python_block_says_what_it_prints() -> None:
    assert len(fenced("python")) == len(fenced("text")) >= 1
    assert len(sessions()) >= 2


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"(?m)^make (\w+)", "\n".join(fenced("sh")))
    assert {"demo", "test"} <= set(named)
    for target in named:
        assert f"\n{target}:" in makefile


PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(
        page for folder in ("docs", "examples", "benchmarks", "tests", "src") for page in (ROOT / folder).rglob("*.md")
    ),
]


def anchors(page: Path) -> set[str]:
    """What a link may name of a page: its headings in lower case, without marks, with hyphens for blanks."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
    headings = re.findall(r"(?m)^#+ +(.*?) *$", text)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(there), f"{page.name} links to {target}"


def test_pages_with_links_are_looked_at() -> None:
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md"} <= {page.name for page in PAGES}
    assert "answers" in anchors(ROOT / "docs" / "engine.md")


@pytest.mark.parametrize(("sql", "construct"), REFUSED)
def test_refused_sql(sql: str, construct: str) -> None:
    with pytest.raises(ev.errors.UnsupportedError) as refused:
        ev.explain(sql, TABLES)
    assert refused.value.construct == construct
    assert refused.value.position is not None
    assert refused.value.hint


def test_the_refused_table_is_read() -> None:
    assert len(REFUSED) >= 15
