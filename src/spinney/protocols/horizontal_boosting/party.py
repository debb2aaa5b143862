"""A party's side of boosted trees over rows: it keeps scores and sums gradients.

**Who learns what.** See `spinney.protocols.horizontal_boosting`. What a party keeps between
questions is a cache: it can be rebuilt from the finished batches that every question names.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.horizontal_boosting.messages import (
    WEIGHT_DROPPED,
    BoostingJob,
    CurveAsk,
    CurveReply,
    ErrorsAsk,
    GradientsAsk,
    GradientsReply,
    TargetsAsk,
    TargetsReply,
)
from spinney.protocols.horizontal_boosting.rows import BoostedRows
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
from spinney.trees.buffers import SHARED
from spinney.trees.counts import Counts
from spinney.trees.losses import ALIKE, SCORE_BITS, WEIGHT_ONE, Shares
from spinney.trees.threads import thread_count


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
        self._table = Remembered(table)
        self._is_masked = is_masked
        self._n_threads = n_threads
        self._rows: BoostedRows | None = None
        self._place = 0  # among the parties whose rows these are
        self._beside: Sequence[BoostedCounting] = (self,)

    @staticmethod
    def sit_together(parties: Sequence["BoostedCounting"]) -> None:
        """Let parties of one process count together, from the second question about trees on."""
        for party in parties:
            party._beside = parties  # noqa: SLF001  of the same class

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
        return self._boosted(ask.job).reply(ask, self._place)

    def _errors(self, ask: ErrorsAsk) -> QualityReply:
        rows, job = self._boosted(ask.job), ask.job
        rows.add(ask.grown)
        forget_nodes()
        SHARED.clear()
        drop = dropped_bits(SCORE_BITS, job.n_rows)
        target, guesses = rows.target(self._place), rows.guesses(self._place)
        one = np.ones(target.size, np.int64)
        return QualityReply(count_judged(target, guesses, one, job.n_classes, drop))

    def _curve(self, ask: CurveAsk) -> CurveReply:
        rows = self._boosted(ask.job)
        rows.add(ask.grown)
        return CurveReply(rows.curve(self._place))

    def _boosted(self, job: BoostingJob) -> BoostedRows:
        """Return the rows in the job's bins, with their scores, and those of parties beside."""
        rows = self._rows
        if rows is not None and rows.job is job and rows.n_parties == len(self._beside):
            return rows
        if job.n_classes != len(self._table.schema.label.classes or ()):
            raise ProtocolError("The question's number of classes does not match the schema.")
        if self._rows is None or self._rows.job.digest != job.digest:
            self._rows, self._place = self._read(job), 0
        elif len(self._beside) > self._rows.n_parties:
            self._join(job)
        return self._rows

    def _read(self, job: BoostingJob) -> BoostedRows:
        """Return the own rows in the job's bins."""
        require_schema(self._table, job.schema_digest)
        require_bins(job.binning, self._table.schema)
        table = bin_table(
            self._table, job.binning, n_threads=self._n_threads, target_bits=SCORE_BITS
        )
        largest, shares = job.settings.largest_weight, [ALIKE]
        if largest is not None:
            shares = [_shares(batch, largest) for batch in self._table.batches()]
        self._table.forget()
        return BoostedRows(job, [table], self._n_threads, shares)

    def _join(self, job: BoostingJob) -> None:
        """Lay the rows of all parties beside each other, if each has read its own."""
        held = [party._rows for party in self._beside]  # noqa: SLF001  of the same class
        ready = [one for one in held if one is not None and one.job.digest == job.digest]
        if len(ready) < len(held) or any(one.n_parties > 1 for one in ready):
            return
        for party in self._beside:
            party._rows = None  # noqa: SLF001
        del held
        joined = BoostedRows.side_by_side(ready, sized=not self._is_masked)
        for place, party in enumerate(self._beside):
            party._rows, party._place = joined, place  # noqa: SLF001


class Party:
    """One organisation's side."""

    def __init__(self, table: Table, *, n_jobs: int | None = None, is_masked: bool = False) -> None:
        self._schema = table.schema
        self._counting: BoostedCounting | SpreadCounting
        if isinstance(table, SpreadTable):
            self._counting = SpreadCounting(table, BoostedCounting)
        else:
            threads = thread_count(n_jobs)
            self._counting = BoostedCounting(table, threads, is_masked=is_masked)

    @staticmethod
    def sit_together(parties: Sequence["Party"]) -> None:
        """Let parties of one process count together; what each of them counts stays apart."""
        counting = [party._counting for party in parties]  # noqa: SLF001  of the same class
        held = [one for one in counting if isinstance(one, BoostedCounting)]
        if len(held) == len(parties):  # rows on a cluster are counted there
            BoostedCounting.sit_together(held)

    def answer(self, ask: Any) -> Any:
        """Answer a question."""
        if isinstance(ask, SchemaAsk):
            return SchemaReply(self._schema)
        return self._counting.answer(ask)
