"""Linear regression over a view's rows, from the sums that are kept of them: no row is listed, whatever their number.

The normal equations are solved exactly, as fractions, and rounded once at the end (q-hierarchical.md 12).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from everview.engine.moments import Moment, Sums, as_float
from everview.errors import ArgumentError, DataError, SingularMatrix

_NOISE = 16
"""What is left of a column of doubles without what follows from others is noise up to so many units (mean square)."""
_PRECISION = 2**50


@dataclass(frozen=True)
class Regression:
    """The line, or plane, that fits best: the least sum of squared distances between the target and what it gives."""

    n: int
    """Of so many rows, copies included; those with a NULL in one of the columns are left out."""
    intercept: float
    """What it gives where all features are 0; 0 if it was asked for without."""
    coefficients: dict[str, float]
    """By feature."""
    r2: float
    """The part of the target's variation that is explained, up to 1; without an intercept the variation about 0.

    NaN if the target does not vary.
    """


class Regressions(Moment):
    """Rows that a line can be fitted to."""

    def linear_regression(self, target: str, features: Sequence[str], *, intercept: bool = True) -> Regression:
        """Fit ``target`` = intercept + Σ coefficient · feature by least squares to all rows, copies counted.

        Rows with a NULL in one of these columns are left out. What it needs of the rows is kept from the first call on,
        so that further calls cost nothing that depends on their number. A SingularMatrix if the features do not
        determine their coefficients, as one follows from the others.
        """
        named = [target, *_features(features)]
        columns = self._number_columns(named)
        with self._lock:
            sums = self._sums(columns, 2)
        for place, odd in sums.not_finite.items():
            if odd:
                raise DataError(
                    f"{odd:,} rows of {self.name} have no finite number in {named[place]}, and no line fits them",
                    column=named[place],
                    hint="leave them out in the view, with WHERE",
                )
        return _fitted(self.name, named, sums, intercept)


def _features(given: object) -> Iterable[str]:
    """What was given as features, if it is a list."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        hint = f"pass [{given!r}]" if isinstance(given, str) else "pass the names of columns"
        raise ArgumentError(f"features are a list of columns, and {given!r:.60} is none", hint=hint)
    return given


def _fitted(view: str, named: Sequence[str], sums: Sums, intercept: bool) -> Regression:
    """Solve the normal equations; of the columns the first is the target."""

    def moment(*columns: int) -> Fraction:
        kept = tuple(sorted(c for c in columns if c >= 0))
        return sums.products[kept] if kept else Fraction(sums.count)

    basis = [*([-1] if intercept else []), *range(1, len(named))]  # -1 stands for a column of ones
    rows = [[*(moment(i, j) for j in basis), moment(0, i)] for i in basis]
    for at, column in enumerate(basis):
        pivot = rows[at][at]
        if sums.count <= 0 or pivot <= _noise(sums, column, moment(column, column)):
            raise _singular(view, [named[c] for c in basis[: at + 1] if c >= 0], sums.count, at)
        for below in rows[at + 1 :]:
            factor = below[at] / pivot
            if factor:
                for k in range(at, len(basis) + 1):
                    below[k] -= factor * rows[at][k]
    solved: list[Fraction] = [Fraction(0)] * len(basis)
    for at in reversed(range(len(basis))):
        known = sum((rows[at][k] * solved[k] for k in range(at + 1, len(basis))), Fraction(0))
        solved[at] = (rows[at][-1] - known) / rows[at][at]
    explained = sum((x * moment(0, column) for x, column in zip(solved, basis, strict=True)), Fraction(0))
    mean = moment(0) ** 2 / sums.count if intercept and sums.count else Fraction(0)
    variation = moment(0, 0) - mean
    found = [as_float(x) for x in solved]
    return Regression(
        sums.count,
        found.pop(0) if intercept else 0.0,
        dict(zip(named[1:], found, strict=True)),
        as_float((explained - mean) / variation) if variation else math.nan,
    )


def _noise(sums: Sums, column: int, square: Fraction) -> Fraction:
    """What may be left of a column that follows from others, as its values are rounded; nothing if they are exact."""
    if column not in sums.units:
        return Fraction(0)
    return _NOISE**2 * max(sums.count * sums.units[column] ** 2, square / _PRECISION**2)


def _singular(view: str, features: Sequence[str], count: int, at: int) -> SingularMatrix:
    if not count:
        why = "there are no rows without NULL in its columns"
    elif count <= at:
        why = f"there are {count:,} rows, and more coefficients"
    elif len(features) == 1:
        why = f"{features[0]} is the same in all rows"
    else:
        why = f"{features[-1]} follows from {', '.join(features[:-1])} in all rows"
    return SingularMatrix(
        f"the coefficients of a regression over {view} are not determined: {why}",
        hint="leave out features that say what others say, or ask again when there are more rows",
    )
