"""What a checkpoint's state belongs to: views, tables, shards and routes; and what to do when they have changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

FORMAT = 2
"""Of the log in the state store. State of another format is refused."""


@dataclass(frozen=True)
class Identity:
    """A level's views, tables and routes, as text that is equal exactly if they are."""

    text: str
    migrate: bool = False
    """Take over rows that other views kept, where they are in the right shards."""
    derived: bool = False
    """True if all rows of the level come from another one, which tells them anew when it takes over."""

    @cached_property
    def parts(self) -> dict[str, Any]:
        """The parts by name; of text that is none, nothing."""
        try:
            found = json.loads(self.text)
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}

    def differences(self, stored: Identity) -> list[str]:
        """The names of the parts that are not the same."""
        return [k for k in ("format", "shards", "tables", "routes", "views") if self.parts[k] != stored.parts.get(k)]

    def can_take_over(self, stored: Identity) -> bool:
        """True if only the views differ, and it was asked for: the rows that are there are those that are needed."""
        changed = self.differences(stored)
        if self.derived:
            return self.migrate and not {"format", "shards"} & set(changed)
        return self.migrate and changed == ["views"]

    def refusal(self, stored: Identity) -> tuple[str]:
        """Why the state cannot be used, and what to do."""
        changed = self.differences(stored)
        lines = [_ANOTHER]
        for name in changed:
            if name == "routes" and len(changed) > 1:
                continue
            lines.append(
                f"  {name}: it has {_shown(stored.parts.get(name))}, and this query has {_shown(self.parts[name])}"
            )
        if changed == ["routes", "views"]:
            lines.append("  the new views need rows in shards that do not have them")
        if changed == ["views"]:
            lines.append(
                "to keep the rows and rebuild the views from them, call maintain(..., migrate=True) once with this "
                "checkpoint and a new target: the feed then begins with the whole of the new views"
            )
        else:
            lines += [OLDER, MOVE] if "format" in changed else [MOVE]
        return ("\n".join(lines),)


_ANOTHER = "the checkpoint holds the state of another query, and nothing was read or written:"
MOVE = (
    "to move to the new form, read the tables with everview.spark.saved_tables(spark, checkpoint), start a new "
    "checkpoint with maintain(..., initial=tables), and let the sources begin where the old query stopped "
    "(everview.spark.saved_offsets(checkpoint) tells)"
)
"""What to do when a checkpoint cannot be taken over."""
OLDER = "if another version of Everview has written it, that version can read it"


def misplaced(shard: int, shards: int, stored: int | None) -> str:
    """Why a shard cannot be used whose place in the checkpoint has the state of another one, or none."""
    there = "none" if stored is None else f"that of shard {stored}"
    older = "" if stored is not None else f"\n{OLDER}"
    return f"{_ANOTHER}\n  where shard {shard} of {shards} has its state, the checkpoint has {there}{older}\n{MOVE}"


def _shown(part: object) -> str:
    text = json.dumps(part, ensure_ascii=False) if part is not None else "none"
    return text if len(text) <= 300 else text[:297] + "…"
