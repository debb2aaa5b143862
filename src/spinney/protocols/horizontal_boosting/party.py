"""A party's side of boosted trees over rows: it keeps scores and sums gradients.

**Who learns what.** See `spinney.protocols.horizontal_boosting`. What a party keeps between
questions is a cache: it can be rebuilt from the finished batches that every question names.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.boosted.scores import ALL_WORDS, RowScores
from spinney.protocols.horizontal_boosting.messages import (
    WEIGHT_DROPPED,
    BatchOfJob,
    BoostingJob,
    CurveAsk,
    CurveReply,
    ErrorsAsk,
    GradientsAsk,
    GradientsReply,
    TargetsAsk,
    TargetsReply,
    require_grown,
)
from spinney.protocols.horizontal_boosting.settings import NAME
from spinney.protocols.rows.facts import bin_table, fixed_point
from spinney.protocols.rows.levels import forget_nodes, require_bins
from spinney.protocols.rows.quality import QualityReply, count_judged, dropped_bits
from spinney.protocols.rows.setup import (
    EdgesAsk,
    FactsAsk,
    OwnEdgesAsk,
    SchemaAsk,
    SchemaReply,
    answer_setup,
    require_schema,
)
from spinney.protocols.rows.spread import SpreadCounting, joined
from spinney.tables.cluster.spread import SpreadTable
from spinney.tables.table import Batch, Remembered, Table
from spinney.trees.batch import GrownBatch
from spinney.trees.binning import BinnedTable
from spinney.trees.boosting import Sampling, Walk, gradient_sums, walk_from_roots
from spinney.trees.counts import Counts
from spinney.trees.level import Level
from spinney.trees.losses import ALIKE, SCORE_BITS, WEIGHT_ONE, Shares
from spinney.trees.threads import thread_count
from spinney.typing import Integers


class BoostedRows:
    """A party's binned table, the score of each row, and the node of each row in each tree."""

    def __init__(
        self, job: BoostingJob, table: BinnedTable, n_threads: int, share: Shares = ALIKE
    ) -> None:
        self.job = job
        self.table = table
        self._share = share
        self._n_threads = n_threads
        self._restart()

    def _restart(self) -> None:
        """Forget all trees."""
        job = self.job
        self.scores = RowScores(job, job.base, self.table, self._n_threads, self._share)
        self._grown: Sequence[GrownBatch] | None = None  # the batches whose values are added
        self._added: list[bytes] = []  # their digests
        self._levels: tuple[Level, ...] = ()
        self._walk: Walk | None = None

    def go_to(self, grown: Sequence[GrownBatch], levels: tuple[Level, ...]) -> Walk:
        """Return where the rows are after some finished batches and some levels of the next."""
        self.add(grown)
        return self._walked(self.job.batch(len(grown)), levels)

    def add(self, grown: Sequence[GrownBatch]) -> None:
        """Add the values of finished batches to the scores, if they are not added yet."""
        if grown is self._grown:  # as for most questions: no batch has ended since
            return
        self._grown = None
        if [batch.digest for batch in grown[: len(self._added)]] != self._added:
            self._restart()
        for number in range(len(self._added), len(grown)):
            batch = grown[number]
            require_grown(self.job, number, batch)
            of_job = self.job.batch(number)
            walk = self._walked(of_job, batch.levels)
            walk.add_values(batch.value, of_job.output_of_tree, self.scores.scores, self._n_threads)
            self._added.append(batch.digest)
            self.scores.note_losses()
            self._walk = None
        self._grown = grown

    def _walked(self, batch: BatchOfJob, levels: tuple[Level, ...]) -> Walk:
        """Return where the rows are after some levels: some levels further, or from the roots."""
        if self._walk is None or self._levels != levels[: len(self._levels)]:
            self._walk, self._levels = self._at_roots(batch), ()
        for level in levels[len(self._levels) :]:
            self._walk.go(level, self._n_threads)
        self._levels = levels
        return self._walk

    def _at_roots(self, batch: BatchOfJob) -> Walk:
        job, table = self.job, self.table
        keep = round(job.settings.subsample * ALL_WORDS)
        try:
            return walk_from_roots(
                table,
                Sampling(batch.keys, batch.output_of_tree, keep, self.scores.is_apart),
                self.scores.gradients(),
                job.units,
                self._n_threads,
            )
        except MemoryError:
            raise ProtocolError(
                f"This party does not have enough memory for {batch.n_trees} trees at once. Use a "
                "smaller batch_trees."
            ) from None

    def losses(self) -> Integers:
        """Return rows and loss of the rows that are trained on, then of the others."""
        return self.scores.course[-1]

    def curve(self) -> Integers:
        """Return rows and loss of the rows that are trained on, after each batch."""
        return np.stack(self.scores.course)[:, :2]


def _shares(batch: Batch, largest: float | None) -> Shares:
    """Return the weights of some rows in steps of 2^-16 of the largest."""
    if batch.weight is None or largest is None:
        raise ProtocolError("The job has weights of rows, and this party's table has none.")
    if batch.weight.max(initial=0.0) > largest:
        raise ProtocolError("A row weighs more than the largest weight that the job declares.")
    return np.rint(batch.weight / largest * WEIGHT_ONE).astype(np.uint32)


class BoostedCounting:
    """A table, and answers from its rows."""

    def __init__(self, table: Table, n_threads: int, *, is_masked: bool = False) -> None:
        del is_masked  # no size is computed that masks would make needless
        self._table = Remembered(table)
        self._n_threads = n_threads
        self._rows: BoostedRows | None = None

    @classmethod
    def joined(cls, replies: Sequence[Any]) -> Any:
        """Return the reply of a table from the replies of its parts."""
        first = replies[0]
        if isinstance(first, CurveReply):
            return CurveReply(sum(reply.losses for reply in replies))
        found = joined(replies)
        if isinstance(first, GradientsReply):  # the parts have the same runs
            counts = Counts(found.counts.counters, first.counts.run_ends)
            return GradientsReply(counts, found.losses)
        return found

    def answer(self, ask: Any) -> Any:
        """Answer a question."""
        match ask:
            case FactsAsk(terms=None) | EdgesAsk(terms=None) | OwnEdgesAsk(terms=None):
                return answer_setup(ask, self._table, self._n_threads)
            case TargetsAsk():
                require_schema(self._table, ask.schema_digest)
                return self._targets(ask.largest_weight)
            case GradientsAsk():
                return self._gradients(ask)
            case ErrorsAsk():
                return self._errors(ask)
            case CurveAsk():
                return self._curve(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def _targets(self, largest: float | None) -> TargetsReply:
        label = self._table.schema.label
        if label.kind != "number" and largest is None:
            raise ProtocolError("The question sums targets, but the label has classes.")
        sums = np.zeros(len(label.classes or ()) or 2, np.int64)
        for batch in self._table.batches():
            if label.kind != "number":
                np.add.at(sums, batch.target, _shares(batch, largest))
                continue
            target, rows = fixed_point(batch.target, label, SCORE_BITS), batch.target.size
            if largest is not None:
                share = _shares(batch, largest).astype(np.int64)
                target, rows = (target * share) >> WEIGHT_DROPPED, share.sum()
            sums += (rows, target.sum())
        return TargetsReply(sums)

    def _gradients(self, ask: GradientsAsk) -> GradientsReply:
        if not 0 <= ask.first < ask.last <= ask.frontier.n_open:  # also checks the levels
            raise ProtocolError("The question is about nodes that are not open.")
        rows = self._boosted(ask.job)
        counted = rows.go_to(ask.grown, ask.levels).counted
        counts = gradient_sums(
            rows.table,
            ask.frontier.columns,
            counted.between(ask.first, ask.last),
            ask.slots,
            has_h=ask.job.units.width == 3,
            n_threads=self._n_threads,
        )
        losses = rows.losses() if ask.n_losses else np.zeros(0, np.int64)
        return GradientsReply(counts, losses)

    def _errors(self, ask: ErrorsAsk) -> QualityReply:
        rows, job = self._boosted(ask.job), ask.job
        rows.add(ask.grown)
        forget_nodes()
        drop = dropped_bits(SCORE_BITS, job.n_rows)
        one = np.ones(rows.table.n_rows, np.int64)
        counts = count_judged(rows.table.target, rows.scores.guesses(), one, job.n_classes, drop)
        return QualityReply(counts)

    def _curve(self, ask: CurveAsk) -> CurveReply:
        rows = self._boosted(ask.job)
        rows.add(ask.grown)
        return CurveReply(rows.curve())

    def _boosted(self, job: BoostingJob) -> BoostedRows:
        """Return the rows in the job's bins, with their scores."""
        if job.n_classes != len(self._table.schema.label.classes or ()):
            raise ProtocolError("The question's number of classes does not match the schema.")
        if self._rows is None or self._rows.job.digest != job.digest:
            require_schema(self._table, job.schema_digest)
            require_bins(job.binning, self._table.schema)
            table = bin_table(
                self._table, job.binning, n_threads=self._n_threads, target_bits=SCORE_BITS
            )
            largest, share = job.settings.largest_weight, ALIKE
            if largest is not None:
                parts = [_shares(batch, largest) for batch in self._table.batches()]
                share = np.concatenate([ALIKE, *parts])
            self._rows = BoostedRows(job, table, self._n_threads, share)
            self._table.forget()
        return self._rows


class Party:
    """One organisation's side."""

    def __init__(self, table: Table, *, n_jobs: int | None = None) -> None:
        self._schema = table.schema
        self._counting: BoostedCounting | SpreadCounting
        if isinstance(table, SpreadTable):
            self._counting = SpreadCounting(table, BoostedCounting)
        else:
            self._counting = BoostedCounting(table, thread_count(n_jobs))

    def answer(self, ask: Any) -> Any:
        """Answer a question."""
        if isinstance(ask, SchemaAsk):
            return SchemaReply(self._schema)
        return self._counting.answer(ask)
