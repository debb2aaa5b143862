"""How many labels the histograms of boosted trees give away: rows that are alone in a cell.

A gradient is a prediction minus a label, so its sign tells the label of a row that is alone in a
cell of any node's histogram. The attacker is whoever sees the sums: the coordinator or a party.
It counts a row as told if the sign of its cell's gradient is that of its label.
Run: python benchmarks/bench_boosting_leaks.py [--fast] [--rows 4000]
"""

import warnings
from typing import Any

import numpy as np
import pandas as pd

from data import SHARED
from harness import arguments, save, table
from spinney.errors import PrivacyLeakWarning
from spinney.estimators.horizontal_boosting import HorizontalBoostingClassifier
from spinney.estimators.inputs import deal_tables, fit_input
from spinney.protocols import horizontal_boosting
from spinney.protocols.horizontal_boosting.messages import GradientsAsk
from spinney.transport.in_process import InProcess

ONE = 1  # a cell of one row


class Watched(horizontal_boosting.Party):
    """All rows at one party, whose replies are then the sum; it notes rows that are alone."""

    def __init__(self, rows: Any) -> None:
        super().__init__(rows)
        self.told = np.zeros(rows.n_rows, np.bool_)
        self.by_batch: dict[int, int] = {}

    def answer(self, ask: Any) -> Any:
        reply = super().answer(ask)
        if isinstance(ask, GradientsAsk):
            self._note(ask, reply.counts.counters)
            self.by_batch[len(ask.grown)] = int(self.told.sum())
        return reply

    def _note(self, ask: GradientsAsk, sums: np.ndarray) -> None:
        rows = self._boosted(ask.job)
        counted, slots, table_ = rows.go_to(ask.grown, ask.levels).counted, ask.slots, rows.table
        zero = ask.job.units.g_steps
        for node in range(len(slots.feature)):
            begin, end = counted.starts[ask.first + node], counted.ends[ask.first + node]
            parts = [
                (counted.entries[a:b] & 0xFFFF).astype(np.int64) + first
                for a, b, first in zip(begin, end, table_.block_start, strict=False)
            ]
            held = np.concatenate(parts)
            codes = table_.rows(held)
            for slot, column in enumerate(slots.feature[node]):
                if column < 0:
                    continue
                code = codes[:, column].astype(np.int64)
                cell = (code + slots.add[node, slot]) >> slots.shift[node, slot]
                cell[code == 255] = slots.cells[node, slot] - 1
                found = sums[slots.offset[node, slot] + cell]
                alone = found[:, 0] == ONE
                says = found[:, 1] - zero < 0  # below its label: the label is 1
                truth = table_.target[held] == 1
                self.told[held[alone & (says == truth)]] = True


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, rows=4000)
    frame = pd.read_parquet(SHARED / "adult.parquet").sample(
        500 if asked.fast else asked.rows, random_state=0
    )
    given = fit_input(
        HorizontalBoostingClassifier(),
        frame.drop(columns="target"),
        frame["target"],
        is_classifier=True,
        needs_ranges=False,
        schema=None,
        categorical_features="from_dtype",
    )
    (rows,) = deal_tables(given.table, None).values()
    found = []
    for name, how in (
        ("default", {}),
        ("max_cells=5", {"max_cells": 5}),
        ("max_bins=16, max_cells=5", {"max_cells": 5, "max_bins": 16}),
        ("the same, depth 3", {"max_cells": 5, "max_bins": 16, "max_depth": 3}),
    ):
        chosen: dict[str, Any] = {"task": "classification", "loss": "log_loss", **how}
        party = Watched(rows)
        horizontal_boosting.train(InProcess({"all": party}), horizontal_boosting.Settings(**chosen))
        shares = [party.by_batch[batch] / rows.n_rows for batch in (0, max(party.by_batch))]
        found.append({"settings": name, "first batch": shares[0], "all batches": shares[1]})
    table(f"share of {rows.n_rows} rows of adult whose label a cell tells", found)
    save("bench_boosting_leaks", "share of rows", {"rows told": found})


if __name__ == "__main__":
    main()
