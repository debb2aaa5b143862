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
every party has its part, and a confusion matrix, or error sums, from the label party.
**Who never learns what.** Nobody but its party learns a cell, a threshold, a column's name or its
bins, or which row id a row has. Parties do not learn whose cut parted a node, or which columns of
others were drawn. Leaf values are made at the label party and stay there.

**Rounds and bytes.** Holdings, labels, start: 3. A level 2. Finish 1, judging 2: at most
2 x depth + 8. A level brings a party 1 bit for each row of each split node, and 2 to 3 bytes for
each node and own column drawn; it sends 1 bit for each row of nodes that it splits, and 10 bytes
for each open node.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spinney.errors import ProtocolError, SchemaError
from spinney.privacy.ledger import Ledger
from spinney.protocols.judging import QualityReply, quality_of
from spinney.protocols.leakage import Membership
from spinney.protocols.model import ForestModel
from spinney.protocols.partial_model import NAME, PartialModel
from spinney.protocols.paying import ClaimsAsk, ClaimsReply, claims_in
from spinney.protocols.settings import ForestSettings
from spinney.protocols.training import PartyClaim, Phases, Quality, Shape
from spinney.protocols.vertical_coordinating import Coordination, Owners
from spinney.protocols.vertical_job import (
    Job,
    OwnTable,
    Target,
    encoded_target,
    own_table,
    target_step,
    values_of_leaves,
)
from spinney.protocols.vertical_judging import (
    Finished,
    JudgedRows,
    dropped_bits,
    judged_leaves,
    membership_of,
    quality_counts,
    training_sets,
)
from spinney.protocols.vertical_labels import labels_to_use
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
)
from spinney.protocols.vertical_prediction import JudgeAsk, LeavesAsk, LeavesReply, Roles
from spinney.protocols.vertical_rows import Growing, Notebook
from spinney.protocols.vertical_settings import VerticalSettings
from spinney.protocols.vertical_sums import ASKS as ENCRYPTED_ASKS
from spinney.protocols.vertical_sums import (
    ChooseAsk,
    ChooseReply,
    CutAsk,
    EncryptedCoordination,
    FeatureSide,
    LabelSide,
    SealAsk,
    SealReply,
    SumsAsk,
    SumsReply,
    behind_choice,
    behind_sums,
)
from spinney.seeds import derived
from spinney.tables.holding import Holding
from spinney.transport.channel import Ask, Channel, Round
from spinney.trees.partial import LeafSets
from spinney.trees.partition import Partition
from spinney.trees.threads import thread_count
from spinney.typing import Progress, silent

_QUALITY_ROWS = 2048  # rows the forest is judged by, where it need not be all

Settings = VerticalSettings


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
    ledger, data
        At the label party of a job with `label_epsilon`: where charges are written, and the name
        of the data set whose account they debit.
    """

    def __init__(
        self,
        holding: Holding,
        *,
        notebook: Path | None = None,
        n_jobs: int | None = None,
        ledger: Ledger | None = None,
        data: str | None = None,
    ) -> None:
        self._holding = holding
        self._notebook = Notebook(notebook)
        self._n_threads = thread_count(n_jobs)
        self._ledger = ledger
        self._data = data
        self._own: tuple[str, OwnTable] | None = None
        self.growing: Growing | None = None
        self.model: PartialModel | None = None
        self._judged: JudgedRows | None = None
        self._label_side = LabelSide(self._notebook)
        self._feature_side: FeatureSide | None = None

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        answers: dict[type[Any], Callable[[Any], Any]] = {
            HoldingsAsk: self._holdings,
            LabelsAsk: self._shared_labels,
            StartAsk: self._start,
            GainAsk: self._gains,
            SplitAsk: self._split,
            FinishAsk: self._finish,
            LeavesAsk: lambda asked: LeavesReply(self._training_sets(asked)),
            JudgeAsk: self._judge,
            ClaimsAsk: self._claims,
            SealAsk: self._seal,
            SumsAsk: self._sums,
            ChooseAsk: self._choose,
            CutAsk: self._cut,
        }
        if type(ask) not in answers:
            raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")
        return answers[type(ask)](ask)

    def _claims(self, ask: ClaimsAsk) -> ClaimsReply:
        return ClaimsReply(claims_in(self._ledger, ask.job) if self._ledger else ())

    def _holdings(self, _: HoldingsAsk) -> HoldingsReply:
        label, held = self._holding.label, self._holding
        return HoldingsReply(
            held.n_rows,
            len(held.columns),
            label is not None,
            len(label.classes or ()) if label else 0,
            target_step(label, held.n_rows) if label else 0.0,
        )

    @property
    def true_labels(self) -> Target:
        """The labels as numbers; they stay here unless a job shares them."""
        label, target = self._holding.label, self._holding.target
        if label is None or target is None:
            raise ProtocolError("This party does not hold the labels.")
        return encoded_target(label, target)

    def labels(self, job: Job) -> Target:
        """Return the labels that the job may use."""
        return labels_to_use(job, self.true_labels, self._ledger, self._data)

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
            self._feature_side = FeatureSide(job, ask.sealed[0])
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
            return _behind()
        own, child_open = found
        sides, exhausted = growing.cut(own)  # Alg. 1: split samples
        return SplitReply(False, sides, child_open, exhausted)

    # --- encrypted labels: see `vertical_sums`

    def _seal(self, ask: SealAsk) -> SealReply:
        target = self.labels(ask.job)
        return SealReply(self._label_side.sealed(ask, target, ask.job.heaviest(self._holding.keys)))

    def _sums(self, ask: SumsAsk) -> SumsReply:
        growing = self.grown_to(ask.job, ask.depth, ask.newest)
        if growing is None or self._feature_side is None:
            return behind_sums()
        return self._feature_side.sums(ask, growing)

    def _choose(self, ask: ChooseAsk) -> ChooseReply:
        growing = self.grown_to(ask.job, ask.depth, ask.newest)
        return behind_choice() if growing is None else self._label_side.choose(ask, growing)

    def _cut(self, ask: CutAsk) -> SplitReply:
        growing = self.grown_to(ask.job, ask.depth, ())
        own = self._feature_side.cuts(ask) if growing and self._feature_side else None
        if growing is None or own is None:
            return _behind()
        sides, exhausted = growing.cut(own)
        return SplitReply(False, sides, np.zeros(0, np.bool_), exhausted)

    def _finish(self, ask: FinishAsk) -> FinishReply:
        growing = self.grown_to(ask.job, ask.depth, ask.newest)
        if growing is None or self._own is None:
            return FinishReply(True, 0)
        holding, binning = self._holding, self._own[1].binning
        label = holding.label
        part = growing.part(
            values_of_leaves(label, growing.weights, holding.n_rows) if label else None
        )
        self.model = PartialModel(
            ask.party,
            holding.columns,
            label,
            ask.numbers,
            binning.bin_of_category if binning else (),
            part,
        )
        return FinishReply(False, part.n_nodes)

    def _training_sets(self, ask: LeavesAsk) -> LeafSets:
        return training_sets(self._finished(), ask.n_judged, self._n_threads)

    def _judge(self, ask: JudgeAsk) -> QualityReply:
        self._judged = judged_leaves(self._finished(), ask, self._n_threads)
        return quality_counts(self._finished(), self._judged)

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


def _behind() -> SplitReply:
    none = np.zeros(0, np.bool_)
    return SplitReply(True, np.zeros(0, np.uint8), none, none)


# --- the coordinator -----------------------------------------------------------------------------


@dataclass(frozen=True)
class VerticalTraining:
    """The log of how a vertical forest came about, and what it takes to predict by it.

    The forest itself is at the parties, each its own part.
    """

    roles: Roles
    shape: Shape
    parties: tuple[str, ...]
    rounds: tuple[Round, ...]
    seconds: dict[str, float]
    quality: dict[str, Quality]
    score: float | None
    settings: dict[str, object]
    claims: tuple[PartyClaim, ...] = ()
    history: tuple[float, ...] = ()
    model: ForestModel | None = None  # joined, where the job says so


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
        label_party = _label_party(holdings)
        job = _job(settings, holdings, label_party)
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
        quality = _judged(channel, roles, job, n_jobs)
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
        _described(settings),
        claims,
    )


def _label_party(holdings: dict[str, HoldingsReply]) -> str:
    """Return who holds the labels; refuse none, several, and tables that do not fit."""
    holders = [name for name, held in holdings.items() if held.holds_label]
    if len(holders) != 1:
        found = f"{', '.join(map(repr, holders))} do" if holders else "none does"
        raise SchemaError(
            f"Exactly one party must hold the labels; {found}. Say which column is the label at "
            "one party, and leave it out at the others."
        )
    (first, reference), *others = holdings.items()
    for name, held in others:
        if held.n_rows != reference.n_rows:
            raise SchemaError(
                f"Parties {first!r} and {name!r} hold different numbers of rows. Match their row "
                "ids first, so that all hold the same rows in the same order."
            )
    return holders[0]


def _job(settings: Settings, holdings: dict[str, HoldingsReply], label_party: str) -> Job:
    label, forest = holdings[label_party], settings.forest
    if (label.n_classes > 0) != (forest.task == "classification"):
        raise SchemaError(
            f"The job is {forest.task}, but the label at party {label_party!r} is not for that."
        )
    n_columns = sum(held.n_columns for held in holdings.values())
    if not n_columns:
        raise SchemaError("No party holds a column. A forest needs at least one.")
    return Job(
        told_settings(forest),
        settings.labels,
        label.n_rows,
        label.n_classes,
        label.target_step,
        forest.n_slots(n_columns) == n_columns,
        settings.label_epsilon,
        settings.job,
        len(holdings),
    )


def told_settings(forest: ForestSettings) -> ForestSettings:
    """Return the settings as parties see them: the samples have a seed of their own.

    From it nobody can tell which columns were drawn.
    """
    return replace(forest, seed=derived(forest.seed, 1))


def _judged(channel: Channel, roles: Roles, job: Job, n_jobs: int | None) -> Quality:
    """Judge the forest by rows that its trees have not seen, at the label party."""
    n_judged = job.n_rows if job.settings.oob_score else min(job.n_rows, _QUALITY_ROWS)
    named = roles.named(channel, n_judged, n_jobs)
    reply = channel.ask(JudgeAsk(named, n_judged), to=(roles.label_party,))[roles.label_party]
    step = job.target_step * 2 ** dropped_bits(job)
    quality = quality_of(reply.counts, bootstrap=job.settings.bootstrap, step=step)
    if job.label_epsilon is not None:
        return replace(quality, rows=f"{quality.rows}, randomised labels")
    return quality


def _described(settings: Settings) -> dict[str, object]:
    """Return the settings as the report shows them."""
    described = asdict(settings)
    forest = described.pop("forest")
    if settings.label_epsilon is not None:
        forest["privacy"] = {"label_epsilon": settings.label_epsilon}
    return {**forest, **described}


ASKS: tuple[type[Ask[Any]], ...] = (
    HoldingsAsk, LabelsAsk, StartAsk, GainAsk, SplitAsk, FinishAsk, LeavesAsk, JudgeAsk, ClaimsAsk,
    *ENCRYPTED_ASKS,
)  # fmt: skip
