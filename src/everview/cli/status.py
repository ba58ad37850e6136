"""What a running pipeline shows: one refreshed line on a terminal, a line a batch elsewhere, or JSON."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from everview.redaction import redact, redacted

if TYPE_CHECKING:
    from everview.spark.pipeline.progress import BatchDone

CLEAR = "\r\x1b[2K"
FIRST_SECONDS = 10
"""How often it is told how far the first batch is, where no line can be refreshed."""
_UNITS = ("B", "KB", "MB", "GB", "TB")


def size(number: float) -> str:
    """Bytes for people."""
    for unit in _UNITS:
        if number < 1000 or unit == _UNITS[-1]:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError


def line(batch: BatchDone, shards: int) -> str:
    """A batch in one line."""
    behind = f" · {batch.behind:,} behind" if batch.behind else ""
    bad = f" · {batch.bad_rows:,} bad rows" if batch.bad_rows else ""
    return (
        f"batch {batch.batch} · {batch.rows:,} rows, {batch.rows_per_second:,.0f}/s · "
        f"{batch.deltas:,} deltas, {batch.deltas_per_second:,.0f}/s · state {size(batch.state_bytes)} · "
        f"took {batch.seconds:.1f} s · {shards} {'shard' if shards == 1 else 'shards'}{behind}{bad}"
        f"{''.join(f' · {why}' for why in batch.failing)}"
    )


class Status:
    """Tells of a run: ``log`` is text or json; ``quiet`` leaves out everything but errors."""

    def __init__(self, out: TextIO, *, log: str = "text", quiet: bool = False) -> None:
        self.out = out
        self.json = log == "json"
        self.quiet = quiet
        self.live = not self.json and not quiet and out.isatty()
        self.shards = 1
        self.rows = self.deltas = self.bad = self.batches = 0
        self.tasks: Callable[[], tuple[int, int]] | None = None
        """How many tasks of what runs now are done, and how many there are, to tell before a batch has ended."""
        self._line = ""
        self._failing: tuple[str, ...] = ()
        self._changed = self._looked = time.monotonic()

    def say(self, text: str) -> None:
        """A line of its own."""
        if not self.json and not self.quiet:
            self._write(f"{CLEAR if self._line else ''}{redact(text)}\n")
            self._line = ""

    def event(self, name: str, **data: Any) -> None:
        """An object of the JSON log that is no batch; errors are told also when it is quiet."""
        if self.json and (not self.quiet or name == "error"):
            self._write(json.dumps(redacted({"event": name, **data})) + "\n")

    def batch(self, batch: BatchDone) -> None:
        """A batch has ended."""
        self.batches += 1
        self.rows += batch.rows
        self.deltas += batch.deltas
        self.bad += batch.bad_rows
        self._changed = time.monotonic()
        if self.quiet:
            return
        if self.json:
            self._write(json.dumps(redacted(batch.to_dict())) + "\n")
        elif self.live:
            for why in batch.failing:
                if why not in self._failing:  # The refreshed line may be too short for it.
                    self.say(why)
            self._failing = batch.failing
            self._show(line(batch, self.shards))
        else:
            self._write(line(batch, self.shards) + "\n")

    def waiting(self) -> None:
        """Nothing has ended since: say for how long, where a line can be refreshed."""
        now = time.monotonic()
        idle = now - self._changed
        if not self.batches:
            if self.tasks is not None and not self.quiet and now - self._looked >= (1 if self.live else FIRST_SECONDS):
                self._looked = now
                self._first(idle, *self.tasks())
        elif self.live and self._line and idle >= 1:
            self._show(self._line, f" · {idle:.0f} s ago")

    def _first(self, seconds: float, done: int, tasks: int) -> None:
        """How far the first batch is, which may have all that was there before to load."""
        if not tasks:
            return
        text = f"first batch: {done:,} of {tasks:,} tasks done, {seconds:.0f} s"
        if self.live:
            self._show(text)
        else:
            self.say(text)
            self.event("loading", tasks=tasks, tasks_done=done, seconds=round(seconds, 1))

    def end(self, why: str) -> None:
        """The last line."""
        counted = f"{self.batches:,} batches, {self.rows:,} rows, {self.deltas:,} deltas"
        self.say(f"{why}: {counted}" + (f", {self.bad:,} bad rows put aside" if self.bad else ""))
        self.event("end", reason=why, batches=self.batches, rows=self.rows, deltas=self.deltas, bad_rows=self.bad)

    def _show(self, text: str, more: str = "") -> None:
        width = shutil.get_terminal_size().columns
        self._write(CLEAR + (text + more)[: max(1, width - 1)])
        self._line = text

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()

    def clear(self) -> None:
        """Take the refreshed line away, so that an error stands alone."""
        if self._line:
            self._write(CLEAR)
            self._line = ""


def standard(log: str, quiet: bool) -> Status:
    """On standard output."""
    return Status(sys.stdout, log=log, quiet=quiet)
