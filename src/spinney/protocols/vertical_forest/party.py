"""A party's side of a vertical forest, once all parties hold the same rows in the same order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from spinney.errors import ProtocolError
from spinney.privacy.keys import encode_parts
from spinney.protocols.accounts.account import ClaimsAsk, ClaimsReply, claims_in
from spinney.protocols.rows.quality import QualityReply
from spinney.protocols.vertical_forest.encrypted_messages import ASKS as ENCRYPTED_ASKS
from spinney.protocols.vertical_forest.encrypted_messages import SealAsk
from spinney.protocols.vertical_forest.encrypted_party import ENDED, EncryptedSide, ended
from spinney.protocols.vertical_forest.growing import Growing
from spinney.protocols.vertical_forest.job import (
    Job,
    OwnTable,
    Target,
    bin_own_table,
    encode_target,
    target_step,
)
from spinney.protocols.vertical_forest.labels import LabelAccount, labels_to_use
from spinney.protocols.vertical_forest.leakage import Membership
from spinney.protocols.vertical_forest.level_seal import LevelSeal, join_seals
from spinney.protocols.vertical_forest.messages import (
    FinishAsk,
    FinishReply,
    GainAsk,
    GainReply,
    HoldingsAsk,
    HoldingsReply,
    LabelsAsk,
    LabelsReply,
    SplitAsk,
    SplitReply,
    StartAsk,
    StartReply,
    behind_split,
)
from spinney.protocols.vertical_forest.model import PartialModel
from spinney.protocols.vertical_forest.notebook import Notebook
from spinney.protocols.vertical_forest.prediction import (
    JudgeAsk,
    LeavesAsk,
    LeavesReply,
    require_signed_sets,
    signed_sets,
)
from spinney.protocols.vertical_forest.quality import (
    FinishedPart,
    JudgedRows,
    membership_of,
    name_judged_leaves,
    part_of,
    quality_counts,
    training_sets,
)
from spinney.protocols.vertical_forest.seat import UNSIGNED, Seat
from spinney.protocols.vertical_forest.settings import NAME
from spinney.tables.holding import Holding
from spinney.transport.channel import Ask
from spinney.trees.partition import Partition
from spinney.trees.threads import thread_count

_NOTHING = LabelAccount()
_LABELS = "list of labels"  # what is signed
_OTHER_LABELS = "This party already received different labels. Nothing was released."
_OTHER_JOB = (
    "The question is about a different job from the one that this party has begun. A run has one "
    "job. Nothing was released."
)


class Party:
    """One organisation's side: its columns, and at one party the labels.

    Parameters
    ----------
    holding
        Its data for the common rows.
    notebook
        The folder that keeps its own cuts while a forest grows, so that it can stop and resume.
        None: in memory only.
    account
        The account from which the label party pays in a job with `label_epsilon`.
    seat
        Its seat in the run: what it signs, and whose signatures it checks. None: all parties are in
        one process, and nobody signs.
    group_key
        A key that all parties have and the coordinator lacks: it seals every level. None: all
        parties are in one process.
    """

    def __init__(
        self,
        holding: Holding,
        *,
        notebook: Path | None = None,
        n_jobs: int | None = None,
        account: LabelAccount = _NOTHING,
        seat: Seat | None = None,
        group_key: bytes | None = None,
    ) -> None:
        self._holding = holding
        self._group_key = group_key
        self._seat = seat
        self._notebook = Notebook(notebook)
        self._n_threads = thread_count(n_jobs)
        self._account = account
        self._own: tuple[str, OwnTable] | None = None
        self.growing: Growing | None = None
        self.model: PartialModel | None = None
        self._judged: JudgedRows | None = None
        self._encrypted = EncryptedSide(self, self._notebook, seat)

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        answers: dict[type[Any], Callable[[Any], Any]] = {
            HoldingsAsk: self._holdings,
            LabelsAsk: self._shared_labels,
            StartAsk: self._start,
            GainAsk: self._gains,
            SplitAsk: self._split,
            FinishAsk: self._finish,
            LeavesAsk: self._leaves,
            JudgeAsk: self._judge,
            ClaimsAsk: self._claims,
            **self._encrypted.answers,
        }
        if type(ask) not in answers:
            raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")
        if self._notebook.note(NAME, ENDED) is not None:
            raise ended()
        if isinstance(ask, LabelsAsk | SealAsk | StartAsk):
            self._notebook.settle(NAME, "job", ask.job.digest.encode(), _OTHER_JOB)
        return answers[type(ask)](ask)

    def _claims(self, ask: ClaimsAsk) -> ClaimsReply:
        ledger = self._account.ledger
        return ClaimsReply(claims_in(ledger, ask.job) if ledger else ())

    def _holdings(self, _: HoldingsAsk) -> HoldingsReply:
        return describe_holding(self._holding)

    @property
    def true_labels(self) -> Target:
        """The labels as numbers; they stay at this party unless a job shares them."""
        label, target = self._holding.label, self._holding.target
        if label is None or target is None:
            raise ProtocolError("This party does not hold the labels.")
        return encode_target(label, target)

    def labels(self, job: Job) -> Target:
        """Return the labels that the job may use."""
        return labels_to_use(job, self.true_labels, self._account)

    def heaviest(self, job: Job) -> int:
        """Return the number of rows in the largest sample, counted as often as drawn."""
        return job.heaviest(self._holding.keys)

    def _shared_labels(self, ask: LabelsAsk) -> LabelsReply:
        if ask.job.labels != "shared":
            raise ProtocolError("The job has encrypted labels; they are not shared.")
        target = self.labels(ask.job)
        if self._seat is None:
            return LabelsReply(target)
        return LabelsReply(target, self._seat.sign(_LABELS, *_said(ask.job, target)))

    def _start(self, ask: StartAsk) -> StartReply:
        job, holding = ask.job, self._holding
        if job.n_rows != holding.n_rows:
            raise ProtocolError("The job's number of rows differs from this party's.")
        if self._own is None or self._own[0] != job.digest:
            self._own = (job.digest, bin_own_table(holding, job.settings, self._n_threads))
        own = self._own[1]
        has_label = holding.label is not None
        target = self.labels(job) if has_label else self._given_labels(ask)
        if target is None and (job.labels == "shared" or not ask.sealed):
            raise ProtocolError("The question must bring the labels, shared or encrypted.")
        if target is None:
            self._encrypted.begin(job, ask.sealed[0])
        self.growing = Growing(
            job, own, target, self._notebook, self._n_threads, keeps_moments=has_label,
            seal=LevelSeal(self._group_key, job.digest) if self._group_key else None,
        )  # fmt: skip
        self.growing.replay(ask.levels, ask.n_own)
        columns = own.columns
        return StartReply(self.growing.nodes.sizes, (columns.n_bins <= 1) & ~columns.has_missing)

    def _given_labels(self, ask: StartAsk) -> Target | None:
        """Return shared labels: the label party's, and the same ones whenever it starts again.

        Whoever may choose labels chooses what gains and cuts tell about a column.
        """
        if not ask.target.size:
            return None
        said = _said(ask.job, ask.target)
        if self._seat is not None:
            self._seat.check(self._seat.lead, ask.signed, _LABELS, *said)
        self._notebook.settle(NAME, "labels", encode_parts(*said), _OTHER_LABELS)
        return ask.target

    def grown_to(self, job: str, depth: int, newest: tuple[Partition, ...]) -> Growing | None:
        """Return the job's state at a depth; None if the party must start again."""
        growing = self.growing
        if growing is None or growing.job.digest != job:
            return None
        return growing if growing.reaches(depth, newest[0] if newest else None) else None

    def _gains(self, ask: GainAsk) -> GainReply:
        growing = self.grown_to(ask.job, ask.depth, ask.newest)
        if growing is None:
            return GainReply(True, np.zeros(0), np.zeros(0, np.int16))
        gain, slot = growing.gains(ask.offered)  # Alg. 1: impurity improvement of F'_i
        return GainReply(False, gain, slot.astype(np.int16))

    def _split(self, ask: SplitAsk) -> SplitReply:
        growing = self.grown_to(ask.job, ask.depth, ())
        found = growing.found_cuts(ask.node) if growing is not None else None
        if growing is None or found is None:
            return behind_split()
        own, child_open = found
        sides, exhausted = growing.cut(own)  # Alg. 1: split samples
        seals = [growing.seal_of_sides(own.node, sides)]
        if growing.job.labels == "shared":  # otherwise the label party's choice has said it
            seals.append(growing.seal_of_children(own.node, child_open))
        seal = join_seals(one or b"" for one in seals) or UNSIGNED
        return SplitReply(False, sides, child_open, exhausted, seal)

    def _finish(self, ask: FinishAsk) -> FinishReply:
        growing = self.grown_to(ask.job, ask.depth, ask.newest)
        if growing is None or self._own is None:
            return FinishReply(True, 0)
        self.model = part_of(growing, self._holding, self._own[1].binning, ask)
        return FinishReply(False, self.model.part.n_nodes)

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
        """What a curious party knows about the scored rows, with their true labels added.

        It is for this party only: no question asks for it.
        """
        if self._judged is None:
            raise ProtocolError("The forest has not been scored at this party.")
        return membership_of(self._finished(), self._judged, self.true_labels)

    @property
    def finished_model(self) -> PartialModel:
        """The party's part of the finished forest."""
        return self._finished().model

    def _finished(self) -> FinishedPart:
        if self.growing is None or self.model is None or self._own is None:
            raise ProtocolError("This party has no finished part of a forest.")
        return FinishedPart(self.growing, self.model, self._own[1].binning)


ASKS: tuple[type[Ask[Any]], ...] = (
    HoldingsAsk, LabelsAsk, StartAsk, GainAsk, SplitAsk, FinishAsk, LeavesAsk, JudgeAsk, ClaimsAsk,
    *ENCRYPTED_ASKS,
)  # fmt: skip


def _said(job: Job, target: Target) -> tuple[str | bytes, ...]:
    """Return what the label party signs with shared labels."""
    return (job.digest, target.dtype.str, np.ascontiguousarray(target).tobytes())


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
