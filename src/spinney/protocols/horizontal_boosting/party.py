"""A party's side of boosted trees over rows: it keeps scores and sums gradients.

**Who learns what.** See `spinney.protocols.horizontal_boosting`. What a party keeps between
questions is a cache: it can be rebuilt from the finished batches that every question names.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.horizontal_boosting.messages import (
    BatchOfJob,
    BoostingJob,
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
    SchemaAsk,
    SchemaReply,
    answer_setup,
    require_schema,
)
from spinney.seeds import derive_seed, mix
from spinney.tables.table import Remembered, Table
from spinney.trees.batch import GrownBatch
from spinney.trees.binning import BinnedTable
from spinney.trees.boosting import Sampling, Walk, gradient_sums, walk_from_roots
from spinney.trees.level import Level
from spinney.trees.losses import SCORE_BITS
from spinney.trees.threads import thread_count
from spinney.typing import Floats, Integers

_ALL = 1 << 32
_VALIDATION = 0x76616C  # the stream that draws validation rows


class BoostedRows:
    """A party's binned table, the score of each row, and the node of each row in each tree."""

    def __init__(self, job: BoostingJob, table: BinnedTable, n_threads: int) -> None:
        self.job = job
        self.table = table
        self._n_threads = n_threads
        self.is_apart = np.zeros(0, np.bool_)
        if job.settings.early_stopping:
            words = mix(table.keys ^ np.uint64(derive_seed(job.settings.seed, _VALIDATION)))
            limit = round(job.settings.validation_fraction * _ALL)
            self.is_apart = (words >> np.uint64(32)) < np.uint64(limit)
        self._restart()

    def _restart(self) -> None:
        """Forget all trees."""
        n_rows = self.table.n_rows
        self.scores = np.repeat(np.array(self.job.base, np.int64)[:, None], n_rows, axis=1)
        self._added: list[bytes] = []  # the digests of the batches whose values are added
        self._levels: tuple[Level, ...] = ()
        self._walk: Walk | None = None

    def go_to(self, grown: Sequence[GrownBatch], levels: tuple[Level, ...]) -> Walk:
        """Return where the rows are after some finished batches and some levels of the next."""
        self.add(grown)
        return self._walked(self.job.batch(len(grown)), levels)

    def add(self, grown: Sequence[GrownBatch]) -> None:
        """Add the values of finished batches to the scores, if they are not added yet."""
        if [batch.digest for batch in grown[: len(self._added)]] != self._added:
            self._restart()
        for number in range(len(self._added), len(grown)):
            batch = grown[number]
            require_grown(self.job, number, batch)
            of_job = self.job.batch(number)
            walk = self._walked(of_job, batch.levels)
            walk.add_values(batch.value, of_job.output_of_tree, self.scores)
            self._added.append(batch.digest)
            self._walk = None

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
        gradients = job.loss.gradients(self.scores, table.target, job.facts, self._n_threads)
        keep = round(job.settings.subsample * _ALL)
        try:
            return walk_from_roots(
                table,
                Sampling(batch.keys, batch.output_of_tree, keep, self.is_apart),
                gradients,
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
        job, target = self.job, self.table.target
        apart = self.is_apart if self.is_apart.size else np.zeros(self.table.n_rows, np.bool_)
        found = []
        for chosen in (~apart, apart):
            loss = job.loss.total(self.scores, target, job.facts, chosen)
            found += [int(np.count_nonzero(chosen)), loss]
        return np.array(found, np.int64)

    def guesses(self) -> Floats:
        """Return what the finished trees predict: scores by class, or targets in steps."""
        if self.job.n_classes == 2:
            return np.stack([-self.scores[0], self.scores[0]], axis=1).astype(np.float64)
        if self.job.settings.loss == "poisson":
            low, high = self.job.target
            means = high * np.exp(self.scores.T * 2.0**-SCORE_BITS)  # for the report alone
            steps: Floats = (means - low) / (high - low) * (2**SCORE_BITS - 1)
            return steps
        return self.scores.T.astype(np.float64)


class Party:
    """One organisation's side."""

    def __init__(self, table: Table, *, n_jobs: int | None = None, is_masked: bool = False) -> None:
        self._table = Remembered(table)
        self._n_threads = thread_count(n_jobs)
        self._is_masked = is_masked
        self._rows: BoostedRows | None = None

    def answer(self, ask: Any) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk():
                return SchemaReply(self._table.schema)
            case FactsAsk(terms=None) | EdgesAsk(terms=None):
                return answer_setup(ask, self._table, self._n_threads)
            case TargetsAsk():
                require_schema(self._table, ask.schema_digest)
                return self._targets()
            case GradientsAsk():
                return self._gradients(ask)
            case ErrorsAsk():
                return self._errors(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def _targets(self) -> TargetsReply:
        label = self._table.schema.label
        if label.kind != "number":
            raise ProtocolError("The question sums targets, but the label has classes.")
        sums = np.zeros(2, np.int64)
        for batch in self._table.batches():
            sums += (batch.target.size, fixed_point(batch.target, label, SCORE_BITS).sum())
        return TargetsReply(sums)

    def _gradients(self, ask: GradientsAsk) -> GradientsReply:
        if not 0 <= ask.first < ask.last <= ask.frontier.n_open:  # also checks the levels
            raise ProtocolError("The question is about nodes that are not open.")
        rows = self._boosted(ask.job)
        counted = rows.go_to(ask.grown, ask.levels).counted
        nodes = np.zeros(len(counted.starts), np.bool_)
        nodes[ask.first : ask.last] = True
        counts = gradient_sums(
            rows.table,
            ask.frontier.columns,
            counted.part(nodes),
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
        counts = count_judged(rows.table.target, rows.guesses(), one, job.n_classes, drop)
        return QualityReply(counts)

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
            self._rows = BoostedRows(job, table, self._n_threads)
            self._table.forget()
        return self._rows
