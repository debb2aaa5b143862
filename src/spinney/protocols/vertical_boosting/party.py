"""A party's side of boosting over columns, once all parties hold the same rows in one order."""

from dataclasses import replace
from typing import Any

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.accounts.account import ClaimsAsk
from spinney.protocols.boosted.model import finish_values
from spinney.protocols.boosted.objective import target_of
from spinney.protocols.boosted.settings import directions_of
from spinney.protocols.columns.encrypted_messages import ASKS as ENCRYPTED_ASKS
from spinney.protocols.columns.encrypted_party import SealTerms
from spinney.protocols.columns.job import OwnTable
from spinney.protocols.columns.leakage import Membership
from spinney.protocols.columns.messages import (
    FinishAsk,
    GainAsk,
    HoldingsAsk,
    HoldingsReply,
    Sealed,
    SplitAsk,
    StartReply,
)
from spinney.protocols.columns.model import PartialModel
from spinney.protocols.columns.party import Answers, ColumnsParty
from spinney.protocols.rows.quality import QualityReply, count_judged, dropped_bits
from spinney.protocols.vertical_boosting.growing import BoostedGrowing
from spinney.protocols.vertical_boosting.job import BoostedJob
from spinney.protocols.vertical_boosting.messages import (
    STATE_JOB,
    BatchAsk,
    BatchReply,
    BoostedLabelsAsk,
    BoostedLabelsReply,
    BoostedStartAsk,
    ScoreAsk,
)
from spinney.protocols.vertical_boosting.settings import NAME
from spinney.tables.holding import Holding
from spinney.transport.channel import Ask
from spinney.trees.losses import SCORE_BITS


class Party(ColumnsParty):
    """One organisation's side: its columns, and at one party the labels."""

    name = NAME
    states_job = STATE_JOB
    draws_by_id = True
    growing: BoostedGrowing | None

    @property
    def _answers(self) -> Answers:
        return {
            **super()._answers,
            BoostedLabelsAsk: self._shared_labels,
            BoostedStartAsk: self._start,
            BatchAsk: self._batch,
            ScoreAsk: self._score,
        }

    def _holdings(self, _: HoldingsAsk) -> HoldingsReply:
        return describe_holding(self._holding)

    def _shared_labels(self, ask: BoostedLabelsAsk) -> BoostedLabelsReply:
        shared = self._share_labels(ask.job)
        return BoostedLabelsReply(shared.target, self._span(ask.job, (0.0, 1.0)), shared.signed)

    def _start(self, ask: BoostedStartAsk) -> StartReply:
        job, holding = ask.job, self._holding
        own = self._own_table(job, job.settings)
        is_sealed = job.labels == "encrypted"
        target = self._labels_at_start(job, ask.target, ask.signed, is_sealed=is_sealed)
        growing = BoostedGrowing(
            job,
            own,
            target,
            self._notebook,
            self._n_threads,
            span=self._span(job, ask.span),
            keeps_moments=holding.label is not None,
            directions=directions_of(job.settings, holding.columns, job.n_classes),
            seal=self._level_seal(job),
        )
        growing.replay(ask.levels, ask.n_own)
        if target is None and ask.sealed:
            self._encrypted.begin(growing, ask.sealed[0], growing.label)
        self.growing = growing
        return self._started(growing, own)

    def _span(self, job: BoostedJob, given: tuple[float, float]) -> tuple[float, float]:
        """Return the range of a number, which only the label party declares."""
        label = self._holding.label
        if job.n_classes or label is None:
            return given
        return target_of(label, job.settings)

    def _batch(self, ask: BatchAsk) -> BatchReply:
        growing: Any = self.grown_to(ask.job, ask.depth, ask.newest)
        if growing is None:
            return BatchReply(True, np.zeros(0, np.int64), ())
        if self._holding.label is None:
            raise ProtocolError("This party does not hold the labels.")
        sealed: tuple[Sealed, ...] = ()
        if growing.job.labels == "encrypted" and growing.job.n_parties > 1:
            terms = SealTerms(ask.job, growing.job.scheme, growing.job.key_bits)
            sealed = (self._encrypted.seal(terms, growing.packing, growing.label),)
        return BatchReply(False, growing.scores.course[-1][0], sealed)

    def _finished_part(self, growing: Any, own: OwnTable, ask: FinishAsk) -> PartialModel:
        part, boosted = growing.joined(), None
        label = self._holding.label
        if label is not None:
            value, boosted = finish_values(
                growing.objective, growing.objective.base, label, part.value, part.tree_start
            )
            part = replace(part, value=value)
        bins = own.binning.bin_of_category if own.binning else ()
        return PartialModel(
            ask.party, self._holding.columns, label, ask.numbers, bins, part, NAME, boosted
        )

    def _score(self, ask: ScoreAsk) -> QualityReply:
        growing, job = self._grown(), self._grown().job
        if ask.job != job.digest or self.model is None:
            raise ProtocolError("This party has no finished part of this job's trees.")
        assert growing.scores is not None
        drop = dropped_bits(SCORE_BITS, job.n_rows)
        one = np.ones(job.n_rows, np.int64)
        guesses = growing.scores.guesses()
        return QualityReply(count_judged(growing.table.target, guesses, one, job.n_classes, drop))

    @property
    def membership(self) -> Membership:
        """What a curious party knows about some rows, with their true labels added."""
        growing = self._grown()
        job, rows = growing.job, growing.watched
        leaves = np.stack(growing.leaves_of_watched)
        truth = self.true_labels(job.target_bits)[rows]
        drawn = np.ones((rows.size, len(leaves)), np.bool_)
        return Membership(leaves, drawn, truth, job.n_classes, job.label_epsilon)

    def _grown(self) -> BoostedGrowing:
        if self.growing is None or self.growing.scores is None:
            raise ProtocolError("This party does not know how the trees predict.")
        return self.growing


ASKS: tuple[type[Ask[Any]], ...] = (
    HoldingsAsk, BoostedLabelsAsk, BoostedStartAsk, BatchAsk, GainAsk, SplitAsk, FinishAsk,
    ScoreAsk, ClaimsAsk, *ENCRYPTED_ASKS,
)  # fmt: skip


def describe_holding(holding: Holding) -> HoldingsReply:
    """Return what a party holds, in numbers."""
    label = holding.label
    step = 0.0
    if label is not None:
        low, high = label.range or (0.0, float(2**SCORE_BITS - 1))
        step = 1.0 if label.kind == "class" else (high - low) / (2**SCORE_BITS - 1)
    return HoldingsReply(
        holding.n_rows,
        len(holding.columns),
        label is not None,
        len(label.classes or ()) if label else 0,
        step,
    )
