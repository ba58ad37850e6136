"""``python -m tests.engine.soak --cases 20000``: random cases until one fails, which is made smaller and printed."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from tests.engine.differential import run_case
from tests.engine.generator import make_case
from tests.engine.shrinking import smaller


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--step", type=int, default=1, help="every so manieth seed, to share the work")
    parser.add_argument("--keep-going", action="store_true", help="list all failing seeds, smaller cases of none")
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    strategies: Counter[str] = Counter()
    kinds: dict[str, list[int]] = {}
    began = time.time()
    for number, seed in enumerate(range(options.first, options.first + options.cases * options.step, options.step), 1):
        case = make_case(seed)
        try:
            outcome = run_case(case)
        except Exception as error:
            if options.keep_going:
                place = traceback.extract_tb(error.__traceback__)[-1]
                kind = f"{type(error).__name__} {place.name}: {str(error)[:150]}"
                print(f"seed {seed} fails: {kind}", flush=True)
                kinds.setdefault(kind, []).append(seed)
                totals["failed"] += 1
                continue
            print(f"\nseed {seed} fails; making it smaller ...", flush=True)
            small = smaller(case)
            print(small.show())
            try:
                run_case(small)
            except Exception:
                traceback.print_exc()
            return 1
        for name in ("views", "commits", "failures", "judged", "without", "rows"):
            totals[name] += getattr(outcome, name)
        strategies.update(outcome.strategies)
        totals["refused"] += len(outcome.refused)
        totals["unchecked"] += len(outcome.unchecked)
        refusals.update(r.split(": SELECT")[0].split(": (SELECT")[0][:90] for r in outcome.refused)
        if number % 100 == 0 or number == options.cases:
            print(f"{number} cases, {time.time() - began:.0f} s: {dict(totals)}", flush=True)
            print(f"    views by strategy: {dict(sorted(strategies.items()))}", flush=True)
    for text, count in refusals.most_common(8):
        print(f"refused {count}: {text}")
    for text, seeds in sorted(kinds.items(), key=lambda k: -len(k[1])):
        print(f"failed {len(seeds)}: {text}: {seeds[:6]}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
