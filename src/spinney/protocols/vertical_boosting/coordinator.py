"""The coordinator's side of boosting over columns: batch by batch, level by level."""

from collections.abc import Sequence

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.accounts.account import ClaimsAsk
from spinney.protocols.boosted.scores import Course
from spinney.protocols.columns.agreeing import (
    VerticalTraining,
    describe_settings,
    label_party_of,
    require_fit,
)
from spinney.protocols.columns.encrypted_coordinator import EncryptedCoordination
from spinney.protocols.columns.growth import Coordination, Owners
from spinney.protocols.columns.job import Target, check_target
from spinney.protocols.columns.messages import HoldingsAsk, Sealed, StartReply
from spinney.protocols.columns.seat import UNSIGNED, Signed, Unsigned
from spinney.protocols.rows.quality import dropped_bits, quality_of
from spinney.protocols.training import PartyClaim, Phases, Quality, Roles, Shape
from spinney.protocols.vertical_boosting.job import BoostedJob, KnownObjective
from spinney.protocols.vertical_boosting.messages import (
    BatchAsk,
    BoostedLabelsAsk,
    BoostedStartAsk,
    ScoreAsk,
)
from spinney.protocols.vertical_boosting.settings import NAME, VerticalSettings
from spinney.transport.channel import Ask, Channel
from spinney.trees.losses import SCORE_BITS
from spinney.trees.partition import Partition
from spinney.typing import Bools, Progress, silent


class _Boosting:
    """Batches of trees, one after another."""

    def __init__(
        self,
        channel: Channel,
        job: BoostedJob,
        owners: Owners,
        *,
        label_party: str,
        progress: Progress,
    ) -> None:
        self.job = job
        self.course = Course(KnownObjective.unknown(job), {})
        self._label_party = label_party
        self._progress = progress
        self._target: Target = np.zeros(0, np.uint8)
        self._span = (0.0, 1.0)
        self._signed: Signed | Unsigned = UNSIGNED
        self._sealed: tuple[Sealed, ...] = ()
        is_encrypted = job.labels == "encrypted" and len(channel.parties) > 1
        kind = EncryptedCoordination if is_encrypted else Coordination
        self.coordination = kind(channel, job, owners, label_party=label_party, begin=self._begin)

    def share_labels(self, channel: Channel) -> None:
        """Get the labels for all parties."""
        ask = BoostedLabelsAsk(self.job)
        reply = channel.ask(ask, to=(self._label_party,))[self._label_party]
        self._target, self._span, self._signed = reply.target, reply.span, reply.signed
        check_target(self.job, self._target)

    def _begin(
        self, name: str, levels: tuple[Partition, ...], n_own: tuple[int, ...]
    ) -> Ask[StartReply]:
        is_holder = name == self._label_party
        return BoostedStartAsk(
            self.job,
            self._target[:0] if is_holder else self._target,
            self._span,
            () if is_holder else self._sealed,
            levels,
            n_own,
            UNSIGNED if is_holder else self._signed,
        )

    def start(self) -> Bools:
        """Start at all parties; return the columns that have one value only."""
        return self.coordination.start(self.job.batch(0).open_keys)

    def run(self, exhausted: Bools) -> None:
        """Grow all batches, or as many as the loss of validation rows asks for."""
        settings, grown = self.job.settings, self.coordination
        for number in range(settings.n_batches):
            batch = self.job.batch(number)
            if self._is_over():
                return
            if number:
                sizes = np.full(batch.n_trees, self.job.n_rows)
                grown.begin_trees(batch.open_keys(exhausted), sizes)
            first = grown.depth
            while grown.n_open:
                done = number * settings.max_depth + grown.depth - first
                self._progress("growing", done, settings.n_batches * settings.max_depth)
                grown.grow()

    def _is_over(self) -> bool:
        """Ask for the loss and the gradients; return whether the loss no longer falls."""
        grown = self.coordination
        ask = BatchAsk(self.job.digest, grown.depth, grown.newest)
        reply = grown.ask({self._label_party: ask})[self._label_party]
        self.course.note(reply.losses)
        if isinstance(grown, EncryptedCoordination):
            if len(reply.sealed) != 1:
                raise ProtocolError("The label party sent no encrypted gradients.")
            self._sealed = reply.sealed
            grown.fresh = reply.sealed[0]
        return self.course.is_over


def train(
    channel: Channel,
    settings: VerticalSettings,
    *,
    owners: Sequence[str] | None = None,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> VerticalTraining:
    """Boost trees with the parties on the channel.

    `owners` is the party of each column, in the order in which the trees number them; a party's
    columns come in its own order. None: party after party.
    """
    del n_jobs  # the coordinator computes nothing
    phases = Phases()
    with phases.phase("agreeing"):
        holdings = channel.ask(HoldingsAsk())
        label_party = label_party_of(holdings)
        label, _ = require_fit(holdings, label_party, settings.boosting.task)
        job = BoostedJob(
            settings.boosting,
            settings.labels,
            label.n_rows,
            label.n_classes,
            settings.label_epsilon,
            settings.job,
            len(holdings),
            settings.scheme,
            settings.key_bits,
        )
        owned = Owners.of(channel.parties, {n: h.n_columns for n, h in holdings.items()}, owners)
        boosting = _Boosting(channel, job, owned, label_party=label_party, progress=progress)
        if settings.labels == "shared":
            boosting.share_labels(channel)
    with phases.phase("binning"):
        progress("binning", 0, 0)
        exhausted = boosting.start()
    with phases.phase("growing"):
        boosting.run(exhausted)
        boosting.coordination.finish()
    ownership = boosting.coordination.ownership()
    roles = Roles(channel.parties, label_party, ownership, settings.intersect_at)
    with phases.phase("judging"):
        progress("judging", 0, 0)
        quality = _judged(channel, label_party, job, label.target_step)
    claims: tuple[PartyClaim, ...] = ()
    if settings.label_epsilon is not None:
        claims = channel.ask(ClaimsAsk(job.name), to=(label_party,))[label_party].claims
    return VerticalTraining(
        roles,
        Shape(
            NAME,
            int(ownership.tree_start.size) - 1,
            int(ownership.depths.max()),
            int(ownership.left.size),
        ),
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        {label_party: quality},
        None,
        describe_settings(settings, "boosting"),
        claims,
        curves=boosting.course.found,
    )


def _judged(channel: Channel, label_party: str, job: BoostedJob, step: float) -> Quality:
    """Return how well the trees predict the rows that they were trained on."""
    reply = channel.ask(ScoreAsk(job.digest), to=(label_party,))[label_party]
    step *= 1.0 if job.n_classes else 2.0 ** dropped_bits(SCORE_BITS, job.n_rows)
    quality = quality_of(reply.counts, bootstrap=False, step=step)
    if job.label_epsilon is not None:
        return Quality(f"{quality.rows}, randomised labels", quality.n_rows, quality.scores)
    return quality
