"""How many labels the histograms of boosted trees give away, to whoever sees the sums.

Two attacks by the coordinator, or a party. *Alone*: a gradient is a prediction minus a label, so
its sign tells the label of a row that is alone in a cell of any node's histogram. *Solved*: an
attacker who knows every row's features, and not which rows a tree draws, knows which rows may be in
a cell. Every cell is then one equation about their gradients; it solves those of each tree by least
squares, takes the means over trees, and reads labels off them.
Run: python benchmarks/bench_boosting_leaks.py [--fast] [--rows 2000]
"""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import lsqr

from data import SHARED
from harness import arguments, save, table
from spinney.errors import PrivacyLeakWarning
from spinney.estimators.horizontal_boosting import HorizontalBoostingClassifier
from spinney.estimators.inputs import deal_tables, fit_input
from spinney.protocols import horizontal_boosting
from spinney.protocols.horizontal_boosting.messages import GradientsAsk
from spinney.transport.in_process import InProcess
from spinney.trees.losses import SCORE_BITS

ONE = 1  # a cell of one row
STEPS = 60  # of the solver


class Watched(horizontal_boosting.Party):
    """All rows at one party, whose replies are then the sum; it plays both attackers."""

    def __init__(self, rows: Any) -> None:
        super().__init__(rows)
        self.alone = np.zeros(rows.n_rows, np.bool_)
        self.by_batch: dict[int, tuple[float, float]] = {}
        self._equations: dict[int, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
        self._guess = np.zeros(rows.n_rows)
        self._n_trees = 0

    def answer(self, ask: Any) -> Any:
        reply = super().answer(ask)
        if isinstance(ask, GradientsAsk):
            if ask.levels == () and self._equations:
                self._solve()
            self._note(ask, reply.counts.counters)
        return reply

    def _note(self, ask: GradientsAsk, sums: np.ndarray) -> None:
        """Keep a level's equations; note the rows that are alone in a cell."""
        rows = self._boosted(ask.job)
        walk, slots, held = rows.go_to(ask.grown, ask.levels), ask.slots, rows.table
        zero = ask.job.units.g_steps
        self._truth = held.target == 1
        self._chance = 1.0 / (1.0 + np.exp(-rows.scores[0] * 2.0**-SCORE_BITS))
        self._draws, self._unit = ask.job.settings.subsample, ask.job.units.g
        counted, others = walk.counted, walk._nodes[1].part(walk._is_open)  # noqa: SLF001
        for node in range(len(slots.feature)):
            drawn, rest = (_rows_of(part, ask.first + node, held) for part in (counted, others))
            every = np.concatenate([drawn, rest])
            codes = held.rows(every)
            tree = int(ask.frontier.tree[ask.first + node])
            for slot, column in enumerate(slots.feature[node]):
                if column < 0:
                    continue
                code = codes[:, column].astype(np.int64)
                cell = (code + slots.add[node, slot]) >> slots.shift[node, slot]
                cell[code == 255] = slots.cells[node, slot] - 1
                at = slots.offset[node, slot] + cell
                found = sums[at[: drawn.size]]
                alone = found[:, 0] == ONE
                says = found[:, 1] - zero < 0  # below its label: the label is 1
                self.alone[drawn[alone & (says == self._truth[drawn])]] = True
                cells, which = np.unique(at, return_inverse=True)
                told = sums[cells, 1] - zero * sums[cells, 0]
                self._equations.setdefault(tree, []).append((which, every, told))

    def _solve(self) -> None:
        """Solve the equations of a batch's trees; note how many labels are right so far."""
        for equations in self._equations.values():
            sizes = [told.size for *_, told in equations]
            begin = np.cumsum([0, *sizes])[:-1]
            line = np.concatenate(
                [which + first for (which, *_), first in zip(equations, begin, strict=True)]
            )
            column = np.concatenate([every for _, every, _ in equations])
            shape = (sum(sizes), self._truth.size)
            matrix = coo_matrix((np.ones(line.size), (line, column)), shape).tocsr()
            told = np.concatenate([told for *_, told in equations]) * self._unit
            gradient = lsqr(matrix, told.astype(np.float64), iter_lim=STEPS)[0]
            self._guess += self._chance - gradient / self._draws
            self._n_trees += 1
        self._equations = {}
        right = np.mean((self._guess / self._n_trees > 0.5) == self._truth)
        self.by_batch[len(self.by_batch)] = (float(self.alone.mean()), float(right))

    def finish(self) -> None:
        """Solve the last batch."""
        self._solve()


def _rows_of(part: Any, node: int, held: Any) -> np.ndarray:
    parts = [
        (part.entries[a:b] & 0xFFFF).astype(np.int64) + first
        for a, b, first in zip(part.starts[node], part.ends[node], held.block_start, strict=False)
    ]
    return np.concatenate(parts)


SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "max_cells=5": {"max_cells": 5},
    "min_samples_leaf=100": {"min_samples_leaf": 100},
    "max_cells=5, max_bins=16, max_depth=3": {"max_cells": 5, "max_bins": 16, "max_depth": 3},
    "the same, 3 batches of 10": {
        "max_cells": 5,
        "max_bins": 16,
        "max_depth": 3,
        "max_iter": 30,
    },
}


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, rows=2000)
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
    for name, how in SETTINGS.items():
        chosen: dict[str, Any] = {"task": "classification", "loss": "log_loss", **how}
        party = Watched(rows)
        settings = horizontal_boosting.Settings(**chosen)
        training = horizontal_boosting.train(InProcess({"all": party}), settings)
        party.finish()
        last = max(party.by_batch)
        found.append(
            {
                "settings": name,
                "alone, first batch": party.by_batch[0][0],
                "alone, all": party.by_batch[last][0],
                "solved, first batch": party.by_batch[0][1],
                "solved, all": party.by_batch[last][1],
                "the model itself": training.quality["all"].scores["accuracy"],
            }
        )
        print(found[-1], flush=True)
    common = max(np.mean(given.table.target == 1), np.mean(given.table.target == 0))
    table(f"labels told, {rows.n_rows} rows of adult; the commoner class has {common:.1%}", found)
    save("bench_boosting_leaks", "share of rows", {"rows told": found})


if __name__ == "__main__":
    main()
