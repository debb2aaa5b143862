"""Trees from histograms that carry noise: S1's private mode, with the paper's errors put right.

Kalloori and Klingler (2022), section 3.1, add geometric noise to the counts of a histogram. Three
things must change before that protects anybody: bins are public (equal parts of declared ranges,
one for each category, one for missing values) and all are released, empty ones too; the price adds
up over slots, levels and trees (`budgeting`); rows that a tree reads are not drawn twice. Equation
6 of the paper takes epsilon for alpha; here alpha = exp(-epsilon), as in the work it cites.

| paper | here |
|---|---|
| Z, geometric noise, equation 6 | `DiscreteLaplace`: decay = epsilon of a level / slots |
| (p, n) of a bin | signed class counts, cut off at zero only inside formulas |
| r, the mean of a bin's values | not released: cells lie between public edges |
| S, a bootstrap of D | `tree_rows`: disjoint parts, a secret sample, or all rows |

**Who learns what.** The coordinator learns noisy histograms of every open node and noisy counts of
every leaf: each party's, each with that party's own whole noise; or, in shares under secure sums,
only their sum. Parties learn the forest as it grows. **Who never learns what.** Exact counts of
rows, classes, gaps or categories leave no party, nor does a bin's mean, a quantile or a score. A
share of noise leaves its party under a mask or not at all.

**Rounds and bytes.** Joining 1, a level 1 each, leaves 1, claims 1. A reply holds 8 bytes for each
of nodes x slots x cells x classes counters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InternalError, ProtocolError
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.release import Charge, Exact, Noised, Shares
from spinney.protocols.budgeting import ForestPlan, trees_by_levels
from spinney.protocols.dealing import dealt_rows
from spinney.protocols.facts import binned, given_weights, leaf_values, public_binning
from spinney.protocols.growing import Job, OpenNodes, PartyRows, Search, frontier_after
from spinney.protocols.judging import row_values
from spinney.protocols.paying import Purse
from spinney.protocols.settings import ForestSettings
from spinney.protocols.shares import OnlyMasked
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel, Vector
from spinney.trees.binning import BinnedTable
from spinney.trees.counts import Counters
from spinney.trees.dealt import standing_of_rows
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.forest import Forest
from spinney.trees.growth import Growth
from spinney.trees.histogram import level_counts
from spinney.trees.layout import LeafValues, forest_of_leaves
from spinney.trees.level import Level
from spinney.trees.rows import Standing
from spinney.trees.split import BestSplits, Criterion, LeastLeaf
from spinney.typing import Integers, Progress

UNKNOWN_ROWS: Final = 2**31 - 1  # how many rows there are is not asked
_CHUNK: Final = 65536


# --- messages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoisyReply:
    """Counters with noise, vector after vector; they may be negative."""

    counters: NDArray[np.int64]

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.counters,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "NoisyReply":
        """Return the reply with these integers."""
        (counters,) = vectors
        return cls(counters)


@dataclass(frozen=True)
class ShareReply:
    """What a party in a secure sum answers; its wrapper masks it."""

    counters: OnlyMasked


def noisy_reply(data: bytes, shares: Shares | None) -> NoisyReply | ShareReply:
    """Return stored counters as the reply that may leave: whole noise as it is, shares masked."""
    counters = np.frombuffer(data, np.int64).copy()
    return ShareReply(OnlyMasked(Noised(counters, shares))) if shares else NoisyReply(counters)


class Signed:
    """What the questions answered with noise share."""

    def to_ring(self, reply: NoisyReply | ShareReply) -> tuple[Vector, ...]:
        """Return the integers as they are masked: modulo 2**64, for they may be negative."""
        return (reply.counters.values,) if isinstance(reply, ShareReply) else reply.vectors()


@dataclass(frozen=True)
class NoisyLevelAsk(OpenNodes, Signed, Ask[NoisyReply]):
    """How do the rows of these open nodes spread over their cells, with noise?"""

    reveals: ClassVar[str] = "histograms of tree nodes by class, or sums of targets, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply


@dataclass(frozen=True)
class LeafAsk(Signed, Ask[NoisyReply]):
    """What do the leaves of this forest hold, with noise?"""

    job: Job
    levels: tuple[Level, ...]
    reveals: ClassVar[str] = "class counts, or sums of targets, of leaves, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    @cached_property
    def levels_of_tree(self) -> Integers:
        """How many levels each tree has been asked about."""
        asked = np.zeros(self.job.settings.n_estimators, np.int64)
        for frontier in frontier_after(self.job, self.levels)[:-1]:
            asked[np.unique(frontier.tree)] += 1
        return asked

    @cached_property
    def leaves(self) -> Forest:
        """The forest's shape; the moments of a leaf hold its number."""
        n_trees = self.job.settings.n_estimators
        n_leaves = n_trees + sum(int((level.feature >= 0).sum()) for level in self.levels)
        numbers = np.arange(n_leaves, dtype=np.int64)[:, None]
        values = LeafValues(np.ones(1))
        return forest_of_leaves(n_trees, self.levels, numbers, self.job.binning, values)

    @cached_property
    def tree_of_leaf(self) -> Integers:
        """The tree of every leaf, by the leaf's number."""
        forest = self.leaves
        leaf = np.flatnonzero(forest.feature < 0)
        tree = np.empty(leaf.size, np.int64)
        tree[forest.moments[leaf, 0]] = np.searchsorted(forest.tree_start, leaf, side="right") - 1
        return tree


NOISY: Final[tuple[type[Ask[Any]], ...]] = (NoisyLevelAsk, LeafAsk)


def noisy_job(schema: Schema, settings: ForestSettings, n_parties: int) -> Job:
    """Return the job; all of it follows from public facts, so that a party can check it."""
    n_classes = len(schema.label.classes or ())
    binning = public_binning(schema, settings.max_bins)
    return Job(settings, schema.digest(), binning, n_classes, UNKNOWN_ROWS, n_parties)


def plan_of(job: Job) -> ForestPlan:
    """Return how the job's budget is divided."""
    return ForestPlan(job.settings, job.binning.columns.n_columns, job.n_classes, job.n_parties)


# --- a party -------------------------------------------------------------------------------------


class NoisyRows(PartyRows):
    """A party's rows as its own coins deal them to the trees."""

    def __init__(self, table: Table, purse: Purse, n_threads: int) -> None:
        super().__init__(table, n_threads)
        self._purse = purse

    def answer(self, ask: Ask[Any]) -> NoisyReply | ShareReply:
        """Pay for a question and answer it with noise."""
        if not isinstance(ask, NoisyLevelAsk | LeafAsk):
            raise InternalError(f"{type(ask).__name__} is not answered with noise.")
        own = noisy_job(self.table.schema, ask.job.settings, ask.job.n_parties)
        if own.digest != ask.job.digest or own.n_classes != ask.job.n_classes:
            raise ProtocolError(
                "The question's bins are not those of the declared ranges. Nothing was released."
            )
        plan = plan_of(own)
        data = self._leaves(plan, ask) if isinstance(ask, LeafAsk) else self._level(plan, ask)
        return noisy_reply(data, plan.privacy.shares(plan.n_parties))

    def _level(self, plan: ForestPlan, ask: NoisyLevelAsk) -> bytes:
        depth, frontier = len(ask.levels), ask.frontier  # which checks that the levels fit
        if depth >= plan.n_levels or not 0 <= ask.first < ask.last <= frontier.n_open:
            raise ProtocolError(
                f"The job has {plan.n_levels} levels, and this one {frontier.n_open} open nodes; "
                f"level {depth}, nodes {ask.first} to {ask.last}, is none of them."
            )
        trees = np.unique(frontier.tree[ask.first : ask.last])

        def draw(charges: tuple[Charge, ...]) -> bytes:
            noise = plan.mechanisms(plan.level_epsilon, plan.n_slots)
            return b"".join(_released(self._counted(ask), noise, charges))

        n_values = ask.slots.n_cells * (plan.n_classes or 1)
        spends = plan.level_spends(depth, trees.tolist(), n_values)
        told = [] if depth else [plan.disclosure()]
        return self._purse.pay(plan, depth, ask, spends, draw, disclosures=told)

    def _counted(self, ask: NoisyLevelAsk) -> Counters:
        """Return what noise is to be added to."""
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
            raise ProtocolError("The job pays for no second count of leaves.")
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
            width = len(charges) // len(groups)  # vectors, each with a charge of its own
            noised = np.empty((width, counts.size // width), np.int64)
            for at, (n_levels, rows) in enumerate(zip(groups, rows_of_group, strict=True)):
                noise = plan.mechanisms(plan.leaf_epsilon(n_levels), 1)
                paid = charges[at * width : (at + 1) * width]
                columns = np.repeat(rows, counts.shape[1] // width)
                for vector, part in enumerate(_released(counts[rows], noise, paid)):
                    noised[vector, columns] = np.frombuffer(part, np.int64)
            return noised.tobytes()

        return self._purse.pay(plan, plan.n_levels, ask, spends, draw)

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

    def _dealt(self, job: Job, n_rows: int) -> list[Integers]:
        """Return the rows of every tree; the secret of the coins is drawn when first needed."""
        privacy = plan_of(job).privacy
        key = b""
        if privacy.tree_rows != "all":
            is_sampled = privacy.tree_rows == "sampled"
            key = self._purse.coins(privacy.job, claims_rest_on_them=is_sampled)
        return dealt_rows(privacy, job.settings.n_estimators, n_rows, key)

    def _at_roots(self, job: Job, table: BinnedTable) -> Standing:
        return standing_of_rows(table, self._dealt(job, table.n_rows))

    def _read(self, job: Job) -> BinnedTable:
        table = binned(self.table, job.binning, n_threads=self._n_threads, target_bits=TARGET_BITS)
        if job.n_classes:
            return table
        bits = plan_of(job).target_bits
        target = (table.target >> (TARGET_BITS - bits)) - (1 << (bits - 1))
        return replace(table, target=target)


def _released(
    counters: Counters, noise: Sequence[DiscreteLaplace], charges: Sequence[Charge]
) -> list[bytes]:
    """Return each vector with its noise: all counts, or weights and then sums."""
    exact = counters.astype(np.int64)
    vectors = [exact.ravel()] if len(noise) == 1 else list(exact.T)
    return [
        mechanism.release(Exact(vector), charge).values.tobytes()
        for mechanism, vector, charge in zip(noise, vectors, charges, strict=True)
    ]


# --- the coordinator -----------------------------------------------------------------------------


def grown_noisily(
    channel: Channel, schema: Schema, job: Job, *, n_threads: int, progress: Progress
) -> Forest:
    """Grow all trees, a level a round, and count their leaves at the end."""
    settings, plan = job.settings, plan_of(job)
    weights = given_weights(settings, job.n_classes)
    growth = Growth(job.roots(), job.rules(), weights)
    search = Search(
        Criterion.of(settings.criterion, weights, UNKNOWN_ROWS),
        LeastLeaf(growth.rules.min_samples_leaf, settings.min_weight_fraction_leaf),
        n_threads,
        is_noisy=True,
    )
    while growth.frontier.n_open:
        progress("growing", growth.depth, plan.n_levels)
        parts = []
        for first, last in job.batches_of_trees(growth.frontier):
            ask = NoisyLevelAsk(job, growth.levels, first, last)
            ask.__dict__["frontier"] = growth.frontier  # known here; others compute it
            counters = moments_of(plan, channel.sum(ask), ask.slots.n_cells)
            parts.append(search.best(counters, growth, first, last))
        growth.grow(BestSplits.of_parts(parts))
    leaf_moments = None
    if plan.counts_leaves:
        progress("counting leaves", 0, 0)
        leaves = LeafAsk(job, growth.levels)
        leaf_moments = moments_of(plan, channel.sum(leaves), leaves.tree_of_leaf.size)
    return growth.forest(job.binning, leaf_values(schema, weights, TARGET_BITS), leaf_moments)


def moments_of(plan: ForestPlan, reply: NoisyReply, n_cells: int) -> Counters:
    """Return class counts by cell, or weights and target sums in the units that trees use."""
    if reply.counters.size != n_cells * (plan.n_classes or 2):
        raise ProtocolError("A party's noisy counts do not have the cells asked for.")
    if plan.n_classes:
        return reply.counters.reshape(-1, plan.n_classes)
    rows, sums = reply.counters.reshape(2, -1)
    step = 1 << (TARGET_BITS - plan.target_bits)
    middle = rows * ((1 << (plan.target_bits - 1)) * step + step // 2)
    return np.stack([rows, sums * step + middle], axis=1)
