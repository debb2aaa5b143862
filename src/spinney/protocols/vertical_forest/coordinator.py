"""The coordinator's side of a vertical forest: agree on the job, grow the forest, score it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from spinney.protocols.accounts.account import ClaimsAsk
from spinney.protocols.columns.agreeing import (
    VerticalTraining,
    describe_settings,
    label_party_of,
    require_fit,
)
from spinney.protocols.columns.encrypted_coordinator import EncryptedCoordination
from spinney.protocols.columns.growth import Coordination, Owners
from spinney.protocols.columns.job import Target, check_target
from spinney.protocols.columns.messages import HoldingsAsk, HoldingsReply, Sealed, StartReply
from spinney.protocols.columns.seat import UNSIGNED, Signed, Unsigned
from spinney.protocols.training import PartyClaim, Phases, Roles, Shape
from spinney.protocols.vertical_forest.job import Job, public_settings
from spinney.protocols.vertical_forest.messages import LabelsAsk, SealAsk, StartAsk
from spinney.protocols.vertical_forest.quality import judge_forest
from spinney.protocols.vertical_forest.settings import NAME, Settings, VerticalSettings
from spinney.transport.channel import Ask, Channel
from spinney.trees.draws import OpenKeys
from spinney.trees.partition import Partition
from spinney.typing import ENDLESS, Bools, Progress, silent


def job_of(
    settings: VerticalSettings, holdings: Mapping[str, HoldingsReply], label_party: str
) -> Job:
    """Return the terms of a job that every party receives."""
    forest = settings.forest
    label, n_columns = require_fit(holdings, label_party, forest.task)
    return Job(
        public_settings(forest),
        settings.labels,
        label.n_rows,
        label.n_classes,
        label.target_step,
        forest.n_slots(n_columns) == n_columns,
        settings.label_epsilon,
        settings.job,
        len(holdings),
    )


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
        The party of each column, in the order in which the forest numbers them; a party's columns
        come in its own order. None: party after party.
    checkpoint
        A file that is written after every level. If it already exists, the job resumes from it.
    """
    phases = Phases()
    with phases.phase("agreeing"):
        holdings = channel.ask(HoldingsAsk())
        label_party = label_party_of(holdings)
        job = job_of(settings, holdings, label_party)
        owned = Owners.of(channel.parties, {n: h.n_columns for n, h in holdings.items()}, owners)
        target: Target = np.zeros(0, np.uint8)
        signed: Signed | Unsigned = UNSIGNED
        if settings.labels == "shared":
            reply = channel.ask(LabelsAsk(job), to=(label_party,))[label_party]
            target, signed = reply.target, reply.signed
            check_target(job, target)
    sealed: tuple[Sealed, ...] = ()
    if settings.labels == "encrypted":
        with phases.phase("encrypting"):
            progress("encrypting", 0, 0)
            ask = SealAsk(job, settings.scheme, settings.key_bits)
            sealed = (channel.ask(ask, to=(label_party,))[label_party].sealed,)

    def begin(name: str, levels: tuple[Partition, ...], n_own: tuple[int, ...]) -> Ask[StartReply]:
        is_holder = name == label_party
        return StartAsk(
            job,
            target[:0] if is_holder else target,
            () if is_holder else sealed,
            levels,
            n_own,
            UNSIGNED if is_holder else signed,
        )

    kind = EncryptedCoordination if sealed else Coordination
    coordination = kind(
        channel, job, owned, label_party=label_party, begin=begin, checkpoint=checkpoint
    )
    forest = settings.forest

    def roots(exhausted: Bools) -> OpenKeys:
        n_slots = job.settings.n_slots(exhausted.size)
        return OpenKeys.of_roots(forest.seed, forest.n_estimators, n_slots, exhausted)

    with phases.phase("binning"):
        progress("binning", 0, 0)
        coordination.start(roots)
    with phases.phase("growing"):
        while coordination.n_open:
            progress("growing", coordination.depth, settings.forest.max_depth or ENDLESS)
            coordination.grow()
        coordination.finish()
    roles = Roles(channel.parties, label_party, coordination.ownership(), settings.intersect_at)
    with phases.phase("judging"):
        progress("judging", 0, 0)
        quality = judge_forest(channel, roles, job, n_jobs)
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
        describe_settings(settings, "forest"),
        claims,
    )
