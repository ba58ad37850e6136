"""Kill what a Spark job consists of, at random, again and again: ``make soak-faults``.

Every round has a stream, a number of shards, a kind of cluster and settings of its own, all drawn from its seed: logs
that are compacted every few batches or not, the feed kept or targets by ``materialize``. After it, every batch of the
feed, or each target, is compared with DuckDB, and no process may be left. The views are joins, groups, a global
aggregate, which a second level of shards merges, and subqueries of all rows, which a level before them makes.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.spark.fault_job import COMPACT, MATERIALIZE, PARCELS
from tests.spark.faults import CLUSTER, FAST, KINDS, LOCAL, Job, Stream, run_with_kills, tear, uncommit
from tests.spark.shards import until


def play(seed: int, kills: int) -> Counter[str]:
    """One round; gives what was killed. Its folder is kept if anything is wrong."""
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix=f"everview-faults-{seed}-"))
    stream = Stream(folder, rng.randint(6, 10), seed)
    master = rng.choice([LOCAL, CLUSTER])
    kinds = [k for k in KINDS if k != "executor" or master == CLUSTER]
    settings = rng.choice([{}, FAST]) | rng.choice([{}, {COMPACT: "2000"}]) | rng.choice([{}, {MATERIALIZE: "yes"}])
    settings |= rng.choice([{}, {PARCELS: "1"}])
    job = Job(folder, master, rng.randint(1, 4), settings)
    try:
        killed = run_with_kills(job, stream, kinds, rng, pause=(0.2, 4.0), most=kills)
        stream.check()
        if rng.random() < 0.5:  # The last batch once more, over what is left of it.
            tear(folder / "checkpoint", uncommit(folder / "checkpoint") + 1, rng)
            job.start()
            assert job.wait() == 0, job.last_words()
            stream.check()
            killed["torn"] += 1
        until(lambda: not job.victims("shard"))
    except BaseException:
        print(f"seed {seed} ({master}, {settings}): see {folder}", flush=True)
        raise
    finally:
        job.close()
    shutil.rmtree(folder)
    return killed


def main() -> None:
    """Rounds until so many processes were killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--first", type=int, default=1, help="the first round's seed")
    parser.add_argument("--round", type=int, default=6, help="kills in a round")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    seed = given.first
    begun = time.monotonic()
    while total.total() - total["torn"] < given.kills:
        left = given.kills - total.total() + total["torn"]
        total += play(seed, min(given.round, left))
        shown = ", ".join(f"{n} {kind}" for kind, n in sorted(total.items()))
        print(f"seed {seed}: exact; so far {shown}; {time.monotonic() - begun:.0f} s", flush=True)
        seed += 1


if __name__ == "__main__":
    main()
