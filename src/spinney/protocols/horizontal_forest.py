"""A random forest over parties that hold different rows of the same columns (S1).

Kalloori and Klingler (2022), *Cross-Silo Federated Learning based Decision Trees*, Algorithm 1,
with the changes that make it exact and fast: all trees grow together, a level a round; histograms
are integer counts over shared bins. The paper's own histograms, Algorithms 2 and 3, are
`binning="adaptive"`.

| paper | here |
|---|---|
| client, global server | party, coordinator |
| S, a bootstrap of D | weights drawn by a hash of (seed, tree, the row's own key) |
| h_f = {(r, p, n)} | `Counts`: cells by class; r is a cell's place among the shared bins |
| b, number of bins | `max_cells` in a node, zoomed into the `max_bins` of the table |
| H_merge | the sum of the parties' counts (`channel.sum`) |

**Who learns what.**

| who | learns |
|---|---|
| coordinator | each party's schema, and its quality counts (a confusion matrix, or error sums) |
| | sums over parties: counts of rows, missing values, categories and classes; |
| | the histograms of every node; the counts from which bin edges are found |
| | with `binning="quantiles"` so single cells, exactly: those at which bins end, up to |
| | `max_bins` - 1 a column, or all values of a column that has no more; not whose they are |
| | with `binning="adaptive"` each party's own histograms, bin means included |
| parties | the forest as it grows, and all bin edges: the roundest number between two cells, |
| | which is a cell itself where there is no rounder (whole numbers, close neighbours) |
| who reads the model | the edges that its trees use |

**Who never learns what.** Nobody but its party sees a row, a row's key or which node it stands in.
Without `secure_sum` the channel adds up replies that it could read. No noise is added, so that
nothing of this is differentially private.

| with `privacy` | the coordinator learns, instead | protected |
|---|---|---|
| `noisy_histograms` | noisy counts of nodes and leaves; no facts, no scores | one record more |
| `perturbed_input` | all the above, of noisy rows, and how many they are | a record's content |
| both | that a party joins, and its claims (`paying`) | |

**Exact.** The forest is that of one table with all rows, in any order. Of separate tables that
holds as long as no row, id included, lies at two parties (see `spinney.tables.table`), or with
`bootstrap=False`: keys only decide how often a tree draws a row.

**Rounds and bytes.** Schemas 1, facts 1, edges at most 3, a level 1 each, quality 1: at most
depth + 7. A reply holds nodes x features x cells x classes counters of about 1 to 4 bits each. A
question repeats all levels so far, 3 to 4 bytes a node, so that it can be answered by itself: in
all twice the forest's bytes where trees fill their depth, and depth / 2 times where a few
branches go on and on (100 trees of depth 45: 50 MB down, 11 MB up).
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from spinney.errors import ProtocolError
from spinney.privacy.ledger import Ledger
from spinney.protocols.adaptive_histograms import AdaptiveAsk, AdaptiveReply, grow_adaptively
from spinney.protocols.facts import class_weights, leaf_values
from spinney.protocols.growing import Job, OpenNodes, Search
from spinney.protocols.model import ForestModel
from spinney.protocols.noisy_histograms import (
    NOISY,
    LeafAsk,
    NoisyLevelAsk,
    grown_noisily,
    noisy_job,
)
from spinney.protocols.paying import ClaimsAsk, ExactJob, JoinAsk, claims_of, join
from spinney.protocols.private_party import PrivateParty, private_plan
from spinney.protocols.quality import QualityAsk, quality_over_parties
from spinney.protocols.row_party import Counting, RowParty
from spinney.protocols.settings import ForestSettings
from spinney.protocols.setup import (
    CountsReply,
    EdgesAsk,
    FactsAsk,
    SchemaAsk,
    agreed_schema,
    lay_bins,
)
from spinney.protocols.training import Phases, Quality, Training
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel, Vector
from spinney.trees.adaptive import streamed
from spinney.trees.dtypes import MAX_WEIGHT
from spinney.trees.fields import Fields
from spinney.trees.growth import Growth
from spinney.trees.histogram import level_counts
from spinney.trees.layout import LeafValues
from spinney.trees.siblings import Above, with_derived
from spinney.trees.split import BestSplits, Criterion, LeastLeaf
from spinney.trees.threads import thread_count
from spinney.typing import Progress, silent

NAME = "horizontal_forest"

Settings = ForestSettings

_NARROW_BITS = 16


# --- messages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LevelAsk(OpenNodes, Ask[CountsReply]):
    """How do the rows of these open nodes spread over the cells of their features?"""

    reveals: ClassVar[str] = (
        "histograms of tree nodes by class, or sums of targets, over bins that all parties know"
    )
    reply_type: ClassVar[type[Any]] = CountsReply
    ring_is_fresh: ClassVar[bool] = True

    @cached_property
    def n_threads(self) -> int:
        """How many threads lay counts in words; whoever asks or answers sets its own."""
        return thread_count(None)

    @property
    def reply_bytes(self) -> int:
        """The counters of each cell, and where each slot's run ends."""
        return self.slots.n_cells * self.job.cell_bytes + 8 * self.slots.cells.size

    @cached_property
    def is_narrow(self) -> bool:
        """Whether every count of these nodes, summed over all parties, fits 16 bits."""
        return int(self.frontier.bits[self.first : self.last].max(initial=0)) <= _NARROW_BITS

    @cached_property
    def fields(self) -> Fields:
        """How class counts stand in words when they are masked."""
        return Fields.of(self.slots, self.frontier.bits[self.first : self.last], self.job.n_classes)

    def to_ring(self, reply: CountsReply) -> tuple[Vector, ...]:
        """Return class counts as fields of words; target sums as they are."""
        if self.job.n_classes == 0:
            return reply.vectors()
        return (self.fields.pack(reply.counts.counters, self.n_threads),)

    def from_ring(self, sums: tuple[Vector, ...]) -> CountsReply:
        """Return the sums as histograms."""
        if self.job.n_classes == 0:
            return CountsReply.of_vectors(sums)
        words = sums[0].view(np.uint64)
        counters = self.fields.unpack(words, self.n_threads, narrow=self.is_narrow)
        return CountsReply.of_vectors((counters.reshape(-1, self.job.n_classes),))


SUMMED: tuple[type[Ask[Any]], ...] = (FactsAsk, EdgesAsk, LevelAsk, QualityAsk, *NOISY)
"""The questions whose replies are added up; under `secure_sum` they are masked."""

ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, JoinAsk, ClaimsAsk, AdaptiveAsk, *SUMMED)
"""Every question that a party answers."""


# --- a party -------------------------------------------------------------------------------------


class _Counting(Counting):
    """Histograms, counted exactly."""

    def _counted(self, ask: LevelAsk | AdaptiveAsk) -> CountsReply | AdaptiveReply:
        if isinstance(ask, AdaptiveAsk) != bool(ask.job.binning.adaptive_bins):
            raise ProtocolError("The question does not fit the job's binning.")
        standing = self._rows.standing(ask)
        table = self._rows.binned(ask.job)
        cells = (table, ask.frontier.columns, standing, ask.slots, (ask.first, ask.last))
        how: dict[str, Any] = {"n_classes": ask.job.n_classes, "n_threads": self._n_threads}
        if isinstance(ask, AdaptiveAsk):
            return AdaptiveReply(streamed(*cells, **how))  # Alg. 2
        ask.__dict__["n_threads"] = self._n_threads
        how |= {"narrow": ask.is_narrow, "sized": not ask.is_masked}
        return CountsReply(level_counts(*cells, **how))  # Alg. 1, line 3: histograms


class Party(RowParty):
    """One organisation's side. What it keeps between questions only saves time.

    Without a ledger it answers exactly; with one it answers with noise only, but for the `exact`
    job, of which the ledger then says that nothing was protected. `data` names the data set whose
    account its jobs debit (see `paying.Purse`).
    """

    name, counting = NAME, _Counting
    of_nodes = (LevelAsk, AdaptiveAsk)
    of_private_jobs = (JoinAsk, ClaimsAsk, NoisyLevelAsk, LeafAsk)

    def __init__(
        self,
        table: Table,
        *,
        n_jobs: int | None = None,
        ledger: Ledger | None = None,
        data: str | None = None,
        exact: ExactJob | None = None,
    ) -> None:
        n_threads = thread_count(n_jobs)
        super().__init__(table, PrivateParty(table, ledger, data, n_threads, exact), n_threads)


# --- the coordinator -----------------------------------------------------------------------------


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> Training:
    """Grow a forest with the parties on the channel."""
    phases, n_threads, privacy = Phases(), thread_count(n_jobs), settings.privacy
    with phases.phase("agreeing"):
        schema = agreed_schema(channel)
        if privacy:
            private_plan(schema, settings, len(channel.parties))  # refuses before anyone is asked
            join(channel, schema, settings)
    quality: dict[str, Quality] = {}
    score = None
    if privacy and not privacy.perturbs_input:
        with phases.phase("growing"):
            job = noisy_job(schema, settings, len(channel.parties))
            forest = grown_noisily(channel, schema, job, n_threads=n_threads, progress=progress)
    else:
        with phases.phase("binning"):
            progress("binning", 0, 0)
            facts, binning = lay_bins(channel, schema, settings)
            sizes = (facts.classes.size, int(facts.n_rows[0]), len(channel.parties))
            job = Job(settings, schema.digest(), binning, *sizes)
        with phases.phase("growing"):
            values = leaf_values(schema, class_weights(settings, facts), job.target_bits)
            growth = _grow(channel, job, values, n_threads=n_threads, progress=progress)
        with phases.phase("judging"):
            progress("judging", 0, 0)
            forest = growth.forest(job.binning, values)
            quality, score = quality_over_parties(channel, job, growth, values, forest)
    claims = claims_of(channel, privacy) if privacy else ()
    return Training(
        ForestModel(NAME, schema, forest, job.binning.bin_of_category),
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        quality,
        score if settings.oob_score else None,
        asdict(settings),
        claims,
    )


def _grow(
    channel: Channel, job: Job, values: LeafValues, *, n_threads: int, progress: Progress
) -> Growth:
    """Grow all trees, a level a round."""
    settings = job.settings
    weights = values.class_weight
    growth = Growth(job.roots(), job.rules(), weights, target_step=values.step)
    search = Search(
        Criterion.of(settings.criterion, weights, MAX_WEIGHT * job.n_rows),
        LeastLeaf(growth.rules.min_samples_leaf, settings.min_weight_fraction_leaf),
        n_threads,
    )
    above = None
    while growth.frontier.n_open:
        progress("growing", growth.depth, settings.max_depth or 0)
        if job.binning.adaptive_bins:
            grow_adaptively(channel, job, growth, search)
        else:
            above = _grow_by_counts(channel, job, growth, search, above)
    return growth


def _grow_by_counts(
    channel: Channel, job: Job, growth: Growth, search: Search, above: Above | None
) -> Above | None:
    """Grow a level from summed counts; return its histograms if they came in one piece."""
    frontier = growth.frontier
    parts = []
    batches = list(job.batches(frontier.asked))
    for first, last in batches:
        ask = LevelAsk(job, growth.levels, first, last)
        ask.__dict__["n_threads"] = search.n_threads
        ask.__dict__["frontier"] = frontier  # known here; others compute it
        counters = channel.sum(ask).counts.counters
        if counters.shape != (ask.slots.n_cells, job.cell_counters):
            raise ProtocolError("A party's histograms do not have the cells asked for.")
        answered = channel.rounds[-1].answered
        if frontier.derived.any():
            if above is None or above.parties != answered:
                growth.ask_about_all()  # somebody left: parent and child are not of the same rows
                return None
            counters = with_derived(frontier, above, counters)
        parts.append(search.best(counters, growth, first, last))
    kept = Above(frontier.slots, counters, answered) if len(batches) == 1 else None
    within = job.settings.message_limit // job.cell_bytes if kept is not None else 0
    growth.grow(BestSplits.of_parts(parts), derive_within=within)  # Alg. 1, line 3: best value
    return kept if growth.frontier.derived.any() else None
