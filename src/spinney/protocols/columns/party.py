"""A party's side of trees over columns, once all parties hold the same rows in the same order."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from spinney.errors import ProtocolError
from spinney.privacy.keys import encode_parts
from spinney.protocols.accounts.account import ClaimsAsk, ClaimsReply, claims_in
from spinney.protocols.columns.encrypted_party import ENDED, EncryptedSide, ended
from spinney.protocols.columns.growing import Growing
from spinney.protocols.columns.job import (
    ColumnsJob,
    OwnTable,
    Target,
    bin_own_table,
    encode_target,
)
from spinney.protocols.columns.labels import LabelAccount, labels_to_use
from spinney.protocols.columns.leakage import Membership
from spinney.protocols.columns.level_seal import LevelSeal, join_seals
from spinney.protocols.columns.messages import (
    FinishAsk,
    FinishReply,
    GainAsk,
    GainReply,
    HoldingsAsk,
    HoldingsReply,
    LabelsReply,
    SplitAsk,
    SplitReply,
    StartReply,
    behind_split,
)
from spinney.protocols.columns.model import PartialModel
from spinney.protocols.columns.notebook import RUN, Notebook
from spinney.protocols.columns.seat import UNSIGNED, Seat, Signed, Unsigned
from spinney.protocols.rows.facts import BinSettings
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
Answers = dict[type[Any], Callable[[Any], Any]]


class ColumnsParty(ABC):
    """One organisation's side: its columns, and at one party the labels.

    Parameters
    ----------
    holding
        Its data for the common rows.
    notebook
        The folder that keeps its own cuts while trees grow, so that it can stop and resume. None:
        in memory only.
    account
        The account from which the label party pays in a job with `label_epsilon`.
    seat
        Its seat in the run: what it signs, and whose signatures it checks. None: all parties are in
        one process, and nobody signs.
    group_key
        A key that all parties have and the coordinator lacks: it seals every level. None: all
        parties are in one process.
    """

    name: ClassVar[str]  # of the protocol
    draws_by_id: ClassVar[bool] = False  # whether draws depend on rows' ids, not on their order
    states_job: ClassVar[tuple[type[Ask[Any]], ...]]  # the questions that state the job

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
        self._encrypted = EncryptedSide(self, self._notebook, seat)

    @property
    def _answers(self) -> Answers:
        """The method that answers each question."""
        return {
            HoldingsAsk: self._holdings,
            GainAsk: self._gains,
            SplitAsk: self._split,
            FinishAsk: self._finish,
            ClaimsAsk: self._claims,
            **self._encrypted.answers,
        }

    @cached_property
    def _known_answers(self) -> Answers:
        return self._answers

    @abstractmethod
    def _finished_part(self, growing: Any, own: OwnTable, ask: FinishAsk) -> PartialModel:
        """Return the party's part of the finished trees."""

    @property
    @abstractmethod
    def membership(self) -> Membership:
        """What a curious party knows about the scored rows, with their true labels added.

        It is for this party only: no question asks for it.
        """

    @abstractmethod
    def _holdings(self, _: HoldingsAsk) -> HoldingsReply:
        """Return what the party holds, in numbers."""

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        answers = self._known_answers
        if type(ask) not in answers:
            raise ProtocolError(f"A party in {self.name} does not answer {type(ask).__name__}.")
        if self._notebook.note(RUN, ENDED) is not None:
            raise ended()
        if isinstance(ask, self.states_job):
            stated: Any = ask
            self._notebook.settle(RUN, "job", stated.job.digest.encode(), _OTHER_JOB)
        return answers[type(ask)](ask)

    def _claims(self, ask: ClaimsAsk) -> ClaimsReply:
        ledger = self._account.ledger
        return ClaimsReply(claims_in(ledger, ask.job) if ledger else ())

    def true_labels(self, bits: int) -> Target:
        """Return the labels as numbers; they stay at this party unless a job shares them."""
        label, target = self._holding.label, self._holding.target
        if label is None or target is None:
            raise ProtocolError("This party does not hold the labels.")
        return encode_target(label, target, bits)

    def labels(self, job: ColumnsJob) -> Target:
        """Return the labels that the job may use."""
        return labels_to_use(job, self.true_labels(job.target_bits), self._account)

    def _share_labels(self, job: ColumnsJob) -> LabelsReply:
        """Return the labels for all parties, signed."""
        if job.labels != "shared":
            raise ProtocolError("The job has encrypted labels; they are not shared.")
        target = self.labels(job)
        if self._seat is None:
            return LabelsReply(target)
        return LabelsReply(target, self._seat.sign(_LABELS, *_said(job, target)))

    def _own_table(self, job: ColumnsJob, settings: BinSettings) -> OwnTable:
        """Return the party's columns in bins."""
        if job.n_rows != self._holding.n_rows:
            raise ProtocolError("The job's number of rows differs from this party's.")
        if self._own is None or self._own[0] != job.digest:
            self._own = (job.digest, bin_own_table(self._holding, settings, self._n_threads))
        return self._own[1]

    def _labels_at_start(
        self, job: ColumnsJob, given: Target, signed: Signed | Unsigned, *, is_sealed: bool
    ) -> Target | None:
        """Return the labels with which the party begins; None if it must not know them."""
        has_label = self._holding.label is not None
        target = self.labels(job) if has_label else self._given_labels(job, given, signed)
        if target is None and (job.labels == "shared" or not is_sealed):
            raise ProtocolError("The question must bring the labels, shared or encrypted.")
        return target

    def _given_labels(
        self, job: ColumnsJob, target: Target, signed: Signed | Unsigned
    ) -> Target | None:
        """Return shared labels: the label party's, and the same ones whenever it starts again.

        Whoever may choose labels chooses what gains and cuts tell about a column.
        """
        if not target.size:
            return None
        said = _said(job, target)
        if self._seat is not None:
            self._seat.check(self._seat.lead, signed, _LABELS, *said)
        self._notebook.settle(RUN, "labels", encode_parts(*said), _OTHER_LABELS)
        return target

    def _level_seal(self, job: ColumnsJob) -> LevelSeal | None:
        return LevelSeal(self._group_key, job.digest) if self._group_key else None

    def _started(self, growing: Growing, own: OwnTable) -> StartReply:
        """Return the state of a party that has started, or started again."""
        columns = own.columns
        return StartReply(growing.nodes.sizes, (columns.n_bins <= 1) & ~columns.has_missing)

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
        if growing.hides_gains:  # with the rows of a node, a gain tells how many have which label
            raise ProtocolError("The job has encrypted labels; gains are told to nobody.")
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
        turns = growing.turns_of(own.feature)
        if growing.job.labels == "shared":  # otherwise the label party's choice has said it
            seals.append(growing.seal_of_children(own.node, child_open, turns))
        seal = join_seals(one or b"" for one in seals) or UNSIGNED
        told = turns if turns.size else UNSIGNED
        return SplitReply(False, sides, child_open, exhausted, seal, told)

    def _finish(self, ask: FinishAsk) -> FinishReply:
        growing = self.grown_to(ask.job, ask.depth, ask.newest)
        if growing is None or self._own is None:
            return FinishReply(True, 0)
        self.model = self._finished_part(growing, self._own[1], ask)
        return FinishReply(False, self.model.part.n_nodes)

    @property
    def finished_model(self) -> PartialModel:
        """The party's part of the finished trees."""
        if self.model is None:
            raise ProtocolError("This party has no finished part of a forest.")
        return self.model


def _said(job: ColumnsJob, target: Target) -> tuple[str | bytes, ...]:
    """Return what the label party signs with shared labels."""
    return (job.digest, target.dtype.str, np.ascontiguousarray(target).tobytes())
