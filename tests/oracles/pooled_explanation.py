"""What is asked of a finished forest, answered from the pooled rows of all parties."""

from collections.abc import Sequence

import numpy as np

from spinney.protocols import explanation as explaining
from spinney.protocols.explanation import ExplainAsk, ExplainReply
from spinney.seeds import derive_seed
from spinney.tables.table import Table


class Pooled:
    """All rows in one place; they are shuffled by the permutations that the parties would use."""

    def __init__(self, tables: Sequence[Table]) -> None:
        batches = [batch for table in tables for batch in table.batches()]
        self._values = np.concatenate([batch.values for batch in batches], axis=1)
        self._target = np.concatenate([batch.target for batch in batches])
        self._keys = np.concatenate([batch.keys for batch in batches])
        ends = np.cumsum([table.n_rows for table in tables])
        self._owned = np.split(np.arange(ends[-1]), ends[:-1])

    def answer(self, ask: ExplainAsk) -> ExplainReply:
        """Return the counts over all rows."""
        model = ask.forest_model
        rows = model.rows(self._values)
        judge = explaining._Judge(model, self._target, 1)
        cases = judge.by_trees(rows, ask.tree_counts)
        for column in ask.shuffled.tolist():
            for repeat in range(ask.n_repeats):
                seed, changed = derive_seed(ask.seed, column, repeat), rows.copy()
                for own in self._owned:
                    order = explaining.shuffling(self._keys[own], seed)
                    changed[own, column] = rows[own[order], column]
                cases.append(judge.counted(judge.predicted(changed)))
        sums = []
        for column, value in zip(ask.point_column.tolist(), ask.point_value, strict=True):
            changed = rows.copy()
            changed[:, column] = value
            sums.append(judge.summed(judge.predicted(changed)))
        return ExplainReply(np.array(cases), np.array(sums))
