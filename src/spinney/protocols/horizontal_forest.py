"""A random forest over parties that hold different rows of the same columns (S1).

Kalloori and Klingler (2022), *Cross-Silo Federated Learning based Decision Trees*, Algorithm 1,
with the changes that make it exact and fast: all trees grow together, a level a round; histograms
are integer counts over shared bins. The paper's own histograms, Algorithms 2 and 3, are
`binning="adaptive"`.

| paper | here |
|---|---|
| client, global server | party, coordinator |
| S, a bootstrap of D | weights drawn by a hash of (seed, tree, the row's own key) |
| h_f = {(r, p, n)} | `Counts`: cells by class; r is a cell's place among the shared bins |
| b, number of bins | `max_cells` in a node, zoomed into the `max_bins` of the table |
| H_merge | the sum of the parties' counts (`channel.sum`) |

**Who learns what.** The coordinator learns sums over parties: counts of rows, missing values,
categories and classes, the counts from which bin edges are found, the histograms of every node.
It sees each party's schema, and its quality counts (a confusion matrix, or error sums). With
`binning="adaptive"` it sees each party's own histograms, bin means included. Parties learn the
bin edges and the forest as it grows. **Who never learns what.** Nobody but its party sees a row,
a row's key or which node it stands in. Without `secure_sum` the channel adds up replies that it
could read. No noise is added: nothing here is differentially private.

**Rounds and bytes.** Schemas 1, facts 1, edges at most 3, a level 1 each, quality 1: at most
depth + 7. A reply holds nodes x features x cells x classes counters of about 1 to 4 bits each.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.facts import FactsReply, binned, class_weights, target_range
from spinney.protocols.judging import QualityReply, judged, quality_of
from spinney.protocols.model import ForestModel
from spinney.protocols.settings import ForestSettings
from spinney.protocols.setup import (
    CountsReply,
    EdgesAsk,
    FactsAsk,
    SchemaAsk,
    agreed_schema,
    answer_setup,
    lay_bins,
    require_schema,
)
from spinney.protocols.training import Phases, Training
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel
from spinney.trees.binning import BinnedTable, Binning
from spinney.trees.counts import Counts
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.forest import Forest
from spinney.trees.growth import Growth, LeafValues, StoppingRules, forest_of_leaves
from spinney.trees.histogram import level_counts
from spinney.trees.level import Draws, Frontier, Level, Slots, tree_keys
from spinney.trees.rows import Standing, standing_at_roots
from spinney.trees.siblings import Above, with_derived
from spinney.trees.split import BestSplits, Criterion, LeastLeaf, best_splits
from spinney.trees.threads import thread_count
from spinney.typing import Floats, Progress, silent

NAME = "horizontal_forest"
_QUALITY_ROWS = 2048  # rows a party judges the forest by, where it need not judge by all

Settings = ForestSettings


@dataclass(frozen=True)
class Job:
    """What every question about trees repeats, so that it can be answered by itself."""

    settings: Settings
    schema_digest: str
    binning: Binning
    n_classes: int  # 0 for regression

    @cached_property
    def digest(self) -> bytes:
        """A digest of all of it."""
        return self.schema_digest.encode() + repr(self.settings).encode() + self.binning.digest()

    def roots(self) -> Frontier:
        """Return the roots of all trees."""
        settings, columns = self.settings, self.binning.columns
        n_slots = settings.n_slots(columns.n_columns)
        draws = Draws(n_slots, settings.max_cells, shared_phase=n_slots == columns.n_columns)
        return Frontier.of_roots(columns, draws, settings.seed, settings.n_estimators)


# --- messages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LevelAsk(Ask[CountsReply]):
    """How do the rows of these open nodes spread over the cells of their features?"""

    job: Job
    levels: tuple[Level, ...]
    first: int  # open nodes first to last, in the order of the frontier
    last: int
    reveals: ClassVar[str] = "histograms of tree nodes by class, or sums of targets"
    reply_type: ClassVar[type[Any]] = CountsReply

    @cached_property
    def frontier(self) -> Frontier:
        """The open nodes."""
        frontier = self.job.roots()
        for level in self.levels:
            frontier = frontier.after(level)
        return frontier


@dataclass(frozen=True)
class QualityAsk(Ask[QualityReply]):
    """How well does the finished forest do on your rows?"""

    job: Job
    levels: tuple[Level, ...]
    leaf_moments: Counts
    class_weight: Floats  # empty for regression: the forest then predicts fixed-point targets
    reveals: ClassVar[str] = "a confusion matrix, or error sums, over own rows"
    reply_type: ClassVar[type[Any]] = QualityReply

    @cached_property
    def forest(self) -> Forest:
        """The finished forest."""
        return forest_of_leaves(
            self.job.settings.n_estimators,
            self.levels,
            self.leaf_moments.counters,
            self.job.binning,
            LeafValues(self.class_weight),
        )


# --- a party -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kept:
    """Where the rows stood when the forest was this far."""

    job: bytes
    levels: tuple[Level, ...]
    standing: Standing

    def is_before(self, ask: LevelAsk) -> bool:
        """Tell whether a question is about this forest, grown on or not."""
        return self.job == ask.job.digest and self.levels == ask.levels[: len(self.levels)]


class Party:
    """One organisation's side. What it keeps between questions only saves time."""

    def __init__(self, table: Table, *, n_jobs: int | None = None) -> None:
        self._table = table
        self._n_threads = thread_count(n_jobs)
        self._binned: tuple[bytes, BinnedTable] | None = None
        self._standing: _Kept | None = None

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk() | FactsAsk() | EdgesAsk():
                return answer_setup(ask, self._table, self._n_threads)
            case LevelAsk():
                return self._count_level(ask)
            case QualityAsk():
                return self._judge(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def _count_level(self, ask: LevelAsk) -> CountsReply:  # Alg. 1, line 3: histograms
        table = self._table_in_bins(ask.job)
        standing = self._standing_at(ask, table)
        counts = level_counts(
            table,
            ask.frontier.columns,
            standing,
            ask.frontier.asked.part(ask.first, ask.last),
            (ask.first, ask.last),
            n_classes=ask.job.n_classes,
            n_threads=self._n_threads,
        )
        return CountsReply(counts)

    def _table_in_bins(self, job: Job) -> BinnedTable:
        if self._binned is None or self._binned[0] != job.digest:
            require_schema(self._table, job.schema_digest)
            table = binned(self._table, job.binning, n_threads=self._n_threads)
            self._binned = (job.digest, table)
        return self._binned[1]

    def _standing_at(self, ask: LevelAsk, table: BinnedTable) -> Standing:
        """Return where the rows stand: as kept, a level further, or from the roots again."""
        kept = self._standing
        if kept is not None and kept.is_before(ask):
            standing, done = kept.standing, len(kept.levels)
        else:
            settings = ask.job.settings
            keys = tree_keys(settings.seed, settings.n_estimators)
            standing = standing_at_roots(
                table, keys, bootstrap=settings.bootstrap, n_threads=self._n_threads
            )
            done = 0
        for level in ask.levels[done:]:
            standing = standing.after(level, table, self._n_threads)
        self._standing = _Kept(ask.job.digest, ask.levels, standing)
        return standing

    def _judge(self, ask: QualityAsk) -> QualityReply:
        settings = ask.job.settings
        self._standing = None
        return judged(
            self._table_in_bins(ask.job),
            ask.job.binning,
            ask.forest,
            tree_keys(settings.seed, settings.n_estimators),
            most_rows=None if settings.oob_score else _QUALITY_ROWS,
            bootstrap=settings.bootstrap,
            n_classes=ask.job.n_classes,
            n_threads=self._n_threads,
        )


# --- the coordinator -----------------------------------------------------------------------------


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> Training:
    """Grow a forest with the parties on the channel."""
    phases = Phases()
    n_threads = thread_count(n_jobs)
    with phases.phase("agreeing"):
        schema = agreed_schema(channel)
    with phases.phase("binning"):
        progress("binning", 0, 0)
        facts, binning = lay_bins(channel, schema, settings)
        job = Job(settings, schema.digest(), binning, facts.classes.size)
    with phases.phase("growing"):
        growth = _grow(channel, job, facts, n_threads=n_threads, progress=progress)
    with phases.phase("judging"):
        progress("judging", 0, 0)
        weights = class_weights(settings, facts)
        values = _leaf_values(schema, weights)
        replies = channel.ask(QualityAsk(job, growth.levels, growth.leaf_moments, weights))
        step = values.step * 256
        quality = {
            name: quality_of(reply.counts, bootstrap=settings.bootstrap, step=step)
            for name, reply in replies.items()
        }
        pooled = np.sum([reply.counts for reply in replies.values()], axis=0)
        scores = quality_of(pooled, bootstrap=settings.bootstrap, step=step).scores
    forest = growth.forest(binning, values)
    model = ForestModel(NAME, schema, forest, binning.bin_of_category)
    score = next(iter(scores.values()), None) if settings.oob_score else None
    return Training(
        model,
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        quality,
        score,
        asdict(settings),
    )


def _grow(
    channel: Channel, job: Job, facts: FactsReply, *, n_threads: int, progress: Progress
) -> Growth:
    """Grow all trees, a level a round."""
    settings, n_rows = job.settings, int(facts.n_rows[0])
    weights = class_weights(settings, facts)
    rules = StoppingRules(
        settings.max_depth,
        settings.least_rows(settings.min_samples_split, n_rows),
        settings.least_rows(settings.min_samples_leaf, n_rows),
        settings.min_impurity_decrease,
        is_regression=settings.task == "regression",
    )
    least = LeastLeaf(rules.min_samples_leaf, settings.min_weight_fraction_leaf)
    growth = Growth(job.roots(), rules, weights)
    criterion = Criterion.of(settings.criterion, weights, 2 * n_rows + 64)
    above = None
    while growth.frontier.n_open:
        progress("growing", growth.depth, settings.max_depth or 0)
        frontier = growth.frontier
        parts = []
        batches = list(_batches(frontier.asked, job))
        for first, last in batches:
            ask = LevelAsk(job, growth.levels, first, last)
            ask.__dict__["frontier"] = frontier  # known here; others compute it
            counters = channel.sum(ask).counts.counters
            if len(counters) != frontier.asked.part(first, last).n_cells:
                raise ProtocolError("A party's histograms do not have the cells asked for.")
            if above is not None and frontier.derived.any():
                counters = with_derived(frontier, above, counters)
            parts.append(
                best_splits(
                    counters,
                    frontier.slots.part(first, last),
                    frontier.columns,
                    criterion,
                    least=least,
                    root_weight=growth.root_weight[first:last],
                    n_threads=n_threads,
                )
            )
        # Where a level came in one piece its histograms are kept, to derive the next from.
        above = Above(frontier.slots, counters) if len(batches) == 1 else None
        within = settings.message_limit // _cell_bytes(job) if above is not None else 0
        growth.grow(BestSplits.of_parts(parts), derive_within=within)  # Alg. 1, line 3: best value
    return growth


def _batches(slots: Slots, job: Job) -> Iterator[tuple[int, int]]:
    """Cut a level into ranges of nodes whose counters keep to the message limit."""
    ends = np.cumsum(slots.cells.sum(axis=1, dtype=np.int64) * _cell_bytes(job))
    first, done = 0, 0
    while first < ends.size:
        last = int(np.searchsorted(ends, done + job.settings.message_limit, side="right"))
        last = max(last, first + 1)
        yield first, last
        first, done = last, int(ends[last - 1])


def _cell_bytes(job: Job) -> int:
    return 4 * job.n_classes if job.n_classes else 16


def _leaf_values(schema: Schema, weights: Floats) -> LeafValues:
    if weights.size:
        return LeafValues(weights)
    low, high = target_range(schema.label)
    return LeafValues(weights, low, (high - low) / (2**TARGET_BITS - 1))
