"""The cases: benchmarks/cases/*.toml, each a query, the data it runs over, and what must come out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.data import graphs
from benchmarks.data.log import Log

HERE = Path(__file__).resolve().parent
CASES = HERE / "cases"
WORKLOADS = HERE / "workloads"
LOGS = HERE.parent / "build" / "bench" / "logs"
EPINIONS_EDGES = 508_837
"""What a generated graph has at scale 1, too."""
SYSTEMS = ("everview", "flink", "pathway", "duckdb")
"""What a case is run on unless it says otherwise."""
TINY = 0.004
"""The scale of a generated network of the size of snb-tiny."""
ORDERS = {"file": "file order", "shuffled": "shuffled", "time": "by time", "source": "by source", "random": "random"}


@dataclass(frozen=True)
class Data:
    """What a case runs over: a source, the part of it that is used, and how its rows come and go."""

    source: str
    """``epinions``, ``bitcoin-alpha``, ``snb-tiny`` (files), ``power-law``, ``snb``, ``tpch``, ``nested`` (made)."""
    scale: float = 1.0
    """The part of a graph's edges; the scale factor of SNB and TPC-H."""
    order: str = "random"
    updates: str = "fifo"
    share: int = 5
    """A window holds one in so many of the edges; of ``nested``, how often lifespans enclose others."""
    after: float = 0.0
    """The part of the updates that is done before the log begins: what it leaves is loaded."""
    most: int | None = None
    """How many updates of the rest are kept; all if it is None."""

    @property
    def title(self) -> str:
        """As tables name it."""
        if self.source in ("snb", "tpch", "snb-tiny"):
            return "tiny" if self.source == "snb-tiny" else f"SF {self.scale:g}"
        if self.source == "nested":
            return f"nested {self.share} times"
        part = "" if self.scale == 1 else f", {self.scale:g} of it"
        updates = "" if self.updates == "fifo" else f", {self.updates}"
        share = "" if self.share == 5 else f", window 1/{self.share}"
        return f"{self.source}, {ORDERS[self.order]}{part}{updates}{share}"

    @property
    def folder(self) -> Path:
        """Where its log is."""
        loaded = f"-after-{self.after:g}-{self.most}" if self.after else ""
        return LOGS / re.sub(r"[^\w.]+", "-", f"{self.source} {self.title}{loaded}")

    def at(self, factor: float, given: Path | None) -> Data:
        """The same, smaller or larger, from what files there are: without them, a generated graph stands in."""
        source, order = self.source, self.order
        if source == "snb-tiny":
            return self if given is not None else replace(self, source="snb", scale=TINY * factor)
        if given is None and source in ("epinions", "bitcoin-alpha"):
            order = {"file": "source", "shuffled": "random", "time": "random"}[order]
            factor *= 24_186 / EPINIONS_EDGES if source == "bitcoin-alpha" else 1
            source = "power-law"
        return replace(self, source=source, order=order, scale=float(f"{self.scale * factor:.4g}"))

    def log(self, given: Path | None) -> Log:
        """The log, made if it is not there yet."""
        folder = self.folder
        if (folder / "log.json").exists():
            return Log.read(folder)
        if self.after:
            whole = replace(self, after=0.0, most=None).log(given)
            first = int(whole.updates * self.after)
            return whole.later(folder, first, min(self.most or whole.updates, whole.updates - first))
        if self.source in ("snb", "snb-tiny"):
            from benchmarks.data import snb

            return snb.log(self.scale, folder, given if self.source == "snb-tiny" else None)
        if self.source == "tpch":
            from benchmarks.data import tpch

            return tpch.log(self.scale, folder)
        if self.source == "nested":
            from benchmarks.data import nested

            return nested.log(self.share, int(nested.STEPS * self.scale), folder)
        return graphs.write_log(self._updates(given), folder)

    def _updates(self, given: Path | None) -> graphs.Updates:
        edges = self._edges(given)
        if self.updates == "inserts":
            return graphs.inserts(self.title, edges)
        if self.updates == "random":
            return graphs.at_random(self.title, edges)
        return graphs.fifo(self.title, edges, self.share)

    def _edges(self, given: Path | None) -> list[graphs.Edge]:
        """The first edges of the order, as many as the scale asks for."""
        if self.source == "power-law":
            made = graphs.power_law(int(EPINIONS_EDGES * self.scale))
            return sorted(made) if self.order == "source" else made
        if given is None:
            raise FileNotFoundError(f"{self.source} needs --data, the folder that holds it")
        edges = graphs.read_graph(given / f"{self.source}.csv.gz")
        edges = graphs.shuffled(edges) if self.order == "shuffled" else edges
        return edges[: int(len(edges) * self.scale)]


LIMITS = {"duckdb": 15}
"""Seconds for systems whose limit is another than a case's own: what recomputing takes is clear after a few batches."""


@dataclass(frozen=True)
class Case:
    """A query over some data."""

    name: str
    title: str
    query: str
    """The file in benchmarks/workloads."""
    data: Data
    modes: tuple[str, ...] = ("delta", "full")
    systems: tuple[str, ...] = SYSTEMS
    batch: int = 1_000
    sizes: tuple[int, ...] = ()
    """The sizes of batches one after the other, where they differ."""
    per_update: bool = True
    every: int = 10
    check_scale: float = 1.0
    """The part of the data on which rivals are checked: their check runs take as long as the others."""
    own_check_scale: float = 1.0
    """The same for Everview."""
    named_only: bool = False
    """Whether Everview's tables hold only the columns that the query names, and keys: so are Pathway's always."""
    deltas: int | None = None
    """How many rows every update's own delta has in all, where that is known."""
    limit: float = 40
    """Seconds that a run may take once it is up and loaded."""
    limits: dict[str, float] = field(default_factory=dict)
    """The same for single systems."""
    quick: tuple[str, ...] = ()
    """The systems that ``--quick`` runs it on."""
    breakeven: bool = False
    """Whether the query's break-even is looked for on this data."""
    profile: bool = False
    """Whether a timed run says what its time was spent on."""
    first: Case | None = None
    """The same query on the first of its data, if this is not it."""

    @property
    def sql(self) -> str:
        """The query's text; the filter's divisor is put in."""
        text = (WORKLOADS / f"{self.query}.sql").read_text(encoding="utf-8")
        return text.replace("% 10 ", f"% {self.every} ").split("\nORDER BY")[0].strip()

    def scaled(self, factor: float, given: Path | None) -> Case:
        """The same case over a part of its data, or over what stands in for it."""
        data = self.data.at(factor, given)
        known = self.deltas if data == self.data else None
        first = self.first.scaled(factor, given) if self.first is not None else None
        return replace(self, data=data, deltas=known, first=first)

    def to_check(self, given: Path | None, *, own: bool, rival: bool) -> Case:
        """The case on which Everview itself, or others, are checked: all of its log, in batches of one size.

        Rivals are on the first data of a query alone: whether they give what it asks for does not depend on the graph,
        and their checks take longer than all that is timed.
        """
        case = self
        if rival and self.first:
            data = replace(self.first.data, after=self.data.after)
            case = replace(self.first, data=data, every=self.every, per_update=self.per_update)
        smaller = case.scaled(case.own_check_scale if own else case.check_scale, given)
        return replace(smaller, sizes=(), first=None)


def read_cases(folder: Path = CASES) -> Iterator[Case]:
    """All cases, one for each data of each file."""
    for path in sorted(folder.glob("*.toml")):
        yield from read_case(path)


def read_case(path: Path) -> Iterator[Case]:
    """The cases of a file."""
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    title, query, common = told.pop("title"), told.pop("query"), told.pop("run", {})
    first: Case | None = None
    for data in told.pop("data"):
        run = {**common, **data.pop("run", {})}
        run |= {key: tuple(run[key]) for key in ("modes", "systems", "quick") if key in run}
        run["limits"] = {**LIMITS, **run.get("limits", {})}
        case = Case(path.stem, title, query, Data(**data), **run, first=first)
        first = first or case
        yield case
    if told:
        raise ValueError(f"{path.name} says {', '.join(told)}, which no case has")
