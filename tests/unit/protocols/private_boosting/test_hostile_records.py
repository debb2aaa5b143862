"""Whatever a coordinator tells, a record moves what a party releases by what is charged at most.

Rows at the ends of their ranges, far outside, missing or undeclared are taken away one at a time.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from spinney.protocols import private_boosting
from spinney.protocols.noisy_boosting.messages import BoostedSoFar, PublicBoosting
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable

COLUMNS = (
    Column("a", "number", (0.0, 1.0)),
    Column("b", "number", (-1e6, 1e30)),
    Column("c", "category", categories=("x", "y", "z")),
    Column("d", "number", (5.0, 5.5)),
)
FAR = [np.nan, np.inf, -np.inf, 0.0, 1.0, -1e38, 3e38, 5.0, 5.5, 2.0, 1e-45]
TARGETS = [-1e300, -10.0, 0.0, 5.0, np.nextafter(10.0, 0.0), 10.0, 10.0001, 1e300]
N_ROWS = 24


def label_of(kind):
    if kind == "number":
        return Label("y", "number", range=(0.0, 10.0))
    return Label("y", "class", tuple("abc"[:kind]))


class Trial:
    """Rows, a job, and questions that no honest coordinator would ask."""

    def __init__(self, kind, delta, seed):
        self.random = random = np.random.RandomState(seed)
        self.X = np.where(
            random.rand(N_ROWS, 4) < 0.5, random.choice(FAR, (N_ROWS, 4)), random.rand(N_ROWS, 4)
        ).astype(np.float32)
        self.X[:, 2] = random.choice([0, 1, 2, 3, 7, np.nan, -1], N_ROWS)
        self.y: Any = (
            random.choice(TARGETS, N_ROWS) if kind == "number" else random.randint(0, kind, N_ROWS)
        )
        given: dict[str, Any] = {"job": "job", "epsilon": "2", "tree_rows": "all"}
        privacy = PrivacySettings(**given | ({"delta": "1/1000000"} if delta else {}))
        self.schema = Schema(COLUMNS, label_of(kind))
        self.asked = private_boosting.Settings(
            privacy=privacy,
            task="regression" if kind == "number" else "classification",
            n_passes=4,  # of numbers with delta, two take the columns that have mattered
            max_depth=3,
            seed=seed,
            assumed_rows=20_000,
            batch_trees=int(random.choice([1, 3])),
            method="pairs" if seed % 2 else "cyclic",
        )
        self.public = PublicBoosting.of(self.schema, self.asked, 1)

    def boosted(self, kept):
        target = self.y[kept]
        held = MemoryTable(self.schema, MatrixColumns(self.X[kept]), target)
        return private_boosting.Party(held, n_jobs=1, ledger=None)._boosted

    def whole(self, size, shape):
        return self.random.randint(-size, size + 1, shape).astype(np.int64)

    def so_far(self, number):
        """Return facts, values, curves and a clip that nobody's sums gave."""
        plan, random = self.public.plan, self.random
        n_facts = plan.n_base + plan.n_edge_cells
        facts = random.choice([0, 1, -5, 100, 2**40, 2**62, -(2**62)], n_facts).astype(np.int64)
        before = self.public.batches[:number]
        far = [int(random.choice([0, 2**20, 2**24, 2**40 - 1])) for _ in before]
        values = [
            self.whole(size, (plan.loss.n_outputs, batch.n_leaves))
            for size, batch in zip(far, before, strict=True)
        ]
        curves = [self.whole(size, plan.n_terms) for size in far if self.public.choice.degree]
        clip = int(random.choice([0, 1, 2**10, 2**24, 2**39]))
        scored = self.public.batches[self.public.choice.first_scored : number + 1]
        pairs = [
            np.array([random.permutation(plan.n_columns)[:2] for _ in batch.trees])
            for batch in scored
        ]
        told = (tuple(values), tuple(curves), tuple(pairs), clip)
        return BoostedSoFar(self.asked, self.schema.digest(), 1, facts, *told)


@pytest.mark.parametrize("delta", [False, True], ids=["pure", "delta"])
@pytest.mark.parametrize("kind", [2, 3, "number"])
def test_a_record_moves_the_answer_to_any_question_by_what_is_charged_at_most(kind, delta):
    largest: dict[str, Fraction] = {}
    n_chosen = 0  # rounds whose columns follow from sums
    for seed in range(3):
        trial = Trial(kind, delta, seed)
        public, plan = trial.public, trial.public.plan
        everyone = np.arange(N_ROWS)
        for number in sorted({0, 1, 4, len(public.batches) - 1} & {*range(len(public.batches))}):
            so_far = trial.so_far(number)
            so_far.require(public)
            n_chosen += len(so_far.columns)
            sums = trial.boosted(everyone)._scored(public, so_far).sums(so_far)
            whole = plan.parts(number, sums)
            for row in range(0, N_ROWS, 3):
                sums = trial.boosted(everyone != row)._scored(public, so_far).sums(so_far)
                parts = zip(plan.batch_spends(number), whole, plan.parts(number, sums), strict=True)
                for spend, with_row, without in parts:
                    change = (with_row - without).astype(object)
                    noise: Any = spend.mechanism
                    share = (
                        Fraction(int((change**2).sum())) / noise.squared_sensitivity
                        if delta
                        else Fraction(int(np.abs(change).sum())) / noise.sensitivity
                    )
                    assert share <= 1, (spend.what, number, row)
                    what = spend.what.split(",")[0]
                    largest[what] = max(largest.get(what, Fraction(0)), share)
    assert (n_chosen > 0) == (kind == "number" and delta)
    assert min(largest.values()) > Fraction(1, 2)  # the rows are as far out as they are meant to be
