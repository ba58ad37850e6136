"""What code and tests cite of the theory, as ``crown.md 2``, is a section of docs/theory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
THEORY = ROOT / "docs" / "theory"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(THEORY.glob("*.md"))}
SECTIONS = {name: set(re.findall(r"^#{2,3} (\d+(?:\.\d+)*)", text, re.MULTILINE)) for name, text in PAGES.items()}
_CITED = re.compile(
    r"(?<![\w/-])(crown|triangle|hierarchical-tradeoff|q-hierarchical|ucq-constraints|fo-mod|parameterized-hardness)\.md(?!\))"
    r"((?:[:,;]?\s+(?:section\s+)?\d[\d.]*(?:\s*–\s*\d[\d.]*)?(?:\s+(?:T\d+|\[!\]))*)*)"
)


class Citation(NamedTuple):
    """Where a section is cited; ``section`` is empty where a whole page is."""

    place: str
    page: str
    section: str


def citations(text: str, place: str) -> Iterator[Citation]:
    """All citations of a text; a list, or a range, is one of each of its numbers."""
    for found in _CITED.finditer(text):
        page, numbers = f"{found[1]}.md", re.findall(r"(?<!T)\b\d+(?:\.\d+)*", found[2])
        where = f"{place}:{text.count(chr(10), 0, found.start()) + 1}"
        yield from (Citation(where, page, number) for number in numbers or [""])


def all_citations() -> list[Citation]:
    paths = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "tests").rglob("*.toml")]
    found = []
    for path in sorted(set(paths) - {Path(__file__)}):
        found += citations(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    return found


def test_citations_are_read() -> None:
    text = "(ucq-constraints.md 4.3–4.6, q-hierarchical.md 2.7), crown.md 2, 8; q-hierarchical.md 18 T9, T17; crown.md."
    found = [(c.page.removesuffix(".md"), c.section) for c in citations(text, "here")]
    assert found == [
        ("ucq-constraints", "4.3"),
        ("ucq-constraints", "4.6"),
        ("q-hierarchical", "2.7"),
        ("crown", "2"),
        ("crown", "8"),
        ("q-hierarchical", "18"),
        ("crown", ""),
    ]


def test_every_citation_is_a_section_of_the_theory() -> None:
    found = all_citations()
    assert len(found) > 100
    missing = [c for c in found if c.page not in SECTIONS or (c.section and c.section not in SECTIONS[c.page])]
    assert missing == []


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", PAGES[name]):
        path = (THEORY / target) if target else THEORY / name
        assert path.exists(), target
        headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors, f"{target}#{anchor}"


@pytest.mark.parametrize("name", PAGES)
def test_files_that_are_named_are_there(name: str) -> None:
    for path in re.findall(r"`(tests/[\w/.*-]+)`", PAGES[name]):
        assert list(ROOT.glob(path)), path
