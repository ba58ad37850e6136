"""What experiments are given: the cases and systems that were asked for, and a harness that shows what it does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from benchmarks import results
from benchmarks.case import Case, read_cases
from benchmarks.harness import GIB, Harness
from benchmarks.results import Record, circumstances
from benchmarks.systems import CORES, SYSTEMS, System, interpreter

_WIDTH = 110
PATIENCE = 10
"""How much longer runs on little data may take: those that do are on a slow machine, and say nothing about a system."""


@dataclass
class Bench:
    """One call of the benchmarks."""

    data: Path | None = None
    only: tuple[str, ...] = ()
    on: str = ""
    """A part of the titles of the data that are wanted."""
    chosen: tuple[str, ...] = tuple(SYSTEMS)
    scale: float = 1.0
    quick: bool = False
    known: dict[tuple[object, ...], Record] = field(default_factory=dict)
    """What a run that is gone on with has measured already."""
    harness: Harness = field(init=False)
    failed: list[tuple[Record, str]] = field(default_factory=list)
    """What must not be, and why: a wrong result, or one of ours that is missing or was not checked."""

    def __post_init__(self) -> None:
        self.harness = Harness(self.data, repeats=1 if self.quick else 3, install=not self.quick)
        self._circumstances = circumstances()
        self._rehearsed: list[tuple[Case, System, str]] | None = None
        """What would be measured, while that alone is asked."""

    def cases(self) -> Iterator[Case]:
        """The cases that were asked for, at the scale that was asked for."""
        for case in read_cases():
            if (self.only and case.name not in self.only) or self.on not in case.scaled(1.0, self.data).data.title:
                continue
            if self.quick and not case.quick:
                continue
            chosen = case.quick if self.quick else case.systems
            if self.quick:
                limits = {name: PATIENCE * seconds for name, seconds in case.limits.items()}
                case = replace(case, limit=PATIENCE * case.limit, limits=limits)
            yield replace(case.scaled(self.scale, self.data), systems=chosen)

    def case(self, name: str) -> Case:
        """A case by its name, on the first of its data, at the scale that was asked for."""
        return next(c for c in read_cases() if c.name == name).scaled(self.scale, self.data)

    def systems(self, *names: str) -> Iterator[System]:
        """Those of some systems that were asked for."""
        return (SYSTEMS[name] for name in names if name in self.chosen)

    def measure(self, case: Case, system: System, mode: str = "delta", **told: object) -> Record:
        """A checked, timed run, shown on the terminal; ``told`` is added to its record."""
        known = self.known.get(results.key(self.harness.describe(case, system, mode)))
        if known is not None:
            return known if self._rehearsed is not None else self._judged(known, system)
        if self._rehearsed is not None:
            self._rehearsed.append((case, system, mode))
            return {}
        shown = Line(_label(case, system, mode))

        def watch(updates: int, seconds: float, held: int) -> None:
            shown.draw(f"{updates:,} updates, {seconds:.0f} s, {held / GIB:.1f} GiB")

        record = self.told(self.harness.measure(case, system, mode, watch) | told)
        shown.end(verdict(record))
        return self._judged(record, system)

    def _judged(self, record: Record, system: System) -> Record:
        """The record; remembered, if it makes the whole fail."""
        fault = self._fault(record, system)
        if fault:
            self.failed.append((record, fault))
        return record

    def check_ahead(self, run: Callable[[Bench], Iterator[Record]]) -> None:
        """Check all that an experiment is about to measure, as many at once as there are cores.

        A check takes no times, so it need not be alone on the machine, as what is measured afterwards is.
        """
        self._rehearsed = wanted = []
        try:
            for _ in run(self):
                pass
        finally:
            self._rehearsed = None
        once: dict[object, tuple[Case, System, str]] = {}
        for case, system, mode in wanted:
            self.harness.to_check(case, system).data.log(self.data)  # Made once, by one thread.
            if interpreter(system, self.harness.install) is not None:
                once.setdefault(self.harness.key_of_check(case, system, mode), (case, system, mode))

        def check(asked: tuple[Case, System, str]) -> None:
            begun = monotonic()
            found = self.harness.check(*asked)
            shown = f"{found['status']} {found['reason']}".strip()
            Line(f"check: {_label(*asked)}").end(f"{shown}, {monotonic() - begun:.0f} s")

        with ThreadPoolExecutor(CORES) as pool:
            list(pool.map(check, once.values()))

    def _fault(self, record: Record, system: System) -> str | None:
        """Why a run makes the whole fail; that a rival does not finish, or breaks down, is a result."""
        if record["status"] == "wrong" or (record["status"] == "error" and (system.is_ours or self.quick)):
            return str(record["reason"])
        check = record.get("check", {"status": "ok"})
        if check["status"] not in ("ok", "unsupported") and (system.is_ours or self.quick):
            return f"its check: {check['status']} {check['reason']}"
        return None

    def told(self, record: Record) -> Record:
        """A record with where, when and how it was made."""
        return record | self._circumstances


def _label(case: Case, system: System, mode: str) -> str:
    return f"{case.title}, {case.data.title}, {mode}, {system.title}"


def verdict(record: Record) -> str:
    """A run's outcome in a few words."""
    status = str(record["status"])
    if status != "ok":
        reason = str(record.get("reason", "")).strip().splitlines()
        return f"{status.upper()} {reason[-1] if reason else ''}"[:_WIDTH]
    checked = record["check"]["status"]
    mark = "checked" if checked == "ok" else f"unchecked: {checked}"
    return f"{record['run_s']:.3f} s, {record['peak_rss'] / GIB:.2f} GiB, {mark}"


class Line:
    """One line on the terminal, drawn again and again; elsewhere, only its end is printed."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._is_terminal = sys.stderr.isatty()

    def draw(self, text: str) -> None:
        """Show how far it is."""
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{self._label}: {text}"[: _WIDTH + 40])
            sys.stderr.flush()

    def end(self, text: str) -> None:
        """Show how it ended, and leave it there."""
        sys.stderr.write("\r\x1b[K" if self._is_terminal else "")
        sys.stderr.write(f"{self._label}: {text}\n")
        sys.stderr.flush()


def names(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """A list of names on the command line; ValueError if one is not known."""
    found = tuple(name for name in text.split(",") if name)
    for name in found:
        if name not in known:
            raise ValueError(f"there is no {name}: choose from {', '.join(known)}")
    return found
