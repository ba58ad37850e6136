"""What a checkpoint's state belongs to, as plain data; and what to do when that has changed.

A *pin* says what places rows (shards and their keys, tables, routes with shares and conditions, the way of hashing) and
which views are kept. It lies in the checkpoint's folder, where the driver reads it, and in the state of each shard,
which has the last word. What follows from it inside a shard is planned anew whenever a query starts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

FORMAT = 3
"""Of pins, and of the log in the state store. State of another format is refused."""
HASH = 1
"""The way in which rows are hashed: Spark's ``xxhash64``, and our own of integers (``routing.Slice``)."""

_NO_LEVEL: dict[str, Any] = {"tables": [], "views": [], "grids": []}
_PLACES = ("format", "hash", "shards", "keys")
"""Parts without which no row can be found again."""
_MADE_ANEW = {"views", "merge", "made"}
"""Parts that may be others, where it is asked for: their rows are made of the tables'."""


@dataclass(frozen=True)
class Identity:
    """A query's pin as text, and what is wanted of state that has another one."""

    text: str
    migrate: bool = False
    """Take over rows that other views kept, where they are in the right shards."""
    derived: bool = False
    """True if all rows of the level come from another one, which tells them anew when it takes over."""

    @cached_property
    def digest(self) -> str:
        """A short text that is equal if the pins are; what each batch compares."""
        return sha256(self.text.encode()).hexdigest()

    @cached_property
    def parts(self) -> dict[str, Any]:
        """The pin's parts by name; of text that is none, nothing."""
        try:
            found = json.loads(self.text)
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}

    @cached_property
    def compared(self) -> dict[str, Any]:
        """What has to be the same, by name: names of views' parts, aliases and the like are not among it.

        Nor are options of views: with others a shard makes its views anew, from the same rows, and tells nothing.
        """
        found = {name: self.parts.get(name) for name in (*_PLACES, "views")}
        if self.parts.get("format") != FORMAT:
            return found
        first, *rest = self.parts["spread"]["levels"]
        ahead = self.parts["spread"].get("ahead", _NO_LEVEL)
        made = self.made
        own = {t["name"]: t for t in (*ahead["tables"], *first["tables"]) if t["name"] not in made}
        routes = ways(first) if self.parts["shards"] > 1 else {}
        there = [[t, routes.get(t["name"])] for t in first["tables"] if t["name"] in made]
        return found | {
            "tables": [own[name] for name in sorted(own)],
            "routes": {table: way for table, way in routes.items() if table not in made},
            "merge": [[level["tables"], ways(level)] for level in rest],
            "ahead": ways(ahead),
            "made": there,
            "by_key": self.parts.get("by_key", []),
        }

    @cached_property
    def made(self) -> frozenset[str]:
        """The tables that a step ahead of the shards makes of others."""
        ahead = self.parts.get("spread", {}).get("ahead", _NO_LEVEL)
        return frozenset(v["name"] for v in ahead["views"])

    def differences(self, stored: Identity) -> list[str]:
        """The names of the parts that are not the same."""
        return [name for name, part in self.compared.items() if part != stored.compared.get(name)]

    def can_take_over(self, stored: Identity) -> bool:
        """True if the rows that are there are those that are needed, and it was asked for."""
        changed = set(self.differences(stored))
        if self.derived:
            return self.migrate and not changed & set(_PLACES)
        return self.migrate and changed <= _MADE_ANEW and self._has_steps_of(stored)

    def _has_steps_of(self, stored: Identity) -> bool:
        """True if there are the same stateful steps: Spark gives each its own state."""
        return self._has_merge == stored._has_merge and bool(self.made) == bool(stored.made)

    @property
    def _has_merge(self) -> bool:
        return bool(self.compared.get("merge"))

    def refusal(self, stored: Identity) -> str:
        """Why the state cannot be used, and what to do."""
        changed = self.differences(stored)
        if "format" in changed:
            return "\n".join([_ANOTHER, self._line("format", stored), OLDER, MOVE])
        lines = [_ANOTHER, *(self._line(name, stored) for name in changed if name in ("hash", "shards", "views"))]
        lines += _tables(stored, self)
        if "by_key" in changed:
            lines.append(f"{self._line('by_key', stored)}{_POLICY}")
        moved = {"routes", "ahead"} if self.made and stored.made else {"routes"}
        if "views" in changed and moved & set(changed):
            lines.append("  the new views need rows in shards that do not have them")
        if self._has_merge != stored._has_merge:
            lines.append("  one of the two needs a second step of shards, and the other does not")
        elif bool(self.made) != bool(stored.made):
            lines.append("  one of the two needs a step ahead of its shards, and the other does not")
        elif set(changed) <= _MADE_ANEW and "views" in changed:
            return "\n".join([*lines, MIGRATE])
        if "views" not in changed and set(changed) <= {"keys", "routes", "merge", "ahead", "made"}:
            lines.append("  its rows are placed otherwise than this query was planned")
            return "\n".join([*lines, KEEP])
        return "\n".join([*lines, MOVE])

    def _line(self, name: str, stored: Identity) -> str:
        words = _WORDS.get(name, name)
        return f"  {words}: it has {_shown(stored, name)}, and this query has {_shown(self, name)}"


_ANOTHER = "the checkpoint holds the state of another query, and nothing was read or written:"
_WORDS = {"by_key": "tables that pass a step by key first"}
_POLICY = ": start it with bad_rows as it was, and with the same tables streaming"
MOVE = (
    "to move to the new form, read the tables with everview.spark.saved_tables(spark, checkpoint), start a new "
    "checkpoint with maintain(..., initial=tables), and let the sources begin where the old query stopped "
    "(everview.spark.saved_offsets(checkpoint) tells)"
)
"""What to do when a checkpoint cannot be taken over."""
OLDER = "if another version of Everview has written it, that version can read it"
MIGRATE = (
    "to keep the rows and rebuild the views from them, call maintain(..., migrate=True) once with this "
    "checkpoint and a new target: the feed then begins with the whole of the new views"
)
KEEP = "give the checkpoint to maintain as well, maintain(..., checkpoint=...): rows then go on to where they are"


def ways(level: dict[str, Any]) -> dict[str, list[Any]]:
    """For each table of a level where its rows go, as one occurrence after the other; once, if that is the same."""
    found: dict[str, list[Any]] = {}
    for grid in level["grids"]:
        shares = [d["share"] for d in grid["dimensions"]]
        for route in grid["routes"]:
            found.setdefault(route["table"], []).append([shares, route["hashed"], route["conditions"]])
    return {table: own[:1] if all(way == own[0] for way in own) else own for table, own in found.items()}


def misplaced(shard: int, shards: int, stored: int | None) -> str:
    """Why a shard cannot be used whose place in the checkpoint has the state of another one, or none."""
    there = "none" if stored is None else f"that of shard {stored}"
    older = "" if stored is not None else f"\n{OLDER}"
    return f"{_ANOTHER}\n  where shard {shard} of {shards} has its state, the checkpoint has {there}{older}\n{MOVE}"


def _shown(identity: Identity, name: str) -> str:
    part = identity.parts.get("texts" if name == "views" else name)
    text = json.dumps(part, ensure_ascii=False) if part is not None else "none"
    return text if len(text) <= 300 else text[:297] + "…"


def _tables(stored: Identity, wanted: Identity) -> list[str]:
    """The tables that are not the same, as they are declared."""
    lines: list[str] = []
    old, new = ({t["name"]: t for t in i.compared.get("tables") or ()} for i in (stored, wanted))
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            lines.append(
                f"  table {name}: it has {declared(old.get(name))}, and this query has {declared(new.get(name))}"
            )
    return lines


def declared(table: dict[str, Any] | None) -> str:
    """A table of a pin, for messages."""
    if table is None:
        return "none"
    columns = [f"{c['name']} {c['type']}{'' if c['nullable'] else ' NOT NULL'}" for c in table["columns"]]
    key = f", key {', '.join(table['primary_key'])}" if table["primary_key"] else ""
    return f"({', '.join(columns)}{key})"
