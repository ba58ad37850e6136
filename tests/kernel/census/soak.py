"""``python -m tests.kernel.census.soak``: random formulas and updates, the census beside its twin and brute force.

Each case is a formula of nested quantifiers over facts of one to three elements, of degree 3, and some batches: the C++
module, its twin in Python and a brute-force evaluator must agree on the answers, their number, tests, what is told,
look-ups, refusals and what the census counts (``harness.Beside``).
"""

from __future__ import annotations

import argparse
import time

from tests.kernel.census.test_random import case

ARITIES = (0, 1, 1, 2, 0, 1, 1, 2, 1, 3)
"""Of ten cases: sentences, sets, pairs, and one of triples, which are tested and listed only."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--updates", type=int, default=4, help="batches of each case")
    options = parser.parse_args()
    began = time.time()
    for number, seed in enumerate(range(options.first, options.first + options.cases), 1):
        try:
            case(1_000_000 + seed, ARITIES[seed % len(ARITIES)], options.updates)
        except BaseException:
            print(f"seed {seed} fails: --first {seed} --cases 1", flush=True)
            raise
        if number % 500 == 0 or number == options.cases:
            print(f"{number} cases agree, {time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
