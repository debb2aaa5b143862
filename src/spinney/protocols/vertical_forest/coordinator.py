"""The coordinator's side of a vertical forest: agree on the job, grow the forest, score it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from spinney.errors import SchemaError
from spinney.protocols.accounts.account import ClaimsAsk
from spinney.protocols.model import ForestModel
from spinney.protocols.training import PartyClaim, Phases, Quality, Roles, Shape
from spinney.protocols.vertical_forest.encrypted_coordinator import EncryptedCoordination
from spinney.protocols.vertical_forest.encrypted_messages import SealAsk
from spinney.protocols.vertical_forest.growth import Coordination, Owners
from spinney.protocols.vertical_forest.job import Job, Target, public_settings
from spinney.protocols.vertical_forest.messages import HoldingsAsk, HoldingsReply, LabelsAsk, Sealed
from spinney.protocols.vertical_forest.quality import judge_forest
from spinney.protocols.vertical_forest.seat import UNSIGNED, Signed, Unsigned
from spinney.protocols.vertical_forest.settings import NAME, Settings, VerticalSettings
from spinney.transport.channel import Channel, Round
from spinney.typing import ENDLESS, Progress, silent


def label_party_of(holdings: Mapping[str, HoldingsReply]) -> str:
    """Return the label party; raise if there is none or several, or if tables do not fit."""
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


def job_of(
    settings: VerticalSettings, holdings: Mapping[str, HoldingsReply], label_party: str
) -> Job:
    """Return the terms of a job that every party receives."""
    label, forest = holdings[label_party], settings.forest
    if (label.n_classes > 0) != (forest.task == "classification"):
        raise SchemaError(
            f"The job is {forest.task}, but the label at party {label_party!r} does not suit it."
        )
    n_columns = sum(held.n_columns for held in holdings.values())
    if not n_columns:
        raise SchemaError("No party holds a column. A forest needs at least one.")
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


@dataclass(frozen=True)
class VerticalTraining:
    """The log of a vertical forest's training, and what is needed to predict with it.

    The forest itself is at the parties; each has its own part.
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
    model: ForestModel | None = None  # joined from the parts, if the job asks for it
    adds_up: bool = True  # all parties hold all rows of a node


def describe_settings(settings: VerticalSettings) -> dict[str, object]:
    """Return the settings as the report shows them."""
    described = asdict(settings)
    forest = described.pop("forest")
    if settings.label_epsilon is not None:
        forest["privacy"] = {"label_epsilon": settings.label_epsilon}
    return {**forest, **described}


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
        signed=signed,
        sealed=sealed,
        seed=settings.forest.seed,
        checkpoint=checkpoint,
    )
    with phases.phase("binning"):
        progress("binning", 0, 0)
        coordination.start()
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
        describe_settings(settings),
        claims,
    )
