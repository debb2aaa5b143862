"""A party's side of a vertical forest, once all parties hold the same rows in the same order."""

from typing import Any

from spinney.errors import ProtocolError
from spinney.protocols.accounts.account import ClaimsAsk
from spinney.protocols.columns.encrypted_messages import ASKS as ENCRYPTED_ASKS
from spinney.protocols.columns.encrypted_messages import SealReply
from spinney.protocols.columns.encrypted_party import SealTerms
from spinney.protocols.columns.fields import Fields
from spinney.protocols.columns.job import OwnTable
from spinney.protocols.columns.leakage import Membership
from spinney.protocols.columns.messages import (
    FinishAsk,
    GainAsk,
    HoldingsAsk,
    HoldingsReply,
    LabelsReply,
    SplitAsk,
    StartReply,
)
from spinney.protocols.columns.model import PartialModel
from spinney.protocols.columns.party import Answers, ColumnsParty
from spinney.protocols.columns.prediction import (
    JudgeAsk,
    LeavesAsk,
    LeavesReply,
    require_signed_sets,
    signed_sets,
)
from spinney.protocols.rows.quality import QualityReply
from spinney.protocols.vertical_forest.class_fields import planes_of_labels
from spinney.protocols.vertical_forest.growing import ForestGrowing
from spinney.protocols.vertical_forest.job import target_step
from spinney.protocols.vertical_forest.messages import LabelsAsk, SealAsk, StartAsk
from spinney.protocols.vertical_forest.quality import (
    FinishedPart,
    JudgedRows,
    membership_of,
    name_judged_leaves,
    part_of,
    quality_counts,
    training_sets,
)
from spinney.protocols.vertical_forest.settings import NAME
from spinney.tables.holding import Holding
from spinney.transport.channel import Ask


class Party(ColumnsParty):
    """One organisation's side: its columns, and at one party the labels."""

    name = NAME
    states_job = (LabelsAsk, SealAsk, StartAsk)
    growing: ForestGrowing | None
    _judged: JudgedRows | None = None

    @property
    def _answers(self) -> Answers:
        return {
            **super()._answers,
            LabelsAsk: self._shared_labels,
            SealAsk: self._seal,
            StartAsk: self._start,
            LeavesAsk: self._leaves,
            JudgeAsk: self._judge,
        }

    def _holdings(self, _: HoldingsAsk) -> HoldingsReply:
        return describe_holding(self._holding)

    def _shared_labels(self, ask: LabelsAsk) -> LabelsReply:
        return self._share_labels(ask.job)

    def _seal(self, ask: SealAsk) -> SealReply:
        job, target = ask.job, self.labels(ask.job)
        bits = job.heaviest(self._holding.keys).bit_length()
        bits += 0 if job.n_classes else job.target_bits

        def packing(room: int) -> tuple[int, list[list[int]]]:
            fields = Fields.of(max(job.n_classes - 1, 1), bits, room)
            return bits, planes_of_labels(fields, target, job.n_classes)

        terms = SealTerms(job.digest, ask.scheme, ask.key_bits)
        return SealReply(self._encrypted.seal(terms, packing))

    def _start(self, ask: StartAsk) -> StartReply:
        job = ask.job
        own = self._own_table(job, job.settings)
        target = self._labels_at_start(job, ask.target, ask.signed, is_sealed=bool(ask.sealed))
        growing = ForestGrowing(
            job, own, target, self._notebook, self._n_threads,
            keeps_moments=self._holding.label is not None, seal=self._level_seal(job),
        )  # fmt: skip
        if target is None:
            self._encrypted.begin(growing, ask.sealed[0])
        self.growing = growing
        growing.replay(ask.levels, ask.n_own)
        return self._started(growing, own)

    def _finished_part(self, growing: Any, own: OwnTable, ask: FinishAsk) -> PartialModel:
        return part_of(growing, self._holding, own.binning, ask)

    def _leaves(self, ask: LeavesAsk) -> LeavesReply:
        held = self._finished()
        sets = training_sets(held, ask.n_judged, self._n_threads)
        if self._seat is None:
            return LeavesReply(sets)
        return signed_sets(self._seat, sets, held.growing.job.digest, ask.n_judged)

    def _judge(self, ask: JudgeAsk) -> QualityReply:
        held = self._finished()
        if self._seat is not None:
            about = (held.growing.job.digest, ask.n_judged)
            require_signed_sets(self._seat, ask.named, held.model.part, *about)
        self._judged = name_judged_leaves(held, ask, self._n_threads)
        held.growing.settle("judged", self._judged.leaves.tobytes())
        return quality_counts(held, self._judged)

    @property
    def membership(self) -> Membership:
        """What a curious party knows about the scored rows, with their true labels added."""
        if self._judged is None:
            raise ProtocolError("The forest has not been scored at this party.")
        held = self._finished()
        return membership_of(held, self._judged, self.true_labels(held.growing.job.target_bits))

    def _finished(self) -> FinishedPart:
        if self.growing is None or self.model is None or self._own is None:
            raise ProtocolError("This party has no finished part of a forest.")
        return FinishedPart(self.growing, self.model, self._own[1].binning)


ASKS: tuple[type[Ask[Any]], ...] = (
    HoldingsAsk, LabelsAsk, StartAsk, GainAsk, SplitAsk, FinishAsk, LeavesAsk, JudgeAsk, ClaimsAsk,
    SealAsk, *ENCRYPTED_ASKS,
)  # fmt: skip


def describe_holding(holding: Holding) -> HoldingsReply:
    """Return what a party holds, in numbers."""
    label = holding.label
    return HoldingsReply(
        holding.n_rows,
        len(holding.columns),
        label is not None,
        len(label.classes or ()) if label else 0,
        target_step(label, holding.n_rows) if label else 0.0,
    )
