"""A random forest over parties that hold different columns of the same rows (S2).

Liu et al. (2019), *Federated Forest*, Algorithms 1, 2, 5 and 6; prediction (3, 4, 7, 8) is in
`vertical_prediction`. All trees grow together, a level per two rounds; with encrypted labels, in
`vertical_sums`, it is three.

| paper | here |
|---|---|
| client i, master | party, coordinator |
| F'_i, D' | `Offered`: a party's own columns of those drawn for a node; `Job.settings.seed` |
| p_i, f*_i | `GainReply`: the best gain, and by which of the columns offered |
| left and right subtree's sample indices | `Partition`: a bit for each row of a split node |
| T_i, T | `PartialModel`; the forest that all of them make |
| encrypted label y | `labels="shared"`: class numbers or fixed-point targets, as they are |

**Who learns what.** With shared labels every party, and the coordinator that carries them, learns
the encoded label of every row: two classes can be guessed from their frequency. Every party learns
which rows stand together in a node, and so in a leaf. The coordinator learns how many rows and
columns each party has, who holds the labels, how many classes there are or how finely the target's
range is divided, the samples, each party's best gain in each node and the number of the column it
is by, the partitions, and when a column cannot split a node any more. At the end it learns that
every party has its part, and a confusion matrix, or error sums, from the label party; with
randomised labels also its claims.
**Who never learns what.** Nobody but its party learns a cell, a threshold, a column's name or its
bins, or which row id a row has. Parties do not learn whose cut parted a node, or which columns of
others were drawn. Leaf values are made at the label party and stay there. A party makes the cuts of
a level once, and the label party judges once, by the job's rows: otherwise it refuses.

**Rounds and bytes.** Holdings, labels, start: 3. A level 2. Finish 1, judging 2: at most
2 x depth + 8. A level brings a party 1 bit a row of each split node, and 2 to 3 bytes for each node
and own column drawn; it sends 1 bit a row of nodes that it splits, and 10 bytes an open node.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.judging import QualityReply
from spinney.protocols.leakage import Membership
from spinney.protocols.partial_model import NAME, PartialModel
from spinney.protocols.paying import ClaimsAsk, ClaimsReply, claims_in
from spinney.protocols.training import PartyClaim, Phases, Shape
from spinney.protocols.vertical_agreeing import held_by, job_of, label_party_of
from spinney.protocols.vertical_coordinating import Coordination, Owners
from spinney.protocols.vertical_job import (
    Job,
    OwnTable,
    Target,
    encoded_target,
    own_table,
)
from spinney.protocols.vertical_judging import (
    Finished,
    JudgedRows,
    judged,
    judged_leaves,
    membership_of,
    part_of,
    quality_counts,
    training_sets,
)
from spinney.protocols.vertical_labels import LabelAccount, labels_to_use
from spinney.protocols.vertical_messages import (
    FinishAsk,
    FinishReply,
    GainAsk,
    GainReply,
    HoldingsAsk,
    HoldingsReply,
    LabelsAsk,
    LabelsReply,
    Sealed,
    SplitAsk,
    SplitReply,
    StartAsk,
    StartReply,
    behind_split,
)
from spinney.protocols.vertical_prediction import JudgeAsk, LeavesAsk, LeavesReply, Roles
from spinney.protocols.vertical_rows import Growing, Notebook
from spinney.protocols.vertical_settings import VerticalSettings
from spinney.protocols.vertical_sum_messages import ASKS as ENCRYPTED_ASKS
from spinney.protocols.vertical_sum_messages import SealAsk
from spinney.protocols.vertical_sums import EncryptedCoordination, EncryptedSide
from spinney.protocols.vertical_training import VerticalTraining, described
from spinney.tables.holding import Holding
from spinney.transport.channel import Ask, Channel
from spinney.trees.partition import Partition
from spinney.trees.threads import thread_count
from spinney.typing import Progress, silent

Settings = VerticalSettings
_NOTHING = LabelAccount()


# --- a party -------------------------------------------------------------------------------------


class Party:
    """One organisation's side: its columns, and at one party the labels.

    Parameters
    ----------
    holding
        What it holds of the common rows.
    notebook
        The folder where its own cuts are kept while a forest grows, so that it can be stopped and
        go on. None: in memory only.
    account
        What the label party of a job with `label_epsilon` pays from.
    """

    def __init__(
        self,
        holding: Holding,
        *,
        notebook: Path | None = None,
        n_jobs: int | None = None,
        account: LabelAccount = _NOTHING,
    ) -> None:
        self._holding = holding
        self._notebook = Notebook(notebook)
        self._n_threads = thread_count(n_jobs)
        self._account = account
        self._own: tuple[str, OwnTable] | None = None
        self.growing: Growing | None = None
        self.model: PartialModel | None = None
        self._judged: JudgedRows | None = None
        self._encrypted = EncryptedSide(self, self._notebook)

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
        return answers[type(ask)](ask)

    def _claims(self, ask: ClaimsAsk) -> ClaimsReply:
        ledger = self._account.ledger
        return ClaimsReply(claims_in(ledger, ask.job) if ledger else ())

    def _holdings(self, _: HoldingsAsk) -> HoldingsReply:
        return held_by(self._holding)

    @property
    def true_labels(self) -> Target:
        """The labels as numbers; they stay here unless a job shares them."""
        label, target = self._holding.label, self._holding.target
        if label is None or target is None:
            raise ProtocolError("This party does not hold the labels.")
        return encoded_target(label, target)

    def labels(self, job: Job) -> Target:
        """Return the labels that the job may use."""
        return labels_to_use(job, self.true_labels, self._account)

    def heaviest(self, job: Job) -> int:
        """Return how many rows the largest sample has, counted as often as they are drawn."""
        return job.heaviest(self._holding.keys)

    def _shared_labels(self, ask: LabelsAsk) -> LabelsReply:
        if ask.job.labels != "shared":
            raise ProtocolError("The job keeps labels encrypted; they are not given away.")
        return LabelsReply(self.labels(ask.job))

    def _start(self, ask: StartAsk) -> StartReply:
        job, holding = ask.job, self._holding
        if job.n_rows != holding.n_rows:
            raise ProtocolError("The job is about another number of rows than this party holds.")
        if self._own is None or self._own[0] != job.digest:
            self._own = (job.digest, own_table(holding, job.settings, self._n_threads))
        own = self._own[1]
        has_label = holding.label is not None
        target = self.labels(job) if has_label else ask.target if ask.target.size else None
        if target is None and (job.labels == "shared" or not ask.sealed):
            raise ProtocolError("A job must bring its labels, shared or encrypted.")
        if target is None:
            self._encrypted.begin(job, ask.sealed[0])
        self.growing = Growing(
            job, own, target, self._notebook, self._n_threads, keeps_moments=has_label
        )
        self.growing.replay(ask.levels, ask.n_own)
        columns = own.columns
        return StartReply(self.growing.nodes.sizes, (columns.n_bins <= 1) & ~columns.has_missing)

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
        return SplitReply(False, sides, child_open, exhausted)

    def _finish(self, ask: FinishAsk) -> FinishReply:
        growing = self.grown_to(ask.job, ask.depth, ask.newest)
        if growing is None or self._own is None:
            return FinishReply(True, 0)
        self.model = part_of(growing, self._holding, self._own[1].binning, ask)
        return FinishReply(False, self.model.part.n_nodes)

    def _leaves(self, ask: LeavesAsk) -> LeavesReply:
        return LeavesReply(training_sets(self._finished(), ask.n_judged, self._n_threads))

    def _judge(self, ask: JudgeAsk) -> QualityReply:
        held = self._finished()
        self._judged = judged_leaves(held, ask, self._n_threads)
        held.growing.settle("judged", self._judged.leaves.tobytes())
        return quality_counts(held, self._judged)

    @property
    def membership(self) -> Membership:
        """What a curious party knows of the judged rows, beside their true labels; for this party.

        No question asks for it.
        """
        if self._judged is None:
            raise ProtocolError("The forest has not been judged at this party.")
        return membership_of(self._finished(), self._judged, self.true_labels)

    @property
    def finished_model(self) -> PartialModel:
        """The party's part of the finished forest."""
        return self._finished().model

    def _finished(self) -> Finished:
        if self.growing is None or self.model is None or self._own is None:
            raise ProtocolError("This party has no finished part of a forest.")
        return Finished(self.growing, self.model, self._own[1].binning)


# --- the coordinator -----------------------------------------------------------------------------


def train(
    channel: Channel,
    settings: Settings,
    *,
    owners: Sequence[str] | None = None,
    checkpoint: Path | None = None,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> VerticalTraining:
    """Grow a forest with the parties on the channel.

    Parameters
    ----------
    channel
        The parties.
    settings
        The job.
    owners
        Which party has each column, by the numbers that the forest gives them; a party's columns
        come in its own order. None: party after party.
    checkpoint
        A file that is written after every level. If it is there already, the job goes on from it.
    """
    phases = Phases()
    with phases.phase("agreeing"):
        holdings = channel.ask(HoldingsAsk())
        label_party = label_party_of(holdings)
        job = job_of(settings, holdings, label_party)
        owned = Owners.of(channel.parties, {n: h.n_columns for n, h in holdings.items()}, owners)
        target: Target = np.zeros(0, np.uint8)
        if settings.labels == "shared":
            reply = channel.ask(LabelsAsk(job), to=(label_party,))[label_party]
            target = reply.target
            job.check_target(target)
    sealed: tuple[Sealed, ...] = ()
    if settings.labels == "encrypted":
        with phases.phase("encrypting"):
            progress("encrypting", 0, 0)
            ask = SealAsk(job, settings.scheme, settings.key_bits)
            sealed = (channel.ask(ask, to=(label_party,))[label_party].sealed,)
    kind = EncryptedCoordination if sealed else Coordination
    coordination = kind(
        channel,
        job,
        owned,
        label_party=label_party,
        target=target,
        sealed=sealed,
        seed=settings.forest.seed,
        checkpoint=checkpoint,
    )
    with phases.phase("binning"):
        progress("binning", 0, 0)
        coordination.start()
    with phases.phase("growing"):
        while coordination.n_open:
            progress("growing", coordination.depth, settings.forest.max_depth or 0)
            coordination.grow()
        coordination.finish()
    roles = Roles(channel.parties, label_party, coordination.ownership(), settings.intersect_at)
    with phases.phase("judging"):
        progress("judging", 0, 0)
        quality = judged(channel, roles, job, n_jobs)
    claims: tuple[PartyClaim, ...] = ()
    if settings.label_epsilon is not None:
        claims = channel.ask(ClaimsAsk(job.name), to=(label_party,))[label_party].claims
    score = next(iter(quality.scores.values()), None) if settings.forest.oob_score else None
    shape = Shape(
        NAME, job.settings.n_estimators, int(roles.ownership.depths.max()),
        int(roles.ownership.left.size),
    )  # fmt: skip
    return VerticalTraining(
        roles,
        shape,
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        {label_party: quality},
        score,
        described(settings),
        claims,
    )


ASKS: tuple[type[Ask[Any]], ...] = (
    HoldingsAsk, LabelsAsk, StartAsk, GainAsk, SplitAsk, FinishAsk, LeavesAsk, JudgeAsk, ClaimsAsk,
    *ENCRYPTED_ASKS,
)  # fmt: skip
