"""A private forest in one secure sum: trees drawn at random, all of the budget on their leaves.

What S3 leaves on the table (`shared/PRIVACY.md`, E): a split chosen in private costs budget at
every level; a split drawn at random within public ranges costs nothing (Jagannathan et al. 2009,
*A Practical Differentially Private Random Decision Tree Classifier*). Only leaves are counted, all
trees' at once; an inner node's counts are sums of its leaves', so that shrinking leaves towards
their parents (Agarwal et al. 2022) costs nothing either.

| paper | here |
|---|---|
| T trees of depth d | `n_estimators`, `max_depth`: drawn by the coordinator, from `seed` |
| epsilon / T for a tree | one vector of all leaves, which a record moves by T: `DiscreteLaplace` |
| lambda of the shrinkage | `shrinkage` standard deviations of a node's noise, in rows |

**Who learns what.** Everyone learns the trees, which owe nothing to any row, and the noisy class
counts of their leaves, summed over parties. Without secure sums the coordinator sees each party's,
each with that party's own whole noise. It sees each party's schema, that it joins, and its claims.
**Who never learns what.** No exact count of rows, classes, gaps or categories leaves a party. A
share of noise leaves its party under a mask or not at all.

**Rounds and bytes.** Schemas 1, joining 1, then one question about the data; claims 1. Its reply
has 8 bytes for each of trees x 2^depth x classes counters.
"""

from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from spinney import seeds
from spinney.errors import ProtocolError, SettingError
from spinney.privacy.accounting import Job
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.release import Charge, Exact
from spinney.privacy.scopes import Spend
from spinney.protocols.budgeting import job_terms, totals_disclosure
from spinney.protocols.facts import public_binning
from spinney.protocols.model import ForestModel
from spinney.protocols.noisy_histograms import NoisyReply, ShareReply, Signed, noisy_reply
from spinney.protocols.paying import ClaimsAsk, JoinReply, claims_of
from spinney.protocols.private_rows import (
    PrivateRows,
    require_classes,
    require_ranges,
    require_small,
    summed_variance,
)
from spinney.protocols.private_settings import LARGEST_NOISE, PrivacySettings
from spinney.protocols.settings import Task, require_int, require_real
from spinney.protocols.setup import SchemaAsk, SchemaReply, agreed_schema
from spinney.protocols.training import Phases, Training
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel
from spinney.trees.binning import Binning
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.leaf_counts import NumberedLeaves, finished
from spinney.trees.level import Level
from spinney.trees.public_trees import frontiers, random_levels
from spinney.typing import Progress, silent

NAME = "private_forest"
_MOST_DEPTH: Final = 20


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a private forest fixes before it starts; every party sees it."""

    privacy: PrivacySettings
    n_estimators: int = 20
    max_depth: int = 5
    shrinkage: float = 1.0
    seed: int = 0
    message_limit: int = 256 << 20  # bytes of counters in one reply
    task: Task = "classification"

    def __post_init__(self) -> None:
        require_int("n_estimators", self.n_estimators, 1)
        require_int("max_depth", self.max_depth, 1, most=_MOST_DEPTH)
        require_real("shrinkage", self.shrinkage)
        require_int("seed", self.seed, 0, most=2**64 - 1)
        require_int("message_limit", self.message_limit, 1 << 16)


@dataclass(frozen=True)
class ForestPlan:
    """What the one release costs."""

    settings: Settings
    n_classes: int
    n_parties: int

    def __post_init__(self) -> None:
        require_small(
            f"{self.settings.n_estimators} trees of depth {self.settings.max_depth} over "
            f"{self.n_classes} classes",
            self.n_counters,
            self.settings.message_limit,
            "Grow fewer trees, or shallower ones.",
        )
        each = self.privacy.amount / self.settings.n_estimators
        if each * LARGEST_NOISE < 1:
            n_trees = int(self.privacy.amount * LARGEST_NOISE)
            advice = f"n_estimators={n_trees} would work" if n_trees else "Raise epsilon"
            raise SettingError(
                f"n_estimators={self.settings.n_estimators} leaves too little budget for each "
                f"tree: epsilon={float(each):.3g}, whose noise would be of {float(1 / each):.3g} "
                f"rows in every leaf. {advice}."
            )
        self.noise  # noqa: B018  refuses shares that cannot be

    @property
    def privacy(self) -> PrivacySettings:
        """How much and how."""
        return self.settings.privacy

    @property
    def n_counters(self) -> int:
        """How many counters the reply has."""
        return self.settings.n_estimators * (1 << self.settings.max_depth) * self.n_classes

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """The noise of every leaf's counts; a record is in one leaf of every tree."""
        shares = self.privacy.shares(self.n_parties)
        n_trees = Fraction(self.settings.n_estimators)
        return DiscreteLaplace(self.privacy.amount, n_trees, shares=shares)

    def planned(self) -> list[Spend]:
        """Return all that the job spends."""
        what = f"class counts of the leaves of {self.settings.n_estimators} random trees"
        return [Spend(what, self.noise, n_values=self.n_counters)]

    def terms(self, data: str) -> Job:
        """Return the terms on which a party's ledger opens the job for a data set."""
        return job_terms(self.privacy, self.n_parties, data)


# --- messages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ForestJoinAsk(Ask[JoinReply]):
    """Will you take part in this private forest, at this price?"""

    settings: Settings
    schema_digest: str
    n_parties: int
    reveals: ClassVar[str] = "that the party takes part, and that its budget allows it"
    reply_type: ClassVar[type[Any]] = JoinReply


@dataclass(frozen=True)
class RandomLeavesAsk(Signed, Ask[NoisyReply]):
    """What do the leaves of these random trees hold, with noise?"""

    settings: Settings
    schema_digest: str
    n_parties: int
    levels: tuple[Level, ...]
    reveals: ClassVar[str] = "class counts of the leaves of random trees, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply


SUMMED: tuple[type[Ask[Any]], ...] = (RandomLeavesAsk,)
"""The questions whose replies are added up; under `secure_sum` they are masked."""

ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, ForestJoinAsk, ClaimsAsk, *SUMMED)
"""Every question that a party answers."""


# --- a party -------------------------------------------------------------------------------------


class Party:
    """One organisation's side: it answers once, from its ledger."""

    def __init__(
        self,
        table: Table,
        *,
        n_jobs: int | None = None,
        ledger: Ledger | None = None,
        data: str | None = None,
    ) -> None:
        self._rows = PrivateRows(table, n_jobs=n_jobs, ledger=ledger, data=data)

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk():
                return SchemaReply(self._rows.schema)
            case ForestJoinAsk():
                plan = plan_of(self._rows.schema, ask.settings, ask.n_parties)
                return self._rows.join(ask, plan, ask.schema_digest)
            case ClaimsAsk():
                return self._rows.purse(ask).claims(ask)
            case RandomLeavesAsk():
                return self._leaves(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def _leaves(self, ask: RandomLeavesAsk) -> NoisyReply | ShareReply:
        self._rows.require_schema(ask.schema_digest)
        plan = plan_of(self._rows.schema, ask.settings, ask.n_parties)
        binning = bins_of(self._rows.schema)
        leaves = _checked_leaves(binning, ask.settings, ask.levels)

        def draw(charges: tuple[Charge, ...]) -> bytes:
            counts = leaves.counts(self._rows.batches(binning), plan.n_classes)
            return plan.noise.release(Exact(counts.ravel()), charges[0]).values.tobytes()

        told = [totals_disclosure(plan.privacy, plan.n_parties)]
        data = self._rows.purse(ask).pay(plan, 0, ask, plan.planned(), draw, disclosures=told)
        return noisy_reply(data, plan.privacy.shares(plan.n_parties))


# --- the coordinator -----------------------------------------------------------------------------


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,  # noqa: ARG001  as all protocols; little is to be done here
    progress: Progress = silent,
) -> Training:
    """Draw the trees and count their leaves with the parties on the channel."""
    phases, n_parties = Phases(), len(channel.parties)
    with phases.phase("agreeing"):
        schema = agreed_schema(channel)
        plan = plan_of(schema, settings, n_parties)  # refuses before anyone is asked
        channel.ask(ForestJoinAsk(settings, schema.digest(), n_parties))
    with phases.phase("counting"):
        progress("counting leaves", 0, 0)
        binning = bins_of(schema)
        generator = seeds.generator(settings.seed)
        levels = random_levels(
            binning.columns, settings.n_estimators, settings.max_depth, generator
        )
        leaves = NumberedLeaves(settings.n_estimators, levels, binning)
        reply = channel.sum(RandomLeavesAsk(settings, schema.digest(), n_parties, levels))
        if reply.counters.size != plan.n_counters:
            raise ProtocolError("A party's noisy counts do not have the leaves asked for.")
        counts = reply.counters.reshape(-1, plan.n_classes)
        variance = np.full(leaves.n_leaves, summed_variance(plan.noise, n_parties))
        forest, noise = finished(leaves, counts, variance, settings.shrinkage)
    return Training(
        ForestModel(NAME, schema, forest, binning.bin_of_category, noise=noise),
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        {},
        None,
        asdict(settings),
        claims_of(channel, settings.privacy),
    )


# --- helpers -------------------------------------------------------------------------------------


def bins_of(schema: Schema) -> Binning:
    """Return the bins of every column, from public facts: as fine as they come."""
    require_ranges(schema)
    return public_binning(schema, MAX_BINS)


def plan_of(schema: Schema, settings: Settings, n_parties: int) -> ForestPlan:
    """Return what the job costs; refuse what cannot be kept."""
    return ForestPlan(settings, require_classes(schema), n_parties)


def _checked_leaves(
    binning: Binning, settings: Settings, levels: tuple[Level, ...]
) -> NumberedLeaves:
    """Return the leaves of trees that others drew, if the levels are sound and as deep as said."""
    n_trees = settings.n_estimators
    open_nodes = frontiers(binning.columns, n_trees, levels)
    full = all(level.feature.min(initial=0) >= 0 for level in levels)
    if len(levels) != settings.max_depth or open_nodes[-1].n_open or not full:
        raise ProtocolError(
            f"The question's trees are not whole trees of depth {settings.max_depth}. "
            "Nothing was released."
        )
    return NumberedLeaves(n_trees, levels, binning)
