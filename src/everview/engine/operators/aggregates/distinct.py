"""COUNT(DISTINCT …): how many different values a group has, which is a measure that the group is kept with."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.counts import Columns, Fold
from everview.engine.operators.join import Join
from everview.engine.operators.select import Projection, flips
from everview.engine.values.dictionary import NULL, Dictionary
from everview.engine.values.rows import ZERO, Changes, WordRows
from everview.programs.link import Linker
from everview.query.view import Aggregate, Grouping, Output

_NULL = pa.scalar(NULL, pa.int64())


class DistinctCount:
    """The different values of one aggregate's argument, by group, each with its derivations."""

    def __init__(
        self, aggregate: Aggregate, grouping: Grouping, core: Join, dictionary: Dictionary, linker: Linker
    ) -> None:
        assert aggregate.argument is not None
        self.core = core
        outputs = [Output(str(e), e) for e in (*grouping.keys, aggregate.argument)]
        self.projection = Projection(outputs, core, dictionary)
        self.values = Fold([o.type for o in outputs], 1, dictionary, linker)

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The values."""
        return (self.values,)

    def delta(self, changes: Changes) -> WordRows:
        """The groups' words and values that come for the first time, or go for the last, by updates of the core."""
        columns, measures, update = self.core.take(changes)
        return flips(self.values, self.projection.passed(WordRows(columns, measures[0], update), changes))

    @staticmethod
    def counted(delta: WordRows) -> tuple[Columns, pa.Array]:
        """The groups, and the change of each one's count; NULL does not count."""
        *groups, values = delta.columns
        return tuple(groups), pc.if_else(pc.equal(values, _NULL), ZERO, delta.weight)

    def rebuild(self) -> None:
        """Nothing to do after a load: all state is in the unit."""

    def nbytes(self) -> int:
        """The memory that is not the unit's: none."""
        return 0
