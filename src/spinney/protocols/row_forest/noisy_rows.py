"""Trees from noisy histograms: S1's private mode, with the paper's errors corrected.

Kalloori and Klingler (2022), section 3.1, add geometric noise to the counts of a histogram. This
protects nobody without three changes. Bins are public (equal parts of declared ranges, one per
category, one for missing values), and all are released, empty ones too. The price adds up over
slots, levels and trees (`row_forest.budget`). A tree does not draw a row twice. Equation 6 of the
paper uses epsilon for alpha; here alpha = exp(-epsilon), as in the work it cites.

| paper | here |
|---|---|
| Z, geometric noise, equation 6 | `DiscreteLaplace`: decay = epsilon of a level / slots |
| (p, n) of a bin | signed class counts, clipped at zero only inside formulas |
| r, the mean of a bin's values | not released: cells lie between public edges |
| S, a bootstrap of D | `tree_rows`: disjoint parts, a secret sample, or all rows |

**Who learns what.** The coordinator learns noisy histograms of every open node and noisy counts of
every leaf. It sees each party's counts with that party's own whole noise; or, if noise is in shares
under secure sums, only their sum. Parties learn the forest as it grows.
**Who never learns what.** Exact counts of rows, classes, missing values or categories never leave a
party; neither does a bin's mean, a quantile or a score. A share of noise leaves its party only
under a mask.

**Rounds and bytes.** Joining 1, each level 1, leaves 1, claims 1. A reply holds 8 bytes for each of
nodes x slots x cells x classes counters.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from spinney.errors import InternalError, ProtocolError
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.release import Charge, Exact
from spinney.protocols.accounts.account import PartyAccount
from spinney.protocols.accounts.replies import NoisyReply, ShareReply, noisy_reply
from spinney.protocols.row_forest.budget import ForestPlan, trees_by_levels
from spinney.protocols.row_forest.dealing import deal_rows_to_trees
from spinney.protocols.row_forest.messages import LeafAsk, NoisyLevelAsk, noisy_job, plan_of
from spinney.protocols.rows.facts import bin_table
from spinney.protocols.rows.levels import BinnedRows, GrowingJob
from spinney.protocols.rows.quality import row_values
from spinney.tables.table import Table
from spinney.transport.channel import Ask
from spinney.trees.binning import BinnedTable
from spinney.trees.counts import Counters
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.histogram import level_counts
from spinney.trees.rows import Standing, standing_of_rows
from spinney.typing import Integers

_CHUNK: Final = 65536


class NoisyRows(BinnedRows):
    """A party's rows, dealt to the trees by its own secret coins."""

    def __init__(self, table: Table, account: PartyAccount, n_threads: int) -> None:
        super().__init__(table, n_threads)
        self._account = account

    def answer(self, ask: Ask[Any]) -> NoisyReply | ShareReply:
        """Pay for a question and answer it with noise."""
        if not isinstance(ask, NoisyLevelAsk | LeafAsk):
            raise InternalError(f"{type(ask).__name__} is not answered with noise.")
        own = noisy_job(self.table.schema, ask.job.settings, ask.job.n_parties)
        if own.digest != ask.job.digest or own.n_classes != ask.job.n_classes:
            raise ProtocolError(
                "The question's bins do not follow from the declared ranges. Nothing was released."
            )
        plan = plan_of(own)
        data = self._leaves(plan, ask) if isinstance(ask, LeafAsk) else self._level(plan, ask)
        return noisy_reply(data, plan.privacy.shares(plan.n_parties))

    def _level(self, plan: ForestPlan, ask: NoisyLevelAsk) -> bytes:
        depth, frontier = len(ask.levels), ask.frontier  # raises if the levels do not fit
        if depth >= plan.n_levels or not 0 <= ask.first < ask.last <= frontier.n_open:
            raise ProtocolError(
                f"The question is about nodes {ask.first} to {ask.last} of level {depth}; the job "
                f"has {plan.n_levels} levels, and this level {frontier.n_open} open nodes."
            )
        trees = np.unique(frontier.tree[ask.first : ask.last])

        def draw(charges: tuple[Charge, ...]) -> bytes:
            noise = plan.mechanisms(plan.level_epsilon, plan.n_slots)
            return b"".join(_released(self._counted(ask), noise, charges))

        n_values = ask.slots.n_cells * (plan.n_classes or 1)
        spends = plan.level_spends(depth, trees.tolist(), n_values)
        told = [] if depth else [plan.disclosure()]
        return self._account.pay(plan, depth, ask, spends, draw, disclosures=told)

    def _counted(self, ask: NoisyLevelAsk) -> Counters:
        """Return the counts to which noise is added."""
        standing = self.standing(ask)
        return level_counts(
            self.binned(ask.job),
            ask.frontier.columns,
            standing,
            ask.slots,
            (ask.first, ask.last),
            n_classes=ask.job.n_classes,
            n_threads=self._n_threads,
        ).counters

    def _leaves(self, plan: ForestPlan, ask: LeafAsk) -> bytes:
        if not plan.counts_leaves:
            raise ProtocolError("The job does not pay for a second count of leaves.")
        groups = trees_by_levels(ask.levels_of_tree)
        rows_of_group = [np.isin(ask.tree_of_leaf, trees) for trees in groups.values()]
        spends = [
            spend
            for (n_levels, trees), rows in zip(groups.items(), rows_of_group, strict=True)
            for spend in plan.leaf_spends(
                n_levels, trees.tolist(), int(rows.sum()) * (plan.n_classes or 1)
            )
        ]

        def draw(charges: tuple[Charge, ...]) -> bytes:
            counts = self._leaf_counts(ask)
            width = len(charges) // len(groups)  # number of vectors, each with its own charge
            noised = np.empty((width, counts.size // width), np.int64)
            for at, (n_levels, rows) in enumerate(zip(groups, rows_of_group, strict=True)):
                noise = plan.mechanisms(plan.leaf_epsilon(n_levels), 1)
                paid = charges[at * width : (at + 1) * width]
                columns = np.repeat(rows, counts.shape[1] // width)
                for vector, part in enumerate(_released(counts[rows], noise, paid)):
                    noised[vector, columns] = np.frombuffer(part, np.int64)
            return noised.tobytes()

        return self._account.pay(plan, plan.n_levels, ask, spends, draw)

    def _leaf_counts(self, ask: LeafAsk) -> Integers:
        """Count each tree's rows by leaf: (n_leaves, classes), or rows and target sums."""
        table, forest = self.binned(ask.job), ask.leaves
        width = ask.job.n_classes or 2
        out = np.zeros((ask.tree_of_leaf.size, width), np.int64)
        for tree, rows in enumerate(self._dealt(ask.job, table.n_rows)):
            for first in range(0, rows.size, _CHUNK):
                part = rows[first : first + _CHUNK]
                values = row_values(table, ask.job.binning, part)
                leaf = forest.moments[forest.leaves(values, tree), 0]
                target = table.target[part].astype(np.int64)
                if ask.job.n_classes:
                    np.add.at(out, (leaf, target), 1)
                else:
                    np.add.at(out, (leaf, 0), 1)
                    np.add.at(out, (leaf, 1), target)
        return out

    def _dealt(self, job: GrowingJob, n_rows: int) -> list[Integers]:
        """Return the rows of every tree; the key of the coins is drawn when first needed."""
        privacy = plan_of(job).privacy
        key = b""
        if privacy.tree_rows != "all":
            is_sampled = privacy.tree_rows == "sampled"
            key = self._account.coins(privacy.job, claims_rest_on_them=is_sampled)
        return deal_rows_to_trees(privacy, job.settings.n_estimators, n_rows, key)

    def _at_roots(self, job: GrowingJob, table: BinnedTable) -> Standing:
        return standing_of_rows(table, self._dealt(job, table.n_rows))

    def _read(self, job: GrowingJob) -> BinnedTable:
        table = bin_table(
            self.table, job.binning, n_threads=self._n_threads, target_bits=TARGET_BITS
        )
        if job.n_classes:
            return table
        bits = plan_of(job).target_bits
        target = (table.target >> (TARGET_BITS - bits)) - (1 << (bits - 1))
        return replace(table, target=target)


def _released(
    counters: Counters, noise: Sequence[DiscreteLaplace], charges: Sequence[Charge]
) -> list[bytes]:
    """Return each vector with its noise: all counts, or weights followed by sums."""
    exact = counters.astype(np.int64)
    vectors = [exact.ravel()] if len(noise) == 1 else list(exact.T)
    return [
        mechanism.release(Exact(vector), charge).values.tobytes()
        for mechanism, vector, charge in zip(noise, vectors, charges, strict=True)
    ]
